"""The part of the ledger that remembers loads as a whole: when each ran, and what it counted."""

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
from airflow_provider_assistant.ledger.schema import COUNTS, RunRef, loads, storable

# So much of an error is kept; the task's log has all of it.
ERROR_LENGTH = 2000

log = logging.getLogger(__name__)


class LoadRecord:
    """
    One try of a load.

    :ivar counts: What it has counted by its end: the columns of ``COUNTS``, and ``seconds``; empty if it did not
        come so far.
    :ivar error: Why it failed, if the ``with`` block does not raise it.
    """

    def __init__(self) -> None:
        self.counts: Mapping[str, Any] = {}
        self.error: BaseException | None = None


@contextlib.contextmanager
def recorded(
    engine: sa.Engine, names: Mapping[str, str], run: RunRef, *, now: Callable[[], datetime]
) -> Iterator[LoadRecord]:
    """
    Record that a load runs, and at the end of the ``with`` block how it ended.

    A load that is killed leaves a row without an end. The end of one that ran is not worth an error: if it cannot
    be written, that is logged.

    :param engine: The ledger's database.
    :param names: Scope, endpoint, site and source.
    :param run: The task instance.
    :param now: The current time, aware.
    :raises AssistantLedgerError: The start cannot be written.
    """
    load_id, record = uuid.uuid4().hex, LoadRecord()
    start = {
        "load_id": load_id,
        **names,
        **run.columns(),
        "started_at": now(),
    }
    transaction(engine, lambda connection: connection.execute(sa.insert(loads).values(start)), writes=True)
    outcome, why = "succeeded", None
    try:
        yield record
        if record.error:
            outcome, why = "failed", _kept(record.error)
    except TaskDeferred:
        outcome = "deferred"
        raise
    except BaseException as error:
        outcome, why = "failed", _kept(error)
        raise
    finally:
        counts = {name: record.counts.get(name) for name in (*COUNTS, "seconds")}
        end = sa.update(loads).where(loads.c.load_id == load_id)
        try:
            ended = end.values(ended_at=now(), outcome=outcome, error=why, **counts)
            transaction(engine, lambda connection: connection.execute(ended), writes=True)
        except AssistantLedgerError as error:
            log.warning("The end of this load is not recorded, and its counts are in this log only: %s", error)


def _kept(error: BaseException) -> str:
    return storable((str(error) or type(error).__name__)[:ERROR_LENGTH])
