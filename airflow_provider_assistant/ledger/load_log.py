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
    engine: sa.Engine, names: Mapping[str, str], run: RunRef, *, now: Callable[[], datetime]
) -> Iterator[LoadRecord]:
    """
    Record the start of a load, and its end when the ``with`` block exits.

    A killed load leaves an entry without an end. If the end cannot be written, a warning is logged; the load does not
    fail for it.

    :param names: Mapping with ``site_url``, ``endpoint``, ``site_id`` and ``source``.
    :param now: Returns a timezone-aware time.
    :raises AssistantLedgerError: The start cannot be written.
    """
    load_id, record = uuid.uuid4().hex, LoadRecord()
    start = {
        "load_id": load_id,
        **names,
        **run.columns(),
        "started_at": now(),
    }
    transaction(engine, lambda connection: _insert(connection, start), writes=True)
    outcome, why = "succeeded", None
    try:
        yield record
        if record.error:
            outcome, why = "failed", _reason(record.error)
    except TaskDeferred:
        outcome = "deferred"
        raise
    except BaseException as error:
        outcome, why = "failed", _reason(error)
        raise
    finally:
        counts = {name: record.counts.get(name) for name in (*COUNTS, "seconds")}
        end = sa.update(loads).where(loads.c.load_id == load_id)
        try:
            ended = end.values(ended_at=now(), outcome=outcome, error=why, **counts)
            transaction(engine, lambda connection: connection.execute(ended), writes=True)
        except AssistantLedgerError as error:
            log.warning("The end of this load is not recorded; its counts are only in this log: %s", error)


def _insert(connection: sa.Connection, start: Mapping[str, Any]) -> None:
    # The row exists if a commit succeeded but its acknowledgement was lost, so that the transaction is repeated.
    with contextlib.suppress(sa.exc.IntegrityError):
        connection.execute(sa.insert(loads).values(start))


def _reason(error: BaseException) -> str:
    return shortened(storable(str(error) or type(error).__name__), ERROR_LENGTH)
