"""Tries of tasks: when each ran, how it ended, and its counts."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import Kind, RunRef, tries
from airflow_provider_assistant.ledger.scopes import Site
from airflow_provider_assistant.texts import shortened, storable

# Characters of an error that are kept; the task's log has the whole text.
ERROR_LENGTH = 2000

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Try:
    """
    Hold what a try has done, to be recorded when it ends.

    :ivar counts: Counts of the try, as plain JSON types.
    :ivar findings: Path of its findings; None if there are none.
    :ivar error: Error that makes the task fail although the ``with`` block does not raise it.
    :ivar documents: Number of documents that the ledger has for the source.
    :ivar needs_person: Whether the try left something that a person should look at, although it succeeded.
    """

    token: str
    counts: Mapping[str, Any] = field(default_factory=dict)
    findings: str | None = None
    error: BaseException | None = None
    documents: int | None = None
    needs_person: bool = False


@contextlib.contextmanager
def recorded(
    engine: sa.Engine,
    token: str,
    task_kind: str,
    site: Site,
    source: str,
    run: RunRef,
    *,
    kind: Kind | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Iterator[Try]:
    """
    Record the start of a try, and its end when the ``with`` block exits.

    A killed try leaves a row without an end. If the end cannot be written, a warning is logged; the task does not fail
    for it.

    :param token: Identifies the try; its attempts have the same one.
    :param task_kind: What the task does, such as ``load``.
    :param kind: Kind of the documents of a load.
    :raises AssistantLedgerError: The start cannot be written.
    """
    this = Try(token)
    started_at = now()
    start = {
        "token": token,
        "task_kind": task_kind,
        "service": site.service,
        "site_id": site.site_id,
        "site_url": site.url,
        "kind": kind,
        "source": source,
        **run.columns(),
        "started_at": started_at,
    }
    for name in transaction(engine, lambda connection: _begin(connection, start, site), writes=True):
        log.warning(
            "%s is also in the ledger as %r: its connections name the service differently, so the ledger takes it for "
            "two. Give all of them one service_name, and join the entries with `airflow assistant ledger rename`.",
            str(site).capitalize(),
            name,
        )
    outcome = "succeeded"
    error = None
    try:
        yield this
        error = this.error
        if error:
            outcome = "failed"
        elif this.needs_person:
            outcome = "succeeded with findings"
    except TaskDeferred:
        # Airflow defers a task by this exception. It goes on after the deferral.
        outcome = "deferred"
        raise
    except BaseException as raised:
        outcome = "failed"
        error = raised
        raise
    finally:
        ended_at = now()
        end = {
            "ended_at": ended_at,
            "outcome": outcome,
            "error": _text_of(error),
            "counts": dict(this.counts),
            "findings": this.findings,
            "documents": this.documents,
            "seconds": (ended_at - started_at).total_seconds(),
        }
        change = sa.update(tries).where(tries.c.token == token).values(end)
        try:
            transaction(engine, lambda connection: connection.execute(change), writes=True)
        except AssistantLedgerError as unrecorded:
            log.warning("The end of this try is not recorded; its counts are only in this log: %s", unrecorded)


def _begin(connection: sa.Connection, start: Mapping[str, Any], site: Site) -> list[str]:
    """Insert the row of a try. Return other names under which the ledger knows the service of its site."""
    # The row exists if a commit succeeded but its answer was lost, so that the transaction is repeated.
    if connection.scalar(sa.select(tries.c.token).where(tries.c.token == start["token"])) is None:
        connection.execute(sa.insert(tries).values(start))
    c = tries.c
    same_address = sa.and_(c.site_url == site.url, c.site_id == site.site_id, c.service != site.service)
    return list(connection.scalars(sa.select(c.service).where(same_address).distinct().order_by(c.service)))


def _text_of(error: BaseException | None) -> str | None:
    if error is None:
        return None
    # Some errors have no message.
    return shortened(storable(str(error) or type(error).__name__), ERROR_LENGTH)
