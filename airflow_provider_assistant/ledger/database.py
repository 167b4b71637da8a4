"""The ledger's database: which of its errors pass, how long they are waited for, and how they are reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

import sqlalchemy as sa
import tenacity

from airflow_provider_assistant.exceptions import AssistantLedgerError, AssistantLedgerErrorForGood

T = TypeVar("T")
Bind: TypeAlias = sa.Engine | sa.Connection

# A server is tried this often, over some 20 seconds: it restarts faster.
ATTEMPTS = 8
# SQLite waits for a lock by itself; some locks it reports at once.
SQLITE_ATTEMPTS, SQLITE_SECONDS = 4, 20.0
# Name of the execution option that holds the ledger's name.
NAME = "assistant_ledger"

# SQLite's primary result codes for busy, locked, no memory, interrupted, I/O error, full, protocol and schema.
_SQLITE_TRANSIENT = {5, 6, 7, 9, 10, 13, 15, 17}
# What servers say about settings that a retry cannot correct. Without a connection there is no error code to read.
_SETTINGS = (
    "authentication failed",
    "access denied",
    "permission denied",
    "no pg_hba.conf entry",
    "no password supplied",
    "does not exist",
    "unknown database",
    "unknown column",
    "read-only",
)
_ADVICE = {
    True: "A retry goes on where this attempt stopped.",
    False: (
        "A retry cannot correct this: check [assistant] ledger_conn_id, the permissions and the free space of the "
        "database, then clear the task."
    ),
}


def name_of(bind: Bind) -> str:
    """Return the name of a ledger for messages: its connection id, its file, or its URL without the password."""
    if name := bind.get_execution_options().get(NAME):
        return str(name)
    url = bind.engine.url
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


def is_transient(error: BaseException) -> bool:
    """Return whether an error of the database passes without a change of settings."""
    if isinstance(error, sa.exc.TimeoutError):
        return True
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if not isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return (code & 0xFF) in _SQLITE_TRANSIENT
    text = str(error.orig).lower()
    return not any(setting in text for setting in _SETTINGS)


def attempts_on(dialect: str) -> tenacity.Retrying:
    """Return how often a transaction is tried while the database is away."""
    retry = tenacity.retry_if_exception(is_transient)
    if dialect == "sqlite":
        stop = tenacity.stop_after_attempt(SQLITE_ATTEMPTS) | tenacity.stop_after_delay(SQLITE_SECONDS)
        return tenacity.Retrying(retry=retry, stop=stop, wait=tenacity.wait_random(0.05, 0.5), reraise=True)
    wait = tenacity.wait_exponential(0.2, max=5.0)
    return tenacity.Retrying(retry=retry, stop=tenacity.stop_after_attempt(ATTEMPTS), wait=wait, reraise=True)


@contextlib.contextmanager
def said(bind: Bind, what: str, then: str = "") -> Iterator[None]:
    """
    Turn an error of the database into one of the ledger.

    :param bind: The database.
    :param what: What failed, after "the ledger".
    :param then: A sentence about the consequences.
    :raises AssistantLedgerError: The database is away. AssistantLedgerErrorForGood if a retry cannot help.
    """
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        passes = is_transient(error)
        kind = AssistantLedgerError if passes else AssistantLedgerErrorForGood
        cause = " ".join(str(getattr(error, "orig", None) or error or type(error).__name__).split())
        sentences = [f"the ledger {what}: {cause} ({name_of(bind)}).", then, _ADVICE[passes]]
        raise kind(" ".join(filter(None, sentences))) from error


def transaction(engine: sa.Engine, work: Callable[[sa.Connection], T], *, writes: bool = False) -> T:
    """
    Work in one transaction, which is repeated while the database is away.

    :param engine: The database.
    :param work: Reads or writes.
    :param writes: Whether it writes, for the message of an error.
    :return: What ``work`` returns.
    :raises AssistantLedgerError: The database cannot be used.
    """

    def attempt() -> T:
        with engine.begin() as connection:
            return work(connection)

    with said(engine, "cannot be written" if writes else "cannot be read"):
        return attempts_on(engine.dialect.name)(attempt)
