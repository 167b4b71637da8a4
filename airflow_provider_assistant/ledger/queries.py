"""Queries of the ledger for the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.leases import LeaseSettings, is_living
from airflow_provider_assistant.ledger.schema import RunRef, documents, is_unresolved, questions, ratings, submissions
from airflow_provider_assistant.ledger.store import Ledger

TABLES = {"document": documents, "question": questions, "submission": submissions, "rating": ratings}
# Kinds whose claims have leases.
_BATCHES = ("document", "question")
# Claims of chat requests and ratings have no lease, because no run waits for them. A person should not resolve one
# while its request may be in flight.
LONGEST_REQUEST = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class AmbiguousEntry:
    """
    Hold the entry of an effect that may or may not have happened.

    :param kind: ``document``, ``question``, ``submission`` or ``rating``.
    :param scope: Scope of the entry.
    :param endpoint: Endpoint of a document; None for other kinds.
    :param key: Key of the entry, unique within its scope.
    :param site_id: Id of the site.
    :param label: Key as readable text; the session id for chat requests and ratings.
    :param source: Name of the source of a document or question; None for other kinds.
    :param outcome: ``ambiguous``, or ``claimed`` for a claim without an outcome.
    :param attempts: Number of attempts.
    :param error: Error message, or None.
    :param run: Task instance that made the claim.
    :param claimed_at: Time of the claim, UTC.
    :param may_be_under_way: Whether a task may be sending it right now: a claim of a document or question whose task is
        alive, or a claim of a chat request or rating of less than an hour ago.
    :param sent_hash: Content hash of the document that was sent; None if it is not known, and for other kinds.
        Default: None.
    """

    kind: str
    scope: str
    endpoint: str | None
    key: str
    site_id: str
    label: str
    source: str | None
    outcome: str
    attempts: int
    error: str | None
    run: RunRef
    claimed_at: datetime
    may_be_under_way: bool
    sent_hash: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON types."""
        return {
            "key": self.key,
            "kind": self.kind,
            "site_id": self.site_id,
            "label": self.label,
            "source": self.source,
            "outcome": self.outcome,
            "attempts": self.attempts,
            "error": self.error,
            "claimed_at": self.claimed_at.isoformat(timespec="seconds"),
            "may_be_under_way": self.may_be_under_way,
            "run": str(self.run),
        }


def count_outcomes(ledger: Ledger, site_id: str | None = None) -> list[dict[str, Any]]:
    """
    Count the entries by kind, site and outcome.

    :param ledger: The ledger.
    :param site_id: Count only the entries of this site. Default: all sites.
    :return: One mapping per kind, site and outcome, with ``kind``, ``site_id``, ``outcome``, ``entries`` and
        ``latest``, the time of the latest claim in ISO format.
    :raises AssistantLedgerError: The database cannot be read.
    """

    def counted(connection: sa.Connection) -> list[dict[str, Any]]:
        found = []
        for kind, table in TABLES.items():
            c = table.c
            query = (
                sa.select(c.site_id, c.outcome, sa.func.count().label("entries"), sa.func.max(c.claimed_at))
                .group_by(c.site_id, c.outcome)
                .order_by(c.site_id, c.outcome)
            )
            for site, outcome, entries, latest in connection.execute(_on(query, table, site_id)):
                at = latest.isoformat(timespec="seconds")
                found.append({"kind": kind, "site_id": site, "outcome": outcome, "entries": entries, "latest": at})
        return found

    return transaction(ledger.engine, counted)


def count_superseded(ledger: Ledger, site_id: str | None = None) -> list[dict[str, Any]]:
    """
    Count the superseded documents by site.

    :param ledger: The ledger.
    :param site_id: Count only the documents of this site. Default: all sites.
    :return: One mapping per site with the keys of :func:`count_outcomes`; ``latest`` is None.
    :raises AssistantLedgerError: The database cannot be read.
    """
    counts = Counter(site for site, *_ in superseded_documents(ledger, site_id))
    return [
        {"kind": "document", "site_id": site, "outcome": "superseded", "entries": entries, "latest": None}
        for site, entries in sorted(counts.items())
    ]


