"""The rows of a table of scores, and which answers pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airflow_provider_assistant.evaluation.case import Identity

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.rules import Condition

# Columns that every table of scores has.
COLUMNS = ("key", "case", "scorer", "score", "status", "outcome", "repetition", "weight", "tags", "seconds_source")
# Whether each answer or unit passes; None if it was not judged. Empty without a condition.
Passed: TypeAlias = Mapping[Identity, bool | None]


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


def passed_in(scores: pa.Table, condition: Condition | None) -> Passed:
    """Return whether each answer of a table of scores passes; empty without a condition."""
    if condition is None:
        return {}
    rows_by_scorer = {name: of_scorer(scores, name) for name in condition.names}
    return passed_answers(rows_by_scorer, condition)


def with_passed(scores: pa.Table, condition: Condition | None) -> pa.Table:
    """Return a table of scores whose column ``passed`` says in each row whether its answer passes."""
    import pyarrow as pa

    passed = passed_in(scores, condition)
    identities = zip(scores["key"].to_pylist(), scores["repetition"].to_pylist(), strict=True)
    column = pa.array([passed.get(identity) for identity in identities], pa.bool_())
    return scores.set_column(scores.schema.get_field_index("passed"), "passed", column)


def passed_answers(
    rows_by_scorer: Mapping[str, Sequence[Scored]], condition: Condition, *, errors_fail: bool = False
) -> Passed:
    """
    Return whether each answer fulfils the condition, or None if it cannot be judged.

    :param errors_fail: Whether an answer on which a scorer failed fails. Default: False, it cannot be judged.
    """
    failed = set()
    scores_by_answer: dict[Identity, dict[str, float | None]] = defaultdict(dict)
    for scorer in condition.names:
        for row in rows_by_scorer[scorer]:
            # Also an answer to which no scorer is applicable gets an entry.
            scores = scores_by_answer[row.identity]
            if row.outcome != "not_applicable":
                scores[scorer] = row.score
            if row.outcome == "error" and errors_fail:
                failed.add(row.identity)
    passed = {}
    for answer, scores in scores_by_answer.items():
        passed[answer] = False if answer in failed else condition.holds(scores)
    return passed
