"""Schemas of the Parquet datasets, and functions that build their tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.lake.flattening import Leaves, as_text
from airflow_provider_assistant.storage import arrow
from airflow_provider_assistant.texts import storable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Capture:
    """
    One reply with limits or statistics, and its origin.

    :param captured_at: Time at which the reply arrived, with a time zone.
    :param raw: The JSON as received.
    :param tenant_id: Id of the tenant. Default: None, unknown.
    :param site_id: Id of the site; required for statistics. Default: None.
    :param logical_date: Logical date of the DAG run. Default: None.
    """

    captured_at: datetime
    raw: Any
    tenant_id: str | None = None
    site_id: str | None = None
    logical_date: datetime | None = None

    @property
    def period(self) -> str | None:
        """The reply's ``period`` field as text; None if it has none."""
        found = self.raw.get("period") if isinstance(self.raw, Mapping) else None
        return None if found is None else as_text(found)


_CAPTURED = {"captured_at": "moment!", "logical_date": "moment", "tenant_id": "string"}
_SITE = {"site_id": "string!"}
_METRIC = {"metric": "string!", "value": "double", "text": "string!", "type": "string!", "period": "string"}
_RUN = {"dag_id": "string", "run_id": "string", "task_id": "string", "map_index": "int"}


def statistics_schema() -> pa.Schema:
    """Return the schema of the ``statistics`` dataset: one row per metric of a capture."""
    return _schema(**_CAPTURED, **_SITE, **_METRIC)


def limits_schema() -> pa.Schema:
    """Return the schema of the ``limits`` dataset: that of ``statistics`` without a site."""
    return _schema(**_CAPTURED, **_METRIC)


def statistics_raw_schema() -> pa.Schema:
    """Return the schema of the ``statistics_raw`` dataset: one row per capture."""
    return _schema(**_CAPTURED, **_SITE, raw="string!")


def feedback_schema() -> pa.Schema:
    """Return the schema of the ``feedback`` dataset: one row per rating sent."""
    return _schema(
        sent_at="moment!",
        site_id="string!",
        session_id="string!",
        request_id="string!",
        rating="string!",
        answer_seconds="double",
        attempts="int!",
        **_RUN,
    )


def requests_schema() -> pa.Schema:
    """Return the schema of the ``requests`` dataset: one row per async chat request."""
    return _schema(
        submitted_at="moment!",
        completed_at="moment",
        seconds="double",
        state="string!",
        site_id="string!",
        session_id="string",
        request_id="string",
        attempts="int!",
        ambiguous="int",
        is_batch="bool!",
        **_RUN,
    )


def loads_schema() -> pa.Schema:
    """Return the schema of the ``loads`` dataset: one row per attempt of a load."""
    return _schema(
        started_at="moment!",
        ended_at="moment",
        outcome="string!",
        site_id="string!",
        endpoint="string!",
        source="string!",
        rows="int",
        created="int",
        unchanged="int",
        skipped="int",
        rejected="int",
        ambiguous="int",
        failed="int",
        changed="int",
        possibly_duplicated="int",
        stale="int",
        requests="int",
        throttled="int",
        seconds="double",
        error="string",
        **_RUN,
    )


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


def statistics_table(captures: Iterable[Capture], list_keys: Mapping[str, str] | None = None) -> pa.Table:
    """
    Return rows of the ``statistics`` dataset: one per metric of each reply.

    :param captures: Replies of ``GET …/statistics``.
    :param list_keys: Field that names the items of a list, by path of the list; see
        :func:`~airflow_provider_assistant.lake.flattening.flatten`. Default: None, items are named by position.
    :return: A table with the columns of :func:`statistics_schema`, sorted by site, metric and time.
    """
    return _metrics(captures, list_keys, statistics_schema(), ("site_id", "metric", "captured_at"))


