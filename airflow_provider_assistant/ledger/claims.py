"""Ledger entries of documents and questions, claimed and recorded in groups of many rows."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, Self

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS, Bulk
from airflow_provider_assistant.ledger.database import attempts_on, said
from airflow_provider_assistant.ledger.schema import Outcome, RunRef, scope_on, storable

# Duration of the lease of a claim without an outcome. A load that takes longer renews its claims every RENEWAL.
LEASE = timedelta(hours=1)
RENEWAL = LEASE / 4


def is_leased(intended_at: datetime, now: datetime) -> bool:
    """
    Return whether the lease of a claim without an outcome is still valid.

    A claim from the future, made before the clock was set back, is valid only within the lease as well. Otherwise it
    would block its row until the clock has caught up.

    :param intended_at: Time of the claim, timezone-aware.
    :param now: Current time, timezone-aware.
    """
    return abs(now - intended_at) < LEASE


class Known(NamedTuple):
    """
    Hold the ledger entry of a key.

    :param state: ``done``: the document exists on the site. ``absent``: it does not exist, because the service refused
        it. ``unclear``: the last attempt is ambiguous. ``elsewhere``: another task has claimed the key.
    :param content_hash: Content hash of the document on the site; None if there is none.
    :param document_id: Id of that document; None if the service returned none.
    :param superseded: JSON list of the ids of superseded documents of the key, or None.
    :param claim: Token of the latest claim.
    :param source: Name of the source that the key belongs to.
    """

    state: Literal["done", "absent", "unclear", "elsewhere"]
    content_hash: str | None
    document_id: str | None
    superseded: str | None
    claim: str
    source: str = ""


class Standing(NamedTuple):
    """
    Hold the entry of a key whose document or question the service has accepted.

    :param key: The key.
    :param content_hash: Content hash of what was sent.
    :param document_id: Id of the document, or of the question's request; None if the service returned none.
    :param settled_at: Time at which the outcome was recorded, UTC.
    :param attempts: Number of requests sent for it.
    """

    key: str
    content_hash: str | None
    document_id: str | None
    settled_at: datetime
    attempts: int


class Doubled(NamedTuple):
    """
    Hold a document that an earlier try of this task instance created and that may not be the only one of its key.

    :param label: Key as readable text.
    :param document_id: Id of the document; None if the service returned none.
    :param ambiguous: Number of attempts that may have created another document.
    :param superseded: Ids of the superseded documents of the key.
    """

    label: str
    document_id: str | None
    ambiguous: int
    superseded: list[str]


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


class BatchLedger:
    """
    Keep the ledger of one scope for one try of one task: documents of a site and endpoint, or questions of a batch.

    The docstrings say "document"; for questions, the document is the chat request.

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
        self._attempts = attempts_on(engine.dialect.name)
        with said(engine, "cannot be opened"):
            self._connection = self._attempts(engine.connect)
        self._table = table
        self._scope = scope_on(engine.dialect, scope)
        self._site_id = site_id
        self._source = storable(source)
        self._run = run
        self._now = now
        self._token = uuid.uuid4().hex
        self._bulk = Bulk(self._connection, table)
        self._claim_again = _claim_again(table)
        self._claimed: set[str] = set()
        self._renewed = now()

    def known(self, keys: Sequence[str]) -> dict[str, Known]:
        """
        Return the entries of these keys.

        :param keys: The keys.
        :return: Entry by key; keys without an entry are left out.
        :raises AssistantLedgerError: The database cannot be read.
        """
        entries: dict[str, Known] = {}
        with said(self._connection, "cannot be read"):
            for attempt in self._attempts:
                with attempt, self._connection.begin():
                    entries = self._entries(keys)
        return entries

    def _entries(self, keys: Sequence[str]) -> dict[str, Known]:
        states: dict[str, Any] = {"done": "done", "refused": "absent", "ambiguous": "unclear"}
        entries: dict[str, Known] = {}
        claimed: list[str] = []
        for key, outcome, *facts in self._bulk.select(_KNOWN, self._scope, keys):
            entries[key] = Known(states.get(outcome, "unclear"), *facts)
            if outcome == "intended":
                claimed.append(key)
        return entries | {key: entries[key]._replace(state="elsewhere") for key in self._claimed_elsewhere(claimed)}

    def _claimed_elsewhere(self, keys: Sequence[str]) -> Iterator[str]:
        """Yield those of the claimed keys whose claim belongs to another task and whose lease is valid."""
        c = self._table.c
        now = self._now()
        for start in range(0, len(keys), PARAMETERS - 1):
            wanted = c.key.in_(keys[start : start + PARAMETERS - 1])
            query = sa.select(c.key, c.claim, c.intended_at, *(c[name] for name in _RUN))
            for key, claim, intended_at, *run in self._connection.execute(query.where(c.scope == self._scope, wanted)):
                if claim == self._token or (is_leased(intended_at, now) and RunRef(*run) != self._run):
                    yield key

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
        won: set[str] = set()
        with said(self._connection, "cannot be written"):
            for attempt in self._attempts:
                with attempt, self._connection.begin():
                    if settled:
                        self._record(settled)
                    won = self._claim(wanted) if wanted else set()
                    self._renew(sorted(renewed))
        self._claimed = (self._claimed - {one.claim.key for one in settled}) | won
        if renewed:
            self._renewed = now
        return won

    def standing(self) -> Iterator[Standing]:
        """
        Yield the keys of this scope whose documents exist on the site.

        :return: One :class:`Standing` per key.
        :raises AssistantLedgerError: The database cannot be read.
        """
        c = self._table.c
        query = sa.select(c.key, c.content_hash, c.document_id, c.settled_at, c.attempts).where(
            c.scope == self._scope, c.outcome == "done"
        )
        for row in self._streamed(query):
            yield Standing(*row)

    def ended(self, ends: Mapping[str, End]) -> None:
        """
        Record how requests ended. Requests that have no entry in this scope are ignored.

        :param ends: End by request id.
        :raises AssistantLedgerError: The database cannot be written.
        """
        start, moment = self._start, self._bulk.moment
        # If an entry is deleted concurrently, the upsert inserts it again as refused.
        rows = [
            (*start, one.key, "", 0, 0, "refused", one.document_id, end.state, moment(end.completed_at), end.session_id)
            for one in self.standing()
            if one.document_id and (end := ends.get(one.document_id))
        ]
        with said(self._connection, "cannot be written"):
            for attempt in self._attempts:
                with attempt, self._connection.begin():
                    self._bulk.upsert(_ENDED, rows, change=_END, add=(), if_same="document_id")

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

    def stale(self, is_seen: Callable[[str], bool]) -> Iterator[tuple[str, str | None]]:
        """
        Yield the stale documents: those that this source loaded and no longer contains.

        :param is_seen: Returns whether the source still contains a key.
        :return: Pairs of key label and document id; the id is None if the service returned none.
        :raises AssistantLedgerError: The database cannot be read.
        """
        c = self._table.c
        query = sa.select(c.key, c.label, c.document_id).where(*self._own)
        for key, label, document_id in self._streamed(query):
            if not is_seen(key):
                yield label, document_id

    @property
    def source(self) -> str:
        """Name of the source that is loaded."""
        return self._source

    def size(self) -> int:
        """
        Return the number of this source's documents on the site, according to the ledger.

        :raises AssistantLedgerError: The database cannot be read.
        """
        query = sa.select(sa.func.count()).select_from(self._table).where(*self._own)
        ((count,),) = self._streamed(query)
        return int(count)

    @property
    def _own(self) -> tuple[sa.ColumnElement[bool], ...]:
        c = self._table.c
        return c.scope == self._scope, c.source == self._source, c.content_hash.is_not(None)

    def adopt(self, is_seen: Callable[[str], bool]) -> int:
        """
        Assign the keys of other sources that this source contains to this source.

        :param is_seen: Returns whether this source contains a key.
        :return: Number of keys taken over.
        :raises AssistantLedgerError: The database cannot be used.
        """
        c = self._table.c
        foreign = sa.select(c.key).where(c.scope == self._scope, c.source != self._source)
        keys = [key for (key,) in self._streamed(foreign) if is_seen(key)]
        self._change(keys, sa.update(self._table).values(source=self._source))
        return len(keys)

    def _change(self, keys: Collection[str], change: sa.Update) -> None:
        """Apply one update to the entries of these keys in one transaction."""
        c, ordered = self._table.c, sorted(keys)
        with said(self._connection, "cannot be written"):
            for attempt in self._attempts:
                with attempt, self._connection.begin():
                    for start in range(0, len(ordered), PARAMETERS - 5):
                        some = ordered[start : start + PARAMETERS - 5]
                        self._connection.execute(change.where(c.scope == self._scope, c.key.in_(some)))

    def doubled(self) -> Iterator[Doubled]:
        """
        Yield possibly duplicated and superseding documents of earlier tries of this task instance.

        A killed try leaves no findings file, so the next try lists these documents.

        :return: One :class:`Doubled` per document.
        :raises AssistantLedgerError: The database cannot be read.
        """
        c = self._table.c
        query = sa.select(c.label, c.document_id, c.ambiguous, c.superseded).where(
            c.scope == self._scope,
            *(c[name].is_not_distinct_from(value) for name, value in self._run.columns().items()),
            c.claim != self._token,
            c.outcome == "done",
            (c.ambiguous > 0) | c.superseded.is_not(None),
        )
        for label, document_id, ambiguous, superseded in self._streamed(query):
            yield Doubled(label, document_id, ambiguous, json.loads(superseded or "[]"))

    def close(self) -> None:
        """Return the database connection to its pool."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _streamed(self, query: sa.Select[Any]) -> Iterator[Any]:
        with said(self._connection, "cannot be read"):
            rows, opened = self._attempts(self._executed, query)
            with opened:
                yield from rows

    def _executed(self, query: sa.Select[Any]) -> tuple[sa.CursorResult[Any], contextlib.ExitStack]:
        """Return the rows of a query, and a stack that closes the transaction after them."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._connection.begin())
            rows = self._connection.execute(query, execution_options={"yield_per": 1000})
            stack.enter_context(contextlib.closing(rows))
            return rows, stack.pop_all()

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


# Columns of the bulk statements: those that all rows of a group share come first.
_RUN = ("dag_id", "run_id", "task_id", "map_index", "region")
_START = ("scope", "site_id", "source", "claim", *_RUN, "intended_at")
_COUNTS = ("attempts", "ambiguous")
_CLAIMED = (*_START, "key", "label", *_COUNTS, "outcome")
_FACTS = ("outcome", "content_hash", "document_id", "superseded", "http_status", "error", "settled_at")
_SETTLED = (*_START, "key", "label", *_COUNTS, *_FACTS)
_END = ("state", "completed_at", "session_id")
_ENDED = (*_CLAIMED, "document_id", *_END)
_KNOWN = ("key", "outcome", "content_hash", "document_id", "superseded", "claim", "source")


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
