"""Ledger entries of one scope: records, and queries."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS, Bulk
from airflow_provider_assistant.ledger.database import connected, stream, transaction
from airflow_provider_assistant.ledger.document_groups import GROUP_COLUMNS, DocumentGroup
from airflow_provider_assistant.ledger.leases import LeaseSettings, is_living
from airflow_provider_assistant.ledger.schema import CREATED_ID, RunRef
from airflow_provider_assistant.ledger.scopes import Scope
from airflow_provider_assistant.texts import storable

# Groups per query.
GROUPS = 500
EntryState: TypeAlias = Literal["created", "none", "ambiguous", "leased"]
_STATES: dict[str, EntryState] = {
    "created": "created",
    "rejected": "none",
    "failed": "none",
    "ambiguous": "ambiguous",
    "claimed": "ambiguous",
}


class LedgerEntry(NamedTuple):
    """
    Hold the entry of a key.

    :param state: ``created``: the document exists on the site. ``none``: it does not exist, because the last attempt
        was rejected or failed. ``ambiguous``: it may exist. ``leased``: another task, which is alive, has claimed the
        key.
    :param claim: Token of the latest claim.
    :param content_hash: Content hash of the document on the site; None if there is none.
    :param superseded: JSON list of the ids of superseded documents of the key, or None.
    :param created_id: Id of the document; None if the service returned none.
    """

    state: EntryState
    outcome: str
    claim: str
    source: str
    content_hash: str | None
    superseded: str | None
    created_id: str | None = None


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
    """

    label: str
    created_id: str | None
    group: str | None = None


