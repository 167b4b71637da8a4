"""Claims and outcomes of documents and questions, recorded in groups of many rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import stream, transaction
from airflow_provider_assistant.ledger.entries import LEASE, EntryReader, Known
from airflow_provider_assistant.ledger.schema import Outcome, RunRef

# A task that waits renews the leases of its claims every RENEWAL.
RENEWAL = LEASE / 4

# Columns of the bulk statements: those that all rows of a group share come first.
_RUN = ("dag_id", "run_id", "task_id", "map_index", "region")
_START = ("scope", "site_id", "source", "claim", *_RUN, "intended_at")
_COUNTS = ("attempts", "ambiguous")
_CLAIMED = (*_START, "key", "label", *_COUNTS, "outcome")
_FACTS = ("outcome", "content_hash", "document_id", "superseded", "http_status", "error", "settled_at")
_SETTLED = (*_START, "key", "label", *_COUNTS, *_FACTS)
_END = ("state", "completed_at", "session_id")


class End(NamedTuple):
    """
    Hold how an async chat request ended.

    :param state: ``complete``, ``failed``, ``lost``, or ``timed_out`` if the task stopped waiting for it.
    :param completed_at: Time at which the end was observed, timezone-aware; None for a request that timed out.
    :param session_id: Id of its session.
    """

    state: str
    completed_at: datetime | None
    session_id: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """
    Claim a key: its document is about to be sent.

    :param key: The key.
    :param label: Key as readable text.
    :param known: Ledger entry of the key before the claim; None if it had none.
    """

    key: str
    label: str
    known: Known | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """
    Hold the outcome of a claim.

    :param claim: The claim.
    :param outcome: ``done``, ``ambiguous`` or ``refused``.
    :param content_hash: Content hash of what was sent.
    :param document_id: Id of the new document; None if the service returned none.
    :param http_status: HTTP status of the last response; None if there was none.
    :param attempts: Number of requests sent. Default: 1.
    :param ambiguous: Number of those requests that may have created another document. Default: 0.
    :param error: Error message, or None.
    """

    claim: Claim
    outcome: Outcome
    content_hash: str
    document_id: str | None = None
    http_status: int | None = None
    attempts: int = 1
    ambiguous: int = 0
    error: str | None = None


class BatchLedger(EntryReader):
    """
    Keep the ledger of one scope for one try of one task: read its entries, claim keys, and record outcomes.

    :param engine: Engine of the ledger's database.
    :param table: Table of the entries: ``documents`` or ``questions``.
    :param scope: Scope of the entries: site and endpoint, or site and batch.
    :param site_id: Id of the site.
    :param source: Name of the source that is loaded.
    :param run: The task instance.
    :param now: Returns the current time, timezone-aware. Default: the system clock.
    :raises AssistantLedgerError: The database cannot be used.
    """

    def __init__(
        self,
        engine: sa.Engine,
        table: sa.Table,
        *,
        scope: str,
        site_id: str,
        source: str,
        run: RunRef,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(engine, table, scope=scope, source=source, run=run, now=now)
        self._site_id = site_id
        self._claim_again = _claim_again(table)
        self._claimed: set[str] = set()
        self._renewed = now()

    def commit_and_claim(self, settled: Collection[Settlement], wanted: Collection[Claim]) -> set[str]:
        """
        Record outcomes and claim keys in one transaction.

        It also renews the leases of claims without an outcome if :data:`RENEWAL` has passed. A task that waits has to
        call it at least every :data:`RENEWAL`.

        :param settled: Outcomes of earlier claims.
        :param wanted: New claims.
        :return: The keys that were claimed. The missing ones have been claimed by another task.
        :raises AssistantLedgerError: The database cannot be written; the transaction was rolled back.
        """
        now = self._now()
        renewed = self._claimed - {one.claim.key for one in settled} if abs(now - self._renewed) >= RENEWAL else set()
        if not (settled or wanted or renewed):
            return set()

        def write(_: sa.Connection) -> set[str]:
            if settled:
                self._record(settled)
            won = self._claim(wanted) if wanted else set()
            self._renew(sorted(renewed))
            return won

        won = transaction(self._connection, write, writes=True)
        self._claimed = (self._claimed - {one.claim.key for one in settled}) | won
        if renewed:
            self._renewed = now
        return won

    def ended(self, ends: Mapping[str, End]) -> None:
        """
        Record how requests ended. Requests that have no entry in this scope are ignored.

        :param ends: End by request id.
        :raises AssistantLedgerError: The database cannot be written.
        """
        found = [
            {"k": one.key, "r": one.document_id, **end._asdict()}
            for one in self.standing()
            if one.document_id and (end := ends.get(one.document_id))
        ]
        if not found:
            return
        c = self._table.c
        # The request of an entry may have been replaced since it was read.
        is_same = (c.scope == self._scope, c.key == sa.bindparam("k"), c.document_id == sa.bindparam("r"))
        change = sa.update(self._table).where(*is_same).values({name: sa.bindparam(name) for name in _END})
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
            outcome="ambiguous" if ambiguous else "refused",
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

    def _change(self, keys: Collection[str], change: sa.Update) -> None:
        """Apply one update to the entries of these keys in one transaction."""
        c, ordered = self._table.c, sorted(keys)

        def write(connection: sa.Connection) -> None:
            for start in range(0, len(ordered), PARAMETERS - 5):
                some = ordered[start : start + PARAMETERS - 5]
                connection.execute(change.where(c.scope == self._scope, c.key.in_(some)))

        transaction(self._connection, write, writes=True)

    def _record(self, outcomes: Collection[Settlement]) -> None:
        start, now = self._start, self._bulk.moment(self._now())
        rows = [
            (*start, one.claim.key, one.claim.label, one.attempts, one.ambiguous, *_facts(one), now) for one in outcomes
        ]
        self._bulk.upsert(_SETTLED, rows, change=_FACTS, add=_COUNTS, if_same="claim")

    def _renew(self, keys: Sequence[str]) -> None:
        c = self._table.c
        change = sa.update(self._table).values(intended_at=self._now())
        mine = change.where(c.scope == self._scope, c.claim == self._token, c.outcome == "intended")
        for start in range(0, len(keys), PARAMETERS - 4):
            self._connection.execute(mine.where(c.key.in_(keys[start : start + PARAMETERS - 4])))

    def _claim(self, wanted: Collection[Claim]) -> set[str]:
        # Tasks that claim the same keys lock them in the same order, which avoids deadlocks.
        ordered = sorted(wanted, key=lambda claim: claim.key)
        start = self._start
        new = [(*start, claim.key, claim.label, 0, 0, "intended") for claim in ordered if claim.known is None]
        existing = [
            {"s": self._scope, "k": claim.key, "c": claim.known.claim, **self._intent}
            for claim in ordered
            if claim.known is not None
        ]
        inserted = self._bulk.insert(_CLAIMED, new) if new else 0
        if existing:
            self._connection.execute(self._claim_again, existing)
        elif inserted == len(ordered):
            return {claim.key for claim in ordered}
        c = self._table.c
        mine = sa.select(c.key).where(
            c.scope == self._scope,
            c.key.in_([claim.key for claim in ordered]),
            c.claim == self._token,
            c.outcome == "intended",
        )
        return set(self._connection.scalars(mine))

    @property
    def _intent(self) -> dict[str, Any]:
        return {
            "outcome": "intended",
            "claim": self._token,
            # The preflight has checked that this source may own the key.
            "source": self._source,
            **self._run.columns(),
            "intended_at": self._now(),
        }

    @property
    def _start(self) -> tuple[Any, ...]:
        """The current values of the columns of ``_START``."""
        names = (self._scope, self._site_id, self._source, self._token)
        return (*names, *self._run.columns().values(), self._bulk.moment(self._now()))


def _claim_again(table: sa.Table) -> sa.Update:
    """
    Return the statement that claims an existing entry.

    An earlier claim without an outcome counts as an ambiguous attempt. The statement increases that count before it
    sets the outcome, because MySQL evaluates assignments from left to right.
    """
    c = table.c
    return (
        sa.update(table)
        .where(c.scope == sa.bindparam("s"), c.key == sa.bindparam("k"), c.claim == sa.bindparam("c"))
        .ordered_values(
            (c.ambiguous, c.ambiguous + sa.case((c.outcome == "intended", 1), else_=0)),
            *((c[column], sa.bindparam(column)) for column in ("outcome", "claim", "source", *_RUN, "intended_at")),
            # Clear the end of the earlier request.
            *((c[column], sa.null()) for column in _END if column in c),
        )
    )


def _facts(settlement: Settlement) -> tuple[Any, ...]:
    """
    Return the values of ``_FACTS`` except the time.

    If the document was not created, the entry keeps the previous document.
    """
    before = settlement.claim.known
    outcome = settlement.outcome
    content_hash = before.content_hash if before else None
    document_id = before.document_id if before else None
    superseded = before.superseded if before else None
    if outcome == "done":
        if content_hash is not None and document_id is not None:
            superseded = json.dumps([*json.loads(superseded or "[]"), document_id])
        content_hash, document_id = settlement.content_hash, settlement.document_id
    elif outcome == "refused" and before and before.state == "unclear":
        outcome = "ambiguous"
    elif outcome == "refused" and content_hash is not None:
        outcome = "done"
    return outcome, content_hash, document_id, superseded, settlement.http_status, settlement.error
