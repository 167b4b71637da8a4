"""Compare an evaluation with an earlier one, question by question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.case import Identity
from airflow_provider_assistant.evaluation.rules import LATENCY
from airflow_provider_assistant.evaluation.statistics import CONFIDENCE, interval
from airflow_provider_assistant.evaluation.summary import Change, Comparison, Difference
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import pyarrow as pa

# Number of losses and of gains that are listed.
NAMED = 50
# Smaller differences are rounding errors.
NO_CHANGE = 1e-9
# Source of a latency that the service's own times give.
SERVICE = "service"
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
    hashes = _hash_by_key(scores)
    baseline_hashes = _hash_by_key(baseline_scores)
    common_keys = hashes.keys() & baseline_hashes.keys()
    same_keys = {key for key in common_keys if hashes[key] == baseline_hashes[key]}
    baseline_scorers = set(baseline_scores["scorer"].unique().to_pylist())
    changed = [name for name in changed_judges if name in baseline_scorers]
    not_compared = set(changed)
    changed_latency = _latency_source(scores) != _latency_source(baseline_scores)
    if changed_latency:
        not_compared.add(LATENCY)
    pairs_by_scorer = {}
    for name in higher_is_better:
        if name in baseline_scorers and name not in not_compared:
            rows = of_scorer(scores, name)
            baseline_rows = of_scorer(baseline_scores, name)
            pairs_by_scorer[name] = _pairs(rows, baseline_rows, same_keys)
    differences = {}
    for name, pairs in pairs_by_scorer.items():
        differences[name] = _difference(pairs, higher_is_better[name], listed=NAMED)
    differences_by_tag: dict[str, dict[str, Difference]] = {}
    for tag in sorted(_all_tags(pairs_by_scorer.values())):
        differences_by_tag[tag] = {}
        for name, pairs in pairs_by_scorer.items():
            tagged = [pair for pair in pairs if tag in pair.tags]
            differences_by_tag[tag][name] = _difference(tagged, higher_is_better[name], listed=0)
    return Comparison(
        baseline=dict(baseline),
        confidence=CONFIDENCE,
        same=len(same_keys),
        changed=len(common_keys) - len(same_keys),
        added=len(hashes.keys() - common_keys),
        removed=len(baseline_hashes.keys() - common_keys),
        coverage_before=_coverage(baseline_scores),
        scorers=differences,
        tags=differences_by_tag,
        changed_judges=changed,
        changed_latency=changed_latency,
    )


def of_scorer(scores: pa.Table, scorer: str) -> list[Scored]:
    """Return the rows of one scorer."""
    import pyarrow.compute as pc

    table = scores.filter(pc.equal(scores["scorer"], scorer))
    # Lists of columns take less time than a dict per row.
    columns = [table[name].to_pylist() for name in Scored._fields]
    rows = []
    for key, score, outcome, weight, tags, repetition in zip(*columns, strict=True):
        row = Scored(
            key=key,
            score=score,
            outcome=outcome,
            weight=weight,
            tags=tuple(tags or ()),
            repetition=repetition,
        )
        rows.append(row)
    return rows


def by_question(rows: Sequence[Scored]) -> Sequence[Scored]:
    """Return one row per question: the score is the mean of its repetitions that have a score."""
    if all(row.repetition == 1 for row in rows):
        return rows
    rows_by_key: dict[str, list[Scored]] = {}
    for row in rows:
        rows_by_key.setdefault(row.key, []).append(row)
    return [_mean_row(repetitions) for repetitions in rows_by_key.values()]


def _mean_row(repetitions: Sequence[Scored]) -> Scored:
    scores = [row.score for row in repetitions if row.score is not None]
    if not scores:
        return repetitions[0]
    # A row with a score, because the mean gets the outcome of this row.
    scored_row = next(row for row in repetitions if row.score is not None)
    return scored_row._replace(score=sum(scores) / len(scores))


def _hash_by_key(scores: pa.Table) -> dict[str, str]:
    keys = scores["key"].to_pylist()
    content_hashes = scores["case"].to_pylist()
    return dict(zip(keys, content_hashes, strict=True))


def _coverage(scores: pa.Table) -> float:
    keys = scores["key"].to_pylist()
    repetitions = scores["repetition"].to_pylist()
    statuses = scores["status"].to_pylist()
    # The table has a row per scorer, so each answer occurs several times.
    status_by_answer = {}
    for key, repetition, status in zip(keys, repetitions, statuses, strict=True):
        status_by_answer[key, repetition] = status
    if not status_by_answer:
        return 0.0
    answered = list(status_by_answer.values()).count("complete")
    return answered / len(status_by_answer)


def _latency_source(scores: pa.Table) -> str:
    """Return the source of most latencies; ``service`` for a table of an older version."""
    if "seconds_source" not in scores.column_names:
        return SERVICE
    sources = Counter(scores["seconds_source"].drop_null().to_pylist())
    if not sources:
        return SERVICE
    ((most_common, _count),) = sources.most_common(1)
    return str(most_common)


def _pairs(
    rows: Sequence[Scored],
    baseline_rows: Sequence[Scored],
    same_keys: set[str],
) -> list[_Pair]:
    """
    Return the questions that both evaluations have scored.

    They are sorted by key to make the result independent of the row order.
    """
    baseline_scores = {row.key: row.score for row in by_question(baseline_rows)}
    pairs = []
    for row in by_question(rows):
        if row.key not in same_keys:
            continue
        before = baseline_scores.get(row.key)
        if before is None or row.score is None:
            continue
        pair = _Pair(
            key=row.key,
            before=before,
            after=row.score,
            weight=row.weight,
            tags=row.tags,
        )
        pairs.append(pair)
    return sorted(pairs, key=lambda pair: pair.key)


def _all_tags(pairs_of_scorers: Iterable[Sequence[_Pair]]) -> set[str]:
    tags: set[str] = set()
    for pairs in pairs_of_scorers:
        for pair in pairs:
            tags.update(pair.tags)
    return tags


def _difference(pairs: Sequence[_Pair], higher_is_better: bool, *, listed: int) -> Difference:
    """
    Return the figures of the differences.

    :param listed: Maximum number of losses, and of gains, that are listed.
    """
    differences = [pair.difference for pair in pairs]
    mean = interval(differences, [pair.weight for pair in pairs])
    # A gain is an improvement, whichever direction is better.
    sign = 1 if higher_is_better else -1
    by_gain = sorted(pairs, key=lambda pair: (sign * pair.difference, pair.key))
    worse = [pair for pair in by_gain if sign * pair.difference < -NO_CHANGE]
    # Reversed, because the largest gain is listed first.
    better = [pair for pair in reversed(by_gain) if sign * pair.difference > NO_CHANGE]
    return Difference(
        paired=len(pairs),
        mean=mean.mean,
        low=mean.low,
        high=mean.high,
        worse=len(worse),
        better=len(better),
        unchanged=len(pairs) - len(worse) - len(better),
        worst=[_change(pair) for pair in worse[:listed]],
        best=[_change(pair) for pair in better[:listed]],
    )


def _change(pair: _Pair) -> Change:
    return Change(key=pair.key, before=pair.before, after=pair.after)
