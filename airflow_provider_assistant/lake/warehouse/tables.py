"""Create the tables of a warehouse, add the columns that they lack, and describe both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantWarehouseError
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.warehouse.names import literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.lake.warehouse.stores import WarehouseTransaction

# SQL types that DuckDB and PostgreSQL both have, by Arrow type.
TYPES: Final = {
    "bool": "BOOLEAN",
    "date32[day]": "DATE",
    "double": "FLOAT8",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "string": "TEXT",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}
TIME = TYPES["timestamp[us, tz=UTC]"]


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """
    A table of the warehouse.

    :param columns: SQL type by column name.
    :param descriptions: Description by column name, for the comments of the database.
    """

    name: str
    description: str
    columns: Mapping[str, str]
    descriptions: Mapping[str, str]

    def schema(self) -> pa.Schema:
        """Return the columns as an Arrow schema."""
        import pyarrow as pa

        arrow_types = {
            "DATE": pa.date32(),
            "INTEGER": pa.int32(),
            "BIGINT": pa.int64(),
            "TEXT": pa.string(),
            TIME: pa.timestamp("us", tz="UTC"),
        }
        return pa.schema([(name, arrow_types[kind]) for name, kind in self.columns.items()])


def dataset_table(dataset: str) -> TableDefinition:
    """Return the table of a dataset: its columns, the day of the partition and ``loaded_at``."""
    definition = DATASETS[dataset]
    columns = {column.name: TYPES[str(column.type)] for column in definition.schema()}
    # The files have no column for the day of the partition.
    columns["date"] = TYPES["date32[day]"]
    columns["loaded_at"] = TIME
    descriptions = definition.descriptions()
    descriptions["date"] = "Day of the partition"
    descriptions["loaded_at"] = "When the row was loaded into the warehouse"
    return TableDefinition(dataset, definition.description, columns, descriptions)


PARTITIONS = TableDefinition(
    "partitions",
    "One row per day of a dataset that was loaded",
    {
        "dataset": "TEXT",
        "date": "DATE",
        "fingerprint": "TEXT",
        "rows": "BIGINT",
        "loaded_at": TIME,
        "kept_since": TIME,
    },
    {
        "dataset": "Name of the dataset, and of its table",
        "date": "Day of the partition",
        "fingerprint": "Hash of the names, sizes and versions of the files that were loaded",
        "rows": "Number of rows that were loaded",
        "loaded_at": "When the day was loaded",
        "kept_since": "When a load noticed that the lake no longer has the day; its rows are kept",
    },
)
METRICS = TableDefinition(
    "metrics",
    "What the paths of metrics mean: one row per dataset and metric that was ever a number",
    {
        "dataset": "TEXT",
        "metric": "TEXT",
        "column_name": "TEXT",
        "position": "INTEGER",
        "series": "TEXT",
        "date": "DATE",
        "period": "TEXT",
        "series_metric": "TEXT",
        "limit_name": "TEXT",
        "limit_part": "TEXT",
        "loaded_at": TIME,
    },
    {
        "dataset": "statistics, limits or reads",
        "metric": "Dotted path in the reply",
        "column_name": "Its column in statistics_daily; null for other metrics",
        "position": "Position of this column among the metrics, from 1",
        "series": "For a day or other period in the path: the path before it",
        "date": "First day of this period",
        "period": "The period as in the path",
        "series_metric": "The path after the period",
        "limit_name": "For a part of a limit: what is limited",
        "limit_part": "limit, used or remaining",
        "loaded_at": "When the metric was first loaded",
    },
)
DEFINITIONS = TableDefinition(
    "definitions",
    "How tables and views were last defined, so that loads leave them alone until that changes",
    {"name": "TEXT", "fingerprint": "TEXT", "loaded_at": TIME},
    {
        "name": "Name of the table or view",
        "fingerprint": "Hash of its definition",
        "loaded_at": "When it was defined",
    },
)


@dataclass(slots=True)
class Warehouse:
    """
    The tables and views that a schema has.

    :param columns: Names of the columns by name of table or view, as the database has them.
    :param fingerprints: Fingerprint by name, from the table ``definitions``.
    """

    store: WarehouseTransaction
    columns: dict[str, list[str]] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: WarehouseTransaction) -> Warehouse:
        """Return the tables of a schema; create the schema and the tables that it lacks."""
        warehouse = cls(store)
        name = literal(store.schema)
        if not store.run(f"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = {name}"):  # noqa: S608
            # Not CREATE IF NOT EXISTS: it needs a privilege even if the schema exists.
            store.run(f"CREATE SCHEMA {quoted(store.schema)}")
        found = store.run(
            "SELECT class.relname, attribute.attname FROM pg_catalog.pg_class AS class "  # noqa: S608
            "JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace "
            "JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid "
            f"WHERE namespace.nspname = {name} AND class.relkind IN ('r', 'p', 'v', 'm', 'f') "
            "AND attribute.attnum > 0 AND NOT attribute.attisdropped "
            "ORDER BY class.relname, attribute.attnum"
        )
        for relation, column in found:
            warehouse.columns.setdefault(relation, []).append(column)
        if DEFINITIONS.name in warehouse.columns:
            rows = store.run(f"SELECT name, fingerprint FROM {warehouse.name_of('definitions')}")  # noqa: S608
            warehouse.fingerprints = dict(rows)
        for table in (DEFINITIONS, PARTITIONS, METRICS, *map(dataset_table, DATASETS)):
            warehouse.create(table)
        return warehouse

    def name_of(self, relation: str) -> str:
        """Return the quoted name of a table or view, with its schema."""
        return f"{quoted(self.store.schema)}.{quoted(relation)}"

    def create(self, table: TableDefinition) -> None:
        """Create a table, or add the columns that it lacks; describe it if that changed."""
        name = self.name_of(table.name)
        if table.name not in self.columns:
            columns = []
            for column, sql_type in table.columns.items():
                # Rows of older files have no value for a newer column, so columns are nullable.
                suffix = " NOT NULL" if column == "date" and table is not METRICS else ""
                columns.append(f"{quoted(column)} {sql_type}{suffix}")
            self.store.run(f"CREATE TABLE {name} ({', '.join(columns)})")
            if self.store.date_index and "date" in table.columns:
                index = quoted(f"{table.name}_date")
                self.store.run(f"CREATE INDEX {index} ON {name} ({quoted('date')})")
            self.columns[table.name] = list(table.columns)
            self.fingerprints.pop(table.name, None)
            if table.name in DATASETS:
                # Somebody may have dropped the table: its days are not loaded any more.
                state = self.name_of(PARTITIONS.name)
                self.store.run(f"DELETE FROM {state} WHERE dataset = {literal(table.name)}")  # noqa: S608
        comments = [f"COMMENT ON TABLE {name} IS {literal(table.description)}"]
        comments += self.column_comments(table.name, table.descriptions)
        self._check_columns(table, comments)
        self._add_columns(table.name, table.columns)
        self.define(table.name, comments)

    def _check_columns(self, table: TableDefinition, comments: Sequence[str]) -> None:
        """
        Check that a table that has this definition still has all its columns.

        Adding them again would leave them empty in all rows that were loaded before.

        :raises AssistantWarehouseError: A column was renamed or dropped.
        """
        missing = [column for column in table.columns if column not in self.columns[table.name]]
        if missing and self.fingerprints.get(table.name) == _fingerprint(comments):
            name = self.name_of(table.name)
            raise AssistantWarehouseError(
                f"{name} has no column {', '.join(map(quoted, missing))} any more: it was renamed or dropped by hand",
                safe=NOTHING_CHANGED,
                todo="Rename it back. Or let the next load create the table again, with all its days: "
                f"DROP TABLE {name} CASCADE, which also drops the views that read it.",
            )

    def add_columns(self, dataset: str, schema: pa.Schema) -> None:
        """
        Add the columns that the rows of a newer version have and the table of a dataset lacks.

        :raises AssistantWarehouseError: The type of such a column is not supported.
        """
        types = {}
        for column in schema:
            if column.name in self.columns[dataset]:
                continue
            sql_type = TYPES.get(str(column.type))
            if sql_type is None:
                raise AssistantWarehouseError(
                    f"column {column.name!r} for {self.name_of(dataset)} has type {column.type}, "
                    "which the tables of the warehouse do not support",
                    safe=NOTHING_CHANGED,
                    todo="The file may come from a newer version: upgrade airflow-provider-assistant on this worker.",
                )
            types[column.name] = sql_type
        self._add_columns(dataset, types)

    def _add_columns(self, table: str, types: Mapping[str, str]) -> None:
        for column, sql_type in types.items():
            if column in self.columns[table]:
                continue
            self.store.define(f"ALTER TABLE {self.name_of(table)} ADD COLUMN {quoted(column)} {sql_type}")
            self.columns[table].append(column)
            self.fingerprints.pop(table, None)

    def column_comments(self, relation: str, descriptions: Mapping[str, str]) -> list[str]:
        """Return the statements that describe the columns of a table or view."""
        name = self.name_of(relation)
        return [
            f"COMMENT ON COLUMN {name}.{quoted(column)} IS {literal(description)}"
            for column, description in descriptions.items()
        ]

    def define(self, relation: str, statements: Sequence[str], *, timeout: float | None = None) -> bool:
        """
        Run the statements that define a table or view, unless they were run before.

        :param timeout: See :meth:`.WarehouseTransaction.define`.
        :return: Whether it is now defined like this.
        """
        fingerprint = _fingerprint(statements)
        if relation in self.columns and self.fingerprints.get(relation) == fingerprint:
            return True
        if not self.store.define(*statements, timeout=timeout):
            return False
        name = self.name_of("definitions")
        self.store.run(f"DELETE FROM {name} WHERE name = {literal(relation)}")  # noqa: S608
        self.store.run(
            f"INSERT INTO {name} (name, fingerprint, loaded_at) "  # noqa: S608
            f"VALUES ({literal(relation)}, {literal(fingerprint)}, now())"
        )
        self.fingerprints[relation] = fingerprint
        return True


def _fingerprint(statements: Sequence[str]) -> str:
    content = "\n".join(statements).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()
