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
from airflow_provider_assistant.ledger.export_queries import pruned_before
from airflow_provider_assistant.ledger.leases import LeaseSettings, is_living
from airflow_provider_assistant.ledger.schema import (
    NOT_CREATED,
    UNRESOLVED,
    chat_requests,
    documents,
    loads,
    prunings,
    ratings,
)
from airflow_provider_assistant.ledger.store import Ledger
from airflow_provider_assistant.texts import counted

# Takes the id of a DAG or None.
MayChange: TypeAlias = Callable[[str | None], bool]
# Values of the columns of an entry whose document is deleted, and that is kept for its superseded documents.
WITHOUT_DOCUMENT = {
    "outcome": "failed",
    "content_hash": None,
    "document_id": None,
    "status": None,
    "ambiguous": 0,
    "error": "deleted by hand",
}
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
        values = asdict(self)
        del values["refused"]
        return values


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
        # Without repetitions, in the given order.
        names = list(dict.fromkeys(deleted.names))
        labels = list(dict.fromkeys(deleted.labels))
        search = _NameSearch(connection, names, site_id)
        for name in names:
            rows = search.rows_of(name)
            _forget(connection, report, name, rows, ledger.leases, dry_run, may_change)
        c = documents.c
        for label in labels:
            has_label = (c.label == label) & c.content_hash.is_not(None) & c.document_id.is_(None)
            rows = _rows(connection, has_label, site_id)
            _forget(connection, report, label, rows, ledger.leases, dry_run, may_change)
        return report

    return transaction(ledger.engine, change, writes=True)


class _NameSearch:
    """
    Find the entries of names.

    A name is a document id, the id of a superseded document, or otherwise a key prefix.
    """

    def __init__(self, connection: sa.Connection, names: Sequence[str], site_id: str | None) -> None:
        self._connection = connection
        self._site_id = site_id
        self._rows_by_id: defaultdict[str, list[sa.Row[Any]]] = defaultdict(list)
        c = documents.c
        for start in range(0, len(names), PARAMETERS):
            has_id = c.document_id.in_(names[start : start + PARAMETERS])
            for row in _rows(connection, has_id, site_id):
                self._rows_by_id[row.document_id].append(row)
        # SQL cannot search the JSON lists of superseded ids, so all of them are read.
        name_set = set(names)
        for row in _rows(connection, c.superseded.is_not(None), site_id):
            superseded_ids = json.loads(row.superseded)
            for name in name_set.intersection(superseded_ids):
                self._rows_by_id[name].append(row)

    def rows_of(self, name: str) -> Sequence[sa.Row[Any]]:
        """Return the entries of a name."""
        rows_with_id = self._rows_by_id.get(name)
        if rows_with_id:
            return rows_with_id
        if not re.fullmatch(rf"[0-9a-f]{{{SHORTEST_KEY},}}", name):
            # It is not a prefix of a key. Looking for one would read the whole table.
            return []
        has_prefix = documents.c.key.startswith(name, autoescape=True)
        return _rows(self._connection, has_prefix, self._site_id)


def _rows(
    connection: sa.Connection,
    condition: sa.ColumnElement[bool],
    site_id: str | None,
) -> Sequence[sa.Row[Any]]:
    """Return the entries of documents that meet a condition, on one site or on all."""
    query = sa.select(documents).where(condition)
    if site_id is not None:
        query = query.where(documents.c.site_id == site_id)
    return connection.execute(query).all()


