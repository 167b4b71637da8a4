"""Open a transaction on a warehouse: DuckDB or PostgreSQL."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.storage.private_files import make_folder, private_umask

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# Default maximum wait for another process that holds a lock on the warehouse, in seconds.
LOCK_TIMEOUT = 300
POLL = 1.0
POSTGRES_PORT = 5432
# Rows that are converted to CSV in memory at a time.
ROWS_PER_COPY = 50_000


class WarehouseTransaction(Protocol):
    """
    A transaction on a warehouse, for SQL that DuckDB and PostgreSQL both support.

    ``date_index`` is whether the database needs an index on the date column; ``uri`` names the database in OpenLineage.
    """

    date_index: bool
    uri: str

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """
        Run a statement.

        :param sql: The statement, without parameters.
        :return: Its rows; for a statement without rows, one row with the number of changed rows.
        """

    def insert(self, table: str, rows: pa.Table) -> None:
        """
        Append rows to a table; columns are matched by name.

        :param table: Quoted name of the table.
        """


class DuckDBTransaction:
    """A :class:`WarehouseTransaction` in a DuckDB file."""

    date_index = False

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        # DuckDB names a database after its file.
        self.uri = f"duckdb://{path.absolute()}/{path.name.partition('.')[0]}"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._connection.execute(sql).fetchall()

    def insert(self, table: str, rows: pa.Table) -> None:
        """Insert rows by the names of their columns."""
        self._connection.register("assistant_rows", rows)
        self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM assistant_rows")  # noqa: S608 (quoted)
        self._connection.unregister("assistant_rows")


class PostgresTransaction:
    """A :class:`WarehouseTransaction` in PostgreSQL."""

    date_index = True

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        url = connection.engine.url
        self.uri = f"postgres://{url.host}:{url.port or POSTGRES_PORT}/{url.database}"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        # Without this option, a percent sign in the name of a metric would be read as a parameter.
        result = self._connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
        if not result.returns_rows:
            return [(result.rowcount,)]
        return [tuple(row) for row in result]

    def insert(self, table: str, rows: pa.Table) -> None:
        """Insert rows by the names of their columns."""
        import pyarrow as pa
        from pyarrow import csv

        # COPY is many times as fast as INSERT. Arrow quotes every text, which distinguishes an empty one from null.
        quote = self._connection.dialect.identifier_preparer.quote_identifier
        columns = ", ".join(quote(name) for name in rows.column_names)
        statement = f"COPY {table} ({columns}) FROM STDIN (FORMAT csv)"
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        driver_connection = self._connection.connection
        with contextlib.closing(driver_connection.cursor()) as cursor:
            for batch in rows.to_batches(max_chunksize=ROWS_PER_COPY):
                csv_buffer = pa.BufferOutputStream()
                csv.write_csv(batch, csv_buffer, options)
                _copy(cursor, statement, csv_buffer.getvalue())


def _copy(cursor: Any, statement: str, content: pa.Buffer) -> None:
    import pyarrow as pa

    if hasattr(cursor, "copy_expert"):  # psycopg2
        cursor.copy_expert(statement, pa.BufferReader(content))
        return
    with cursor.copy(statement) as copy:  # psycopg
        copy.write(content.to_pybytes())


@contextlib.contextmanager
def duckdb_transaction(
    path: str,
    *,
    lock_timeout: float = LOCK_TIMEOUT,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[WarehouseTransaction]:
    """
    Open a transaction on a DuckDB file for a ``with`` block; the file is created if it is missing.

    DuckDB lets only one process open a file for writing, and no other process can read it meanwhile.

    :param lock_timeout: Maximum wait for another process that has the file open, in seconds.
    :return: The transaction; it is committed at the end of the block, and rolled back after an error.
    :raises AssistantInputError: DuckDB is not installed.
    :raises AssistantWarehouseError: The file cannot be opened or written; it is unchanged.
    """
    try:
        import duckdb
    except ImportError as error:
        raise AssistantInputError(
            "DuckDB is not installed on this worker",
            safe=NOTHING_CHANGED,
            todo="Run pip install 'airflow-provider-assistant[warehouse]'.",
            field="database",
        ) from error
    deadline = clock() + lock_timeout
    make_folder(Path(path).parent)
    while True:
        try:
            with private_umask():
                connection = duckdb.connect(path)
            break
        except duckdb.Error as error:
            is_locked = "lock on file" in str(error)
            if is_locked and clock() < deadline:
                sleep(POLL)
                continue
            reason = "it cannot be opened"
            if is_locked:
                reason = f"another process has had it open for {lock_timeout:g} s"
            raise AssistantWarehouseError(f"{path}: {reason}: {error}", safe=NOTHING_CHANGED) from error
    # Closing the connection rolls back a transaction that was not committed.
    # DuckDB writes further files beside it.
    with private_umask(), contextlib.closing(connection):
        try:
            connection.begin()
            yield DuckDBTransaction(connection, Path(path))
            connection.commit()
        except duckdb.Error as error:
            # default_safe says that the transaction was rolled back.
            safe = AssistantWarehouseError.default_safe
            raise AssistantWarehouseError(f"{path}: {error}", safe=safe) from error


@contextlib.contextmanager
def postgres_transaction(engine: sa.Engine, *, lock_timeout: float = LOCK_TIMEOUT) -> Iterator[WarehouseTransaction]:
    """
    Open a transaction on PostgreSQL for a ``with`` block; an advisory lock allows only one such transaction at a time.

    :param engine: Its connections are closed at the end of the block.
    :param lock_timeout: Maximum wait for each lock, in seconds.
    :return: The transaction; it is committed at the end of the block, and rolled back after an error.
    :raises AssistantInputError: The database is not PostgreSQL.
    :raises AssistantWarehouseError: The database cannot be reached or written; it is unchanged.
    """
    if engine.dialect.name != "postgresql":
        raise AssistantInputError(
            f"conn_id must name a PostgreSQL connection, not {engine.dialect.name}",
            safe=NOTHING_CHANGED,
            field="conn_id",
        )
    try:
        with engine.begin() as connection:
            store = PostgresTransaction(connection)
            store.run(f"SET LOCAL lock_timeout = {round(1000 * lock_timeout)}")
            # Without this lock, two concurrent loads of one day would not see each other's rows, and both would remain.
            store.run("SELECT pg_advisory_xact_lock(hashtext('airflow_provider_assistant'))")
            yield store
    except (sa.exc.SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
        # Keep the first line only: the others, and SQLAlchemy's own text, may contain data of rows.
        # SQLAlchemy keeps the error of the driver in "orig".
        driver_error = getattr(error, "orig", error)
        lines = str(driver_error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        url = engine.url.render_as_string(hide_password=True)
        # default_safe says that the transaction was rolled back.
        safe = AssistantWarehouseError.default_safe
        raise AssistantWarehouseError(f"{url}: {reason}", safe=safe) from None
    finally:
        engine.dispose()