class PossibleDuplicate(NamedTuple):
    """
    Hold a document that an earlier try of this task instance created and that may not be the only one of its key.

    :param label: Key as readable text.
    :param created_id: Id of the document; None if the service returned none.
    :param ambiguous: Number of attempts that may have created another document.
    :param superseded: Ids of the superseded documents of the key.
    """

    label: str
    created_id: str | None
    ambiguous: int
    superseded: list[str]
    group: str | None = None


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
        self.has_groups = tuple(details) == GROUP_COLUMNS
        self.source = storable(source)
        """Name of the source that is loaded."""
        self._connection = connected(engine)
        self._table = table
        self._scope = storable(str(scope))
        self._site_url = storable(scope.site_url)
        # Columns of an entry, in the order of the fields of LedgerEntry.
        self._columns = ["outcome", "claim", "source", "content_hash", "superseded"]
        # Column of the id that the service returned; it returns none for ratings.
        self._created_id = CREATED_ID.get(table.name, "")
        if self._created_id:
            self._columns.append(self._created_id)
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
        columns = EntryContent._fields if self.has_groups else EntryContent._fields[:-1]

        def contents(_: sa.Connection) -> dict[str, tuple[Any, ...]]:
            rows = self._bulk.select(columns, self._scope, keys)
            return {row[0]: tuple(row) for row in rows}

        return transaction(self._connection, contents)

    def find(self, key: str) -> sa.Row[Any] | None:
        """Return all columns of the entry of a key, or None if it has none."""
        c = self._table.c
        query = sa.select(self._table).where(c.scope == self._scope, c.key == key)
        return transaction(self._connection, lambda connection: connection.execute(query).one_or_none())

    def _select(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        entries = {}
        for key, *facts in self._bulk.select(("key", *self._columns), self._scope, keys):
            entries[key] = _entry(facts)
        claimed = [key for key, entry in entries.items() if entry.outcome == "claimed"]
        for start in range(0, len(claimed), PARAMETERS - 2):
            entries |= self._select_claimed(claimed[start : start + PARAMETERS - 2])
        return entries

    def _select_claimed(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """Return the entries of claimed keys, read again together with their leases."""
        c = self._table.c
        run_columns = self._run.columns()
        columns = [c[name] for name in ("key", *self._columns, *run_columns)]
        claimed = sa.select(*columns).where(c.scope == self._scope, c.key.in_(keys))
        entries = {}
        for row in self._connection.execute(self._leases.with_lease(claimed, self._table)).mappings():
            entry = _entry([row[name] for name in self._columns])
            owner = RunRef(**{name: row[name] for name in run_columns})
            is_alive = is_living(row["heartbeat_at"], row["lease_seconds"], row["database_now"])
            is_leased = entry.claim == self._token or (owner != self._run and is_alive)
            if is_leased and entry.outcome == "claimed":
                entry = entry._replace(state="leased")
            entries[row["key"]] = entry
        return entries

    def stale(self, is_seen: Callable[[str], bool]) -> Iterator[StaleDocument]:
        """Yield the stale documents: those that this source loaded and no longer contains."""
        c = self._table.c
        query = sa.select(c.key, c.label, c[self._created_id], *self._group_label).where(*self._own)
        for key, *facts in stream(self._connection, query):
            if not is_seen(key):
                yield StaleDocument(*facts)

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
            some = (*self._own, c.group_key.in_(list(groups[start : start + GROUPS])))
            shared = self._shared_groups(some, is_seen) if self._run.map_index >= 0 else {}
            for group, other in shared.values():
                on_shared(group, other)
            query = sa.select(c.group_key, c.key, c.label, c[self._created_id], c.group_label).where(*some)
            for group_key, key, *facts in stream(self._connection, query):
                if group_key not in shared and not is_seen(key):
                    yield StaleDocument(*facts)

    def _shared_groups(
        self, conditions: Sequence[sa.ColumnElement[bool]], is_seen: Callable[[str], bool]
    ) -> dict[int, tuple[DocumentGroup, int]]:
        """Return the groups of which another mapped task of this run has loaded rows, each with its map index."""
        c = self._table.c
        run = self._run.columns()
        is_other = [c.map_index != run.pop("map_index")]
        is_other += [c[name].is_not_distinct_from(value) for name, value in run.items()]
        query = sa.select(c.key, c.group_key, c.group_label, c.map_index).where(*conditions, *is_other)
        shared = {}
        for key, group_key, label, map_index in stream(self._connection, query):
            if not is_seen(key):
                shared[group_key] = (DocumentGroup(group_key, label), map_index)
        return shared

    @property
    def _group_label(self) -> tuple[sa.ColumnElement[Any], ...]:
        """The column of the name of the group, if the rows have groups."""
        return (self._table.c.group_label,) if self.has_groups else ()

    def size(self) -> int:
        """Return the number of this source's documents on the site, according to the ledger."""
        query = sa.select(sa.func.count()).select_from(self._table).where(*self._own)
        ((count,),) = stream(self._connection, query)
        return int(count)

    @property
    def _own(self) -> tuple[sa.ColumnElement[bool], ...]:
        c = self._table.c
        return c.scope == self._scope, c.source == self.source, c.content_hash.is_not(None)

    def possible_duplicates(self) -> Iterator[PossibleDuplicate]:
        """
        Yield possibly duplicated and superseding documents of earlier tries of this task instance.

        A killed try leaves no findings file, so the next try lists these documents.
        """
        c = self._table.c
        is_mine = [c[name].is_not_distinct_from(value) for name, value in self._run.columns().items()]
        query = sa.select(c.label, c[self._created_id], c.ambiguous, c.superseded, *self._group_label).where(
            c.scope == self._scope,
            *is_mine,
            c.claim != self._token,
            c.outcome == "created",
            (c.ambiguous > 0) | c.superseded.is_not(None),
        )
        for label, created_id, ambiguous, superseded, *group in stream(self._connection, query):
            yield PossibleDuplicate(label, created_id, ambiguous, json.loads(superseded or "[]"), *group)

    def close(self) -> None:
        """Return the database connection to its pool."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _entry(facts: Sequence[Any]) -> LedgerEntry:
    """Return an entry from its columns, the first of which is the outcome."""
    return LedgerEntry(_STATES[facts[0]], *facts)
