"""The table of scores: one row for every question and scorer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.cases import Case
from airflow_provider_assistant.evaluation.scorers import Scorer

if TYPE_CHECKING:
    import pyarrow as pa

SCORED, UNANSWERED, NOT_APPLICABLE, ERROR = OUTCOMES = ("scored", "unanswered", "not_applicable", "error")
_ERROR_LENGTH = 500
_PIECE = 500


def scores_schema() -> pa.Schema:
    """
    Return the columns.

    ``key``, ``weight``, ``tags``, ``seconds`` and ``status`` are the question's; ``case`` is its digest. ``score`` is
    there if the ``outcome`` is ``scored``, and ``error`` if it is ``error``.
    """
    import pyarrow as pa

    return pa.schema(
        {
            "key": pa.string(),
            "case": pa.string(),
            "scorer": pa.string(),
            "score": pa.float64(),
            "outcome": pa.string(),
            "error": pa.string(),
            "weight": pa.float64(),
            "tags": pa.list_(pa.string()),
            "seconds": pa.float64(),
            "status": pa.string(),
        }
    )


def score_cases(cases: Sequence[Case], scorers: Sequence[Scorer]) -> pa.Table:
    """
    Score every question with every scorer.

    A question without an answer is ``unanswered``, and none of the scorers sees it. A scorer that raises, or returns
    something that is no score, does not stop the others: the row says ``error``, and has no score.

    :param cases: The questions.
    :param scorers: The scorers.
    :return: A table of :func:`scores_schema`, question by question, with the scorers in their order.
    """
    import pyarrow as pa

    schema = scores_schema()
    # As lists of Python's, many scores take ten times the memory.
    pieces = (cases[start : start + _PIECE] for start in range(0, len(cases), _PIECE))
    batches = [
        pa.RecordBatch.from_pylist([row for case in piece for row in _rows(case, scorers)], schema) for piece in pieces
    ]
    return pa.Table.from_batches(batches, schema)


def _rows(case: Case, scorers: Sequence[Scorer]) -> Iterator[dict[str, Any]]:
    of_case = {
        "key": case.key,
        "case": case.digest,
        "weight": case.weight,
        "tags": case.tags,
        "seconds": case.seconds,
        "status": case.status,
    }
    for scorer in scorers:
        score, outcome, error = _score(case, scorer)
        yield {**of_case, "scorer": scorer.name, "score": score, "outcome": outcome, "error": error}


def _score(case: Case, scorer: Scorer) -> tuple[float | None, str, str | None]:
    if case.answer is None:
        return None, UNANSWERED, None
    try:
        value = scorer.score(case)
        score = None if value is None else _number(value, scorer)
    except Exception as error:  # noqa: BLE001 (a scorer of the user's own may raise anything)
        text = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
        return None, ERROR, text.encode("utf-8", "replace").decode()
    return score, NOT_APPLICABLE if score is None else SCORED, None


def _number(value: Any, scorer: Scorer) -> float:
    """Return a score as a number, or raise with what is wrong with it."""
    # A number or truth of numpy's is none of Python's, but knows its own.
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if not isinstance(plain, bool | int | float):
        raise TypeError(f"it returned {value!r}, not a number, a bool or None")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"it returned {plain}; None says that there is nothing to score by")
    if scorer.is_share and not 0 <= plain <= 1:
        raise ValueError(f"it returned {plain}, which is not from 0 to 1")
    return float(plain)
