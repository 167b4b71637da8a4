"""Where the ledger is: in the database of a connection, or in a file that all workers must share."""

from __future__ import annotations

import functools
import logging
import os
import re
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import conf

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantLedgerError
from airflow_provider_assistant.ledger.database import NAME
from airflow_provider_assistant.ledger.engine import UnusableDatabaseError, engine_of_connection
from airflow_provider_assistant.ledger.sqlite_file import share_file, sqlite_engine

log = logging.getLogger(__name__)

# The setting for all tasks. Its text is a part of messages.
CONFIGURED = "[assistant] ledger_conn_id"
DATABASE = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
# Executors on the machine of their scheduler. Airflow 3 has removed all but the first; a laptop's configuration may
# still name the others, because 'airflow dags test' does not use the executor.
LOCAL = frozenset({"LocalExecutor", "SequentialExecutor", "DebugExecutor"})
# Executors set these variables in a container that they start for one task. The pod template of Airflow's Helm chart
# sets [core] executor to LocalExecutor there.
CONTAINER_VARIABLES = ("AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER")
# Logged separately, because the message of an exception is one line.
SET_UP = f"""In airflow.cfg, set:

[assistant]
ledger_conn_id = assistant_ledger

and create the connection, with the values of your database:

airflow connections add assistant_ledger --conn-uri '{DATABASE}'
"""


class LedgerLocation(NamedTuple):
    """
    Location of a ledger.

    :param conn_id: Empty for the file assistant_ledger.db in AIRFLOW_HOME.
    :param origin: Setting that names the connection, for messages.
    """

    conn_id: str = ""
    origin: str = CONFIGURED


def location_of() -> LedgerLocation:
    """Return the location that ``[assistant] ledger_conn_id`` names."""
    return LedgerLocation(conf.get("assistant", "ledger_conn_id", fallback="").strip())


def check_location(location: LedgerLocation) -> None:
    """
    Check that the workers can share the ledger, without opening it.

    :param location: The location. A connection is accepted: whether its database is a file is known when it is opened.
    :raises AssistantLedgerError: The ledger would be a file, and an executor runs tasks on several machines.
    """
    if not location.conn_id:
        _check_file(f"the file {_default_file()}")


def engine_at(location: LedgerLocation) -> sa.Engine:
    """
    Return an engine, not connected yet, for the database of a ledger.

    :raises AssistantLedgerError: The connection does not exist or is not a SQL connection; or the database is
        a file, and an executor runs tasks on several machines.
    """
    if not location.conn_id:
        check_location(location)
        file = _default_file()
        _log_once(file)
        return sqlite_engine(file)
    engine = _engine_of(location)
    if engine.dialect.name == "sqlite":
        share_file(engine)
        _check_file(f"the file {engine.url.database} (connection {location.conn_id!r}, from {location.origin})")
    return engine


def airflow_home() -> Path:
    """Return the path of AIRFLOW_HOME."""
    from airflow.configuration import AIRFLOW_HOME

    return Path(AIRFLOW_HOME)


def _default_file() -> Path:
    return airflow_home() / "assistant_ledger.db"


@functools.cache
def _log_once(file: Path) -> None:
    """Log where the default ledger is, once per process: a task may open it several times."""
    log.info("The ledger is the file %s on this machine, because no ledger_conn_id is set.", file)


def _check_file(name: str) -> None:
    """
    Check that the workers can share a file.

    :raises AssistantLedgerError: An executor runs tasks on several machines, and nobody says that they share
        the file.
    """
    if conf.getboolean("assistant", "ledger_file_is_shared", fallback=False):
        return
    reason = distribution()
    if reason is None:
        return
    log.error("Give all workers one ledger. %s", SET_UP)
    raise AssistantLedgerError(
        f"the ledger would be {name} on this machine, but {reason}: each machine would have its own ledger and create "
        "all documents again",
        retryable=False,
        safe=NOTHING_SENT,
        todo="Set AIRFLOW__ASSISTANT__LEDGER_CONN_ID=assistant_ledger and "
        f"AIRFLOW_CONN_ASSISTANT_LEDGER={DATABASE} for all workers, or the lines in the log. If all workers do share "
        "the file, set [assistant] ledger_file_is_shared = True instead.",
    )


def distribution() -> str | None:
    """Return why two tasks may run on different machines, as a clause for messages; None if they do not."""
    for variable in CONTAINER_VARIABLES:
        if os.environ.get(variable):
            return f"this task runs in a separate container ({variable} is set)"
    setting = conf.get("core", "executor", fallback="LocalExecutor")
    # Executors are separated by commas, those of teams by semicolons; each may have a team and an alias before it.
    for executor in re.split("[,;]", setting):
        name = re.split("[=:.]", executor.strip())[-1]
        if name and name not in LOCAL:
            return f"[core] executor is {setting!r}, and {name} runs tasks on more than one machine"
    return None


def _engine_of(location: LedgerLocation) -> sa.Engine:
    """
    Return the SQLAlchemy engine of an Airflow connection.

    :raises AssistantLedgerError: The connection does not exist, is not a SQL connection, or is one of
        an unsupported database.
    """
    name = f"connection {location.conn_id!r}, from {location.origin}"
    try:
        engine = engine_of_connection(location.conn_id)
    except UnusableDatabaseError as error:
        raise AssistantLedgerError(
            f"the ledger cannot be opened: {name}: {error.reason}",
            retryable=False,
            safe=NOTHING_SENT,
            todo=f"{error.todo} Then clear the task.",
        ) from (error.__cause__ or error)
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise AssistantLedgerError(
            f"the ledger cannot use {engine.dialect.name} ({name})",
            retryable=False,
            safe=NOTHING_SENT,
            todo="Only SQLite and PostgreSQL are supported: give a connection to one of them, then clear the task.",
        )
    engine.update_execution_options(**{NAME: name})
    return engine
