"""
The warehouse in PostgreSQL: tables with the rows of the days whose files changed.

A load is one transaction: readers see the old rows or the new ones, and after an error nothing has changed. The table
``partitions`` says from which files each day was loaded.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake.datasets import DATASETS, Dataset, dataset_of
from airflow_provider_assistant.lake.files import Day, read_day
from airflow_provider_assistant.lake.warehouse import Loaded, quoted, views
from airflow_provider_assistant.ledger.engine import UnusableDatabaseError, engine_of_connection, todo_of

if TYPE_CHECKING:
    import pyarrow as pa

# Maximum wait for a lock, in seconds: that of another load, or of readers if an upgrade changes a table or a view.
LOCK_TIMEOUT = 300.0
# Rows that are converted to CSV in memory at a time.
ROWS_PER_COPY = 50_000
_TYPES: dict[str, Any] = {
    "timestamp[us, tz=UTC]": sa.DateTime(timezone=True),
    "string": sa.Text,
    "double": sa.Double,
    "int32": sa.Integer,
    "bool": sa.Boolean,
}

log = logging.getLogger(__name__)


def postgres_engine(conn_id: str) -> sa.Engine:
    """
    Return an engine, not connected yet, for a warehouse in PostgreSQL.

    :param conn_id: Airflow connection to the database.
    :raises AssistantInputError: The connection cannot be used, or is not one to PostgreSQL.
    """
    try:
        engine = engine_of_connection(conn_id)
    except UnusableDatabaseError as error:
        raise AssistantInputError(
            f"connection {conn_id!r}: {error.reason}", safe=NOTHING_CHANGED, todo=error.todo, field="conn_id"
        ) from error
    if engine.dialect.name != "postgresql":
        raise AssistantInputError(
            f"connection {conn_id!r} must be one to PostgreSQL, not {engine.dialect.name}",
            safe=NOTHING_CHANGED,
            todo="Give a connection to PostgreSQL, or set database to the path of a DuckDB file.",
            field="conn_id",
        )
    return engine


def load(
    engine: sa.Engine,
    schema: str,
    root: str,
    lake: Mapping[str, Mapping[date, Day]],
    lock_timeout: float = LOCK_TIMEOUT,
) -> Loaded:
    """
    Load the days that changed since they were loaded, and create the views.

    A day without rows empties its day. A day that is not in the lake any more keeps its rows.

    :param engine: The database; its connections are closed at the end.
    :param schema: Schema of tables and views.
    :param root: Folder of the datasets.
    :param lake: The days to load, by dataset.
    :param lock_timeout: Maximum wait for each lock, in seconds.
    :raises AssistantWarehouseError: The database cannot be reached or written, or a file cannot be read; the warehouse
        is unchanged.
    """
    loaded = Loaded()
    with _transaction(engine, schema, lock_timeout) as connection:
        warehouse = _Warehouse(connection, schema, lake)
        for name, days in lake.items():
            warehouse.load(name, days, root, loaded)
        warehouse.create_views()
    return loaded


class _Warehouse:
    """The tables of a schema, within one transaction."""

    def __init__(self, connection: sa.Connection, schema: str, names: Mapping[str, Any]) -> None:
        self._connection = connection
        self._schema = schema
        metadata = sa.MetaData(schema=schema)
        # The views need the tables of all datasets.
        datasets = {**DATASETS, **{name: dataset_of(name) for name in names}}
        self._tables = {name: _table(dataset, metadata) for name, dataset in datasets.items()}
        self._partitions = sa.Table(
            "partitions",
            metadata,
            sa.Column("dataset", sa.Text, primary_key=True),
            sa.Column("date", sa.Date, primary_key=True),
            sa.Column("fingerprint", sa.Text, nullable=False, comment="Hash of the files"),
            sa.Column("columns", sa.Text, nullable=False, comment="Columns of the table when the day was loaded"),
            sa.Column("rows", sa.Integer, nullable=False),
            sa.Column("loaded_at", sa.DateTime(timezone=True), nullable=False),
            comment="The files that each day was loaded from",
        )
        if not sa.inspect(connection).has_schema(schema):
            connection.execute(sa.schema.CreateSchema(schema))
        metadata.create_all(connection)

    def load(self, name: str, days: Mapping[date, Day], root: str, loaded: Loaded) -> None:
        """Load the days of a dataset that changed, and add to the counts."""
        table, p = self._tables[name], self._partitions.c
        known = {
            row.date: row for row in self._connection.execute(sa.select(self._partitions).where(p.dataset == name))
        }
        self._add_columns(table, {column for row in known.values() for column in row.columns.split(",")})
        columns = ",".join(table.columns.keys())
        changed = []
        for day in days.values():
            row = known.get(day.day)
            if row is None or (row.fingerprint, row.columns) != (day.fingerprint, columns):
                changed.append(day)
        loaded.rows[name] = 0
        loaded.partitions += len(changed)
        loaded.unchanged += len(days) - len(changed)
        loaded.kept += len(known.keys() - days.keys())
        loaded.last_day = max([*days, *known, *filter(None, [loaded.last_day])])
        for day in changed:
            rows, others = read_day(day, root, dataset_of(name).schema())
            if others:
                log.warning("%s of %s has columns that are not loaded: %s.", name, day.day, ", ".join(sorted(others)))
            loaded.replaced += self._connection.execute(sa.delete(table).where(table.c.date == day.day)).rowcount
            self._copy(table, day.day, rows)
            self._connection.execute(sa.delete(self._partitions).where(p.dataset == name, p.date == day.day))
            now = datetime.now(UTC)
            values = {**day._asdict(), "dataset": name, "date": day.day, "columns": columns, "loaded_at": now}
            del values["day"], values["files"]
            self._connection.execute(sa.insert(self._partitions).values(**values, rows=rows.num_rows))
            loaded.rows[name] += rows.num_rows

    def _add_columns(self, table: sa.Table, known: set[str]) -> None:
        """
        Add the columns that a table of an older version lacks. All its days are loaded again then.

        :param known: Columns that the table had when its days were loaded.
        :raises AssistantWarehouseError: One of them was dropped or renamed by hand.
        """
        there = {column["name"] for column in sa.inspect(self._connection).get_columns(table.name, self._schema)}
        gone = sorted((known & set(table.columns.keys())) - there)
        if gone:
            raise AssistantWarehouseError(
                f"{table.fullname} has no column {', '.join(map(repr, gone))} any more",
                safe=NOTHING_CHANGED,
                todo="If it was renamed, rename it back. If it was dropped, drop the table and delete its rows of "
                f"{self._schema}.partitions: the next load creates it with all days of the lake.",
            )
        for column in table.columns:
            if column.name not in there:
                kind = column.type.compile(self._connection.dialect)
                self._run(f"ALTER TABLE {_name(table)} ADD COLUMN {quoted(column.name)} {kind}")

    def _copy(self, table: sa.Table, day: date, rows: pa.Table) -> None:
        """Insert the rows of a day: COPY is many times as fast as INSERT."""
        import pyarrow as pa
        from pyarrow import csv

        rows = rows.add_column(0, "date", pa.array([day] * rows.num_rows, pa.date32()))
        names = ", ".join(map(quoted, rows.column_names))
        statement = f"COPY {_name(table)} ({names}) FROM STDIN (FORMAT csv)"
        # Arrow quotes every text, which distinguishes an empty one from null.
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        with contextlib.closing(self._connection.connection.cursor()) as cursor:
            for batch in rows.to_batches(max_chunksize=ROWS_PER_COPY):
                buffer = pa.BufferOutputStream()
                csv.write_csv(batch, buffer, options)
                if hasattr(cursor, "copy_expert"):  # psycopg2
                    cursor.copy_expert(statement, pa.BufferReader(buffer.getvalue()))
                else:  # psycopg
                    with cursor.copy(statement) as copy:
                        copy.write(buffer.getvalue().to_pybytes())

    def create_views(self) -> None:
        """Create the views, or replace those that an upgrade has changed. Replacing one waits for its readers."""
        there: dict[str, str | None] = dict(
            self._connection.execute(
                sa.text(
                    "SELECT relname, obj_description(pg_class.oid) FROM pg_class JOIN pg_namespace "
                    "ON pg_namespace.oid = relnamespace WHERE nspname = :schema AND relkind = 'v'"
                ),
                {"schema": self._schema},
            ).all()
        )
        for name, sql in views().items():
            if there.get(name) != sql:
                view = f"{quoted(self._schema)}.{quoted(name)}"
                self._run(f"CREATE OR REPLACE VIEW {view} AS {sql.replace('$schema', quoted(self._schema))}")
                self._run(f"COMMENT ON VIEW {view} IS {_dollar_quoted(sql)}")

    def _run(self, sql: str) -> None:
        # Without this option, a percent sign would be read as a parameter.
        self._connection.exec_driver_sql(sql, execution_options={"no_parameters": True})


def _table(dataset: Dataset, metadata: sa.MetaData) -> sa.Table:
    descriptions = dataset.descriptions()
    columns = [
        sa.Column(field.name, _TYPES[str(field.type)], comment=descriptions[field.name]) for field in dataset.schema()
    ]
    day = sa.Column("date", sa.Date, nullable=False, index=True, comment="Day of the partition")
    return sa.Table(dataset.name, metadata, day, *columns, comment=dataset.description)


def _name(table: sa.Table) -> str:
    return f"{quoted(table.schema or '')}.{quoted(table.name)}"


def _dollar_quoted(text: str) -> str:
    return f"$view${text}$view$"


@contextlib.contextmanager
def _transaction(engine: sa.Engine, schema: str, lock_timeout: float) -> Iterator[sa.Connection]:
    """Open the only transaction of a load in a schema."""
    # With a stricter isolation, a load would not see the rows of the load that it waited for.
    read_committed = engine.execution_options(isolation_level="READ COMMITTED")
    try:
        with read_committed.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, round(1000 * lock_timeout))}")
            # A load reads files between two statements.
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            key = f"airflow_provider_assistant.{schema}"
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(key))))
            yield connection
    except (sa.exc.SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
        raise _explained(error, engine) from None
    finally:
        engine.dispose()


def _explained(error: Exception, engine: sa.Engine) -> AssistantWarehouseError:
    # Keep the first line only: the others, and SQLAlchemy's own text, may contain data of rows.
    lines = str(getattr(error, "orig", error)).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    known = todo_of(error)
    todo = f"{known} Then run the task again." if known else AssistantWarehouseError.default_todo
    # default_safe is true: the transaction was rolled back.
    safe = AssistantWarehouseError.default_safe
    return AssistantWarehouseError(f"{engine.url.render_as_string(hide_password=True)}: {reason}", safe=safe, todo=todo)
