"""Maintenance of the ledger: forget deleted documents, and prune old entries."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.leases import LeaseSettings, is_living
from airflow_provider_assistant.ledger.schema import (
    NOT_CREATED,
    UNRESOLVED,
    chat_requests,
    documents,
    loads,
    ratings,
)
from airflow_provider_assistant.ledger.store import Ledger

# Takes the id of a DAG or None.
MayChange: TypeAlias = Callable[[str | None], bool]
# Minimum number of characters of a key prefix.
SHORTEST_KEY = 6


@dataclass(frozen=True, slots=True)
class DeletedDocuments:
    """
    Name the documents that have been deleted at the service.

    :param names: Keys, key prefixes of at least six characters, or document ids.
    :param labels: Key labels of documents without an id in the ledger.
    """

    names: Collection[str] = ()
    labels: Collection[str] = ()


@dataclass(slots=True)
class ForgetReport:
    """
    Report which documents were forgotten.

    :param documents: Number of current documents. If the source still has their rows, the next load creates them.
    :param refused: Names and labels of documents that may not be changed.
    """

    documents: int = 0
    superseded: int = 0
    unknown: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types, one key per field but ``refused``."""
        return {name: value for name, value in asdict(self).items() if name != "refused"}


def forget(
    ledger: Ledger,
    deleted: DeletedDocuments,
    site_id: str | None = None,
    *,
    dry_run: bool = False,
    may_change: MayChange = lambda _: True,
) -> ForgetReport:
    """
    Record that documents are no longer on the site.

    :param dry_run: Whether to report only, without changes.
    :param may_change: Returns whether documents that a DAG claimed may be changed; it takes the id of the DAG or None.
    :raises AssistantInputError: A name matches several documents, or a task is sending one of the documents.
    """

    def change(connection: sa.Connection) -> ForgetReport:
        report = ForgetReport()
        entries = _Entries(connection, list(dict.fromkeys(deleted.names)), site_id)
        for name in dict.fromkeys(deleted.names):
            _forget(connection, report, name, entries.rows_of(name), ledger.leases, dry_run, may_change)
        for label in dict.fromkeys(deleted.labels):
            c = documents.c
            where = (c.label == label) & c.content_hash.is_not(None) & c.document_id.is_(None)
            _forget(connection, report, label, _rows(connection, where, site_id), ledger.leases, dry_run, may_change)
        return report

    return transaction(ledger.engine, change, writes=True)


class _Entries:
    """The entries of names; a name is looked up as a document id, then as a superseded id, then as a key prefix."""

    def __init__(self, connection: sa.Connection, names: Sequence[str], site_id: str | None) -> None:
        self._connection = connection
        self._site_id = site_id
        self._by_id: defaultdict[str, list[sa.Row[Any]]] = defaultdict(list)
        c = documents.c
        for start in range(0, len(names), PARAMETERS):
            for row in _rows(connection, c.document_id.in_(names[start : start + PARAMETERS]), site_id):
                self._by_id[row.document_id].append(row)
        wanted = set(names)
        for row in _rows(connection, c.superseded.is_not(None), site_id):
            for name in wanted.intersection(json.loads(row.superseded)):
                self._by_id[name].append(row)

    def rows_of(self, name: str) -> Sequence[sa.Row[Any]]:
        if found := self._by_id.get(name):
            return found
        if not re.fullmatch(rf"[0-9a-f]{{{SHORTEST_KEY},}}", name):
            # It is not a prefix of a key. Looking for one would read the whole table.
            return []
        return _rows(self._connection, documents.c.key.startswith(name, autoescape=True), self._site_id)


def _rows(connection: sa.Connection, where: sa.ColumnElement[bool], site_id: str | None) -> Sequence[sa.Row[Any]]:
    query = sa.select(documents).where(where)
    return connection.execute(query if site_id is None else query.where(documents.c.site_id == site_id)).all()


