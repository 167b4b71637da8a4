"""Tries of tasks: when each ran, how it ended, its counts and its first findings."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import Kind, RunRef, findings, tries
from airflow_provider_assistant.ledger.scopes import Site
from airflow_provider_assistant.texts import shortened, storable

# Characters of an error that are kept; the task's log has the whole text.
ERROR_LENGTH = 2000
# Number of findings of a try that are kept; its file has all of them.
MOST_FINDINGS = 1000

log = logging.getLogger(__name__)


class FindingRow(Protocol):
    """A row that a person should look at, as :class:`~airflow_provider_assistant.loading.findings.Finding` has it."""

    @property
    def kind(self) -> str:
        """What is wrong, such as ``rejected``."""

    @property
    def key(self) -> str:
        """Key of the row as readable text."""

    @property
    def reason(self) -> str:
        """Why a person should look at it."""

    @property
    def row(self) -> int | None:
        """Number of the row in the source."""

    @property
    def document_ids(self) -> Sequence[str]:
        """Ids of the documents concerned."""


@dataclass(slots=True)
class Try:
    """
    Hold what a try has done, to be recorded when it ends.

    :ivar counts: Counts of the try, as plain JSON types.
    :ivar findings: Path of its findings; None if there are none.
    :ivar first_findings: The first of them, of which :data:`MOST_FINDINGS` are kept.
    :ivar report: Path of the report of an evaluation.
    :ivar error: Error that makes the task fail although the ``with`` block does not raise it.
    :ivar documents: Number of documents that the ledger has for the source.
    :ivar needs_person: Whether the try left something that a person should look at, although it succeeded.
    """

    token: str
    counts: Mapping[str, Any] = field(default_factory=dict)
    findings: str | None = None
    first_findings: Sequence[FindingRow] = ()
    report: str | None = None
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
            "report": this.report,
            "seconds": (ended_at - started_at).total_seconds(),
        }
        try:
            transaction(engine, lambda connection: _end(connection, this, end), writes=True)
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


def _end(connection: sa.Connection, this: Try, end: Mapping[str, Any]) -> None:
    """Write the end of a try and its first findings."""
    connection.execute(sa.update(tries).where(tries.c.token == this.token).values(end))
    # They exist if a commit succeeded but its answer was lost, so that the transaction is repeated.
    connection.execute(sa.delete(findings).where(findings.c.token == this.token))
    rows = [
        {
            "token": this.token,
            "number": number,
            "kind": finding.kind,
            "key": finding.key,
            "reason": shortened(finding.reason, ERROR_LENGTH),
            "row": finding.row,
            "document_ids": [storable(document_id) for document_id in finding.document_ids],
        }
        for number, finding in enumerate(this.first_findings[:MOST_FINDINGS])
    ]
    if rows:
        connection.execute(sa.insert(findings), rows)


def _text_of(error: BaseException | None) -> str | None:
    if error is None:
        return None
    # Some errors have no message.
    return shortened(storable(str(error) or type(error).__name__), ERROR_LENGTH)
