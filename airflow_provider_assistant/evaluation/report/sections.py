"""Select the questions that the report lists: the worst, the unanswered and the changed ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_provider_assistant.evaluation.comparison import repetition_column
from airflow_provider_assistant.evaluation.repetitions import disagree
from airflow_provider_assistant.evaluation.report import word_diff

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from airflow_provider_assistant.evaluation.cases import Case
    from airflow_provider_assistant.evaluation.summary import Change, Difference, Summary

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

    :param rows: The rows that are shown.
    :param more: Number of rows that are not shown.
    """

    rows: Sequence[Row]
    more: int


@dataclass(frozen=True, slots=True)
class Answered:
    """
    A question with its answer and expected answer, side by side.

    :param case: The question.
    :param mean: Mean of its scores.
    :param scores: Its scores, by scorer.
    :param expected: The expected answer, or None if there are only other expectations.
    :param answer: The answer.
    """

    case: Case
    mean: float
    scores: Mapping[str, float | None]
    expected: word_diff.Side | None
    answer: word_diff.Side


@dataclass(frozen=True, slots=True)
class ScoringError:
    """A score that could not be computed."""

    key: str
    scorer: str
    error: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A question whose score changed."""

    change: Change
    message: str


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


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one scorer that are shown."""

    scorer: str
    difference: Difference
    worse: Some[Changed]
    better: Some[Changed]


def worst(summary: Summary, cases: Iterable[Case], scores: pa.Table) -> Some[Answered]:
    """
    Return the answered questions with the lowest mean score, lowest first.

    The mean includes only scores from 0 to 1 for which higher is better. Questions with a mean of 1 are not listed.

    :param summary: The summary of the evaluation.
    :param cases: The questions.
    :param scores: The table of scores.
    """
    scored = _scores(scores)
    ranked: list[tuple[float, Case, str]] = []
    for case in cases:
        mean = _mean_share(summary, scored[case.key, case.repetition])
        if case.answer is not None and mean is not None and mean < 1:
            ranked.append((mean, case, case.answer))
    ranked.sort(key=lambda one: one[0])
    rows = [
        _answered(case, answer, mean, scored[case.key, case.repetition]) for mean, case, answer in ranked[:MAX_WORST]
    ]
    return Some(rows, len(ranked) - len(rows))


def repeated(summary: Summary, cases: Iterable[Case], scores: pa.Table) -> Some[Repeated]:
    """
    Return the questions whose repetitions got different answers, with the greatest difference in score first.

    :param summary: The summary of the evaluation.
    :param cases: The questions.
    :param scores: The table of scores.
    """
    if summary.repetitions is None:
        return Some([], 0)
    scored = _scores(scores)
    grouped: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.answer is not None:
            grouped[case.key].append(case)
    found = [
        Repeated(group[0], Counter(case.answer or "" for case in group).most_common(), _spread(summary, group, scored))
        for group in grouped.values()
        if disagree(case.answer or "" for case in group)
    ]
    found.sort(key=lambda one: -one.spread)
    return _some(found, MAX_REPEATED)


def _spread(
    summary: Summary, group: Sequence[Case], scored: Mapping[tuple[str, int], Mapping[str, float | None]]
) -> float:
    means = [_mean_share(summary, scored[case.key, case.repetition]) for case in group]
    known = [mean for mean in means if mean is not None]
    return max(known) - min(known) if known else 0.0


def _mean_share(summary: Summary, scores: Mapping[str, float | None]) -> float | None:
    """Return the mean of the scores from 0 to 1 for which higher is better."""
    shares = (name for name, scorer in summary.scorers.items() if scorer.histogram and scorer.higher_is_better)
    known = [value for name in shares if (value := scores.get(name)) is not None]
    return sum(known) / len(known) if known else None


def _answered(case: Case, answer: str, mean: float, scores: Mapping[str, float | None]) -> Answered:
    if case.expected is None:
        return Answered(case, mean, scores, None, word_diff.plain(answer))
    return Answered(case, mean, scores, *word_diff.compare(case.expected, answer))


def _scores(scores: pa.Table) -> Mapping[tuple[str, int], Mapping[str, float | None]]:
    """Return the scores by scorer, by key and repetition."""
    found: defaultdict[tuple[str, int], dict[str, float | None]] = defaultdict(dict)
    columns = (scores.column(name).to_pylist() for name in ("key", "scorer", "score"))
    for key, scorer, value, repetition in zip(*columns, repetition_column(scores), strict=True):
        found[key, repetition][scorer] = value
    return found


def unanswered(cases: Iterable[Case]) -> Some[Case]:
    """Return the questions without an answer."""
    return _some([case for case in cases if case.answer is None], MAX_UNANSWERED)


def scoring_errors(scores: pa.Table) -> Some[ScoringError]:
    """Return the scores that could not be computed."""
    import pyarrow.compute as pc

    failed = scores.filter(pc.equal(scores.column("outcome"), "error"))
    shown = failed.slice(0, MAX_ERRORS).select(["key", "scorer", "error"]).to_pylist()
    rows = [ScoringError(row["key"], row["scorer"], row["error"] or "") for row in shown]
    return Some(rows, failed.num_rows - len(rows))


def changes(summary: Summary, cases: Iterable[Case]) -> list[Changes]:
    """Return the questions that got worse or better compared with the baseline, by scorer."""
    if summary.comparison is None:
        return []
    messages = {case.key: case.message for case in cases}

    def named(rows: Sequence[Change], total: int) -> Some[Changed]:
        shown = [Changed(row, messages.get(row.key, "")) for row in rows[:MAX_CHANGES]]
        return Some(shown, total - len(shown))

    return [
        Changes(name, found, named(found.worst, found.worse), named(found.best, found.better))
        for name, found in summary.comparison.scorers.items()
        if found.worst or found.best
    ]


def runs(summary: Summary, trend: Sequence[Summary]) -> list[Summary]:
    """
    Return the last evaluations, oldest first, ending with the current one.

    :param summary: The current evaluation.
    :param trend: Earlier evaluations in any order. They may include the current one.
    """
    earlier = [one for one in trend if (one.run, one.asked_at) != (summary.run, summary.asked_at)]
    earlier.sort(key=lambda one: one.asked_at or "")
    return [*earlier, summary][-MAX_RUNS:]


def tags(summary: Summary) -> Some[str]:
    """Return the tags. If there are more than ``MAX_TAGS``, return those with the most questions."""
    names = list(summary.tags)
    if len(names) > MAX_TAGS:
        common = set(sorted(names, key=lambda name: -summary.tags[name].questions)[:MAX_TAGS])
        names = [name for name in names if name in common]
    return Some(names, len(summary.tags) - len(names))


def _some(rows: Sequence[Row], limit: int) -> Some[Row]:
    return Some(rows[:limit], max(0, len(rows) - limit))
