"""Faults inside the process of an attempt."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import replace

from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from airflow_provider_assistant.ledger import location

SENDS = 40
FILE_LIMIT = 200_000


def dies_before_sending() -> None:
    """Kill the process between the claim of a row and its request."""
    count = 0

    class Dying(AiohttpTransport):
        async def exchange(self, call):
            nonlocal count
            count += 1
            if count > SENDS:
                os.kill(os.getpid(), signal.SIGKILL)
            return await super().exchange(call)

    set_client_defaults(replace(get_client_defaults(), async_transport=Dying))


def dies_after_sending() -> None:
    """Kill the process between the response to a row and the record of its outcome."""
    count = 0

    class Dying(AiohttpTransport):
        async def exchange(self, call):
            nonlocal count
            answer = await super().exchange(call)
            count += 1
            if count > SENDS:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

    set_client_defaults(replace(get_client_defaults(), async_transport=Dying))


def files_may_not_grow() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))


def does_not_wait_for_locks() -> None:
    """Let the SQLite ledger wait only half a second for a lock."""
    import sqlalchemy as sa

    opened = location.sqlite_engine

    def impatient(path):
        engine = opened(path)

        @sa.event.listens_for(engine, "connect", insert=True)
        def configure(connection, _):
            connection.execute("PRAGMA busy_timeout = 500")

        return engine

    location.sqlite_engine = impatient


def loses_its_home() -> None:
    """Point AIRFLOW_HOME at a missing folder, like a volume that is not mounted."""
    home = location.airflow_home
    location.airflow_home = lambda: home() / "not" / "mounted"


def opens_its_ledger_read_only() -> None:
    """Open the ledger read-only, like on a read-only file system; file permissions do not restrict root."""
    import sqlalchemy as sa

    def read_only(path):
        return sa.create_engine(f"sqlite:///file:{path}?mode=ro&uri=true")

    location.sqlite_engine = read_only


def gives_the_ledger_up_soon() -> None:
    """Allow only two attempts per transaction."""
    from airflow_provider_assistant.ledger import database

    database.ATTEMPTS = 2


def waits_for_every_response() -> None:
    """Let a terminated attempt wait a minute for the responses to its requests: a busy service needs more than 2 s."""
    from airflow_provider_assistant.feedback import sender
    from airflow_provider_assistant.loading import engine

    engine.GRACE = sender.GRACE = 60.0


def notes_answers_often() -> None:
    """Save answers five times a second, so that a kill finds saved and unsaved ones."""
    from airflow_provider_assistant.chat_batch import state

    state.FLUSH = 0.2


def saves_no_answers() -> None:
    """Save no answers before the attempt ends, so that a kill loses all of them."""
    from airflow_provider_assistant.chat_batch import state

    state.FLUSH = 3600.0
