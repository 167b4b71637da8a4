"""The ledgers that the API server can read: which there are, and reading one without changing it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from fastapi import HTTPException

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import SCHEMA_VERSION, LedgerLocation, location_of
from airflow_provider_assistant.ledger.leases import LeaseSettings, configured
from airflow_provider_assistant.ledger.location import airflow_home, engine_at
from airflow_provider_assistant.ledger.migrate import version_of
from airflow_provider_assistant.ui.connections import assistant_connections
from airflow_provider_assistant.ui.models import LedgerRef, Problem, UnavailableError

T = TypeVar("T")

log = logging.getLogger(__name__)

# Seconds to connect to a database, and milliseconds of one statement: a page should rather show a sentence.
CONNECT_SECONDS, STATEMENT_MS = 5, 20_000
DEFAULT_FILE = "assistant_ledger.db"
SET_LEDGER = (
    "Set [assistant] ledger_conn_id to the SQL connection that the tasks use, and make this connection available to "
    "the API server."
)


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """
    A ledger that is open for reading.

    :param connection: In a transaction.
    """

    connection: sa.Connection
    leases: LeaseSettings


def known_ledgers() -> list[LedgerRef]:
    """
    Return the ledgers of Airflow's configuration and of the assistant connections, the default one first.

    Connections in a secrets backend cannot be listed: their ledgers are missing.
    """
    default = location_of().conn_id
    ledger_ids = sorted(_ledgers_of_connections() - {default, ""})
    # An empty id is the default file. Without it, the ledgers of the connections are all that there is.
    has_default = bool(default) or _file_exists() or not ledger_ids
    if has_default:
        ledger_ids.insert(0, default)
    return [_ref(ledger_id) for ledger_id in ledger_ids]


def select_ledger(ledger: str = "") -> LedgerRef:
    """
    Return the ledger that a request names.

    :param ledger: Id of a ledger; empty for the default one.
    :raises HTTPException: 404 if there is none with this id. So requests cannot use any other connection.
    """
    known = known_ledgers()
    for ref in known:
        if ref.id == ledger:
            return ref
    if ledger:
        raise HTTPException(404, "There is no ledger with this id. Reload the page.")
    return known[0]


def read(ledger: LedgerRef, query: Callable[[OpenLedger], T]) -> tuple[T | None, Problem | None]:
    """Return the result of a query, or the problem if the ledger cannot be read."""
    try:
        with reading(ledger) as opened:
            return query(opened), None
    except UnavailableError as error:
        return None, error.problem


@contextlib.contextmanager
def reading(ledger: LedgerRef) -> Iterator[OpenLedger]:
    """
    Open a ledger for reading, without creating or changing its tables.

    :raises UnavailableError: The ledger cannot be read.
    """
    with engine_of(ledger) as engine:
        try:
            with engine.connect() as connection:
                _limit_statements(connection)
                _check_version(connection, ledger)
                yield OpenLedger(connection, configured())
        except AssistantLedgerError as error:
            raise UnavailableError("ledger_unreachable", f"The ledger cannot be read: {error}") from error
        except sa.exc.SQLAlchemyError as error:
            raise _unreachable(ledger, error) from error


@contextlib.contextmanager
def engine_of(ledger: LedgerRef) -> Iterator[sa.Engine]:
    """
    Return an engine for the database of a ledger; it is not connected yet.

    :raises UnavailableError: There is no such database.
    """
    if not ledger.id and not _file_exists():
        raise UnavailableError(
            "no_ledger",
            f"This API server has no ledger: {DEFAULT_FILE} does not exist in its AIRFLOW_HOME. If no task of this "
            f"package has run yet, run one. If tasks run on other machines: {SET_LEDGER}",
        )
    try:
        engine = engine_at(LedgerLocation(ledger.id))
    except Exception as error:
        # Providers raise any exception. Messages may contain parts of the connection.
        cause = type(error.__cause__ or error).__name__
        log.warning("The ledger %s cannot be opened: %s", ledger.name, cause)
        raise UnavailableError(
            "no_ledger",
            f"This API server cannot open the ledger {ledger.name} ({cause}). {SET_LEDGER}",
        ) from error
    # Connecting would create an empty file.
    if engine.dialect.name == "sqlite" and not Path(engine.url.database or "").is_file():
        raise UnavailableError(
            "no_ledger", f"The file of the ledger {ledger.name} does not exist on this API server. {SET_LEDGER}"
        )
    sa.event.listen(engine, "do_connect", _limit_connect)
    try:
        yield engine
    finally:
        engine.dispose()


def _ref(name: str) -> LedgerRef:
    return LedgerRef(id=name, name=name or DEFAULT_FILE)


def _file_exists() -> bool:
    return (airflow_home() / DEFAULT_FILE).is_file()


def _ledgers_of_connections() -> set[str]:
    """Return the ledgers that assistant connections in Airflow's database and in environment variables name."""
    # Users write these: they may not be texts.
    ledger_ids: list[Any] = []
    for connection in assistant_connections():
        with contextlib.suppress(Exception):  # the key that encrypted it may be gone
            ledger_ids.append(connection.extra_dejson.get("ledger_conn_id"))
    texts = [ledger_id for ledger_id in ledger_ids if isinstance(ledger_id, str)]
    return {text.strip() for text in texts if text.strip()}


def _limit_connect(dialect: sa.Dialect, _connection_record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
    if dialect.name == "postgresql":
        parameters.setdefault("connect_timeout", CONNECT_SECONDS)


def _limit_statements(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {STATEMENT_MS}")


def _check_version(connection: sa.Connection, ledger: LedgerRef) -> None:
    version = version_of(connection)
    if version is None:
        raise UnavailableError(
            "ledger_empty", f"The ledger {ledger.name} is empty: no task has used it yet. Run a load."
        )
    if version != SCHEMA_VERSION:
        raise UnavailableError(
            "ledger_version",
            f"The ledger {ledger.name} was written by another version of airflow-provider-assistant. "
            "Install the same version on the API server and the workers, and run a task that uses it.",
        )


def _unreachable(ledger: LedgerRef, error: Exception) -> UnavailableError:
    cause = getattr(error, "orig", None) or error
    log.warning("The ledger %s cannot be read: %s", ledger.name, type(cause).__name__)
    return UnavailableError(
        "ledger_unreachable",
        f"The database of the ledger {ledger.name} cannot be read from this API server ({type(cause).__name__}). "
        "Check that it runs, and that the API server can reach it.",
    )
