"""Queries of the ledger for the command line, and the manual resolution of ambiguous entries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.leases import is_living
from airflow_provider_assistant.ledger.schema import UNRESOLVED, RunRef, documents, questions, ratings, submissions
from airflow_provider_assistant.ledger.store import Ledger

TABLES = {"document": documents, "question": questions, "submission": submissions, "rating": ratings}
# Kinds whose claims have leases.
_BATCHES = ("document", "question")
BY_HAND = "resolved by hand"
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
            query = sa.select(table).where(table.c.outcome.in_(UNRESOLVED)).order_by(table.c.claimed_at, table.c.key)
            if kind in _BATCHES:
                query = ledger.leases.with_lease(query, table)
            found += [_entry(kind, row) for row in connection.execute(_on(query, table, site_id))]
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
            f"{len(found)} entries have keys that begin with {prefix!r}: {listed}. Give more of it, or the site.",
            field="entry",
        )
    return found[0]


def resolve(
    ledger: Ledger,
    entry: AmbiguousEntry,
    outcome: Literal["created", "failed"],
    *,
    identifier: str | None = None,
    content_hash: str | None = None,
) -> None:
    """
    Record the outcome of an ambiguous entry by hand.

    ``failed`` means that the attempt created nothing; an earlier document of the key remains.

    :param ledger: The ledger.
    :param entry: The entry.
    :param outcome: ``created`` if the effect happened, otherwise ``failed``.
    :param identifier: Id of the document or request that was found.
    :param content_hash: Content hash of the document that was found.
    :raises AssistantInputError: The entry cannot have this outcome, required values are missing, or the entry has
        changed since it was read.
    :raises AssistantLedgerError: The database cannot be used.
    """
    table = TABLES[entry.kind]
    c = table.c
    same = (c.scope == entry.scope) & (c.key == entry.key)

    def record(connection: sa.Connection) -> None:
        row = connection.execute(sa.select(table).where(same)).one_or_none()
        facts = {} if row is None else _facts(entry, row, outcome, identifier, content_hash)
        change = sa.update(table).where(same, c.outcome == entry.outcome, c.claimed_at == entry.claimed_at)
        update = change.values(**{"outcome": outcome, "error": BY_HAND, "recorded_at": datetime.now(UTC), **facts})
        if not connection.execute(update).rowcount:
            raise AssistantInputError(
                f"{entry.kind} {entry.key} has changed since it was read. Nothing was changed. List the entries again.",
                field="entry",
            )

    transaction(ledger.engine, record, writes=True)


def _facts(
    entry: AmbiguousEntry, row: Any, outcome: str, identifier: str | None, content_hash: str | None
) -> dict[str, Any]:
    """Return the columns to change in addition to the outcome."""
    if entry.kind == "rating":
        return {}
    if entry.kind == "submission":
        if outcome == "created" and not identifier:
            raise AssistantInputError("a created submission needs the id of its request; pass --id", field="id")
        return {"request_id": identifier}
    if entry.kind == "question":
        if outcome == "created":
            raise AssistantInputError(
                "a question can only be resolved as not-created; the next try of its task then asks it again",
                field="as",
            )
        return {"ambiguous": 0}
    if outcome == "failed":
        # As after a failed request, the entry keeps the older document.
        return {"ambiguous": 0, "outcome": "failed" if row.content_hash is None else "created"}
    if content_hash is None:
        raise AssistantInputError(
            "a created document needs its content; without it, the next load would treat the row as changed. Pass "
            "--file, with the --key, --column and --constant of the load",
            field="file",
        )
    facts = {"ambiguous": 0, "content_hash": content_hash, "document_id": identifier}
    if row.content_hash is not None and row.document_id is not None:
        facts["superseded"] = json.dumps([*json.loads(row.superseded or "[]"), row.document_id])
    return facts


def _entry(kind: str, row: Any) -> AmbiguousEntry:
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
    )


def _on(query: sa.Select[Any], table: sa.Table, site_id: str | None) -> sa.Select[Any]:
    return query if site_id is None else query.where(table.c.site_id == site_id)
