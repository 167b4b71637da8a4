"""Select the questions that the report lists: the worst, the unanswered and the changed ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_provider_assistant.evaluation.repetitions import disagree
from airflow_provider_assistant.evaluation.report import word_diff

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
    scored = _scores(evaluation.scores)
    ranked: list[tuple[float, Case]] = []
    for case in evaluation.cases:
        mean = _mean_share(evaluation.summary, scored[case.identity])
        if case.answer is not None and mean is not None and mean < 1:
            ranked.append((mean, case))
    ranked.sort(key=lambda one: one[0])
    rows = [_answered(case, mean, scored[case.identity]) for mean, case in ranked[:MAX_WORST]]
    return Some(rows, len(ranked) - len(rows))


def repeated(evaluation: Evaluation) -> Some[Repeated]:
    """Return the questions whose repetitions got different answers, with the greatest difference in score first."""
    summary = evaluation.summary
    if summary.repetitions is None:
        return Some([], 0)
    scored = _scores(evaluation.scores)
    questions: dict[str, list[Case]] = {}
    for case in evaluation.cases:
        if case.answer is not None:
            questions.setdefault(case.key, []).append(case)
    found = []
    for repetitions in questions.values():
        answers = [case.answer or "" for case in repetitions]
        if not disagree(answers):
            continue
        means = [_mean_share(summary, scored[case.identity]) for case in repetitions]
        known = [mean for mean in means if mean is not None]
        spread = max(known) - min(known) if known else 0.0
        found.append(Repeated(repetitions[0], Counter(answers).most_common(), spread))
    found.sort(key=lambda one: -one.spread)
    return _some(found, MAX_REPEATED)


def _mean_share(summary: Summary, scores: Mapping[str, float | None]) -> float | None:
    """Return the mean of the scores from 0 to 1 for which higher is better."""
    known = []
    for name, scorer in summary.scorers.items():
        score = scores.get(name)
        if scorer.histogram and scorer.higher_is_better and score is not None:
            known.append(score)
    return sum(known) / len(known) if known else None


def _answered(case: Case, mean: float, scores: Mapping[str, float | None]) -> Answered:
    answer = case.answer or ""
    if case.expected is None:
        return Answered(case, mean, scores, None, word_diff.plain(answer))
    expected, given = word_diff.compare(case.expected, answer)
    return Answered(case, mean, scores, expected, given)


def _scores(scores: pa.Table) -> Mapping[Identity, Mapping[str, float | None]]:
    found: defaultdict[Identity, dict[str, float | None]] = defaultdict(dict)
    columns = [scores[name].to_pylist() for name in ("key", "repetition", "scorer", "score")]
    for key, repetition, scorer, value in zip(*columns, strict=True):
        found[key, repetition][scorer] = value
    return found


def unanswered(evaluation: Evaluation) -> Some[Case]:
    """Return the questions without an answer."""
    return _some([case for case in evaluation.cases if case.answer is None], MAX_UNANSWERED)


def scoring_errors(evaluation: Evaluation) -> Some[dict[str, str]]:
    """Return ``key``, ``scorer`` and ``error`` of the scores that could not be computed."""
    import pyarrow.compute as pc

    scores = evaluation.scores
    failed = scores.filter(pc.equal(scores["outcome"], "error"))
    rows = failed.slice(0, MAX_ERRORS).select(["key", "scorer", "error"]).to_pylist()
    return Some(rows, failed.num_rows - len(rows))


def runs(summary: Summary, trend: Sequence[Summary]) -> list[Summary]:
    """
    Return the last evaluations, oldest first, ending with the current one.

    ``trend`` has earlier evaluations in any order, and may include the current one.
    """
    earlier = [one for one in trend if (one.run, one.asked_at) != (summary.run, summary.asked_at)]
    earlier.sort(key=lambda one: one.asked_at or "")
    return [*earlier, summary][-MAX_RUNS:]


def tags(summary: Summary) -> Some[str]:
    """Return the tags. If there are more than ``MAX_TAGS``, return those with the most questions."""
    common = sorted(summary.tags, key=lambda name: -summary.tags[name].questions)[:MAX_TAGS]
    names = sorted(common)
    return Some(names, len(summary.tags) - len(names))


def _some(rows: Sequence[Row], limit: int) -> Some[Row]:
    return Some(rows[:limit], max(0, len(rows) - limit))
