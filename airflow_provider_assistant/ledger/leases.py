"""
Leases: proof that a task is alive, so that other runs respect its claims.

Each try of a task that claims rows has one lease: a row with the time of its last heartbeat. A thread writes the
heartbeats over a separate connection. So they continue during a long backoff, while a source is slow, and while the
event loop is busy. The database's clock writes and compares the times, so the clocks of the workers do not matter.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import conf
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantLedgerPermanentError
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import RunRef, UtcDateTime, leases
from airflow_provider_assistant.storage.databases import driver_text

log = logging.getLogger(__name__)

# Default of [assistant] lease_seconds, and its limits: a shorter lease would not outlive a busy database, and a longer
# one would make runs after a killed task skip its rows for too long.
DEFAULT_SECONDS, SHORTEST, LONGEST = 60.0, 5.0, 3600.0
# Heartbeats per lease: a lease survives three that fail.
BEATS = 4

# Schedules calls of a function, with this many seconds between them. Returns a function that stops the calls.
Every: TypeAlias = Callable[[float, Callable[[], None]], Callable[[], None]]


class DatabaseNow(FunctionElement[datetime]):
    """The current time of the database's clock, UTC, also if a transaction began long ago."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(DatabaseNow, "sqlite")
def _now_on_sqlite(*_: Any, **__: Any) -> str:
    # In the form in which SQLAlchemy stores times, with microseconds.
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


@compiles(DatabaseNow, "postgresql")
def _now_on_postgresql(*_: Any, **__: Any) -> str:
    return "timezone('utc', clock_timestamp())"


def in_thread(seconds: float, beat: Callable[[], None]) -> Callable[[], None]:
    """
    Call a function periodically in a daemon thread.

    :param beat: The function; it must not raise.
    :return: Function that stops the thread; it does not wait for a call that is running.
    """
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(seconds):
            beat()

    threading.Thread(target=run, name="ledger-lease", daemon=True).start()
    return stopped.set


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """
    Settings of leases.

    :param seconds: Time in seconds after which a lease without a heartbeat expires. Default: 60.
    :param now: Replaces the database's clock; returns the time, timezone-aware. Default: the database's clock.
    :param every: Schedules the heartbeats. Default: a daemon thread.
    """

    seconds: float = DEFAULT_SECONDS
    now: Callable[[], datetime] | None = None
    every: Every = in_thread

    def moment(self) -> sa.ColumnElement[datetime]:
        """Return the SQL expression of the current time."""
        if self.now is None:
            return DatabaseNow()
        return sa.literal(self.now(), UtcDateTime())

    def with_lease(self, query: sa.Select[Any], table: sa.Table) -> sa.Select[Any]:
        """
        Add the three columns that :func:`is_living` needs to a query of claims.

        Claims and leases are read by one statement, because both change when a task ends.

        :param table: ``documents``, ``chat_requests`` or ``ratings``.
        :return: The query; its last columns are ``heartbeat_at``, ``lease_seconds`` and ``database_now``.
        """
        # An outer join: a task that has ended has no lease any more.
        claims_with_lease = table.outerjoin(leases, leases.c.token == table.c.claim)
        return query.select_from(claims_with_lease).add_columns(
            leases.c.heartbeat_at,
            leases.c.seconds.label("lease_seconds"),
            self.moment().label("database_now"),
        )


def is_living(heartbeat_at: datetime | None, seconds: float | None, now: datetime) -> bool:
    """
    Return whether a task is alive, according to its lease.

    A heartbeat from the future, written before the clock was set back, counts only within the lease as well. Otherwise
    a killed task would block its rows until the clock has caught up.

    :param heartbeat_at: Time of the last heartbeat. None if the task has no lease.
    :param seconds: Duration of the lease, as its owner configured it, in seconds.
    :param now: Current time of the same clock.
    """
    if heartbeat_at is None or seconds is None:
        return False
    return abs(now - heartbeat_at) < timedelta(seconds=seconds)


