"""Days of the lake into the tables of a warehouse."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.exceptions import AssistantWarehouseError
from airflow_provider_assistant.lake import datasets as known
from airflow_provider_assistant.lake.warehouse.partitions import read_day
from airflow_provider_assistant.lake.warehouse.views import create_views, literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.lake.warehouse.stores import Store

log = logging.getLogger(__name__)

# Names that DuckDB and PostgreSQL share.
TYPES = {
    "bool": "BOOLEAN",
    "date32[day]": "DATE",
    "double": "FLOAT8",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "string": "TEXT",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}


SCHEMAS: dict[str, Callable[[], pa.Schema]] = {
    "statistics": known.statistics_schema,
    "statistics_raw": known.statistics_raw_schema,
    "limits": known.limits_schema,
    "feedback": known.feedback_schema,
    "requests": known.requests_schema,
    "loads": known.loads_schema,
    "evaluations": known.evaluations_schema,
}


class Loaded(NamedTuple):
    """
    What a load did.

    :param rows: Rows per dataset that are now in the warehouse, of these days.
    :param replaced: Rows that were there before.
    :param missing: Partitions that the lake does not have, and whose rows are gone.
    """

    rows: dict[str, int]
    replaced: int
    missing: list[str]


def loadable() -> tuple[str, ...]:
    """Return the names of the datasets that have a table."""
    return tuple(SCHEMAS)


def columns(dataset: str) -> dict[str, str]:
    """Return the columns of a dataset's table, and their types."""
    return {field.name: TYPES[str(field.type)] for field in SCHEMAS[dataset]()} | {"date": TYPES["date32[day]"]}


def load(store: Store, root: str, datasets: Iterable[str], days: Sequence[date], *, schema: str) -> Loaded:
    """
    Make the warehouse's rows of some days those of the lake, and its views those of this version.

    All tables are created, also those of other datasets: views need them. A day whose partition is empty or missing
    has no rows afterwards.

    :param store: A transaction on the warehouse; nothing is to be seen of this before it ends well.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param datasets: Their names, of :func:`loadable`.
    :param days: The days.
    :param schema: The warehouse's schema for tables and views.
    :raises AssistantWarehouseError: A partition does not fit into its table.
    """
    store.run(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    tables = {dataset: _table(store, schema, dataset) for dataset in SCHEMAS}
    loaded = Loaded({}, 0, [])
    for dataset in datasets:
        loaded.rows[dataset] = 0
        for day in days:
            rows = read_day(root, dataset, day, SCHEMAS[dataset]())
            if rows is None:
                loaded.missing.append(f"{dataset}/date={day}")
            replaced = _replace_day(store, tables[dataset], day, rows)
            loaded = loaded._replace(replaced=loaded.replaced + replaced)
            loaded.rows[dataset] += rows.num_rows if rows is not None else 0
    create_views(store, schema)
    return loaded


class _Table(NamedTuple):
    name: str
    columns: set[str]


def _table(store: Store, schema: str, dataset: str) -> _Table:
    """Return a dataset's table, with all columns that this version knows."""
    name = f"{quoted(schema)}.{quoted(dataset)}"
    store.run(f"CREATE TABLE IF NOT EXISTS {name} ({quoted('date')} DATE NOT NULL)")
    if store.date_index:
        store.run(f"CREATE INDEX IF NOT EXISTS {quoted(f'{dataset}_date')} ON {name} ({quoted('date')})")
    columns = store.run(
        "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database() "  # noqa: S608
        f"AND table_schema = {literal(schema)} AND table_name = {literal(dataset)}"
    )
    table = _Table(name, {column for (column,) in columns})
    _add_columns(store, table, SCHEMAS[dataset]())
    return table


def _add_columns(store: Store, table: _Table, wanted: pa.Schema) -> None:
    for field in wanted:
        if field.name not in table.columns:
            kind = TYPES.get(str(field.type))
            if kind is None:
                raise AssistantWarehouseError(
                    f"column {field.name!r} for {table.name} is of type {field.type}, which no table of the warehouse "
                    "has. Nothing was changed. Was the file written by a newer version? Upgrade "
                    "airflow-provider-assistant on this worker."
                )
            # Rows that came before have no value there, whatever the files promise.
            store.run(f"ALTER TABLE {table.name} ADD COLUMN {quoted(field.name)} {kind}")
            table.columns.add(field.name)


def _replace_day(store: Store, table: _Table, day: date, rows: pa.Table | None) -> int:
    """Replace the rows of one day, and return how many there were."""
    import pyarrow as pa

    ((replaced,),) = store.run(f"DELETE FROM {table.name} WHERE {quoted('date')} = {literal(day.isoformat())}")  # noqa: S608
    if rows is not None and rows.num_rows:
        _add_columns(store, table, rows.schema)
        store.insert(table.name, rows.append_column("date", pa.repeat(pa.scalar(day, pa.date32()), rows.num_rows)))
    return int(replaced)
