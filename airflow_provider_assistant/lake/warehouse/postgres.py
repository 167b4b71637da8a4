"""Open a transaction on PostgreSQL, and say what to do if others block it or rights are missing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    AssistantInputError,
    AssistantWarehouseError,
)
from airflow_provider_assistant.lake.warehouse.names import literal, quoted
from airflow_provider_assistant.lake.warehouse.stores import (
    LOCK_TIMEOUT,
    SCHEMA,
    WarehouseTransaction,
)
from airflow_provider_assistant.ledger.engine import (
    UnusableDatabaseError,
    engine_of_connection,
    sqlstate_of,
    todo_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

PORT = 5432
# Rows that are converted to CSV in memory at a time.
ROWS_PER_COPY = 50_000
# One attempt of a statement that readers wait for, and the pause before the next one, in seconds.
ATTEMPT = 0.5
PAUSE = 2.0
LOCK_NOT_AVAILABLE = "55P03"
INSUFFICIENT_PRIVILEGE = "42501"


class PostgresTransaction:
    """A :class:`.WarehouseTransaction` in PostgreSQL."""

    date_index = True

    def __init__(
        self,
        connection: sa.Connection,
        schema: str,
        lock_timeout: float,
    ) -> None:
        self._connection = connection
        self._lock_timeout = lock_timeout
        self.schema = schema
        url = connection.engine.url
        self.uri = f"postgres://{url.host}:{url.port or PORT}/{url.database}"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        # Without this option, a percent sign in the name of a metric would be read as a parameter.
        options = {"no_parameters": True}
        result = self._connection.exec_driver_sql(sql, execution_options=options)
        if not result.returns_rows:
            return [(result.rowcount,)]
        return [tuple(row) for row in result]

    def define(self, *statements: str, timeout: float | None = None) -> bool:
        """Run statements in short attempts, so that no reader waits long behind them."""
        remaining = self._lock_timeout if timeout is None else timeout
        while True:
            try:
                with self._connection.begin_nested():
                    self._limit_waits(min(ATTEMPT, self._lock_timeout))
                    for statement in statements:
                        self.run(statement)
                    self._limit_waits(self._lock_timeout)
            except sa.exc.DBAPIError as error:
                is_locked = sqlstate_of(error) == LOCK_NOT_AVAILABLE
                remaining -= ATTEMPT + PAUSE
                if is_locked and remaining >= 0:
                    time.sleep(PAUSE)
                    continue
                if is_locked and timeout is not None:
                    return False
                raise
            return True

    def _limit_waits(self, seconds: float) -> None:
        self.run(f"SET LOCAL lock_timeout = {max(1, round(1000 * seconds))}")

    def lock(self) -> None:
        """
        Wait until this is the only load of the schema, until the end of the transaction.

        Without this lock, two concurrent loads would not see each other's rows, and both would
        remain.
        """
        self._limit_waits(self._lock_timeout)
        # A load reads files between two statements.
        self.run("SET LOCAL idle_in_transaction_session_timeout = 0")
        self.run(f"SELECT pg_advisory_xact_lock({_lock_key(self.schema)})")

    def insert(self, table: str, rows: pa.Table) -> None:
        """Insert rows by the names of their columns."""
        import pyarrow as pa
        from pyarrow import csv

        # COPY is many times as fast as INSERT. Arrow quotes every text, which distinguishes an
        # empty one from null.
        columns = ", ".join(quoted(name) for name in rows.column_names)
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
            field="conn_id",
        )
    return engine


@contextlib.contextmanager
def postgres_transaction(
    engine: sa.Engine, *, schema: str = SCHEMA, lock_timeout: float = LOCK_TIMEOUT
) -> Iterator[WarehouseTransaction]:
    """
    Open a transaction on PostgreSQL for a ``with`` block; a schema has only one at a time.

    :param engine: Its connections are closed at the end of the block.
    :param schema: Schema of tables and views.
    :param lock_timeout: Maximum wait for each lock, in seconds.
    :return: The transaction; it is committed at the end of the block, and rolled back after an
        error.
    :raises AssistantWarehouseError: The database cannot be reached or written; it is unchanged.
    """
    # With a stricter isolation, a load would not see the rows of the load that it waited for.
    read_committed = engine.execution_options(isolation_level="READ COMMITTED")
    try:
        with read_committed.begin() as connection:
            store = PostgresTransaction(connection, schema, lock_timeout)
            store.lock()
            yield store
    except (sa.exc.SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
        raise _explained(error, engine, schema, lock_timeout) from None
    finally:
        engine.dispose()


def _lock_key(schema: str) -> str:
    name = literal(f"airflow_provider_assistant.{schema}")
    return f"hashtext({name})"


def _explained(error: Exception, engine: sa.Engine, schema: str, lock_timeout: float) -> AssistantWarehouseError:
    # Keep the first line only: the others, and SQLAlchemy's own text, may contain data of rows.
    lines = str(getattr(error, "orig", error)).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    todo = AssistantWarehouseError.default_todo
    known = todo_of(error)
    if known:
        todo = f"{known} Then run the task again."
    # What blocks or lacks is for the message only: without it, the error is still clear.
    with contextlib.suppress(sa.exc.SQLAlchemyError):
        if sqlstate_of(error) == LOCK_NOT_AVAILABLE:
            reason = f"other sessions have held a lock for {lock_timeout:g} s: {reason}"
            blockers = _blockers(engine, schema)
            if blockers:
                todo = f"End these sessions, then run the task again: {'; '.join(blockers)}."
        if sqlstate_of(error) == INSUFFICIENT_PRIVILEGE:
            grants = _missing_grants(engine, schema)
            if grants:
                todo = f"Let an administrator run this, then run the task again: {' '.join(grants)}"
    url = engine.url.render_as_string(hide_password=True)
    # default_safe says that the transaction was rolled back.
    safe = AssistantWarehouseError.default_safe
    return AssistantWarehouseError(f"{url}: {reason}", safe=safe, todo=todo)


def _blockers(engine: sa.Engine, schema: str) -> list[str]:
    """Return the other sessions that hold locks in the schema, as texts."""
    statement = f"""
        SELECT DISTINCT activity.pid, activity.usename, activity.application_name,
            activity.state, activity.xact_start
        FROM pg_locks AS locks
        JOIN pg_stat_activity AS activity USING (pid)
        LEFT JOIN pg_class AS class ON class.oid = locks.relation
        LEFT JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
        WHERE locks.granted AND pid <> pg_backend_pid()
            AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (
                namespace.nspname = {literal(schema)}
                -- The key of an advisory lock is in two halves.
                OR (
                    locks.locktype = 'advisory'
                    AND locks.objid = ({_lock_key(schema)}::bigint & 4294967295)::oid
                )
            )
        ORDER BY activity.xact_start
        LIMIT 10
    """  # noqa: S608 (literals)
    blockers = []
    with engine.connect() as connection:
        for pid, user, application, state, start in connection.exec_driver_sql(statement):
            # Without rights, others' sessions have neither state nor start.
            about = [f"user {user}", application, state]
            if start is not None:
                about.append(f"since {start:%Y-%m-%d %H:%M:%S %Z}")
            blockers.append(f"process {pid} ({', '.join(text for text in about if text)})")
    return blockers


def _missing_grants(engine: sa.Engine, schema: str) -> list[str]:
    """Return the GRANT statements that let this user load into the schema."""
    name = literal(schema)
    with engine.connect() as connection:

        def values(sql: str) -> list[Any]:
            return list(connection.exec_driver_sql(sql).scalars())

        [user] = values("SELECT quote_ident(current_user)")
        if not values(f"SELECT 1 FROM pg_namespace WHERE nspname = {name}"):  # noqa: S608
            return [f"CREATE SCHEMA {quoted(schema)}; GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {user};"]
        grants = []
        [is_allowed] = values(
            f"SELECT has_schema_privilege({name}, 'USAGE') AND has_schema_privilege({name}, 'CREATE')"
        )
        if not is_allowed:
            grants.append(f"GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {user};")
        owners = values(
            "SELECT DISTINCT quote_ident(pg_get_userbyid(relowner)) FROM pg_class "  # noqa: S608
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            f"WHERE nspname = {name} AND relkind IN ('r', 'v') "
            "AND NOT pg_has_role(relowner, 'USAGE')"
        )
        # Only the owner of a table may add columns to it, and only that of a view may replace it.
        grants += [f"GRANT {owner} TO {user};" for owner in owners]
        return grants
