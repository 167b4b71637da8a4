"""
Pairs of answers: which of two answers to a question is better.

Models tend to prefer the answer that they read first, or last. So a judge is asked twice, with the answers in both
orders, and only a preference that is the same in both counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from airflow_provider_assistant.evaluation.judge_summary import PairCounts
from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.case import Case, Identity
    from airflow_provider_assistant.evaluation.judging.rubrics import Rubric
    from airflow_provider_assistant.evaluation.judging.verdicts import Verdict

Result: TypeAlias = Literal["win", "loss", "tie", "order_changed", "identical", "error"]
# The score of a pair. A pair with an error has none.
SCORES: Mapping[Result, float] = {"win": 1.0, "loss": -1.0, "tie": 0.0, "order_changed": 0.0, "identical": 0.0}
# Results of a pair by its two verdicts: with the new answer first, and with the new answer second.
# Any other two verdicts contradict each other.
_RESULT_BY_VERDICTS: Mapping[tuple[str, str], Result] = {
    ("first", "second"): "win",
    ("second", "first"): "loss",
    ("tie", "tie"): "tie",
}
_TEXT_BY_VERDICT = {"first": "the first is better", "second": "the second is better", "tie": "neither is better"}


@dataclass(frozen=True, slots=True)
class Pair:
    """
    An answer and the answer of the baseline to the same question.

    :param requests: The requests with the new answer first, and with the new answer second; none if both are identical.
    """

    key: str
    repetition: int
    requests: tuple[JudgeRequest, ...]

    @property
    def identity(self) -> Identity:
        """Key and number of the repetition, as of the case."""
        return self.key, self.repetition

    def result(self, verdicts: Sequence[Verdict | None]) -> Result:
        """Return which answer is better."""
        if not self.requests:
            return "identical"
        new_first, new_second = verdicts
        if new_first is None or new_second is None:
            return "error"
        return _RESULT_BY_VERDICTS.get((new_first.verdict, new_second.verdict), "order_changed")

    def reason(self, verdicts: Sequence[Verdict | None]) -> str:
        """Return the verdicts and their reasons as one text."""
        orders = ("This answer first", "This answer second")
        reasons = []
        # There are no verdicts on identical answers.
        for order, verdict in zip(orders, verdicts, strict=False):
            if verdict is not None:
                better = _TEXT_BY_VERDICT[verdict.verdict]
                reasons.append(f"{order}: {better}. {verdict.reason}")
        return " ".join(reasons)


def pairs_of(cases: Sequence[Case], others: Sequence[Case], rubric: Rubric) -> list[Pair]:
    """Return the answers that can be compared: both exist, for the same repetition of an unchanged question."""
    baseline_cases = {other.identity: other for other in others}
    pairs = []
    for case in cases:
        other = baseline_cases.get(case.identity)
        if other is None or case.answer is None or other.answer is None or case.digest != other.digest:
            continue
        # Identical answers need no judge.
        requests: tuple[JudgeRequest, ...] = ()
        if case.answer != other.answer:
            requests = (_request(case, other, rubric), _request(other, case, rubric))
        pairs.append(Pair(key=case.key, repetition=case.repetition, requests=requests))
    return pairs


def pair_counts(judged: Sequence[tuple[Pair, Sequence[Verdict | None]]]) -> PairCounts:
    """Return how often each answer was better, and how often the verdict depended on the order."""
    results: Counter[Result] = Counter()
    verdict_counts: Counter[str] = Counter()
    for pair, verdicts in judged:
        result = pair.result(verdicts)
        results[result] += 1
        # Only whole pairs: each answer must have been in both places for a fair share of 0.5.
        if result != "error":
            verdict_counts.update(verdict.verdict for verdict in verdicts if verdict is not None)
    decided = verdict_counts["first"] + verdict_counts["second"]
    first_preferred = verdict_counts["first"] / decided if decided else None
    return PairCounts(
        pairs=len(judged),
        wins=results["win"],
        losses=results["loss"],
        ties=results["tie"],
        order_changed=results["order_changed"],
        identical=results["identical"],
        errors=results["error"],
        first_preferred=first_preferred,
    )


def _request(first: Case, second: Case, rubric: Rubric) -> JudgeRequest:
    # Both cases have the same question and expectations. Without passages: those of two sites may differ, and the judge
    # sees one list.
    return JudgeRequest(
        key=first.key,
        rubric=rubric,
        question=first.message,
        answer=first.answer or "",
        expected=first.reference,
        passages=(),
        repetition=first.repetition,
        second=second.answer or "",
        earlier_turns=first.transcript,
        earlier_turns_of_second=second.transcript,
    )
