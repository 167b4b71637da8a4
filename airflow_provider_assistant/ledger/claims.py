"""Claims and outcomes of documents and questions, recorded in groups of many rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import stream, transaction
from airflow_provider_assistant.ledger.document_groups import DocumentGroup
from airflow_provider_assistant.ledger.entries import CreatedEntry, EntryReader, LedgerEntry
from airflow_provider_assistant.ledger.group_sql import GROUP_COLUMNS, claim_again_statement, group_sql
from airflow_provider_assistant.ledger.leases import Lease, LeaseSettings
from airflow_provider_assistant.ledger.schema import (
    NOT_CREATED,
    Outcome,
    RequestId,
    RunRef,
    encoded_id,
)
from airflow_provider_assistant.ledger.scopes import BatchScope
from airflow_provider_assistant.texts import storable


class RequestEnd(NamedTuple):
    """
    Hold how an async chat request ended.

    :param state: ``complete``, ``failed``, ``lost``, or ``timed_out`` if the task stopped waiting for it.
    :param completed_at: Time at which the end was observed, timezone-aware; None for a request that timed out.
    :param session_id: Id of its session.
    """

    state: str
    completed_at: datetime | None
    session_id: str | None


class Claim(NamedTuple):
    """
    Claim a key: its document is about to be sent.

    :param key: The key.
    :param label: Key as readable text.
    :param entry: Ledger entry of the key before the claim; None if it had none.
    :param group: Group of the document; None if it has none. Default: None.
    """

    key: str
    label: str
    entry: LedgerEntry | None
    group: DocumentGroup | None = None


class ClaimOutcome(NamedTuple):
    """
    Hold the outcome of a claim.

    :param claim: The claim.
    :param outcome: ``created``, ``ambiguous``, ``rejected`` by the service, or ``failed``.
    :param content_hash: Content hash of what was sent.
    :param created_id: Id of the new document or chat request; None if the service returned none.
    :param http_status: HTTP status of the last response; None if there was none.
    :param attempts: Number of requests sent. Default: 1.
    :param ambiguous: Number of those requests that may have created another document. Default: 0.
    :param error: Error message, or None.
    """

    claim: Claim
    outcome: Outcome
    content_hash: str
    created_id: str | None = None
    http_status: int | None = None
    attempts: int = 1
    ambiguous: int = 0
    error: str | None = None


class BatchLedger(EntryReader):
    """
    Keep the ledger of one scope for one try of one task: read its entries, claim keys, and record outcomes.

    :param engine: Engine of the ledger's database.
    :param table: Table of the entries: ``documents`` or ``questions``.
    :param scope: Scope of the entries.
    :param site_id: Id of the site.
    :param source: Name of the source that is loaded.
    :param run: The task instance.
    :param now: Returns the current time, timezone-aware. Default: the system clock.
    :param leases: Settings of leases. Default: 60 seconds by the database's clock.
    :param has_groups: Whether the rows that are loaded have groups; only for documents. Default: False.
    :raises AssistantLedgerError: The database cannot be used.
    """

    def __init__(
        self,
        engine: sa.Engine,
        table: sa.Table,
        *,
        scope: BatchScope,
        site_id: str,
        source: str,
        run: RunRef,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        leases: LeaseSettings = LeaseSettings(),  # noqa: B008 (immutable)
        has_groups: bool = False,
    ) -> None:
        super().__init__(
            engine, table, scope=scope, source=source, run=run, now=now, leases=leases, has_groups=has_groups
        )
        self._lease = Lease(engine, self._token, run, leases)
        # Values that all entries of a load have.
        shared = {
            "scope": self._scope,
            **scope.columns(),
            "site_id": site_id,
            "source": self._source,
            "claim": self._token,
            **run.columns(),
        }
        self._shared = tuple([storable(value) if isinstance(value, str) else value for value in shared.values()])
        self._group = group_sql(self._connection, table, (*shared, "claimed_at"), has_document_groups=has_groups)
        self._stored_id = encoded_id if isinstance(table.c[self._created_id].type, RequestId) else storable
        self._claim_again = claim_again_statement(table, has_groups=has_groups)

    def commit_and_claim(
        self,
        outcomes: Collection[ClaimOutcome],
        claims: Collection[Claim],
        *,
        on_taken_over: Callable[[ClaimOutcome], None] = lambda _: None,
    ) -> set[str]:
        """
        Record outcomes and claim keys in one transaction.

        The first claims begin the lease of this task, which :meth:`release` and :meth:`close` end.

        :param outcomes: Outcomes of earlier claims.
        :param claims: New claims.
        :param on_taken_over: Called with each outcome that was not recorded, because the lease had expired and another
            run has taken the key over. Default: do nothing.
        :return: The keys that were claimed. The missing ones have been claimed by another task.
        :raises AssistantLedgerError: The database cannot be written; the transaction was rolled back.
        """
        if not (outcomes or claims):
            return set()
        if claims:
            self._lease.begin()
        new = {claim.key: claim for claim in claims if claim.entry is None}
        if new and any(one.claim.key in new for one in outcomes):
            # The source has changed since the preflight and repeats a key, which one statement cannot write twice.
            self.commit_and_claim(outcomes, (), on_taken_over=on_taken_over)
            outcomes = ()
        again = [claim for claim in claims if claim.entry is not None]

        def write(_: sa.Connection) -> tuple[list[ClaimOutcome], set[str]]:
            return self._write_group(outcomes, new, again)

        is_one = not again and self._group.is_one_statement(len(outcomes), len(new))
        taken_over, won = transaction(self._connection, write, writes=True, autocommit=is_one)
        for outcome in taken_over:
            on_taken_over(outcome)
        return won

    def release(self) -> None:
        """End the lease of this task. Claims without an outcome become ambiguous; later claims begin a new lease."""
        self._lease.release()

    def close(self) -> None:
        """End the lease of this task, and return the database connection to its pool."""
        try:
            self.release()
        finally:
            super().close()

    def record_late(self, created: Collection[CreatedEntry]) -> None:
        """
        Record effects that an earlier try made and saved elsewhere, but could not record before it was killed.

        An effect is ignored unless its key has a claim without an outcome, made before the effect by a task that is no
        longer alive.

        :param created: The effects.
        :raises AssistantLedgerError: The database cannot be used.
        """
        entries = self.entries([one.key for one in created])
        found = [
            {"k": key, "c": entry.claim, "b": at, "h": content_hash, "i": created_id, "at": at, "n": attempts}
            for key, content_hash, created_id, at, attempts in created
            if (entry := entries.get(key)) and entry.outcome == "claimed" and entry.state != "leased"
        ]
        if not found:
            return
        c, bind = self._table.c, sa.bindparam
        is_same = (c.scope == self._scope, c.key == bind("k"), c.claim == bind("c"), c.outcome == "claimed")
        facts: dict[str, Any] = {"content_hash": bind("h"), self._created_id: bind("i"), "recorded_at": bind("at")}
        change = (
            sa.update(self._table)
            .where(*is_same, c.claimed_at <= bind("b"))
            .values(outcome="created", attempts=c.attempts + bind("n"), **facts)
        )
        transaction(self._connection, lambda connection: connection.execute(change, found), writes=True)

    def record_ends(self, ends: Mapping[str, RequestEnd]) -> None:
        """
        Record how requests ended. Requests that have no entry in this scope are ignored.

        :param ends: End by request id.
        :raises AssistantLedgerError: The database cannot be written.
        """
        found = [
            {"k": one.key, "r": one.created_id, **end._asdict()}
            for one in self.created_entries()
            if one.created_id and (end := ends.get(one.created_id))
        ]
        if not found:
            return
        c = self._table.c
        # The request of an entry may have been replaced since it was read.
        is_same = (c.scope == self._scope, c.key == sa.bindparam("k"), c.request_id == sa.bindparam("r"))
        values: dict[str, Any] = {name: sa.bindparam(name) for name in RequestEnd._fields}
        change = sa.update(self._table).where(*is_same).values(values)
        transaction(self._connection, lambda connection: connection.execute(change, found), writes=True)

    def withdraw(self, keys: Collection[str], reason: str, *, ambiguous: bool = False) -> None:
        """
        Mark effects as lost, so that the next try makes them again.

        The entries keep the ids of the lost documents until then, for manual checks.

        :param keys: Keys of the effects.
        :param reason: Reason, as text.
        :param ambiguous: Whether making the effects again duplicates them, so that they are listed as possibly
            duplicated. Default: False.
        :raises AssistantLedgerError: The database cannot be written.
        """
        c = self._table.c
        change = sa.update(self._table).values(
            outcome="ambiguous" if ambiguous else "failed",
            content_hash=None,
            ambiguous=c.ambiguous + int(ambiguous),
            error=reason,
        )
        self._change(keys, change)

    def adopt(self, is_seen: Callable[[str], bool]) -> int:
        """
        Assign the keys of other sources that this source contains to this source.

        :param is_seen: Returns whether this source contains a key.
        :return: Number of keys taken over.
        :raises AssistantLedgerError: The database cannot be used.
        """
        c = self._table.c
        foreign = sa.select(c.key).where(c.scope == self._scope, c.source != self._source)
        keys = [key for (key,) in stream(self._connection, foreign) if is_seen(key)]
        self._change(keys, sa.update(self._table).values(source=self._source))
        return len(keys)

    def set_groups(self, groups: Mapping[str, DocumentGroup]) -> None:
        """
        Record the groups of documents of this source.

        :param groups: Group by key of the document. Keys of other sources, and keys without an entry, are ignored.
        :raises AssistantLedgerError: The database cannot be written.
        """
        c = self._table.c
        is_own = (c.scope == self._scope, c.key == sa.bindparam("k"), c.source == self._source)
        change = (
            sa.update(self._table).where(*is_own).values(group_key=sa.bindparam("g"), group_label=sa.bindparam("l"))
        )
        # Tasks that change the same keys lock them in the same order, which avoids deadlocks.
        rows = [{"k": key, "g": group.key, "l": group.label} for key, group in sorted(groups.items())]
        if rows:
            transaction(self._connection, lambda connection: connection.execute(change, rows), writes=True)

    def _change(self, keys: Collection[str], change: sa.Update) -> None:
        """Apply one update to the entries of these keys in one transaction."""
        c, ordered = self._table.c, sorted(keys)

        def write(connection: sa.Connection) -> None:
            for start in range(0, len(ordered), PARAMETERS - 5):
                some = ordered[start : start + PARAMETERS - 5]
                connection.execute(change.where(c.scope == self._scope, c.key.in_(some)))

        transaction(self._connection, write, writes=True)

    def _write_group(
        self, outcomes: Collection[ClaimOutcome], new: Mapping[str, Claim], again: Collection[Claim]
    ) -> tuple[list[ClaimOutcome], set[str]]:
        """Return the outcomes whose keys another run has taken over, and the keys that were claimed."""
        now = self._now()
        moment = self._bulk.moment(now)
        rows = [self._row(outcome) for outcome in outcomes]
        fresh = [(key, storable(claim.label), *self._group_of(claim)) for key, claim in new.items()]
        is_complete = self._group.write((*self._shared, moment), moment, rows, fresh) == len(rows) + len(fresh)
        if again:
            self._connection.execute(self._claim_again, self._values_again(again, now))
        elif is_complete:
            return [], set(new)
        won = self._held([*new, *(claim.key for claim in again)], self._table.c.outcome == "claimed")
        if is_complete:
            return [], won
        recorded = self._held([one.claim.key for one in outcomes])
        return [one for one in outcomes if one.claim.key not in recorded], won

    def _row(self, outcome: ClaimOutcome) -> tuple[Any, ...]:
        """Return an outcome as values of the columns of the group's statement."""
        state, content_hash, created_id, superseded, status, error, sent_hash = _facts(outcome)
        return (
            *(outcome.claim.key, storable(outcome.claim.label), *self._group_of(outcome.claim)),
            *(outcome.attempts, outcome.ambiguous, state),
            *(content_hash, created_id and self._stored_id(created_id), superseded, status),
            *(error and storable(error), sent_hash),
        )

    def _group_of(self, claim: Claim) -> tuple[Any, ...]:
        """Return the values of the columns of a document's group; nothing if the rows have no groups."""
        if not self.has_groups:
            return ()
        return (None, None) if claim.group is None else (claim.group.key, storable(claim.group.label))

    def _values_again(self, claims: Collection[Claim], now: datetime) -> list[dict[str, Any]]:
        """Return the parameters of the statement that claims existing entries."""
        values = {
            "outcome": "claimed",
            "claim": self._token,
            # The preflight has checked that this source may own the key.
            "source": self._source,
            **self._run.columns(),
            "claimed_at": now,
        }
        return [
            {"s": self._scope, "k": claim.key, "c": claim.entry.claim, "o": claim.entry.outcome, **values}
            | dict(zip(GROUP_COLUMNS, self._group_of(claim), strict=False))
            # Tasks that claim the same keys lock them in the same order, which avoids deadlocks.
            for claim in sorted(claims, key=lambda claim: claim.key)
            if claim.entry is not None
        ]

    def _held(self, keys: Collection[str], *conditions: sa.ColumnElement[bool]) -> set[str]:
        """Return those of the keys whose latest claim belongs to this task, and that meet the conditions."""
        c = self._table.c
        mine = sa.select(c.key).where(c.scope == self._scope, c.key.in_(keys), c.claim == self._token, *conditions)
        return set(self._connection.scalars(mine)) if keys else set()


def _facts(new: ClaimOutcome) -> tuple[Any, ...]:
    """
    Return the values of the columns of an outcome except the time.

    If the document was not created, the entry keeps the previous document. ``sent_hash`` is None if an earlier attempt
    made the entry ambiguous, because that attempt may have sent other content.
    """
    before = new.claim.entry
    outcome = new.outcome
    content_hash = before.content_hash if before else None
    created_id = before.created_id if before else None
    superseded = before.superseded if before else None
    sent_hash = new.content_hash if outcome == "ambiguous" else None
    if outcome == "created":
        if content_hash is not None and created_id is not None:
            superseded = json.dumps([*json.loads(superseded or "[]"), created_id])
        content_hash, created_id = new.content_hash, new.created_id
    elif outcome in NOT_CREATED and before and before.state == "ambiguous":
        outcome = "ambiguous"
    elif outcome in NOT_CREATED and content_hash is not None:
        outcome = "created"
    return outcome, content_hash, created_id, superseded, new.http_status, new.error, sent_hash
