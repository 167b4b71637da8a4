"""
Changes of documents on a site: activated, deactivated, deleted.

Only documents that the ledger created are changed. A change is claimed before its request and recorded after it, like a
create. Unlike a create, it has the same effect if it is made twice, so a change whose outcome is not known is simply
made again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.api.document_routes import Change
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import connected, stream, transaction
from airflow_provider_assistant.ledger.entries import StaleDocument, key_of
from airflow_provider_assistant.ledger.schema import UNRESOLVED, RunRef, document_changes, documents
from airflow_provider_assistant.ledger.scopes import Site

Reason: TypeAlias = Literal["superseded", "stale", "inactive", "by hand"]


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """
    A document that the ledger created and that is to be changed.

    :param key: Key of its entry.
    :param label: The key as readable text.
    :param document_id: Id of the document.
    :param reason: ``superseded`` by a document with newer content, ``stale`` because its row is gone from the source,
        ``inactive`` because it is not known to be in use, or ``by hand``.
    :param group: Name of its group; None if it has none.
    :param successor: Id of the document with the newer content; None if there is none or it is not known.
    :param status: Status word of an inactive document; None if the service reported none.
    """

    key: str
    label: str
    document_id: str
    reason: Reason
    group: str | None = None
    successor: str | None = None
    status: str | None = None

    @classmethod
    def stale(cls, document: StaleDocument) -> Self:
        """Return a document whose row is gone; its id is empty if it is not known."""
        return cls(document.key, document.label, document.created_id or "", "stale", document.group)


def change_key(site: Site, document_id: str, change: str) -> str:
    """Return the key of a change of a document."""
    return key_of(*site.columns().values(), document_id, change)


class DocumentChanges:
    """
    Read which documents of a source to change, and record the changes.

    :param scope: Scope of the documents' entries.
    :param source: Name of the source.
    :param run: The task instance.
    :param now: Returns the current time, timezone-aware.
    """

    def __init__(
        self,
        engine: sa.Engine,
        site: Site,
        *,
        scope: str,
        source: str,
        run: RunRef,
        now: Callable[[], datetime],
    ) -> None:
        self._engine = engine
        self._scope = scope
        self._site = site
        self._source = source
        self._run = run
        self._now = now
        c = documents.c
        self._is_of_source = (c.scope == scope, c.source == source)
        self._is_own = (*self._is_of_source, c.content_hash.is_not(None))

    # -- what to change ------------------------------------------------------------------------

    def superseded(self) -> list[KnownDocument]:
        """Return the documents of this source for which a document with newer content was created."""
        c = documents.c
        # The newer document may be removed meanwhile. It is in doubt while its key is claimed or ambiguous.
        is_settled = (c.outcome == "created") | c.content_hash.is_(None)
        query = sa.select(c.key, c.label, c.document_id, c.superseded, c.group_label).where(
            *self._is_of_source, c.superseded.is_not(None), is_settled, c.outcome.not_in(UNRESOLVED)
        )
        found = []
        for key, label, successor, superseded, group in self._rows(query):
            document_ids = json.loads(superseded)
            found += [KnownDocument(key, label, one, "superseded", group, successor) for one in document_ids]
        return found

    def inactive(self, is_left_out: Callable[[str | None], bool]) -> list[KnownDocument]:
        """
        Return the documents of this source that are not known to be in use.

        :param is_left_out: Returns whether to leave out documents with a status word; None if the service reported
            none.
        """
        c = documents.c
        query = sa.select(c.key, c.label, c.document_id, c.status, c.group_label).where(
            *self._is_own, c.outcome == "created", c.document_id.is_not(None)
        )
        found = []
        for key, label, document_id, status, group in self._rows(query):
            if not is_left_out(status):
                found.append(KnownDocument(key, label, document_id, "inactive", group, status=status))
        return found

    def uses_of(self, ids: Collection[str]) -> Counter[str]:
        """Count the entries of the whole site, of any source, whose current document has one of these ids."""
        c = documents.c
        query = sa.select(c.document_id).where(
            self._site.of(documents), c.content_hash.is_not(None), c.document_id.is_not(None)
        )
        return Counter(document_id for (document_id,) in self._rows(query) if document_id in ids)

    def created_by(self, claim: str) -> list[str]:
        """
        Return the ids of the documents that one try of a task created.

        :param claim: Token of the try.
        """
        c = documents.c
        query = sa.select(c.document_id).where(*self._is_own, c.claim == claim, c.document_id.is_not(None))
        return [document_id for (document_id,) in self._rows(query)]

    def _rows(self, query: sa.Select[Any]) -> Iterator[Any]:
        with connected(self._engine) as connection:
            yield from stream(connection, query)

    # -- what was changed ----------------------------------------------------------------------

    def claim(self, changed: Sequence[KnownDocument], change: Change) -> None:
        """
        Record that documents are about to be changed.

        :raises AssistantLedgerError: The ledger cannot be written; the documents must not be changed.
        """
        now = self._now()
        rows = [self._claim_row(document, change, now) for document in changed]

        def write(connection: sa.Connection) -> None:
            for condition in self._conditions(changed, change):
                connection.execute(sa.delete(document_changes).where(condition))
            connection.execute(sa.insert(document_changes), rows)

        if rows:
            transaction(self._engine, write, writes=True)

    def record(self, changed: Sequence[KnownDocument], change: Change, error: str | None = None) -> None:
        """
        Record the outcome of claimed changes.

        :param error: Why the documents were not changed. Default: None, they were.
        """
        if changed:
            transaction(self._engine, lambda connection: self._record(connection, changed, change, error), writes=True)

    def record_removed(self, removed: Sequence[KnownDocument], change: Change) -> None:
        """Record that outdated documents were removed from use, and forget them in the entries of their keys."""

        def write(connection: sa.Connection) -> None:
            self._record(connection, removed, change, None)
            self._forget(connection, removed)

        if removed:
            transaction(self._engine, write, writes=True)

    def forget(self, outdated: Sequence[KnownDocument]) -> None:
        """Forget outdated documents in the entries of their keys, because they are not outdated after all."""
        transaction(self._engine, lambda connection: self._forget(connection, outdated), writes=True)

    def _forget(self, connection: sa.Connection, outdated: Sequence[KnownDocument]) -> None:
        for document in outdated:
            if document.reason == "superseded":
                self._forget_superseded(connection, document)
            else:
                self._forget_entry(connection, document)

    def record_status(self, changed: Sequence[KnownDocument], status: str) -> None:
        """Record the status of documents that were activated."""
        c = documents.c
        # Four parameters of each statement are not ids.
        per_statement = PARAMETERS - 4
        ids = [document.document_id for document in changed]

        def write(connection: sa.Connection) -> None:
            for start in range(0, len(ids), per_statement):
                has_id = c.document_id.in_(ids[start : start + per_statement])
                connection.execute(sa.update(documents).where(*self._is_own, has_id).values(status=status))

        if ids:
            transaction(self._engine, write, writes=True)

    def _claim_row(self, document: KnownDocument, change: Change, now: datetime) -> dict[str, Any]:
        return {
            **self._site.recorded(),
            "source": self._source,
            "change_key": change_key(self._site, document.document_id, change),
            "document_id": document.document_id,
            "change": change,
            "scope": self._scope,
            "key": document.key,
            "label": document.label,
            "reason": document.reason,
            "outcome": "claimed",
            "claimed_at": now,
            **self._run.columns(),
        }

    def _record(
        self, connection: sa.Connection, changed: Sequence[KnownDocument], change: Change, error: str | None
    ) -> None:
        outcome = "done" if error is None else "failed"
        for condition in self._conditions(changed, change):
            update = sa.update(document_changes).where(condition)
            connection.execute(update.values(outcome=outcome, error=error, recorded_at=self._now()))

    def _conditions(self, changed: Sequence[KnownDocument], change: Change) -> Iterator[sa.ColumnElement[bool]]:
        """Yield the conditions of the rows of these changes, with a bounded number of parameters each."""
        keys = [change_key(self._site, document.document_id, change) for document in changed]
        # Four parameters of each statement are not keys.
        per_statement = PARAMETERS - 4
        for start in range(0, len(keys), per_statement):
            yield document_changes.c.change_key.in_(keys[start : start + per_statement])

    def _forget_superseded(self, connection: sa.Connection, document: KnownDocument) -> None:
        c = documents.c
        is_entry = (c.scope == self._scope, c.key == document.key)
        stored = connection.scalar(sa.select(c.superseded).where(*is_entry))
        ids = json.loads(stored or "[]")
        remaining = [document_id for document_id in ids if document_id != document.document_id]
        superseded = json.dumps(remaining) if remaining else None
        # Another task may have added an id meanwhile; then its load forgets this one.
        update = sa.update(documents).where(*is_entry, c.superseded == stored)
        connection.execute(update.values(superseded=superseded))

    def _forget_entry(self, connection: sa.Connection, document: KnownDocument) -> None:
        c = documents.c
        # The row may be in the source again meanwhile, with a new document.
        is_entry = (c.scope == self._scope, c.key == document.key, c.document_id == document.document_id)
        is_last = c.superseded.is_(None)
        connection.execute(sa.delete(documents).where(*is_entry, is_last))
        # Superseded documents that could not be removed remain known.
        none_left = {"content_hash": None, "document_id": None, "outcome": "failed"}
        connection.execute(sa.update(documents).where(*is_entry).values(**none_left))
