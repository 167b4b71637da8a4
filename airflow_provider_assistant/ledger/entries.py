"""Ledger entries of one scope: records, and queries."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS, Bulk
from airflow_provider_assistant.ledger.database import connected, stream, transaction
from airflow_provider_assistant.ledger.document_groups import GROUP_COLUMNS, DocumentGroup
from airflow_provider_assistant.ledger.leases import LeaseSettings, is_living
from airflow_provider_assistant.ledger.queries import AmbiguousEntry, unresolved_of_scope
from airflow_provider_assistant.ledger.schema import CREATED_ID, RunRef
from airflow_provider_assistant.ledger.scopes import Scope
from airflow_provider_assistant.ledger.site_queries import known_ids
from airflow_provider_assistant.texts import storable

# Groups per query.
GROUPS = 500
EntryState: TypeAlias = Literal["created", "none", "ambiguous", "leased"]
# State of an entry, before the leases of claims are read.
_STATE_BY_OUTCOME: dict[str, EntryState] = {
    "created": "created",
    "rejected": "none",
    "failed": "none",
    "ambiguous": "ambiguous",
    "claimed": "ambiguous",
}


def key_of(*parts: str | None) -> str:
    """
    Return the key of an effect.

    :param parts: Values that identify the effect across retries.
    :return: Digest of the values, 32 hexadecimal digits.
    """
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


class LedgerEntry(NamedTuple):
    """
    Hold the entry of a key.

    :param state: ``created``: the document exists on the site. ``none``: it does not exist, because the last attempt
        was rejected or failed. ``ambiguous``: it may exist. ``leased``: another task, which is alive, has claimed the
        key.
    :param claim: Token of the latest claim.
    :param content_hash: Content hash of the document on the site; None if there is none.
    :param superseded: JSON list of the ids of superseded documents of the key, or None.
    :param sent_hash: Content hash of the request that made the entry ambiguous; None if it is not
        known.
    :param created_id: Id of the document; None if the service returned none.
    :param status: Status word of the document when it was created; None if it had none.
    """

    state: EntryState
    outcome: str
    claim: str
    source: str
    content_hash: str | None
    superseded: str | None
    sent_hash: str | None = None
    created_id: str | None = None
    status: str | None = None


class EntryContent(NamedTuple):
    """
    Hold what an entry says about the document of its key.

    :param content_hash: Content hash of the document on the site; None if there is none.
    :param group_key: Key of the document's :class:`.DocumentGroup`; None if it has none or none was read.
    """

    key: str
    outcome: str
    content_hash: str | None
    source: str
    group_key: int | None = None


class StaleDocument(NamedTuple):
    """
    Hold a document whose row is gone from its source, or from its group.

    :param created_id: Id of the document; None if the service returned none.
    :param group: Name of its group; None if it has none or none was read.
    :param key: Key of its entry.
    """

    label: str
    created_id: str | None
    group: str | None = None
    key: str = ""


class EarlierDocument(NamedTuple):
    """
    Hold a document that an earlier try of this task instance created.

    :param label: Key as readable text.
    :param created_id: Id of the document; None if the service returned none.
    :param ambiguous: Number of attempts that may have created another document.
    :param superseded: Ids of the superseded documents of the key.
    :param group: Name of its group; None if it has none or none was read.
    :param status: Status word of the document when it was created; None if it had none.
    """

    label: str
    created_id: str | None
    ambiguous: int
    superseded: list[str]
    group: str | None = None
    status: str | None = None


class EntryReader:
    """
    Read the entries of one scope.

    The docstrings say "document"; in other scopes, the document is the chat request or the rating.

    :param now: Returns the current time, timezone-aware. Default: the system clock.
    :param leases: Settings of leases. Default: 60 seconds by the database's clock.
    :param details: Further columns of a claim. Default: none.
    """

    def __init__(
        self,
        engine: sa.Engine,
        table: sa.Table,
        *,
        scope: Scope,
        source: str,
        run: RunRef,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        leases: LeaseSettings = LeaseSettings(),  # noqa: B008 (immutable)
        details: Sequence[str] = (),
    ) -> None:
        self.engine = engine
        self.has_groups = tuple(details) == GROUP_COLUMNS
        self.source = storable(source)
        """Name of the source that is loaded."""
        self._connection = connected(engine)
        self._table = table
        self._scope = storable(str(scope))
        self._site = scope.site
        self.scope = scope
        """Scope of the entries."""
        # Columns of an entry, in the order of the fields of LedgerEntry after the state.
        self._entry_columns = [
            *("outcome", "claim", "source", "content_hash", "superseded", "sent_hash"),
        ]
        # Column of the id that the service returned; it returns none for ratings.
        self._created_id = CREATED_ID.get(table.name, "")
        if self._created_id:
            self._entry_columns.append(self._created_id)
        # Only documents have a status.
        self._has_status = "status" in table.c
        if self._has_status:
            self._entry_columns.append("status")
        self._run = run
        self._now = now
        self._leases = leases
        self._token = uuid.uuid4().hex
        self._bulk = Bulk(self._connection, table)

    def entries(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """Return the entries of these keys; keys without an entry are left out."""
        return transaction(self._connection, lambda _: self._select(keys))

    def contents(self, keys: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """
        Return what the entries of these keys say about their documents, which takes half the time of :meth:`entries`.

        :return: Values of :class:`EntryContent` by key, without the last one if the rows have no groups; keys without
            an entry are left out.
        """
        columns: Sequence[str] = EntryContent._fields
        if not self.has_groups:
            columns = columns[:-1]

        def contents(_: sa.Connection) -> dict[str, tuple[Any, ...]]:
            rows = self._bulk.select(columns, self._scope, keys)
            # The key is the first column.
            return {row[0]: tuple(row) for row in rows}

        return transaction(self._connection, contents)

    def find(self, key: str) -> sa.Row[Any] | None:
        """Return all columns of the entry of a key, or None if it has none."""
        c = self._table.c
        query = sa.select(self._table).where(c.scope == self._scope, c.key == key)
        return transaction(self._connection, lambda connection: connection.execute(query).one_or_none())

    def unresolved(self) -> list[AmbiguousEntry]:
        """Return the ambiguous documents of all sources of this scope that no other task is sending."""

        def unresolved(connection: sa.Connection) -> list[AmbiguousEntry]:
            return unresolved_of_scope(connection, self._leases, self._scope)

        entries = transaction(self._connection, unresolved)
        # Earlier tries of this task instance have ended, although their leases may not have expired yet.
        return [entry for entry in entries if not entry.may_be_under_way or entry.run == self._run]

    def known_ids(self, document_ids: Collection[str]) -> set[str]:
        """Return those of the ids that the ledger knows on this site, from any source, superseded ones included."""
        return transaction(self._connection, lambda connection: known_ids(connection, self._site, document_ids))

    def _select(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        entries = {}
        for key, *values in self._bulk.select(("key", *self._entry_columns), self._scope, keys):
            entries[key] = _entry_of(values)
        claimed_keys = [key for key, entry in entries.items() if entry.outcome == "claimed"]
        # Two parameters of each query are not keys.
        keys_per_query = PARAMETERS - 2
        for start in range(0, len(claimed_keys), keys_per_query):
            entries.update(self._select_claimed(claimed_keys[start : start + keys_per_query]))
        return entries

    def _select_claimed(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """Return the entries of claimed keys, read again together with their leases."""
        c = self._table.c
        run_columns = self._run.columns()
        columns = [c[name] for name in ("key", *self._entry_columns, *run_columns)]
        entries_query = sa.select(*columns).where(c.scope == self._scope, c.key.in_(keys))
        query = self._leases.with_lease(entries_query, self._table)
        entries = {}
        for row in self._connection.execute(query).mappings():
            entry = _entry_of([row[name] for name in self._entry_columns])
            owner = RunRef(**{name: row[name] for name in run_columns})
            is_alive = is_living(row["heartbeat_at"], row["lease_seconds"], row["database_now"])
            # Claims of earlier tries of this task instance are not leased: those tries have ended.
            is_leased = entry.claim == self._token or (owner != self._run and is_alive)
            # The outcome may have been recorded since the first query.
            if is_leased and entry.outcome == "claimed":
                entry = entry._replace(state="leased")
            entries[row["key"]] = entry
        return entries

    def stale(self, is_seen: Callable[[str], bool], source: str | None = None) -> Iterator[StaleDocument]:
        """
        Yield the stale documents: those that a source loaded and that are not seen.

        :param source: Name of the source. Default: None, the one that is loaded.
        """
        c = self._table.c
        columns = (c.key, c.label, c[self._created_id], self._group_label)
        query = sa.select(*columns).where(*self._documents_of(source or self.source))
        for key, label, created_id, group in stream(self._connection, query):
            if not is_seen(key):
                yield StaleDocument(label=label, created_id=created_id, group=group, key=key)

    def stale_in_groups(
        self,
        groups: Sequence[int],
        is_seen: Callable[[str], bool],
        *,
        on_shared: Callable[[DocumentGroup, int], None] = lambda _, __: None,
    ) -> Iterator[StaleDocument]:
        """
        Yield the stale documents of some groups: those that this source loaded into them and that are gone from them.

        A group is left out if another mapped task of this run has loaded other rows of it: then no task sees all rows
        of the group.

        :param on_shared: Called with each group that is left out and the map index of the other task.
        :return: The documents, by groups. One query reads those of several hundred groups.
        """
        c = self._table.c
        for start in range(0, len(groups), GROUPS):
            group_keys = list(groups[start : start + GROUPS])
            conditions = (*self._own_documents, c.group_key.in_(group_keys))
            shared_groups: dict[int, tuple[DocumentGroup, int]] = {}
            # Only mapped tasks, which have an index, share the other ids of the task instance.
            if self._run.map_index >= 0:
                shared_groups = self._shared_groups(conditions, is_seen)
            for group, other_map_index in shared_groups.values():
                on_shared(group, other_map_index)
            columns = (c.group_key, c.key, c.label, c[self._created_id], c.group_label)
            query = sa.select(*columns).where(*conditions)
            for group_key, key, label, created_id, group_label in stream(self._connection, query):
                if group_key not in shared_groups and not is_seen(key):
                    yield StaleDocument(label=label, created_id=created_id, group=group_label, key=key)

    def _shared_groups(
        self, conditions: Sequence[sa.ColumnElement[bool]], is_seen: Callable[[str], bool]
    ) -> dict[int, tuple[DocumentGroup, int]]:
        """
        Return the groups of which another mapped task of this run has loaded rows.

        :return: By the key of the group, the group and the map index of the other task.
        """
        c = self._table.c
        run_values = self._run.columns()
        own_map_index = run_values.pop("map_index")
        other_task_conditions = [c.map_index != own_map_index]
        for name, value in run_values.items():
            other_task_conditions.append(c[name].is_not_distinct_from(value))
        columns = (c.key, c.group_key, c.group_label, c.map_index)
        query = sa.select(*columns).where(*conditions, *other_task_conditions)
        shared_groups = {}
        for key, group_key, group_label, map_index in stream(self._connection, query):
            if not is_seen(key):
                shared_groups[group_key] = (DocumentGroup(group_key, group_label), map_index)
        return shared_groups

    @property
    def _group_label(self) -> sa.ColumnElement[Any]:
        """The column of the name of the group; NULL if the rows have no groups."""
        if self.has_groups:
            return self._table.c.group_label
        return sa.null()

    def size(self) -> int:
        """Return the number of this source's documents on the site, according to the ledger."""
        query = sa.select(sa.func.count()).select_from(self._table).where(*self._own_documents)
        # The query has one row, with one column.
        (row,) = stream(self._connection, query)
        return int(row[0])

    def size_of_tenant(self) -> int:
        """Return the number of documents on all sites of the tenant, according to the ledger."""
        c = self._table.c
        is_of_tenant = (c.service == self._site.service, c.tenant_id.is_not_distinct_from(self._site.tenant_id))
        query = sa.select(sa.func.count()).where(*is_of_tenant, c.content_hash.is_not(None))
        return transaction(self._connection, lambda connection: int(connection.execute(query).scalar_one()))

    @property
    def _own_documents(self) -> tuple[sa.ColumnElement[bool], ...]:
        """The conditions of the documents of this source that are on the site."""
        return self._documents_of(self.source)

    def _documents_of(self, source: str) -> tuple[sa.ColumnElement[bool], ...]:
        c = self._table.c
        return c.scope == self._scope, c.source == source, c.content_hash.is_not(None)

    def documents_of_earlier_tries(self) -> Iterator[EarlierDocument]:
        """
        Yield the documents of earlier tries of this task instance that may need attention.

        They are possibly duplicated, supersede others, or have a status. A killed try leaves no
        findings file, so the next try lists them.
        """
        c = self._table.c
        run_conditions = []
        for name, value in self._run.columns().items():
            run_conditions.append(c[name].is_not_distinct_from(value))
        status: sa.ColumnElement[Any] = c.status if self._has_status else sa.null()
        # A document that was created with a 409 is the one of an earlier attempt: there is one.
        is_doubtful = (c.ambiguous > 0) & c.http_status.is_distinct_from(int(HTTPStatus.CONFLICT))
        ambiguous_attempts = sa.case((is_doubtful, c.ambiguous), else_=0)
        needs_attention = is_doubtful | c.superseded.is_not(None) | status.is_not(None)
        columns = (
            *(c.label, c[self._created_id], ambiguous_attempts),
            *(c.superseded, self._group_label, status),
        )
        query = sa.select(*columns).where(
            c.scope == self._scope,
            *run_conditions,
            # The token of this try; earlier tries had other ones.
            c.claim != self._token,
            c.outcome == "created",
            needs_attention,
        )
        for label, created_id, ambiguous, superseded, group, word in stream(self._connection, query):
            yield EarlierDocument(
                label=label,
                created_id=created_id,
                ambiguous=ambiguous,
                superseded=json.loads(superseded) if superseded else [],
                group=group,
                status=word,
            )

    def close(self) -> None:
        """Return the database connection to its pool."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _entry_of(values: Sequence[Any]) -> LedgerEntry:
    """
    Return an entry.

    :param values: Values of the fields of the entry after the state; the first one is the outcome.
    """
    outcome = values[0]
    return LedgerEntry(_STATE_BY_OUTCOME[outcome], *values)
