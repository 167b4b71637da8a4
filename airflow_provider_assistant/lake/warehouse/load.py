"""Load partitions of the Parquet datasets into the tables of a warehouse."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantWarehouseError
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.warehouse.partitions import read_day
from airflow_provider_assistant.lake.warehouse.views import create_views, literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.lake.warehouse.stores import WarehouseTransaction

log = logging.getLogger(__name__)

# SQL types that DuckDB and PostgreSQL both have, by Arrow type.
TYPES = {
    "bool": "BOOLEAN",
    "date32[day]": "DATE",
    "double": "FLOAT8",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "string": "TEXT",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}


@dataclass(slots=True)
class Loaded:
    """
    The result of a load into the warehouse.

    :param rows: Number of rows by dataset that the warehouse now has for the loaded days.
    :param replaced: Number of rows that were deleted, because they were there before.
    :param missing: Partitions that do not exist; their days now have no rows.
    """

    rows: dict[str, int] = field(default_factory=dict)
    replaced: int = 0
    missing: list[str] = field(default_factory=list)


def columns(dataset: str) -> dict[str, str]:
    """Return the columns of a dataset's table: SQL type by column name."""
    types = {column.name: TYPES[str(column.type)] for column in DATASETS[dataset].schema()}
    # The files have no column for the day of the partition.
    types["date"] = TYPES["date32[day]"]
    return types


def load(
    store: WarehouseTransaction, root: str, datasets: Iterable[str], days: Sequence[date], *, schema: str
) -> Loaded:
    """
    Replace the warehouse's rows of some days by those of the Parquet partitions, and update its views.

    The tables of all datasets are created, because the views need them. A day whose partition is empty or missing has
    no rows afterwards.

    :param store: Other sessions see the changes only after its commit.
    :param schema: Schema of the warehouse for tables and views; created if it is missing.
    :raises AssistantWarehouseError: The columns of a partition do not match its table.
    """
    store.run(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    tables = {dataset: _table(store, schema, dataset) for dataset in DATASETS}
    loaded = Loaded()
    for dataset in datasets:
        loaded.rows[dataset] = 0
        for day in days:
            rows = read_day(root, dataset, day, DATASETS[dataset].schema())
            loaded.replaced += _replace_day(store, tables[dataset], day, rows)
            if rows is None:
                loaded.missing.append(f"{dataset}/date={day}")
            else:
                loaded.rows[dataset] += rows.num_rows
    create_views(store, schema)
    return loaded


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: set[str]


def _table(store: WarehouseTransaction, schema: str, dataset: str) -> _Table:
    """Return a dataset's table; create it, or add the columns that it lacks."""
    name = f"{quoted(schema)}.{quoted(dataset)}"
    store.run(f"CREATE TABLE IF NOT EXISTS {name} ({quoted('date')} DATE NOT NULL)")
    if store.date_index:
        store.run(f"CREATE INDEX IF NOT EXISTS {quoted(f'{dataset}_date')} ON {name} ({quoted('date')})")
    rows = store.run(
        "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database() "  # noqa: S608
        f"AND table_schema = {literal(schema)} AND table_name = {literal(dataset)}"
    )
    table = _Table(name=name, columns={column for (column,) in rows})
    _add_columns(store, table, DATASETS[dataset].schema())
    return table


def _add_columns(store: WarehouseTransaction, table: _Table, schema: pa.Schema) -> None:
    """Add the columns of a schema that the table lacks."""
    for column in schema:
        if column.name in table.columns:
            continue
        sql_type = TYPES.get(str(column.type))
        if sql_type is None:
            raise AssistantWarehouseError(
                f"column {column.name!r} for {table.name} has type {column.type}, which the tables of the warehouse "
                "do not support",
                safe=NOTHING_CHANGED,
                todo="The file may come from a newer version: upgrade airflow-provider-assistant on this worker.",
            )
        # Existing rows have no value for a new column, so it is nullable even if the Parquet schema is not.
        store.run(f"ALTER TABLE {table.name} ADD COLUMN {quoted(column.name)} {sql_type}")
        table.columns.add(column.name)


def _replace_day(store: WarehouseTransaction, table: _Table, day: date, rows: pa.Table | None) -> int:
    """Replace the rows of one day, and return how many were deleted."""
    import pyarrow as pa

    is_of_day = f"{quoted('date')} = {literal(day.isoformat())}"
    # The result of a DELETE is one row with the number of deleted rows.
    [(deleted,)] = store.run(f"DELETE FROM {table.name} WHERE {is_of_day}")  # noqa: S608
    if rows is not None and rows.num_rows:
        _add_columns(store, table, rows.schema)
        dates = pa.repeat(day, rows.num_rows)
        store.insert(table.name, rows.append_column("date", dates))
    return int(deleted)
