"""The ledger of Airflow's configuration, read by the API server without changing it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import ledger_conn_id
from airflow_provider_assistant.ledger.location import airflow_home, engine_at
from airflow_provider_assistant.ledger.schema import ledger_info
from airflow_provider_assistant.ledger.store import VERSION
from airflow_provider_assistant.ui.models import UnavailableError

T = TypeVar("T")

log = logging.getLogger(__name__)

# Seconds to connect to a database, and milliseconds of one statement: a page should rather show a sentence.
CONNECT_SECONDS, STATEMENT_MS = 5, 20_000
DEFAULT_FILE = "assistant_ledger.db"
SET_LEDGER = (
    "Set [assistant] ledger_conn_id to the SQL connection that the tasks use, and make this connection available to "
    "the API server."
)


def read(query: Callable[[sa.Connection], T]) -> tuple[T | None, str | None]:
    """
    Return the result of a query, or why the ledger cannot be read.

    The ledger's tables are neither created nor changed.
    """
    name = _name()
    try:
        with opened_engine() as engine, engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {STATEMENT_MS}")
                # Compiling a query takes longer than running it: few rows are read.
                connection.exec_driver_sql("SET LOCAL jit = off")
            _check_version(connection, name)
            return query(connection), None
    except UnavailableError as error:
        return None, str(error)
    except AssistantLedgerError as error:
        return None, f"The ledger cannot be read: {error}"
    except (sa.exc.SQLAlchemyError, ValueError) as error:
        # A ValueError is that of a damaged value. Messages may contain parts of the connection.
        cause = type(getattr(error, "orig", None) or error).__name__
        log.warning("The ledger %s cannot be read: %s", name, cause)
        return None, (
            f"The database of the ledger {name} cannot be read from this API server ({cause}). Check that it runs, "
            "and that the API server can reach it."
        )


@contextlib.contextmanager
def opened_engine() -> Iterator[sa.Engine]:
    """
    Return an engine for the database of the ledger; it is not connected yet.

    :raises UnavailableError: There is no such database.
    """
    conn_id = ledger_conn_id()
    name = _name()
    if not conn_id and not (airflow_home() / DEFAULT_FILE).is_file():
        raise UnavailableError(
            f"This API server has no ledger: {DEFAULT_FILE} does not exist in its AIRFLOW_HOME. If no task of this "
            f"package has run yet, run one. If tasks run on other machines: {SET_LEDGER}"
        )
    try:
        engine = engine_at(conn_id)
    except Exception as error:
        # Providers raise any exception. Messages may contain parts of the connection.
        cause = type(error.__cause__ or error).__name__
        log.warning("The ledger %s cannot be opened: %s", name, cause)
        raise UnavailableError(f"This API server cannot open the ledger {name} ({cause}). {SET_LEDGER}") from error
    # Connecting would create an empty file.
    if engine.dialect.name == "sqlite" and not Path(engine.url.database or "").is_file():
        raise UnavailableError(f"The file of the ledger {name} does not exist on this API server. {SET_LEDGER}")
    sa.event.listen(engine, "do_connect", _limit_connect)
    try:
        yield engine
    finally:
        engine.dispose()


def _name() -> str:
    return ledger_conn_id() or DEFAULT_FILE


def _limit_connect(dialect: sa.Dialect, _connection_record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
    if dialect.name == "postgresql":
        parameters.setdefault("connect_timeout", CONNECT_SECONDS)


def _check_version(connection: sa.Connection, name: str) -> None:
    version = None
    if sa.inspect(connection).has_table(ledger_info.name):
        version = connection.scalar(sa.select(sa.func.max(ledger_info.c.version)))
    if version is None:
        raise UnavailableError(f"The ledger {name} is empty: no task has used it yet. Run a load.")
    if version != VERSION:
        raise UnavailableError(
            f"The ledger {name} was written by another version of airflow-provider-assistant. Install the same version "
            "on the API server and the workers, and run a task that uses it."
        )
