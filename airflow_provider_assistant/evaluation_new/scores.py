"""The matrix of scores: a row per answer, a column per scorer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from airflow_provider_assistant.evaluation_new.golden import Case
    from airflow_provider_assistant.evaluation_new.rules import Condition
    from airflow_provider_assistant.evaluation_new.scorers import Scorer

# Columns of ``scores.parquet`` before those of the scorers.
COLUMNS = (
    *("key", "repetition", "conversation", "case", "request_id", "status"),
    *("weight", "tags", "passed", "errors"),
)
_ERROR_LENGTH = 500


@dataclass(frozen=True)
class Scores:
    """
    The scores of a run.

    :param units: Key of the conversation of each answer, or of the question itself.
    :param hashes: Content hash of question and expectations of each answer.
    :param is_answered: Whether each answer is there.
    :param values: Scores by scorer; NaN: not applicable, or no answer.
    :param measured: Names of the scorers that should have a value for every answer.
    :param errors: Text by scorer, by number of the answer. Such an answer has the worst score.
    """

    keys: Sequence[str]
    repetitions: Sequence[int]
    units: Sequence[str]
    hashes: Sequence[str]
    is_answered: NDArray[np.bool_]
    weights: NDArray[np.float64]
    tags: Sequence[Sequence[str]]
    values: Mapping[str, NDArray[np.float64]]
    measured: frozenset[str]
    errors: Mapping[int, Mapping[str, str]]

    def passed(self, pass_if: Condition) -> NDArray[np.float64]:
        """
        Return whether each answer passes: 1, 0, or NaN if it cannot be judged.

        A scorer that is not applicable is ignored. An answer is not judged if it is missing, if no scorer is applicable
        or if a measured value is not known.
        """
        import numpy as np

        is_known = np.zeros(len(self.keys), dtype=bool)
        fails, lacks_measure = is_known.copy(), is_known.copy()
        for term in pass_if.terms:
            values = self.values[term.name]
            has_value = ~np.isnan(values)
            is_known |= has_value
            # Most scores have few different values.
            different, positions = np.unique(values[has_value], return_inverse=True)
            holds = np.array([term.holds(value) for value in different.tolist()], dtype=bool)
            fails[has_value] |= ~holds[positions]
            if term.name in self.measured:
                lacks_measure |= ~has_value
        passed = np.where(is_known & self.is_answered & ~lacks_measure, 1.0, np.nan)
        return np.where(fails & self.is_answered, 0.0, passed)

    @cached_property
    def questions(self) -> Questions:
        """The questions and conversations of the run."""
        return Questions.of(self)


@dataclass(frozen=True)
class Questions:
    """
    Which rows of the matrix are of one question, and which questions of one conversation.

    :param keys: Key of each question.
    :param of_row: Number of the question of each row.
    :param units: Key of each unit, a question or a conversation.
    :param unit_of: Number of the unit of each question.
    :param weights: Weight of each question.
    """

    keys: Sequence[str]
    of_row: NDArray[np.int64]
    units: Sequence[str]
    unit_of: NDArray[np.int64]
    weights: NDArray[np.float64]
    tags: Sequence[Sequence[str]]
    hashes: Sequence[str]

    @classmethod
    def of(cls, scores: Scores) -> Questions:
        """Group the rows by question, and the questions by conversation."""
        import numpy as np

        numbers: dict[str, int] = {}
        of_row = np.array([numbers.setdefault(key, len(numbers)) for key in scores.keys], dtype=np.int64)
        first = np.zeros(len(numbers), dtype=np.int64)
        first[of_row[::-1]] = np.arange(len(of_row))[::-1]
        rows = first.tolist()
        unit_numbers: dict[str, int] = {}
        unit_of = [unit_numbers.setdefault(scores.units[row], len(unit_numbers)) for row in rows]
        return cls(
            keys=list(numbers),
            of_row=of_row,
            units=list(unit_numbers),
            unit_of=np.array(unit_of, dtype=np.int64),
            weights=scores.weights[first],
            tags=[scores.tags[row] for row in rows],
            hashes=[scores.hashes[row] for row in rows],
        )

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of the repetitions of each question; NaN without any value."""
        return grouped_means(values, self.of_row, len(self.keys))

    def unit_means(self, by_question: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted mean of the questions of each unit."""
        return grouped_means(by_question, self.unit_of, len(self.units), self.weights)

    def unit_weights(self, by_question: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight of the questions of each unit that have a value."""
        import numpy as np

        weights = np.where(np.isnan(by_question), 0.0, self.weights)
        return np.bincount(self.unit_of, weights=weights, minlength=len(self.units))

    def units_passed(self, passed: NDArray[np.float64], repetitions: Sequence[int]) -> NDArray[np.float64]:
        """
        Return the share of its judged repetitions in which each unit passes.

        A conversation passes if all its turns pass. It is not judged if a turn is not, unless another one fails.
        """
        import numpy as np

        pairs: dict[tuple[int, int], int] = {}
        row_units = self.unit_of[self.of_row].tolist()
        of_row = np.array(
            [pairs.setdefault(pair, len(pairs)) for pair in zip(row_units, repetitions, strict=True)], dtype=np.int64
        )
        size = len(pairs)
        has_failed = np.bincount(of_row, weights=passed == 0, minlength=size) > 0
        is_unknown = np.bincount(of_row, weights=np.isnan(passed), minlength=size) > 0
        verdicts = np.where(has_failed, 0.0, np.where(is_unknown, np.nan, 1.0))
        units = np.array([unit for unit, _repetition in pairs], dtype=np.int64)
        return grouped_means(verdicts, units, len(self.units))


def grouped_means(
    values: NDArray[np.float64], groups: NDArray[np.int64], size: int, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the weighted mean of the known values of each group; NaN without any."""
    import numpy as np

    is_known = ~np.isnan(values)
    known_weights = np.ones(int(is_known.sum())) if weights is None else weights[is_known]
    totals = np.bincount(groups[is_known], weights=known_weights, minlength=size)
    sums = np.bincount(groups[is_known], weights=known_weights * values[is_known], minlength=size)
    means: NDArray[np.float64] = np.divide(sums, totals, out=np.full(size, np.nan), where=totals > 0)
    return means


def score_cases(
    cases: Sequence[Case], scorers: Sequence[Scorer], judged: Mapping[str, Sequence[Any]] | None = None
) -> Scores:
    """
    Score the answers. An answer that a scorer cannot score gets its worst score, and the error is kept.

    :param judged: Judgements of each scorer that is a judge, one per case. Default: none.
    """
    import numpy as np

    errors: dict[int, dict[str, str]] = {}
    values: dict[str, NDArray[np.float64]] = {}
    for scorer in scorers:
        column = np.full(len(cases), np.nan)
        for row, case in enumerate(cases):
            if case.answer is None:
                continue
            try:
                score = _judged(judged or {}, scorer, row) if scorer.is_judge else _scored(scorer, case)
            except _NotScoredError as error:
                errors.setdefault(row, {})[scorer.name] = str(error)[:_ERROR_LENGTH]
                score = scorer.worst
            if score is not None:
                column[row] = score
        values[scorer.name] = column
    return Scores(
        keys=[case.key for case in cases],
        repetitions=[case.repetition for case in cases],
        units=[case.unit for case in cases],
        hashes=[case.content_hash for case in cases],
        is_answered=np.array([case.answer is not None for case in cases], dtype=bool),
        weights=np.array([case.weight for case in cases], dtype=float),
        tags=[case.tags for case in cases],
        values=values,
        measured=frozenset(scorer.name for scorer in scorers if scorer.is_measured),
        errors=errors,
    )


class _NotScoredError(Exception):
    """An answer could not be scored."""


def _judged(judged: Mapping[str, Sequence[Any]], scorer: Scorer, row: int) -> float | None:
    judgement = judged[scorer.name][row]
    if judgement.error is not None:
        raise _NotScoredError(judgement.error)
    score: float | None = judgement.score
    return score


def _scored(scorer: Scorer, case: Case) -> float | None:
    """Return a score; None if the scorer is not applicable."""
    try:
        value = scorer.score(case) if scorer.score else None
    except AssistantInputError:
        # A column that is missing or not numeric is a mistake in the data, not in one answer.
        raise
    except Exception as error:
        raise _NotScoredError(f"{type(error).__name__}: {error}") from error
    # Convert numpy scalars to Python numbers.
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if plain is None:
        return None
    if not isinstance(plain, bool | int | float):
        raise _NotScoredError(f"it returned {value!r}, not a number, a bool or None")
    if not math.isfinite(plain) or (scorer.is_share and not 0 <= plain <= 1):
        raise _NotScoredError(f"it returned {plain}, which is not from 0 to 1; None means not applicable")
    return float(plain)


def to_table(scores: Scores, cases: Sequence[Case], pass_if: Condition | None) -> pa.Table:
    """Return the content of ``scores.parquet``."""
    import numpy as np
    import pyarrow as pa

    def nullable(values: NDArray[np.float64], kind: pa.DataType) -> pa.Array:
        return pa.array(values, pa.float64(), from_pandas=True).cast(kind)

    unknown = np.full(len(cases), np.nan)
    columns = {
        "key": pa.array(scores.keys, pa.string()),
        "repetition": pa.array(scores.repetitions, pa.int32()),
        "conversation": pa.array([case.conversation for case in cases], pa.string()),
        "case": pa.array(scores.hashes, pa.string()),
        "request_id": pa.array([case.request_id for case in cases], pa.string()),
        "status": pa.array([case.status for case in cases], pa.string()),
        "weight": pa.array(scores.weights),
        "tags": pa.array(scores.tags, pa.list_(pa.string())),
        "passed": nullable(unknown if pass_if is None else scores.passed(pass_if), pa.bool_()),
    }
    columns |= {name: nullable(values, pa.float64()) for name, values in scores.values.items()}
    texts = [_error_text(scores.errors.get(row)) for row in range(len(cases))]
    return pa.table({**columns, "errors": pa.array(texts, pa.string())})


def _error_text(errors: Mapping[str, str] | None) -> str | None:
    if not errors:
        return None
    text = "\n".join(f"{name}: {' '.join(reason.split())}" for name, reason in errors.items())
    return text.encode("utf-8", "replace").decode()


def of_table(table: pa.Table, measured: frozenset[str] = frozenset()) -> Scores:
    """
    Return the scores of an earlier run from the content of its ``scores.parquet``.

    :param measured: Names of the scorers that should have a value for every answer.
    :raises ValueError: It is not a table of scores.
    """
    import numpy as np
    import pyarrow as pa

    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise ValueError(f"it has no column {', '.join(missing)}")
    names = [field.name for field in table.schema if field.name not in COLUMNS and pa.types.is_floating(field.type)]
    keys = table["key"].to_pylist()
    conversations = table["conversation"].to_pylist()
    return Scores(
        keys=keys,
        repetitions=table["repetition"].to_pylist(),
        units=[conversation or key for conversation, key in zip(conversations, keys, strict=True)],
        hashes=table["case"].to_pylist(),
        is_answered=np.array([status == "complete" for status in table["status"].to_pylist()], dtype=bool),
        weights=table["weight"].to_numpy(),
        tags=[],
        values={name: table[name].to_numpy().astype(float) for name in names},
        measured=measured,
        errors={},
    )
