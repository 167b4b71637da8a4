"""Ledger entries of loads: when each try ran, how it ended, and its counts."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import COUNTS, RunRef, loads
from airflow_provider_assistant.texts import shortened, storable

# Characters of an error that are kept; the task's log has the whole text.
ERROR_LENGTH = 2000

log = logging.getLogger(__name__)


class LoadRecord:
    """
    Hold the result of one try of a load.

    :ivar counts: The columns of ``COUNTS``, and ``seconds``. Empty if the load failed before it counted.
    :ivar error: Error that makes the load fail although the ``with`` block does not raise it, or None.
    """

    def __init__(self) -> None:
        self.counts: Mapping[str, Any] = {}
        self.error: BaseException | None = None


@contextlib.contextmanager
def recorded(
    engine: sa.Engine, names: Mapping[str, Any], run: RunRef, *, now: Callable[[], datetime]
) -> Iterator[LoadRecord]:
    """
    Record the start of a load, and its end when the ``with`` block exits.

    A killed load leaves an entry without an end. If the end cannot be written, a warning is logged; the load does not
    fail for it.

    :param names: Values of the columns of the site, ``endpoint`` and ``source``.
    :param now: Returns a timezone-aware time.
    :raises AssistantLedgerError: The start cannot be written.
    """
    load_id = uuid.uuid4().hex
    record = LoadRecord()
    start_row = {
        "load_id": load_id,
        **names,
        **run.columns(),
        "started_at": now(),
    }
    transaction(engine, lambda connection: _insert(connection, start_row), writes=True)
    outcome = "succeeded"
    error_text = None
    try:
        yield record
        if record.error:
            outcome = "failed"
            error_text = _error_text(record.error)
    except TaskDeferred:
        # Airflow defers a task by this exception. The load goes on after the deferral.
        outcome = "deferred"
        raise
    except BaseException as error:
        outcome = "failed"
        error_text = _error_text(error)
        raise
    finally:
        # A load that failed early has no counts; their columns are then NULL.
        counts = {name: record.counts.get(name) for name in (*COUNTS, "seconds")}
        update = sa.update(loads).where(loads.c.load_id == load_id)
        try:
            update = update.values(ended_at=now(), outcome=outcome, error=error_text, **counts)
            transaction(engine, lambda connection: connection.execute(update), writes=True)
        except AssistantLedgerError as error:
            log.warning("The end of this load is not recorded; its counts are only in this log: %s", error)


def _insert(connection: sa.Connection, start_row: Mapping[str, Any]) -> None:
    # The row exists if a commit succeeded but its acknowledgement was lost, so that the transaction is repeated.
    with contextlib.suppress(sa.exc.IntegrityError):
        connection.execute(sa.insert(loads).values(start_row))


def _error_text(error: BaseException) -> str:
    # Some errors have no message.
    text = str(error) or type(error).__name__
    return shortened(storable(text), ERROR_LENGTH)