def _forget(
    connection: sa.Connection,
    report: ForgetReport,
    name: str,
    matches: Sequence[sa.Row[Any]],
    leases: LeaseSettings,
    dry_run: bool,
    may_change: MayChange,
) -> None:
    """
    Forget the document of one name or label, and count it in the report.

    :param matches: Entries of the name. The document is forgotten if there is exactly one.
    """
    if not matches:
        report.unknown.append(name)
        return
    if len(matches) > 1:
        examples = [f"{row.label} on {row.site_id} ({row.key})" for row in matches[:5]]
        raise AssistantInputError(
            f"{name!r} matches {counted(len(matches), 'document')}: {'; '.join(examples)}",
            safe=NOTHING_CHANGED,
            todo="Give the whole key or the site.",
            field="entry",
        )
    match = matches[0]
    if not may_change(match.dag_id):
        report.refused.append(name)
        return
    c = documents.c
    is_match = (c.scope == match.scope) & (c.key == match.key)
    # Read the entry again: an earlier name may have changed it.
    query = leases.with_lease(sa.select(documents).where(is_match), documents)
    row = connection.execute(query).one_or_none()
    if row is None:
        return
    if row.outcome == "claimed" and is_living(row.heartbeat_at, row.lease_seconds, row.database_now):
        raise AssistantInputError(
            f"a task is sending {row.label} right now",
            safe=NOTHING_CHANGED,
            todo="Wait until it has ended.",
            field="entry",
        )
    superseded_ids = json.loads(row.superseded or "[]")
    is_superseded = name in superseded_ids and name != row.document_id
    if is_superseded:
        report.superseded += 1
    else:
        report.documents += 1
    if dry_run:
        return
    update = sa.update(documents).where(is_match)
    if is_superseded:
        remaining_ids = [document_id for document_id in superseded_ids if document_id != name]
        # An entry without superseded documents has NULL, not an empty list.
        superseded = json.dumps(remaining_ids) if remaining_ids else None
        connection.execute(update.values(superseded=superseded))
    elif superseded_ids:
        # Keep the entry: its superseded documents are still on the site.
        connection.execute(update.values(**WITHOUT_DOCUMENT))
    else:
        connection.execute(sa.delete(documents).where(is_match))


def prune(ledger: Ledger, before: datetime, *, dry_run: bool = False) -> dict[str, int]:
    """
    Delete old entries that are no longer needed.

    Entries of documents on a site, of ratings that were sent, and of ambiguous effects are kept regardless of age. The
    ledger remembers the time, so that no export replaces the rows of pruned days.

    :param before: Timezone-aware.
    :param dry_run: Whether to count only, without deleting.
    :return: Number of entries that were, or would be, deleted, by kind.
    """
    old_entries = _old_entries(before)

    def change(connection: sa.Connection) -> dict[str, int]:
        count_by_kind = {}
        for kind, (table, is_old) in old_entries.items():
            if dry_run:
                count_query = sa.select(sa.func.count()).select_from(table).where(is_old)
                count_by_kind[kind] = connection.scalar(count_query) or 0
            else:
                count_by_kind[kind] = connection.execute(sa.delete(table).where(is_old)).rowcount
        if not dry_run:
            _remember(connection, before)
        return count_by_kind

    return transaction(ledger.engine, change, writes=True)


def _remember(connection: sa.Connection, before: datetime) -> None:
    """Record the time before which entries were pruned, unless a later one is recorded."""
    recorded = pruned_before(connection)
    if recorded is not None and recorded >= before:
        return
    connection.execute(sa.delete(prunings))
    connection.execute(sa.insert(prunings).values(before=before))


def _old_entries(before: datetime) -> dict[str, tuple[sa.Table, sa.ColumnElement[bool]]]:
    """Return by kind the table, and the condition of the rows that are not needed any more."""
    document, chat, rating = documents.c, chat_requests.c, ratings.c
    is_old_load = loads.c.started_at < before
    # Only a retry of the DAG run that made it needs a chat request.
    # Exports have the request on the day when it was recorded.
    submitted_at = sa.func.coalesce(chat.recorded_at, chat.claimed_at)
    is_old_chat_request = (submitted_at < before) & chat.outcome.not_in(UNRESOLVED)
    is_old_rating = (rating.claimed_at < before) & rating.outcome.in_(NOT_CREATED)
    has_no_document = document.content_hash.is_(None) & document.superseded.is_(None)
    was_not_created = document.outcome.in_(NOT_CREATED)
    is_old_document = (document.claimed_at < before) & was_not_created & has_no_document
    return {
        "loads": (loads, is_old_load),
        "chat_requests": (chat_requests, is_old_chat_request),
        "ratings": (ratings, is_old_rating),
        "documents": (documents, is_old_document),
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
    for finding in findings:
        if finding["kind"] not in kinds:
            continue
        document_ids = finding["document_ids"]
        names += document_ids
        if not document_ids and finding["kind"] == "stale":
            # The key of a finding is the label of the ledger's entry.
            labels.append(finding["key"])
    return DeletedDocuments(names=names, labels=labels)
