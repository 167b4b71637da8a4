"""The database's clock, by which claims expire: the clocks of the workers do not matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import conf

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantLedgerError
from airflow_provider_assistant.ledger.schema import UtcDateTime, attempts

# Default of [assistant] lease_seconds, and its limits: a shorter lease would not outlive a busy database, and a longer
# one would make runs after a killed task skip its rows for too long.
DEFAULT_SECONDS, SHORTEST, LONGEST = 60.0, 5.0, 3600.0


@dataclass(frozen=True, slots=True)
class Clock:
    """
    Read the time, and compare it with the end of a lease.

    :param lease: Time after which a claim that is not renewed counts as abandoned.
    :param now: Replaces the database's clock in tests.
    """

    lease: timedelta = timedelta(seconds=DEFAULT_SECONDS)
    now: Callable[[], datetime] | None = None

    def read(self, connection: sa.Connection) -> datetime:
        """Return the current time, UTC."""
        if self.now is not None:
            return self.now()
        if connection.dialect.name == "sqlite":
            # The file is on this machine, or on one that it trusts for its locks.
            return datetime.now(UTC)
        # Not now(), which is the start of the transaction.
        moment = sa.func.timezone("utc", sa.func.clock_timestamp(), type_=UtcDateTime())
        return connection.execute(sa.select(moment)).scalar_one()

    def is_alive(self, now: datetime) -> sa.ColumnElement[bool]:
        """Return the condition that an attempt is a claim whose sender is alive at this time."""
        c = attempts.c
        # A claim from the future was made before the clock was set back. If it counted, a killed task would block its
        # rows until the clock has caught up. One that is at most a lease ahead was made after the time was read.
        return sa.and_(c.state == "claimed", c.alive_until > now, c.claimed_at <= now + self.lease)


def configured() -> Clock:
    """Return the clock with the lease of Airflow's configuration."""
    text = conf.get("assistant", "lease_seconds", fallback=str(DEFAULT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not SHORTEST <= seconds <= LONGEST:
        raise AssistantLedgerError(
            f"[assistant] lease_seconds is {text!r}, and not a number of seconds from {SHORTEST:g} to {LONGEST:g}",
            retryable=False,
            safe=NOTHING_SENT,
            todo="Correct it in airflow.cfg or in AIRFLOW__ASSISTANT__LEASE_SECONDS.",
        )
    return Clock(timedelta(seconds=seconds))
