"""Compare an evaluation with an earlier one, question by question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.case import Identity
from airflow_provider_assistant.evaluation.statistics import CONFIDENCE, interval
from airflow_provider_assistant.evaluation.summary import Change, Comparison, Difference
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import pyarrow as pa

# Number of losses and of gains that are listed.
NAMED = 50
# Smaller differences are rounding errors.
NO_CHANGE = 1e-9
COLUMNS = ("key", "case", "scorer", "score", "status", "outcome", "repetition", "weight", "tags")


class Scored(NamedTuple):
    """A row of the table of scores. ``score`` is None unless the outcome is ``scored``."""

    key: str
    score: float | None
    outcome: str
    weight: float
    tags: tuple[str, ...]
    repetition: int = 1

    @property
    def identity(self) -> Identity:
        """Key and number of the repetition, as of the case."""
        return self.key, self.repetition


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two scores of a question, with the weight and the tags that it has now."""

    key: str
    before: float
    after: float
    weight: float
    tags: tuple[str, ...]

    @property
    def difference(self) -> float:
        return self.after - self.before


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
    :param higher_is_better: The scorers to compare, and for each whether a higher score is better. Scorers that the
        earlier evaluation did not have are omitted.
    :param baseline: Description of the earlier evaluation, as in
        :class:`~airflow_provider_assistant.evaluation.summary.Comparison`.
    :param changed_judges: Judges whose model, rubric or prompt is not that of the earlier evaluation. They are not
        compared. Default: none.
    :raises AssistantInputError: ``baseline_scores`` is not a table of scores.
    """
    missing = [name for name in COLUMNS if name not in baseline_scores.column_names]
    if missing:
        raise AssistantInputError(
            f"baseline {baseline.get('path')!r} is not a table of scores: it has no column {', '.join(missing)}",
            field="baseline",
        )
    now, before = _hashes(scores), _hashes(baseline_scores)
    same = {key for key, content_hash in now.items() if before.get(key) == content_hash}
    known = set(baseline_scores["scorer"].unique().to_pylist())
    changed = [name for name in changed_judges if name in known]
    pairs = {}
    for name in higher_is_better:
        if name in known and name not in changed:
            pairs[name] = _pairs(of_scorer(scores, name), of_scorer(baseline_scores, name), same)
    differences = {}
    tags: dict[str, dict[str, Difference]] = {}
    for name, found in pairs.items():
        differences[name] = _difference(found, higher_is_better[name], NAMED)
    for tag in sorted(_tags(pairs.values())):
        tags[tag] = {}
        for name, found in pairs.items():
            tagged = [pair for pair in found if tag in pair.tags]
            tags[tag][name] = _difference(tagged, higher_is_better[name], 0)
    return Comparison(
        baseline=dict(baseline),
        confidence=CONFIDENCE,
        same=len(same),
        changed=len(now.keys() & before.keys()) - len(same),
        added=len(now.keys() - before.keys()),
        removed=len(before.keys() - now.keys()),
        coverage_before=_coverage(baseline_scores),
        scorers=differences,
        tags=tags,
        changed_judges=changed,
    )


def of_scorer(scores: pa.Table, scorer: str) -> list[Scored]:
    """Return the rows of one scorer."""
    import pyarrow.compute as pc

    rows = scores.filter(pc.equal(scores["scorer"], scorer))
    columns = [rows[name].to_pylist() for name in ("key", "score", "outcome", "weight")]
    tags = [tuple(found or ()) for found in rows["tags"].to_pylist()]
    return list(map(Scored, *columns, tags, rows["repetition"].to_pylist()))


def by_question(rows: Sequence[Scored]) -> Sequence[Scored]:
    """Return one row per question: the score is the mean of its repetitions that have a score."""
    if all(row.repetition == 1 for row in rows):
        return rows
    questions: dict[str, list[Scored]] = {}
    for row in rows:
        questions.setdefault(row.key, []).append(row)
    return [_mean_row(repetitions) for repetitions in questions.values()]


def _mean_row(rows: Sequence[Scored]) -> Scored:
    scores = [row.score for row in rows if row.score is not None]
    if not scores:
        return rows[0]
    first = next(row for row in rows if row.score is not None)
    return first._replace(score=sum(scores) / len(scores))


def _hashes(scores: pa.Table) -> dict[str, str]:
    return dict(zip(scores["key"].to_pylist(), scores["case"].to_pylist(), strict=True))


def _coverage(scores: pa.Table) -> float:
    columns = [scores[name].to_pylist() for name in ("key", "repetition", "status")]
    # The table has a row per scorer.
    statuses = {(key, repetition): status for key, repetition, status in zip(*columns, strict=True)}
    answered = list(statuses.values()).count("complete")
    return answered / len(statuses) if statuses else 0.0


def _pairs(now: Sequence[Scored], before: Sequence[Scored], same: set[str]) -> list[_Pair]:
    """Return the questions that both have scored, sorted by key to make the result independent of the row order."""
    earlier = {row.key: row.score for row in by_question(before)}
    pairs = []
    for row in by_question(now):
        old = earlier.get(row.key)
        if row.key in same and row.score is not None and old is not None:
            pairs.append(_Pair(row.key, old, row.score, row.weight, row.tags))
    return sorted(pairs, key=lambda pair: pair.key)


def _tags(pairs: Iterable[Sequence[_Pair]]) -> set[str]:
    return {tag for found in pairs for pair in found for tag in pair.tags}


def _difference(pairs: Sequence[_Pair], higher_is_better: bool, named: int) -> Difference:
    found = interval([pair.difference for pair in pairs], [pair.weight for pair in pairs])
    sign = 1 if higher_is_better else -1
    ranked = sorted(pairs, key=lambda pair: (sign * pair.difference, pair.key))
    worse = [pair for pair in ranked if sign * pair.difference < -NO_CHANGE]
    better = [pair for pair in reversed(ranked) if sign * pair.difference > NO_CHANGE]
    return Difference(
        paired=len(pairs),
        mean=found.mean,
        low=found.low,
        high=found.high,
        worse=len(worse),
        better=len(better),
        unchanged=len(pairs) - len(worse) - len(better),
        worst=[_change(pair) for pair in worse[:named]],
        best=[_change(pair) for pair in better[:named]],
    )


def _change(pair: _Pair) -> Change:
    return Change(key=pair.key, before=pair.before, after=pair.after)