class Lease:
    """
    Keep the lease of one try of one task.

    :param token: Token of the claims that the lease protects.
    :param run: The task instance, for people who look into the table.
    :param settings: Settings of leases.
    """

    def __init__(self, engine: sa.Engine, token: str, run: RunRef, settings: LeaseSettings) -> None:
        self._engine = engine
        self._settings = settings
        # The row of the lease, without its heartbeat.
        self._lease_values = {"token": token, "seconds": settings.seconds, **run.columns()}
        self._is_own = leases.c.token == token
        # Stops the heartbeats; None while the lease is not kept.
        self._stop_heartbeats: Callable[[], None] | None = None
        # A heartbeat that is being written must not restore a lease that is released meanwhile.
        self._lock = threading.Lock()

    def begin(self) -> None:
        """
        Begin the lease before the first claim. It has no effect while the lease is kept.

        :raises AssistantLedgerError: The database cannot be written; nothing may be claimed.
        """
        if self._stop_heartbeats is None:
            transaction(self._engine, self._begin, writes=True)
            interval = self._settings.seconds / BEATS
            self._stop_heartbeats = self._settings.every(interval, self._beat)

    def release(self) -> float:
        """
        End the lease, so that other runs need not wait for it to expire. Every claim should have an outcome.

        If the database cannot be written, the lease expires.

        :return: Seconds until it expires, at most; 0 if it has ended.
        """
        stop_heartbeats = self._stop_heartbeats
        # A heartbeat that has begun but has not got the lock yet sees this, and writes nothing.
        self._stop_heartbeats = None
        if stop_heartbeats is None:
            return 0.0
        stop_heartbeats()
        with self._lock:
            try:
                with self._engine.begin() as connection:
                    connection.execute(sa.delete(leases).where(self._is_own))
            except sa.exc.SQLAlchemyError as error:
                log.warning(
                    "The lease of this task cannot be ended: %s. Other runs skip its rows without an outcome until "
                    "it expires in %g s.",
                    driver_text(error),
                    self._settings.seconds,
                )
                return self._settings.seconds
        return 0.0

    def _begin(self, connection: sa.Connection) -> None:
        """Delete the leases that killed tasks have left, and write this one."""
        c = leases.c
        query = sa.select(c.token, c.heartbeat_at, c.seconds, self._settings.moment())
        expired_tokens = []
        for token, heartbeat_at, seconds, now in connection.execute(query).all():
            if not is_living(heartbeat_at, seconds, now):
                expired_tokens.append(token)
        if expired_tokens:
            # A task that was only stopped for a while writes its lease again.
            connection.execute(sa.delete(leases).where(c.token.in_(expired_tokens)))
        self._write_heartbeat(connection)

    def _write_heartbeat(self, connection: sa.Connection) -> None:
        now = self._settings.moment()
        update = sa.update(leases).where(self._is_own).values(heartbeat_at=now)
        if connection.execute(update).rowcount == 0:
            # The lease is new, or another task has deleted it because it had expired.
            connection.execute(sa.insert(leases).values(**self._lease_values, heartbeat_at=now))

    def _beat(self) -> None:
        with self._lock:
            if self._stop_heartbeats is None:
                return
            try:
                transaction(self._engine, self._write_heartbeat, writes=True)
            except Exception as error:  # noqa: BLE001 (the next heartbeat may succeed)
                log.warning(
                    "The heartbeat of this task cannot be written. If this lasts for %g s, other runs may take over "
                    "the rows that are in flight: %s",
                    self._settings.seconds,
                    error,
                )


def configured() -> LeaseSettings:
    """
    Return the settings of Airflow's configuration.

    :raises AssistantLedgerPermanentError: ``[assistant] lease_seconds`` is not a number within the limits.
    """
    text = conf.get("assistant", "lease_seconds", fallback="") or str(DEFAULT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        # Outside the limits, so that the check below reports the text.
        seconds = 0.0
    if not SHORTEST <= seconds <= LONGEST:
        raise AssistantLedgerPermanentError(
            f"[assistant] lease_seconds must be a number of seconds from {SHORTEST:g} to {LONGEST:g}, not {text!r}",
            safe=NOTHING_SENT,
            todo="Correct the option, then clear the task.",
        )
    return LeaseSettings(seconds)