def ambiguous_entries(ledger: Ledger, site_id: str | None = None) -> list[AmbiguousEntry]:
    """
    Return the entries that are ambiguous or have no outcome, oldest first per kind.

    :param ledger: The ledger.
    :param site_id: Return only the entries of this site. Default: all sites.
    :return: The entries.
    :raises AssistantLedgerError: The database cannot be read.
    """

    def entries(connection: sa.Connection) -> list[AmbiguousEntry]:
        found = []
        for kind, table in TABLES.items():
            query = unresolved(kind, ledger.leases).order_by(table.c.claimed_at, table.c.key)
            found += [entry_of(kind, row) for row in connection.execute(_on(query, table, site_id))]
        return found

    return transaction(ledger.engine, entries)


def superseded_documents(
    ledger: Ledger, site_id: str | None = None, source: str | None = None
) -> Iterator[tuple[str, str, str, str]]:
    """
    Yield the superseded documents.

    :param ledger: The ledger.
    :param site_id: Yield only the documents of this site. Default: all sites.
    :param source: Yield only the documents of this source. Default: all sources.
    :return: Site id, source, key label and document id of each.
    :raises AssistantLedgerError: The database cannot be read.
    """
    c = documents.c
    query = sa.select(c.site_id, c.source, c.label, c.superseded).where(c.superseded.is_not(None))
    if source is not None:
        query = query.where(c.source == source)
    ordered = _on(query.order_by(c.source, c.label), documents, site_id)
    for site, name, label, ids in transaction(ledger.engine, lambda connection: connection.execute(ordered).all()):
        for document_id in json.loads(ids):
            yield site, name, label, document_id


def find_ambiguous(ledger: Ledger, prefix: str, site_id: str | None = None) -> AmbiguousEntry:
    """
    Return the unresolved entry with a key prefix.

    :param ledger: The ledger.
    :param prefix: Prefix of the key.
    :param site_id: Search only this site. Default: all sites.
    :return: The entry.
    :raises AssistantInputError: No unresolved entry has this prefix, or several have.
    :raises AssistantLedgerError: The database cannot be read.
    """
    found = [entry for entry in ambiguous_entries(ledger, site_id) if entry.key.startswith(prefix)]
    if not found:
        raise AssistantInputError(f"no entry to resolve has a key that begins with {prefix!r}", field="entry")
    if len(found) > 1:
        listed = "; ".join(f"{entry.kind} {entry.key} on {entry.site_id}" for entry in found[:5])
        raise AssistantInputError(
            f"{len(found)} entries have keys that begin with {prefix!r}: {listed}",
            todo="Give more of it, or the site.",
            field="entry",
        )
    return found[0]


def unresolved(kind: str, leases: LeaseSettings) -> sa.Select[Any]:
    """
    Return the query of the entries of a kind that are ambiguous or have no outcome, for :func:`entry_of`.

    :param kind: Kind of the entries.
    :param leases: Settings of leases.
    """
    table = TABLES[kind]
    query = sa.select(table).where(is_unresolved(table))
    return leases.with_lease(query, table) if kind in _BATCHES else query


def entry_of(kind: str, row: Any) -> AmbiguousEntry:
    """
    Return the entry of a row of :func:`unresolved`.

    :param kind: Kind of the entry.
    :param row: The row.
    """
    is_batch = kind in _BATCHES
    is_alive = (
        is_living(row.heartbeat_at, row.lease_seconds, row.database_now)
        if is_batch
        else abs(datetime.now(UTC) - row.claimed_at) < LONGEST_REQUEST
    )
    return AmbiguousEntry(
        kind=kind,
        scope=row.scope,
        endpoint=row.endpoint if kind == "document" else None,
        key=row.key,
        site_id=row.site_id,
        label=row.label if is_batch else row.session_id,
        source=row.source if is_batch else None,
        outcome=row.outcome,
        attempts=row.attempts,
        error=row.error,
        run=RunRef(row.dag_id, row.run_id, row.task_id, row.map_index, row.region),
        claimed_at=row.claimed_at,
        may_be_under_way=row.outcome == "claimed" and is_alive,
        sent_hash=row.sent_hash if is_batch else None,
    )


def _on(query: sa.Select[Any], table: sa.Table, site_id: str | None) -> sa.Select[Any]:
    return query if site_id is None else query.where(table.c.site_id == site_id)