def limits_table(captures: Iterable[Capture], list_keys: Mapping[str, str] | None = None) -> pa.Table:
    """
    Return rows of the ``limits`` dataset: one per metric of each reply.

    :param captures: Replies of ``GET …/limits``.
    :param list_keys: Field that names the items of a list, by path of the list; see
        :func:`~airflow_provider_assistant.lake.flattening.flatten`. Default: None, items are named by position.
    :return: A table with the columns of :func:`limits_schema`, sorted by metric and time.
    """
    return _metrics(captures, list_keys, limits_schema(), ("metric", "captured_at"))


def statistics_raw_table(captures: Iterable[Capture]) -> pa.Table:
    """
    Return rows of the ``statistics_raw`` dataset: one per reply, with its JSON.

    :param captures: Replies of ``GET …/statistics``.
    :return: A table with the columns of :func:`statistics_raw_schema`, sorted by site and time.
    """
    columns: dict[str, list[Any]] = {field.name: [] for field in statistics_raw_schema()}
    for capture in captures:
        for name in ("captured_at", "logical_date", "tenant_id", "site_id"):
            columns[name].append(_stored(getattr(capture, name)))
        columns["raw"].append(storable(json.dumps(capture.raw, ensure_ascii=False)))
    return _table(columns, statistics_raw_schema(), ("site_id", "captured_at"))


def feedback_table(rows: list[dict[str, Any]]) -> pa.Table:
    """
    Return rows of the ``feedback`` dataset.

    :param rows: Rows of the ledger, with the columns of :func:`feedback_schema`.
    """
    return _recorded(rows, feedback_schema())


def requests_table(rows: list[dict[str, Any]]) -> pa.Table:
    """
    Return rows of the ``requests`` dataset.

    :param rows: Rows of the ledger, with the columns of :func:`requests_schema`.
    """
    return _recorded(rows, requests_schema())


def loads_table(rows: list[dict[str, Any]]) -> pa.Table:
    """
    Return rows of the ``loads`` dataset.

    :param rows: Rows of the ledger, with the columns of :func:`loads_schema`.
    """
    return _recorded(rows, loads_schema())


def evaluations_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """
    Return rows of the ``evaluations`` dataset.

    :param rows: Rows with the columns of :func:`evaluations_schema`.
    """
    schema = evaluations_schema()
    return _recorded([{name: _stored(row[name]) for name in schema.names} for row in rows], schema)


def _recorded(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    safe = [{name: storable(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]
    return arrow.table_of_rows(safe, schema)


def _metrics(
    captures: Iterable[Capture], list_keys: Mapping[str, str] | None, schema: pa.Schema, order: tuple[str, ...]
) -> pa.Table:
    import pyarrow as pa

    found, leaves = list(captures), Leaves(list_keys)
    rows = [number for number, capture in enumerate(found) for _ in range(leaves.add(capture.raw))]
    columns: dict[str, Any] = {
        "metric": leaves.metrics,
        "value": leaves.values,
        "text": leaves.texts,
        "type": leaves.types,
    }
    # Columns with one value per capture are converted once per capture and then repeated for its rows.
    of_rows = arrow.array(rows, pa.int32())
    for field in schema:
        if field.name not in columns:
            values = [_stored(getattr(capture, field.name)) for capture in found]
            columns[field.name] = arrow.array(values, field.type).take(of_rows)
    return _table(columns, schema, order)


def _stored(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _table(columns: Mapping[str, Any], schema: pa.Schema, order: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa

    # Columns that are arrays already have their type.
    arrays = [
        column if isinstance(column, pa.Array) else arrow.array(column, field.type)
        for field in schema
        for column in [columns[field.name]]
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    return table.sort_by([(name, "ascending") for name in order])


def _schema(**columns: str) -> pa.Schema:
    """Return a schema from column names and types; a type with an exclamation mark is not nullable."""
    import pyarrow as pa

    types = {
        "moment": pa.timestamp("us", tz="UTC"),
        "string": pa.string(),
        "double": pa.float64(),
        "int": pa.int32(),
        "bool": pa.bool_(),
    }
    return pa.schema(
        [pa.field(name, types[kind.rstrip("!")], nullable=not kind.endswith("!")) for name, kind in columns.items()]
    )
