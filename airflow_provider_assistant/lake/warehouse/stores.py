"""The databases that a warehouse may be: one transaction in each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantWarehouseError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# So long is waited for another process that has the warehouse, in seconds.
LOCK_TIMEOUT = 300
POLL = 1.0
POSTGRES_PORT = 5432
# So many rows are CSV in memory at a time.
ROWS_PER_COPY = 50_000
UNCHANGED = "The transaction was rolled back, and the warehouse is as it was"


class Store(Protocol):
    """
    A transaction, in SQL that DuckDB and PostgreSQL both know.

    ``date_index`` says whether the database needs an index to find the rows of a day; ``uri`` is what lineage calls
    the database.
    """

    date_index: bool
    uri: str

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, or the one count of rows it changed."""

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append rows to a table, whose name is quoted, by the names of their columns."""


class _DuckDB:
    date_index = False

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        # DuckDB calls a database by the name of its file.
        self.uri = f"duckdb://{path.absolute()}/{path.name.partition('.')[0]}"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def insert(self, table: str, rows: pa.Table) -> None:
        self._connection.register("assistant_rows", rows)
        self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM assistant_rows")  # noqa: S608 (quoted)
        self._connection.unregister("assistant_rows")


class _Postgres:
    date_index = True

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        url = connection.engine.url
        self.uri = f"postgres://{url.host}:{url.port or POSTGRES_PORT}/{url.database}"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        # Otherwise a percent sign in the name of a metric is taken for a parameter.
        result = self._connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
        return [tuple(row) for row in result] if result.returns_rows else [(result.rowcount,)]

    def insert(self, table: str, rows: pa.Table) -> None:
        import pyarrow as pa
        from pyarrow import csv

        # Many times as fast as INSERT. Arrow quotes every text, so that an empty one is told from null.
        quote = self._connection.dialect.identifier_preparer.quote_identifier
        statement = f"COPY {table} ({', '.join(map(quote, rows.column_names))}) FROM STDIN (FORMAT csv)"
        with contextlib.closing(self._connection.connection.cursor()) as cursor:
            for batch in rows.to_batches(max_chunksize=ROWS_PER_COPY):
                sink = pa.BufferOutputStream()
                csv.write_csv(batch, sink, csv.WriteOptions(include_header=False, quoting_style="needed"))
                _copy(cursor, statement, sink.getvalue())


def _copy(cursor: Any, statement: str, content: pa.Buffer) -> None:
    import pyarrow as pa

    if hasattr(cursor, "copy_expert"):  # psycopg2
        cursor.copy_expert(statement, pa.BufferReader(content))
        return
    with cursor.copy(statement) as copy:  # psycopg
        copy.write(content.to_pybytes())


@contextlib.contextmanager
def in_duckdb(
    path: str,
    *,
    lock_timeout: float = LOCK_TIMEOUT,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Store]:
    """
    Open a transaction on a DuckDB file, which is created if it is missing.

    One process may have the file open for writing, and then no other may read it.

    :param path: The file.
    :param lock_timeout: How long to wait for processes that have it open, in seconds.
    :raises AssistantInputError: DuckDB is not installed.
    :raises AssistantWarehouseError: The file cannot be opened or written; it is as it was.
    """
    try:
        import duckdb
    except ImportError as error:
        raise AssistantInputError(
            "DuckDB is not installed on this worker: pip install 'airflow-provider-assistant[warehouse]'. "
            "Nothing was changed.",
            field="database",
        ) from error
    deadline = clock() + lock_timeout
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            connection = duckdb.connect(path)
            break
        except duckdb.Error as error:
            locked = "lock on file" in str(error)
            if locked and clock() < deadline:
                sleep(POLL)
                continue
            reason = f"another process has had it open for {lock_timeout:g} s" if locked else "it cannot be opened"
            raise AssistantWarehouseError(f"{path}: {reason}, and nothing was changed: {error}") from error
    with contextlib.closing(connection):
        try:
            connection.begin()
            yield _DuckDB(connection, Path(path))
            connection.commit()
        except duckdb.Error as error:
            raise AssistantWarehouseError(f"{path}: {error}. {UNCHANGED}.") from error


@contextlib.contextmanager
def in_postgres(engine: sa.Engine, *, lock_timeout: float = LOCK_TIMEOUT) -> Iterator[Store]:
    """
    Open a transaction on PostgreSQL, one at a time.

    :param engine: The database; its connections are closed in the end.
    :param lock_timeout: How long to wait for each lock that others hold, in seconds.
    :raises AssistantInputError: It is no PostgreSQL.
    :raises AssistantWarehouseError: The database cannot be reached or written; it is as it was.
    """
    if engine.dialect.name != "postgresql":
        raise AssistantInputError(
            f"conn_id must name a PostgreSQL connection, not {engine.dialect.name}. Nothing was changed.",
            field="conn_id",
        )
    try:
        with engine.begin() as connection:
            store = _Postgres(connection)
            store.run(f"SET LOCAL lock_timeout = {round(1000 * lock_timeout)}")
            # Two loads of one day would not see each other's rows, and both keep theirs.
            store.run("SELECT pg_advisory_xact_lock(hashtext('airflow_provider_assistant'))")
            yield store
    except (sa.exc.SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
        # The first line says what happened; others, and SQLAlchemy's own text, may have rows of data.
        lines = str(getattr(error, "orig", error)).strip().splitlines() or [type(error).__name__]
        where = engine.url.render_as_string(hide_password=True)
        raise AssistantWarehouseError(f"{where}: {lines[0].rstrip('.')}. {UNCHANGED}.") from None
    finally:
        engine.dispose()
