"""Messages about the progress of a load, and its first rejected rows."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NoReturn

from airflow_provider_assistant.client.throttle import Throttle
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.decide import PlannedRow
from airflow_provider_assistant.texts import counted, escaped

# Seconds between two messages.
INTERVAL = 10.0

log = logging.getLogger(__name__)
# The command line shows rejected rows in another way.
rejected_log = logging.getLogger(f"{__name__}.rejected")


class Preflight:
    """Log the progress of a plan."""

    def __init__(self) -> None:
        self._logged_at = time.monotonic()

    def tick(self, rows: int) -> None:
        """Log the number of rows read so far, if the interval has passed."""
        now = time.monotonic()
        if now - self._logged_at >= INTERVAL:
            self._logged_at = now
            log.info("Looked at %s so far; nothing has been sent yet.", counted(rows, "row"))


def progress_of(counts: LoadCounts) -> str:
    """Return how many rows are done."""
    return f"done: {counts.done:,} of {counted(counts.rows, 'row')}"


async def log_progress(counts: LoadCounts, throttle: Throttle, started: float) -> NoReturn:
    """
    Log the progress of sending until cancelled.

    :param started: When the load started, by ``time.monotonic``.
    """
    done_before = counts.done
    while True:
        await asyncio.sleep(INTERVAL)
        rate = (counts.done - done_before) / INTERVAL
        left = f"{(counts.rows - counts.done) / rate:.0f} s left" if rate else "remaining time unknown"
        log.info(
            "%s after %.0f s, %.0f rows/s, %s; at most %d in flight; %s with 429.",
            progress_of(counts),
            time.monotonic() - started,
            rate,
            left,
            int(throttle.limit),
            counted(throttle.refusals, "answer"),
        )
        done_before = counts.done


def log_rejected(row: PlannedRow, reason: str) -> None:
    """Log a row that is rejected, by this package or by the service."""
    rejected_log.warning("Row %d (%s) is rejected: %s", row.number, escaped(row.label), escaped(reason))
