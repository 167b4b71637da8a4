"""Compute the table of scores: one row per question and scorer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.rules import MEASURED
from airflow_provider_assistant.evaluation.scorers import Scorer

if TYPE_CHECKING:
    import pyarrow as pa

SCORED, UNANSWERED, NOT_APPLICABLE, NOT_JUDGED, ERROR = OUTCOMES = (
    "scored",
    "unanswered",
    "not_applicable",
    "not_judged",
    "error",
)
_ERROR_LENGTH = 500
_CASES_PER_BATCH = 500


def scores_schema() -> pa.Schema:
    """
    Return the schema of the table of scores.

    ``key``, ``repetition``, ``weight``, ``tags``, ``seconds``, ``status`` and the columns after it come
    from the question; ``case`` is its content hash.
    ``score`` is null unless the ``outcome`` is ``scored``; ``error`` is null unless it is ``error``; ``passed`` is
    set by :func:`.with_passed`.
    """
    import pyarrow as pa

    return pa.schema(
        {
            "key": pa.string(),
            "repetition": pa.int32(),
            "case": pa.string(),
            "scorer": pa.string(),
            "score": pa.float64(),
            "outcome": pa.string(),
            "error": pa.string(),
            "weight": pa.float64(),
            "tags": pa.list_(pa.string()),
            "seconds": pa.float64(),
            "status": pa.string(),
            "seconds_source": pa.string(),
            "seconds_error": pa.float64(),
            "confidence_level": pa.string(),
            "confidence_score": pa.float64(),
            "passed": pa.bool_(),
        }
    )


def score_cases(cases: Sequence[Case], scorers: Sequence[Scorer]) -> pa.Table:
    """
    Score every question with every scorer.

    A question without an answer gets the outcome ``unanswered``; no scorer is called for it. An answer
    whose latency or confidence is not known gets ``not_judged`` from the scorers of these. A scorer that
    raises an error or returns an invalid score gets the outcome ``error`` and no score; the others
    continue.

    :param cases: The questions.
    :param scorers: The scorers.
    :return: A table of :func:`scores_schema`, sorted by question, then by scorer in the given order.
    """
    import pyarrow as pa

    schema = scores_schema()
    # Convert in pieces: as Python lists, the scores would take ten times the memory.
    batches = []
    for start in range(0, len(cases), _CASES_PER_BATCH):
        batch = _batch(cases[start : start + _CASES_PER_BATCH], scorers, schema)
        batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _batch(cases: Sequence[Case], scorers: Sequence[Scorer], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    rows = []
    for case in cases:
        case_columns = {
            "key": case.key,
            "repetition": case.repetition,
            "case": case.digest,
            "weight": case.weight,
            "tags": case.tags,
            "seconds": case.seconds,
            "status": case.status,
            "seconds_source": case.seconds_source,
            "seconds_error": case.seconds_error,
            "confidence_level": case.confidence_level,
            "confidence_score": case.confidence_score,
        }
        for scorer in scorers:
            row = {**case_columns, "scorer": scorer.name, **_score(case, scorer)}
            rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema)


def _score(case: Case, scorer: Scorer) -> dict[str, Any]:
    """Return ``outcome``, and ``score`` or ``error`` if there is one."""
    if case.answer is None:
        return {"outcome": UNANSWERED}
    try:
        value = scorer.score(case)
        if value is None and scorer.name in MEASURED:
            # Only the expectations of a question can make a scorer not applicable.
            return {"outcome": NOT_JUDGED}
        if value is None:
            return {"outcome": NOT_APPLICABLE}
        return {"outcome": SCORED, "score": _number(value, scorer)}
    except Exception as error:  # noqa: BLE001 (a user-defined scorer may raise anything)
        text = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
        # Surrogates cannot be written to the table.
        storable_text = text.encode("utf-8", "replace").decode()
        return {"outcome": ERROR, "error": storable_text}


def _number(value: Any, scorer: Scorer) -> float:
    """Return a score as float. Raise if it is not a valid score."""
    # Convert numpy scalars to Python numbers.
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if not isinstance(plain, bool | int | float):
        raise TypeError(f"it returned {value!r}, not a number, a bool or None")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"it returned {plain}; return None if the scorer is not applicable")
    if scorer.is_share and not 0 <= plain <= 1:
        raise ValueError(f"it returned {plain}, which is not from 0 to 1")
    return float(plain)
