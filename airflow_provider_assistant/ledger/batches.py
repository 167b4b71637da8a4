"""The part of the ledger that remembers rows by the thousand: who claimed which, and what became of it."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, Self

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk import PARAMETERS, Bulk
from airflow_provider_assistant.ledger.database import attempts_on, said
from airflow_provider_assistant.ledger.schema import Outcome, RunRef, scope_on, storable

# A claim without an outcome belongs to a live task for this long. A load that waits for longer renews its claims.
LEASE = timedelta(hours=1)
RENEWAL = LEASE / 4


def is_leased(intended_at: datetime, now: datetime) -> bool:
    """
    Return whether a claim without an outcome belongs to a live task.

    One from the future does so only within the lease as well: the clock was set back since, and the claim would
    otherwise hold up its row until that time comes again.
    """
    return abs(now - intended_at) < LEASE


class Known(NamedTuple):
    """
    What the ledger knows of a key.

    :param state: ``done``: its document stands on the site. ``absent``: an attempt was refused, so there is
        none. ``unclear``: an attempt may have created it. ``elsewhere``: another task is about to create it.
    :param content_hash: Of the document that stands on the site, or None.
    :param document_id: Its id, if the service showed one.
    :param superseded: Ids of the documents that this key had before, as JSON, or None.
    :param claim: The latest claim.
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
    What a key stands for on the site.

    :param key: The key.
    :param content_hash: Of what was sent.
    :param document_id: Of its document, or the id of its request, if the service showed one.
    :param settled_at: When the ledger learned of it.
    :param attempts: How many times it was sent.
    """

    key: str
    content_hash: str | None
    document_id: str | None
    settled_at: datetime
    attempts: int


class Doubled(NamedTuple):
    """
    A document that an earlier try of this task instance created, and that is not the only one of its key.

    :param label: Its key in words.
    :param document_id: Its id, if the service showed one.
    :param ambiguous: How many attempts may have created it as well.
    :param superseded: Ids of the documents that its key had before.
    """

    label: str
    document_id: str | None
    ambiguous: int
    superseded: list[str]


class End(NamedTuple):
    """
    How a request ended.

    :param state: ``complete``, ``failed``, ``lost``, or ``timed_out``: nobody waits for it any more.
    :param completed_at: When its end was noticed, aware; None for one that timed out.
    :param session_id: Its conversation.
    """

    state: str
    completed_at: datetime | None
    session_id: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """
    The wish to create the document of a key.

    :param key: The key.
    :param label: The key in words.
    :param known: What the ledger said of it; None if nothing.
    """

    key: str
    label: str
    known: Known | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """
    What came of a claim.

    :param claim: The claim.
    :param outcome: ``done``, ``ambiguous`` or ``refused``.
    :param content_hash: Of the content that was sent.
    :param document_id: What the service calls the new document.
    :param http_status: Of the last answer, if there was one.
    :param attempts: How many times it was sent.
    :param ambiguous: How many of them may have created a document besides.
    :param error: What went wrong, in words.
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
    The documents of one site and endpoint, as one try of one task loads them, or the questions that it asks.

    What is said of documents holds for questions: the request is the document of its row.

    :param engine: The ledger's database.
    :param table: The kind of rows.
    :param scope: Site and endpoint; for questions also the task that asks.
    :param site_id: The site.
    :param source: Name of the source that is loaded.
    :param run: The task instance.
    :param now: The current time, aware.
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
        self._open: set[str] = set()
        self._renewed = now()

    def known(self, keys: Sequence[str]) -> dict[str, Known]:
        """
        Return what the ledger knows of these keys; those it does not know are left out.

        :raises AssistantLedgerError: The database cannot be read.
        """
        known: dict[str, Known] = {}
        with said(self._connection, "cannot be read"):
            for attempt in self._attempts:
                with attempt, self._connection.begin():
                    known = self._known(keys)
        return known

    def _known(self, keys: Sequence[str]) -> dict[str, Known]:
        states: dict[str, Any] = {"done": "done", "refused": "absent", "ambiguous": "unclear"}
        known: dict[str, Known] = {}
        open_: list[str] = []
        for key, outcome, *facts in self._bulk.select(_KNOWN, self._scope, keys):
            known[key] = Known(states.get(outcome, "unclear"), *facts)
            if outcome == "intended":
                open_.append(key)
        return known | {key: known[key]._replace(state="elsewhere") for key in self._elsewhere(open_)}

    def _elsewhere(self, keys: Sequence[str]) -> Iterator[str]:
        """Yield those of the keys, all intended and without an outcome, that a live task is about to create."""
        c = self._table.c
        now = self._now()
        for start in range(0, len(keys), PARAMETERS - 1):
            wanted = c.key.in_(keys[start : start + PARAMETERS - 1])
            query = sa.select(c.key, c.claim, c.intended_at, *(c[name] for name in _RUN))
            for key, claim, intended_at, *run in self._connection.execute(query.where(c.scope == self._scope, wanted)):
                if claim == self._token or (is_leased(intended_at, now) and RunRef(*run) != self._run):
                    yield key

    def exchange(self, settled: Collection[Settlement], wanted: Collection[Claim]) -> set[str]:
        """
        Record outcomes, and claim keys, in one transaction.

        Claims without an outcome are renewed when it is time. So a task that waits calls this every :data:`RENEWAL`.

        :param settled: What came of earlier claims.
        :param wanted: What is about to be sent.
        :return: The keys that were won. The others were claimed by another task a moment before.
        :raises AssistantLedgerError: The database refused; nothing of this was recorded.
        """
        now = self._now()
        renewed = self._open - {one.claim.key for one in settled} if abs(now - self._renewed) >= RENEWAL else set()
        if not (settled or wanted or renewed):
            return set()
        won: set[str] = set()
        with said(self._connection, "cannot be written"):
            for attempt in self._attempts:
                with attempt, self._connection.begin():
                    if settled:
                        self._settle(settled)
                    won = self._claim(wanted) if wanted else set()
                    self._renew(sorted(renewed))
        self._open = (self._open - {one.claim.key for one in settled}) | won
        if renewed:
            self._renewed = now
        return won

    def standing(self) -> Iterator[Standing]:
        """Yield what stands on the site, of all keys of this scope."""
        c = self._table.c
        query = sa.select(c.key, c.content_hash, c.document_id, c.settled_at, c.attempts).where(
            c.scope == self._scope, c.outcome == "done"
        )
        for row in self._streamed(query):
            yield Standing(*row)

    def ended(self, ends: Mapping[str, End]) -> None:
        """
        Take note of how requests ended that stand here; of others nothing is noted.

        :param ends: The ends, by request.
        :raises AssistantLedgerError: The database refused.
        """
        start, moment = self._start, self._bulk.moment
        # A row that somebody removes in this moment comes back as one that was never sent.
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
        Take note that what these keys stood for is of no use, so that the next try makes it anew.

        Its id stays, for people, until then.

        :param keys: The keys.
        :param reason: Why, in words.
        :param ambiguous: Whether making it anew doubles an effect, and is to be listed as such.
        :raises AssistantLedgerError: The database refused.
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
        Yield label and document id of every document that this source loaded and no longer has.

        :param is_seen: Whether the source still has a key.
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
        """Return the number of this source's documents that the ledger knows to be on the site."""
        query = sa.select(sa.func.count()).select_from(self._table).where(*self._own)
        ((count,),) = self._streamed(query)
        return int(count)

    @property
    def _own(self) -> tuple[sa.ColumnElement[bool], ...]:
        c = self._table.c
        return c.scope == self._scope, c.source == self._source, c.content_hash.is_not(None)

    def adopt(self, is_seen: Callable[[str], bool]) -> int:
        """
        Take over the keys of other sources, and return how many these were.

        :param is_seen: Whether the source that is loaded has a key.
        :raises AssistantLedgerError: The database refused.
        """
        c = self._table.c
        foreign = sa.select(c.key).where(c.scope == self._scope, c.source != self._source)
        keys = [key for (key,) in self._streamed(foreign) if is_seen(key)]
        self._change(keys, sa.update(self._table).values(source=self._source))
        return len(keys)

    def _change(self, keys: Collection[str], change: sa.Update) -> None:
        """Make one change to the rows of these keys, in one transaction."""
        c, ordered = self._table.c, sorted(keys)
        with said(self._connection, "cannot be written"):
            for attempt in self._attempts:
                with attempt, self._connection.begin():
                    for start in range(0, len(ordered), PARAMETERS - 5):
                        some = ordered[start : start + PARAMETERS - 5]
                        self._connection.execute(change.where(c.scope == self._scope, c.key.in_(some)))

    def doubled(self) -> Iterator[Doubled]:
        """Yield what earlier tries of this task instance created and, had they not been killed, would have listed."""
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
        """Give the database connection back."""
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
        """Return the rows of a query, and what to close after them."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._connection.begin())
            rows = self._connection.execute(query, execution_options={"yield_per": 1000})
            stack.enter_context(contextlib.closing(rows))
            return rows, stack.pop_all()

    def _settle(self, settled: Collection[Settlement]) -> None:
        start, now = self._start, self._bulk.moment(self._now())
        rows = [
            (*start, one.claim.key, one.claim.label, one.attempts, one.ambiguous, *_facts(one), now) for one in settled
        ]
        self._bulk.upsert(_SETTLED, rows, change=_FACTS, add=_COUNTS, if_same="claim")

    def _renew(self, keys: Sequence[str]) -> None:
        c = self._table.c
        change = sa.update(self._table).values(intended_at=self._now())
        mine = change.where(c.scope == self._scope, c.claim == self._token, c.outcome == "intended")
        for start in range(0, len(keys), PARAMETERS - 4):
            self._connection.execute(mine.where(c.key.in_(keys[start : start + PARAMETERS - 4])))

    def _claim(self, wanted: Collection[Claim]) -> set[str]:
        # Sorted, so that two tasks that want the same keys wait for each other in one direction only.
        ordered = sorted(wanted, key=lambda claim: claim.key)
        start = self._start
        fresh = [(*start, claim.key, claim.label, 0, 0, "intended") for claim in ordered if claim.known is None]
        again = [
            {"s": self._scope, "k": claim.key, "c": claim.known.claim, **self._intent}
            for claim in ordered
            if claim.known is not None
        ]
        won = self._bulk.insert(_CLAIMED, fresh) if fresh else 0
        if again:
            self._connection.execute(self._claim_again, again)
        elif won == len(ordered):
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
            # The check before the load has made sure that this source may have the key.
            "source": self._source,
            **self._run.columns(),
            "intended_at": self._now(),
        }

    @property
    def _start(self) -> tuple[Any, ...]:
        """The values of ``_START`` for now."""
        names = (self._scope, self._site_id, self._source, self._token)
        return (*names, *self._run.columns().values(), self._bulk.moment(self._now()))


# What all rows of a group have in common, and what each has of its own.
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
    Return the statement that claims a row anew.

    An intent that nobody settled is one more attempt that may have happened. It is counted before the outcome
    changes, because MySQL assigns from left to right.
    """
    c = table.c
    return (
        sa.update(table)
        .where(c.scope == sa.bindparam("s"), c.key == sa.bindparam("k"), c.claim == sa.bindparam("c"))
        .ordered_values(
            (c.ambiguous, c.ambiguous + sa.case((c.outcome == "intended", 1), else_=0)),
            *((c[column], sa.bindparam(column)) for column in ("outcome", "claim", "source", *_RUN, "intended_at")),
            # How an earlier request ended says nothing of the next.
            *((c[column], sa.null()) for column in _END if column in c),
        )
    )


def _facts(settlement: Settlement) -> tuple[Any, ...]:
    """Return the values of ``_FACTS`` but the time: a document that was not created leaves what stood there before."""
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
