"""Compare an evaluation with an earlier one, question by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.statistics import CONFIDENCE, interval
from airflow_provider_assistant.evaluation.summary import Change, Comparison, Difference
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import pyarrow as pa

# Number of losses and of gains that are listed.
NAMED = 50
# Smaller differences are rounding errors.
NO_CHANGE = 1e-9
COLUMNS = ("key", "case", "scorer", "score", "status")


class Scored(NamedTuple):
    """A row of the table of scores. ``score`` is None unless the outcome is ``scored``."""

    key: str
    score: float | None
    outcome: str
    weight: float
    tags: tuple[str, ...]
    repetition: int = 1


class _Pair(NamedTuple):
    """The two scores of a question, with its weight and tags."""

    key: str
    before: float
    after: float
    weight: float
    tags: tuple[str, ...]


def compare(
    scores: pa.Table,
    baseline_scores: pa.Table,
    *,
    higher_is_better: Mapping[str, bool],
    baseline: Mapping[str, str | None],
    changed_judges: Sequence[str] = (),
) -> Comparison:
    """
    Pair the questions of two evaluations by key, and compare the scores of unchanged questions.

    Questions whose text or expectations have changed are counted but not compared. Weights and tags are those of the
    new evaluation. The score of a repeated question is the mean of its repetitions: they are not independent, so each
    question counts once.

    :param scores: The table that :func:`~airflow_provider_assistant.evaluation.scoring.score_cases` returned.
    :param baseline_scores: The same table of the earlier evaluation.
    :param higher_is_better: The scorers to compare, and for each whether a higher score is better. Scorers that the
        earlier evaluation did not have are omitted.
    :param baseline: Description of the earlier evaluation, as in
        :class:`~airflow_provider_assistant.evaluation.summary.Comparison`.
    :param changed_judges: Judges whose model, rubric or prompt is not that of the earlier evaluation. They are not
        compared. Default: none.
    :return: The counts and the differences by scorer and by tag.
    :raises AssistantInputError: ``baseline_scores`` is not a table of scores.
    """
    if missing := [name for name in COLUMNS if name not in baseline_scores.column_names]:
        raise AssistantInputError(
            f"baseline {baseline.get('path')!r} is not a table of scores: it has no column {', '.join(missing)}",
            field="baseline",
        )
    now, before = _hashes(scores), _hashes(baseline_scores)
    same = {key for key, content_hash in now.items() if before.get(key) == content_hash}
    had = set(baseline_scores["scorer"].unique().to_pylist())
    changed = [name for name in changed_judges if name in had]
    higher_is_better = {name: is_up for name, is_up in higher_is_better.items() if name in had and name not in changed}
    pairs = {
        name: _pairs(by_question(of_scorer(scores, name)), _scores(baseline_scores, name), same)
        for name in higher_is_better
    }
    tags = sorted({tag for found in pairs.values() for pair in found for tag in pair.tags})
    return Comparison(
        baseline=dict(baseline),
        confidence=CONFIDENCE,
        same=len(same),
        changed=sum(key in before for key in now) - len(same),
        added=sum(key not in before for key in now),
        removed=sum(key not in now for key in before),
        coverage_before=_coverage(baseline_scores),
        scorers={name: _difference(pairs[name], is_up, NAMED) for name, is_up in higher_is_better.items()},
        tags={
            tag: {
                name: _difference([pair for pair in pairs[name] if tag in pair.tags], is_up, 0)
                for name, is_up in higher_is_better.items()
            }
            for tag in tags
        },
        changed_judges=changed,
    )


def _hashes(scores: pa.Table) -> dict[str, str]:
    return dict(zip(scores["key"].to_pylist(), scores["case"].to_pylist(), strict=True))


def _coverage(scores: pa.Table) -> float:
    identities = zip(scores["key"].to_pylist(), repetition_column(scores), strict=True)
    statuses = dict(zip(identities, scores["status"].to_pylist(), strict=True))
    return sum(status == "complete" for status in statuses.values()) / len(statuses) if statuses else 0.0


def repetition_column(scores: pa.Table) -> list[int]:
    """
    Return the repetition of each row. A table without this column has no repetitions.

    :param scores: The table of scores.
    """
    if "repetition" not in scores.column_names:
        return [1] * scores.num_rows
    return [1 if number is None else number for number in scores["repetition"].to_pylist()]


def of_scorer(scores: pa.Table, scorer: str) -> list[Scored]:
    """
    Return the rows of one scorer.

    :param scores: The table of scores.
    :param scorer: Name of the scorer.
    """
    import pyarrow.compute as pc

    rows = scores.filter(pc.equal(scores["scorer"], scorer))
    tags = [tuple(found or ()) for found in rows["tags"].to_pylist()]
    columns = (rows[name].to_pylist() for name in ("key", "score", "outcome", "weight"))
    return [Scored(*values) for values in zip(*columns, tags, repetition_column(rows), strict=True)]


def by_question(rows: Sequence[Scored]) -> Sequence[Scored]:
    """
    Return one row per question: the score is the mean of its repetitions that have a score.

    :param rows: The rows of one scorer.
    """
    if all(row.repetition == 1 for row in rows):
        return rows
    grouped: dict[str, list[Scored]] = {}
    for row in rows:
        grouped.setdefault(row.key, []).append(row)
    return [_mean_row(group) for group in grouped.values()]


def _mean_row(rows: Sequence[Scored]) -> Scored:
    """Return the repetitions of one question as one row."""
    scored = [row for row in rows if row.score is not None]
    return (scored or rows)[0]._replace(score=_mean([row.score for row in rows]))


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def _scores(scores: pa.Table, scorer: str) -> dict[str, float | None]:
    """Return the score of one scorer by key, as :func:`by_question`. None means no score."""
    import pyarrow.compute as pc

    rows = scores.filter(pc.equal(scores["scorer"], scorer))
    grouped: dict[str, list[float | None]] = {}
    for key, score in zip(rows["key"].to_pylist(), rows["score"].to_pylist(), strict=True):
        grouped.setdefault(key, []).append(score)
    return {key: _mean(found) for key, found in grouped.items()}


def _pairs(now: Sequence[Scored], before: Mapping[str, float | None], same: set[str]) -> list[_Pair]:
    """Return the questions that both have scored, sorted by key to make the result independent of the row order."""
    return sorted(
        _Pair(row.key, old, row.score, row.weight, row.tags)
        for row in now
        if row.key in same and row.score is not None and (old := before.get(row.key)) is not None
    )


def _difference(pairs: Sequence[_Pair], higher_is_better: bool, named: int) -> Difference:
    found = interval([pair.after - pair.before for pair in pairs], [pair.weight for pair in pairs])
    sign = 1 if higher_is_better else -1
    changes = sorted(((sign * (pair.after - pair.before), pair) for pair in pairs), key=lambda c: (c[0], c[1].key))
    worse = [pair for gain, pair in changes if gain < -NO_CHANGE]
    better = [pair for gain, pair in reversed(changes) if gain > NO_CHANGE]
    return Difference(
        paired=len(pairs),
        mean=found.mean if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        worse=len(worse),
        better=len(better),
        unchanged=len(pairs) - len(worse) - len(better),
        worst=[Change(key=pair.key, before=pair.before, after=pair.after) for pair in worse[:named]],
        best=[Change(key=pair.key, before=pair.before, after=pair.after) for pair in better[:named]],
    )
