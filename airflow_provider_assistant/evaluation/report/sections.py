"""Select what the report lists: questions, tags and earlier evaluations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.change import NO_CHANGE
from airflow_provider_assistant.evaluation.failing import Some, mean_share, scores_by_case
from airflow_provider_assistant.evaluation.repetitions import disagree
from airflow_provider_assistant.evaluation.rules import CONFIDENCE_SCORE, PASS_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import Summary

MAX_UNANSWERED = 50
MAX_ERRORS = 20
MAX_CHANGES = 20
MAX_REPEATED = 20
MAX_TAGS = 100
MAX_RUNS = 30


@dataclass(frozen=True, slots=True)
class Repeated:
    """
    A question whose repetitions got different answers.

    :param case: Its first repetition.
    :param answers: The different answers with their counts, most frequent first.
    :param spread: Difference between the best and the worst mean score of its repetitions; 0 without scores.
    """

    case: Case
    answers: Sequence[tuple[str, int]]
    spread: float


def repeated(evaluation: Evaluation) -> Some[Repeated]:
    """Return the questions whose repetitions got different answers, with the greatest difference in score first."""
    summary = evaluation.summary
    if summary.repetitions is None:
        return Some([], 0)
    scores = scores_by_case(evaluation.scores)
    repetitions_by_key: dict[str, list[Case]] = {}
    for case in evaluation.cases:
        if case.answer is not None:
            repetitions_by_key.setdefault(case.key, []).append(case)
    rows: list[Repeated] = []
    for repetitions in repetitions_by_key.values():
        answers = [case.answer or "" for case in repetitions]
        if not disagree(answers):
            continue
        means = []
        for case in repetitions:
            mean = mean_share(summary, scores[case.identity])
            if mean is not None:
                means.append(mean)
        spread = 0.0
        if means:
            spread = max(means) - min(means)
        counts = Counter(answers).most_common()
        rows.append(Repeated(case=repetitions[0], answers=counts, spread=spread))
    rows.sort(key=lambda row: row.spread, reverse=True)
    return Some.first(rows, MAX_REPEATED)


def unanswered(evaluation: Evaluation) -> Some[Case]:
    """Return the questions without an answer."""
    cases = [case for case in evaluation.cases if case.answer is None]
    return Some.first(cases, MAX_UNANSWERED)


def scoring_errors(evaluation: Evaluation) -> Some[dict[str, str]]:
    """Return ``key``, ``scorer`` and ``error`` of the scores that could not be computed."""
    import pyarrow.compute as pc

    scores = evaluation.scores
    failed = scores.filter(pc.equal(scores["outcome"], "error"))
    rows = failed.slice(0, MAX_ERRORS).select(["key", "scorer", "error"]).to_pylist()
    return Some(rows, more=failed.num_rows - len(rows))


def runs(summary: Summary, trend: Sequence[Summary]) -> list[Summary]:
    """
    Return the last evaluations, oldest first, ending with the current one.

    ``trend`` has earlier evaluations in any order, and may include the current one.
    """
    current = (summary.run, summary.asked_at)
    earlier = [run for run in trend if (run.run, run.asked_at) != current]
    earlier.sort(key=lambda run: run.asked_at or "")
    return [*earlier, summary][-MAX_RUNS:]


def tags(summary: Summary) -> Some[str]:
    """Return the tags with the most questions, in the order of their losses, then of the pass rate."""
    by_questions = sorted(summary.tags, key=lambda tag: -summary.tags[tag].questions)
    rank = {loss.tag: position for position, loss in enumerate(tag_losses(summary))}

    def order(tag: str) -> tuple[int, float, str]:
        pass_rate = summary.tags[tag].pass_rate
        return rank.get(tag, len(rank)), 1.0 if pass_rate is None else pass_rate, tag

    shown = sorted(by_questions[:MAX_TAGS], key=order)
    return Some(shown, more=len(summary.tags) - len(shown))


@dataclass(frozen=True, slots=True)
class TagLoss:
    """
    The greatest loss of the questions of a tag.

    :param difference: Mean difference to the baseline, less than 0, of the scorer that lost most.
    :param is_proven: Whether the whole interval of the difference is below 0.
    """

    tag: str
    scorer: str
    difference: float
    is_proven: bool
    questions: int


def tag_losses(summary: Summary) -> list[TagLoss]:
    """Return the tags that lost in a score from 0 to 1: the proven losses first, then the greatest."""
    losses: list[TagLoss] = []
    if summary.comparison is None:
        return losses
    for tag, differences in summary.comparison.tags.items():
        lost = [
            TagLoss(tag, name, difference.mean, (difference.high or 0.0) < 0, difference.paired)
            for name, difference in differences.items()
            if difference.mean is not None and difference.mean < -NO_CHANGE and _is_share(summary, name)
        ]
        if lost:
            losses.append(min(lost, key=_greatest_loss_first))
    return sorted(losses, key=_greatest_loss_first)


def _greatest_loss_first(loss: TagLoss) -> tuple[bool, float, str]:
    return not loss.is_proven, loss.difference, loss.tag


def _is_share(summary: Summary, name: str) -> bool:
    scorer = summary.scorers.get(name)
    if scorer is None:
        return name == PASS_RATE
    # Only scores from 0 to 1 have a histogram.
    return bool(scorer.histogram) and scorer.higher_is_better and name != CONFIDENCE_SCORE
