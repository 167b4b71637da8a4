"""Access to the ledger's database: transient errors, retries, and error messages."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa
import tenacity

from airflow_provider_assistant.exceptions import AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger.engine import driver_text, todo_of

T = TypeVar("T")
Bind: TypeAlias = sa.Engine | sa.Connection

# Attempts per transaction on a server, over about 20 seconds: enough for a restart.
ATTEMPTS = 8
# SQLite waits for most locks itself, but reports some at once.
SQLITE_ATTEMPTS, SQLITE_SECONDS = 4, 20.0
# Key of the execution option that holds the ledger's name.
NAME = "assistant_ledger"

# SQLite's primary result codes for busy, locked, no memory, interrupted, I/O error, full, protocol and schema.
_SQLITE_TRANSIENT = {5, 6, 7, 9, 10, 13, 15, 17}
# Parts of the messages about a full disk, of SQLite and PostgreSQL.
_FULL = ("disk is full", "disk i/o error", "no space left", "could not extend file")
_ADVICE_TRANSIENT = "A retry of the task continues where this attempt stopped."
_ADVICE_KNOWN = "Then clear the task: a retry cannot correct this."
_ADVICE_PERMANENT = (
    "A retry cannot correct this. Check ledger_conn_id, the permissions and the free space of the "
    "database, then clear the task."
)


def name_of(bind: Bind) -> str:
    """Return a ledger's name for messages: connection id, SQLite file or URL without password."""
    name = bind.get_execution_options().get(NAME)
    if name:
        return str(name)
    url = bind.engine.url
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


def is_transient(error: BaseException) -> bool:
    """Return whether a retry can succeed without a change of settings after a database error."""
    if isinstance(error, sa.exc.TimeoutError):
        return True
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        # The last eight bits of SQLite's extended result code are the primary one.
        return (code & 0xFF) in _SQLITE_TRANSIENT
    # Failed connections have no error code, so the text decides. A pooler ends the connection after some of them.
    if todo_of(error):
        return False
    if error.connection_invalidated:
        return True
    return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)


@functools.cache
def attempts_on(dialect: str) -> tenacity.Retrying:
    """Return the retry policy of a transaction."""
    retry = tenacity.retry_if_exception(is_transient)
    if dialect == "sqlite":
        after_attempts = tenacity.stop_after_attempt(SQLITE_ATTEMPTS)
        after_seconds = tenacity.stop_after_delay(SQLITE_SECONDS)
        return tenacity.Retrying(
            retry=retry,
            stop=after_attempts | after_seconds,
            wait=tenacity.wait_random(0.05, 0.5),
            reraise=True,
        )
    return tenacity.Retrying(
        retry=retry,
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_exponential(0.2, max=5.0),
        reraise=True,
    )


@contextlib.contextmanager
def ledger_errors(bind: Bind, what: str, safe: str | None = None) -> Iterator[None]:
    """
    Convert errors of the database to errors of the ledger.

    A damaged page of a SQLite file may also hold a value that cannot be converted, which is a plain ValueError.

    :param what: Predicate of the message, which follows "the ledger".
    :param safe: Sentence about what was not changed.
    :raises AssistantLedgerError: The block raised a transient database error.
    :raises AssistantLedgerError: The block raised a database error that a retry cannot correct.
    """
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, AssistantError):
            raise
        raise AssistantLedgerError(
            f"the ledger {what}: it holds a value that cannot be read, so it is damaged: {error} ({name_of(bind)})",
            retryable=False,
            safe=safe,
            todo="Restore a backup of the database. 'sqlite3 FILE .recover' saves what can still be read of a file.",
        ) from error
    except sa.exc.SQLAlchemyError as error:
        todo, text = todo_of(error), driver_text(error)
        message = f"the ledger {what}: {text} ({name_of(bind)})"
        if is_transient(error):
            advice = _ADVICE_TRANSIENT
            if any(full in text.lower() for full in _FULL):
                advice = f"Free space for the database. {advice}"
            raise AssistantLedgerError(message, safe=safe, todo=advice) from error
        advice = f"{todo} {_ADVICE_KNOWN}" if todo else _ADVICE_PERMANENT
        raise AssistantLedgerError(message, retryable=False, safe=safe, todo=advice) from error


def connected(engine: sa.Engine) -> sa.Connection:
    """Return a connection to the database, with retries while it is unreachable."""
    with ledger_errors(engine, "cannot be opened"):
        return attempts_on(engine.dialect.name)(engine.connect)


def transaction(bind: Bind, work: Callable[[sa.Connection], T], *, writes: bool = False) -> T:
    """
    Run a function in one transaction, with retries while the database is unreachable.

    :param bind: Engine of the database, or a connection that is not in a transaction.
    :param work: Called once per attempt.
    :param writes: Whether the function writes, for the error message.
    :raises AssistantLedgerError: The database cannot be used.
    """

    def attempt() -> T:
        if isinstance(bind, sa.Connection):
            with bind.begin():
                return work(bind)
        with bind.begin() as connection:
            return work(connection)

    with ledger_errors(bind, "cannot be written" if writes else "cannot be read"):
        return attempts_on(bind.dialect.name)(attempt)


def stream(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Any]:
    """
    Yield the rows of a query in constant memory, with retries until the first row.

    :param connection: Connection that is not in a transaction until all rows have been read.
    """

    def execute() -> sa.CursorResult[Any]:
        try:
            return connection.execute(query, execution_options={"yield_per": 1000})
        except sa.exc.SQLAlchemyError:
            # Without this, the connection would refuse the next attempt.
            connection.rollback()
            raise

    with ledger_errors(connection, "cannot be read"):
        try:
            rows = attempts_on(connection.dialect.name)(execute)
            with contextlib.closing(rows):
                for part in rows.partitions():
                    yield from part
        finally:
            # Nothing was written, and a commit could fail although all rows have been read.
            connection.rollback()