def _forget(
    connection: sa.Connection,
    report: ForgetReport,
    name: str,
    found: Sequence[sa.Row[Any]],
    leases: LeaseSettings,
    dry_run: bool,
    may_change: MayChange,
) -> None:
    if not found:
        report.unknown.append(name)
        return
    if len(found) > 1:
        listed = "; ".join(f"{row.label} on {row.site_id} ({row.key})" for row in found[:5])
        raise AssistantInputError(
            f"{name!r} matches {len(found)} documents: {listed}",
            safe=NOTHING_CHANGED,
            todo="Give the whole key or the site.",
            field="entry",
        )
    if not may_change(found[0].dag_id):
        report.refused.append(name)
        return
    c = documents.c
    same = (c.scope == found[0].scope) & (c.key == found[0].key)
    # Read the entry again: an earlier name may have changed it.
    row = connection.execute(leases.with_lease(sa.select(documents).where(same), documents)).one_or_none()
    if row is None:
        return
    if row.outcome == "claimed" and is_living(row.heartbeat_at, row.lease_seconds, row.database_now):
        raise AssistantInputError(
            f"a task is sending {row.label} right now",
            safe=NOTHING_CHANGED,
            todo="Wait until it has ended.",
            field="entry",
        )
    older = json.loads(row.superseded or "[]")
    is_older = name in older and name != row.document_id
    report.superseded += is_older
    report.documents += not is_older
    if dry_run:
        return
    if is_older:
        rest = [one for one in older if one != name]
        connection.execute(sa.update(documents).where(same).values(superseded=json.dumps(rest) if rest else None))
    elif older:
        # Keep the entry: its superseded documents are still on the site.
        reset = {"outcome": "failed", "content_hash": None, "document_id": None, "ambiguous": 0}
        connection.execute(sa.update(documents).where(same).values(error="deleted by hand", **reset))
    else:
        connection.execute(sa.delete(documents).where(same))


def prune(ledger: Ledger, before: datetime, *, dry_run: bool = False) -> dict[str, int]:
    """
    Delete old entries that are no longer needed.

    Entries of documents on a site, of ratings that were sent, and of ambiguous effects are kept regardless of age.

    :param before: Timezone-aware.
    :param dry_run: Whether to count only, without deleting.
    :return: Number of entries that were, or would be, deleted, by kind.
    """
    where = _old(before)

    def change(connection: sa.Connection) -> dict[str, int]:
        counts = {}
        for kind, (table, old) in where.items():
            if dry_run:
                counts[kind] = connection.scalar(sa.select(sa.func.count()).select_from(table).where(old)) or 0
            else:
                counts[kind] = connection.execute(sa.delete(table).where(old)).rowcount
        return counts

    return transaction(ledger.engine, change, writes=True)


def _old(before: datetime) -> dict[str, tuple[sa.Table, sa.ColumnElement[bool]]]:
    """Return each table with the condition of the rows that are not needed any more."""
    document, chat, rating = documents.c, chat_requests.c, ratings.c
    is_gone = document.content_hash.is_(None) & document.superseded.is_(None)
    not_created = document.outcome.in_(NOT_CREATED)
    # Only a retry of the DAG run that made it needs a chat request.
    is_known = chat.outcome.not_in(UNRESOLVED)
    return {
        "loads": (loads, loads.c.started_at < before),
        "chat_requests": (chat_requests, (chat.claimed_at < before) & is_known),
        "ratings": (ratings, (rating.claimed_at < before) & rating.outcome.in_(NOT_CREATED)),
        "documents": (documents, (document.claimed_at < before) & not_created & is_gone),
    }


def deleted_documents(
    findings: Iterable[dict[str, Any]], kinds: Collection[str] = ("stale", "superseded")
) -> DeletedDocuments:
    """
    Return the documents of findings.

    :param kinds: Kinds of findings whose documents have been deleted.
    """
    names: list[str] = []
    labels: list[str] = []
    for row in findings:
        if row["kind"] in kinds:
            names += row["document_ids"]
            if not row["document_ids"] and row["kind"] == "stale":
                labels.append(row["key"])
    return DeletedDocuments(names, labels)
