"""The dataset of evaluations: quality over time as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.lake.datasets import _schema, _stored

if TYPE_CHECKING:
    import pyarrow as pa


def evaluations_schema() -> pa.Schema:
    """Return the schema of the ``evaluations`` dataset: one row per evaluation and scorer."""
    return _schema(
        name="string!",
        tag="string",
        dag_id="string!",
        run_id="string!",
        task_id="string!",
        map_index="int",
        logical_date="moment",
        asked_at="moment",
        verdict="string!",
        questions="int!",
        answered="int!",
        coverage="double!",
        pass_rate="double",  # noqa: S106 (no password)
        scorer="string!",
        scored="int!",
        mean="double",
        baseline="string",
        difference="double",
        difference_low="double",
        difference_high="double",
        path="string!",
    )


def evaluations_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """
    Return the rows of the ``evaluations`` dataset.

    :param rows: Columns by name.
    """
    import pyarrow as pa

    schema = evaluations_schema()
    stored = [{name: _stored(row[name]) for name in schema.names} for row in rows]
    return pa.Table.from_pylist(stored, schema=schema)
