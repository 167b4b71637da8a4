"""Select the questions that the report lists: the worst, the unanswered and the changed ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_provider_assistant.evaluation.repetitions import disagree
from airflow_provider_assistant.evaluation.report import word_diff
from airflow_provider_assistant.evaluation.rules import CONFIDENCE_SCORE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from airflow_provider_assistant.evaluation.case import Case, Identity
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import Summary

Row = TypeVar("Row")

MAX_WORST = 20
MAX_UNANSWERED = 50
MAX_ERRORS = 20
MAX_CHANGES = 20
MAX_REPEATED = 20
MAX_TAGS = 100
MAX_RUNS = 30


@dataclass(frozen=True, slots=True)
class Some(Generic[Row]):
    """
    A shortened list.

    :param more: Number of rows that are not shown.
    """

    rows: Sequence[Row]
    more: int


@dataclass(frozen=True, slots=True)
class Answered:
    """
    A question with its answer and expected answer, side by side.

    :param expected: The expected answer, or None if there are only other expectations.
    """

    case: Case
    mean: float
    scores: Mapping[str, float | None]
    expected: word_diff.Side | None
    answer: word_diff.Side


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


def worst(evaluation: Evaluation) -> Some[Answered]:
    """
    Return the answered questions with the lowest mean score, lowest first.

    The mean includes only scores from 0 to 1 for which higher is better. Questions with a mean of 1 are not listed.
    """
    scores_by_case = _scores_by_case(evaluation.scores)
    mean_by_case: dict[Identity, float] = {}
    imperfect: list[Case] = []
    for case in evaluation.cases:
        if case.answer is None:
            continue
        mean = _mean_share(evaluation.summary, scores_by_case[case.identity])
        if mean is not None and mean < 1:
            mean_by_case[case.identity] = mean
            imperfect.append(case)
    imperfect.sort(key=lambda case: mean_by_case[case.identity])
    shown = imperfect[:MAX_WORST]
    rows = [_answered(case, mean_by_case[case.identity], scores_by_case[case.identity]) for case in shown]
    return Some(rows, more=len(imperfect) - len(rows))


def repeated(evaluation: Evaluation) -> Some[Repeated]:
    """Return the questions whose repetitions got different answers, with the greatest difference in score first."""
    summary = evaluation.summary
    if summary.repetitions is None:
        return Some([], 0)
    scores_by_case = _scores_by_case(evaluation.scores)
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
            mean = _mean_share(summary, scores_by_case[case.identity])
            if mean is not None:
                means.append(mean)
        spread = 0.0
        if means:
            spread = max(means) - min(means)
        counts = Counter(answers).most_common()
        rows.append(Repeated(case=repetitions[0], answers=counts, spread=spread))
    rows.sort(key=lambda row: row.spread, reverse=True)
    return _first_rows(rows, MAX_REPEATED)


def _mean_share(summary: Summary, scores: Mapping[str, float | None]) -> float | None:
    """Return the mean of the scores from 0 to 1 for which higher is better, without the confidence."""
    shares = []
    for name, scorer in summary.scorers.items():
        # The confidence is the service's own opinion of its answer, and not a mark for it.
        if name == CONFIDENCE_SCORE:
            continue
        score = scores.get(name)
        # Only scores from 0 to 1 have a histogram.
        if scorer.histogram and scorer.higher_is_better and score is not None:
            shares.append(score)
    if not shares:
        return None
    return sum(shares) / len(shares)


def _answered(case: Case, mean: float, scores: Mapping[str, float | None]) -> Answered:
    answer_text = case.answer or ""
    expected = None
    if case.expected is None:
        answer = word_diff.plain(answer_text)
    else:
        expected, answer = word_diff.compare(case.expected, answer_text)
    return Answered(case=case, mean=mean, scores=scores, expected=expected, answer=answer)


def _scores_by_case(table: pa.Table) -> Mapping[Identity, Mapping[str, float | None]]:
    """Return the scores by key and repetition of the question, and by scorer; empty for an unknown question."""
    scores: defaultdict[Identity, dict[str, float | None]] = defaultdict(dict)
    keys = table["key"].to_pylist()
    repetitions = table["repetition"].to_pylist()
    scorers = table["scorer"].to_pylist()
    values = table["score"].to_pylist()
    for key, repetition, scorer, score in zip(keys, repetitions, scorers, values, strict=True):
        scores[key, repetition][scorer] = score
    return scores


def unanswered(evaluation: Evaluation) -> Some[Case]:
    """Return the questions without an answer."""
    cases = [case for case in evaluation.cases if case.answer is None]
    return _first_rows(cases, MAX_UNANSWERED)


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
    """Return the tags. If there are more than ``MAX_TAGS``, return those with the most questions."""
    by_questions = sorted(summary.tags, key=lambda tag: -summary.tags[tag].questions)
    shown = sorted(by_questions[:MAX_TAGS])
    return Some(shown, more=len(summary.tags) - len(shown))


def _first_rows(rows: Sequence[Row], limit: int) -> Some[Row]:
    shown = rows[:limit]
    return Some(shown, more=len(rows) - len(shown))
