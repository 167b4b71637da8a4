"""
Attempts of one scope: claim, record, renew, read.

Each attempt is a row of its own, so a claim never overwrites the record of an earlier document. To claim a key is to
insert its next number: the primary key decides which of two tasks wins.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_provider_assistant.ledger.clock import Clock
from airflow_provider_assistant.ledger.database import CHUNK, chunks, connected, transaction, write
from airflow_provider_assistant.ledger.schema import DOCUMENT_KINDS, RunRef, State, attempts, given, is_in, new
from airflow_provider_assistant.ledger.scopes import Scope
from airflow_provider_assistant.ledger.sqlite_file import check_in_place

__all__ = ["CHUNK", "Claim", "Known", "Outcome", "ScopeLedger", "chunks"]

_c = attempts.c


class Known(NamedTuple):
    """
    Hold what a decision about a row needs to know of an attempt.

    :param group_name: Name of the row's page, file or ticket.
    :param is_alive: Whether the attempt is a claim whose sender is alive.
    :param is_gone: Whether a load found that the row is gone from its source.
    """

    key: str
    number: int
    source: str
    state: State
    content_hash: str | None
    remote_id: str | None
    group_name: str | None
    is_alive: bool
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """
    Claim a key: something is about to be sent for it.

    :param label: The key as readable text.
    :param number: Number of the attempt, one more than that of the latest one.
    :param content_hash: Hash of what is sent.
    :param group: Name of the row's page, file or ticket. None if it has none.
    :param details: Values of further columns, such as ``session_id`` of a chat request.
    """

    key: str
    label: str
    number: int
    content_hash: str | None = None
    group: str | None = None
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What came of a claim.

    :param remote_id: Id of what the service created; None if it returned none.
    :param status: Word of the service for a new document, such as ``draft``; None if it has none.
    :param requests: Number of requests sent.
    :param ambiguous: Number of them that may have created something besides what ``remote_id`` names.
    :param http_status: Status of the last response; None if there was none.
    """

    claim: Claim
    state: State
    remote_id: str | None = None
    status: str | None = None
    requests: int = 0
    ambiguous: int = 0
    http_status: int | None = None
    error: str | None = None


# Columns that a claim may have values for, and those that an outcome sets. All rows of a statement have the same ones.
_DETAILS = ("session_id", "mode", "rating", "remote_id", "recorded_at")
_RECORDED = ("state", "status", "requests", "ambiguous", "http_status", "error", "recorded_at")
_RECORD = (
    sa.update(attempts)
    .where(given("scope", "key", "number", "token"))
    # A rating has the id of its request before it is sent.
    .values(alive_until=None, remote_id=sa.func.coalesce(new("remote_id"), _c.remote_id))
    .values({name: new(name) for name in _RECORDED})
)


class ScopeLedger:
    """
    Claim and record the attempts of one scope, for one try of a task. Use it as a context manager.

    One thread at a time may use it: it has one connection to the database.

    :param source: Name of the load, or of the task for chat requests and ratings.
    :param token: Identifies the try. Default: a new one.
    """

    def __init__(
        self, engine: sa.Engine, scope: Scope, source: str, run: RunRef, *, clock: Clock, token: str | None = None
    ) -> None:
        self.scope = scope
        self.source = source
        self.run = run
        self.token = token or uuid.uuid4().hex
        self.clock = clock
        self._engine = engine
        self._inode = check_in_place(engine, None)
        self._connection = connected(engine)
        self._of_scope = _c.scope == scope.id
        self._is_own = sa.and_(self._of_scope, _c.source == source, _c.state == "created")
        self._common = dict.fromkeys(_DETAILS) | scope.columns() | run.columns()
        self._common |= {"source": source, "token": self.token}

    def known(self, keys: Collection[str]) -> Mapping[str, list[Known]]:
        """Return the attempts of these keys by key, earliest first. Keys without any are left out."""
        columns = (_c.key, _c.number, _c.source, _c.state, _c.content_hash, _c.remote_id, _c.group_name)
        # Earlier tries of this task instance have ended.
        is_other = sa.or_(_c.token == self.token, ~self.run.is_of(attempts))
        is_alive = sa.func.coalesce(sa.and_(self.clock.is_alive(self._now()), is_other), sa.false())
        query = sa.select(*columns, is_alive, _c.gone_at.is_not(None)).where(self._of_scope)
        found: defaultdict[str, list[Known]] = defaultdict(list)
        for row in self._rows_of(query.order_by(_c.key, _c.number), _c.key, keys):
            found[row[0]].append(Known._make(row))
        return found

    def with_content(self, hashes: Collection[str]) -> dict[str, str | None]:
        """
        Return the documents of the site that have this content, under any key and in any namespace.

        :return: Id of a document by content hash; None for an id that the service did not return.
        """
        query = sa.select(_c.content_hash, _c.remote_id)
        query = query.where(self.scope.site.of(attempts), _c.kind == self.scope.kind, _c.state == "created")
        found: dict[str, str | None] = {}
        for content_hash, remote_id in self._rows_of(query, _c.content_hash, hashes):
            if found.get(content_hash) is None:
                found[content_hash] = remote_id
        return found

    def _rows_of(self, query: sa.Select[Any], column: sa.Column[Any], values: Collection[str]) -> Iterator[Any]:
        """Yield the rows of a query that have one of these values in a column."""
        query = query.where(column.in_(sa.bindparam("values", expanding=True)))

        def read(connection: sa.Connection, chunk: list[str]) -> Sequence[Any]:
            # The driver's own rows: those of SQLAlchemy take twice the time. SQLite has 0 and 1 for booleans.
            with contextlib.closing(connection.execute(query, {"values": chunk})) as result:
                return result.cursor.fetchall()

        for chunk in chunks(values):
            yield from transaction(self._connection, functools.partial(read, chunk=chunk))

    def _now(self) -> datetime:
        return transaction(self._connection, self.clock.read)

    def commit(self, outcomes: Sequence[Outcome], claims: Sequence[Claim]) -> set[str]:
        """
        Record outcomes and claim keys, in one transaction.

        It may be repeated after a commit whose answer was lost.

        :return: Keys that are claimed. Another task has claimed the others in the meantime.
        :raises AssistantLedgerError: The database cannot be used; the claims must not be sent.
        """
        self.check()

        def commit(connection: sa.Connection) -> set[str]:
            now = self.clock.read(connection)
            if outcomes:
                connection.execute(_RECORD, [self._recorded(outcome, now) for outcome in outcomes])
            if not claims:
                return set()
            # All tasks claim keys in the same order, which avoids deadlocks.
            rows = [self._claimed(claim, now) for claim in sorted(claims, key=lambda claim: claim.key)]
            connection.execute(self._insert(), rows)
            query = sa.select(_c.key, _c.number).where(self._of_scope, _c.token == self.token)
            mine = connection.execute(query.where(_c.key.in_([row["key"] for row in rows])))
            own = {(key, number) for key, number in mine}
            return {claim.key for claim in claims if (claim.key, claim.number) in own}

        return transaction(self._connection, commit, writes=True)

    def _insert(self) -> Any:
        """Return the statement that inserts attempts, except those whose number is taken."""
        dialect = sqlite if self._engine.dialect.name == "sqlite" else postgresql
        return dialect.insert(attempts).on_conflict_do_nothing()

    def _claimed(self, claim: Claim, now: datetime) -> dict[str, Any]:
        return {
            **self._common,
            "key": claim.key,
            "number": claim.number,
            "label": claim.label,
            "group_name": claim.group,
            "content_hash": claim.content_hash,
            "state": "claimed",
            "alive_until": now + self.clock.lease,
            "claimed_at": now,
            **(claim.details or {}),
        }

    def _recorded(self, outcome: Outcome, now: datetime) -> dict[str, Any]:
        return {
            "of_scope": self.scope.id,
            "of_key": outcome.claim.key,
            "of_number": outcome.claim.number,
            "of_token": self.token,
            "new_state": outcome.state,
            "new_remote_id": outcome.remote_id,
            "new_status": outcome.status,
            "new_requests": outcome.requests,
            "new_ambiguous": outcome.ambiguous,
            "new_http_status": outcome.http_status,
            "new_error": outcome.error,
            "new_recorded_at": now,
        }

    def renew(self) -> None:
        """Prove that the sender of this try's claims is alive."""
        is_claim = sa.and_(self._of_scope, _c.token == self.token, is_in(_c.state, ("claimed",)))
        change = sa.update(attempts).where(is_claim)
        write(self._connection, change.values(alive_until=self._now() + self.clock.lease))

    def end_earlier_tries(self) -> None:
        """Record that earlier tries of this task instance have ended, so that nobody is sending their claims."""
        is_claim = sa.and_(self._of_scope, _c.token != self.token, is_in(_c.state, ("claimed",)))
        change = sa.update(attempts).where(is_claim, self.run.is_of(attempts))
        write(self._connection, change.values(alive_until=None))

    def share(self, documents: Sequence[Outcome]) -> None:
        """Record rows whose document is on the site already, under another key or for another source."""
        now = self._now()
        created = {"state": "created", "alive_until": None, "recorded_at": now}
        rows = [self._claimed(one.claim, now) | created | {"remote_id": one.remote_id} for one in documents]
        write(self._connection, self._insert(), rows)

    def renumber(self, latest: Collection[tuple[str, int, int]]) -> None:
        """
        Make earlier attempts the latest ones of their keys, and those of this run: the source has their content again.

        :param latest: Key, number and new number of each attempt.
        """
        change = sa.update(attempts).where(self._of_scope, given("key", "number"))
        rows = [{"of_key": key, "of_number": number, "new_number": later} for key, number, later in latest]
        write(self._connection, change.values(number=new("number"), gone_at=None, **self.run.columns()), rows)

    def mark_gone(self, keys: Collection[str]) -> None:
        """Record that rows of this source are gone from it. Rows that are known to be gone keep their time."""
        change = sa.update(attempts).where(self._is_own, _c.gone_at.is_(None)).values(gone_at=self._now())
        for chunk in chunks(sorted(keys)):
            write(self._connection, change.where(_c.key.in_(chunk)))

    def mark_back(self, groups: Collection[tuple[str, str | None]]) -> None:
        """
        Record that rows of this source are in it again, or that they have other groups.

        :param groups: Key of each row, and the name of its group; None to leave it as it is.
        """
        change = sa.update(attempts).where(self._is_own, given("key"))
        change = change.values(gone_at=None, group_name=sa.func.coalesce(new("group_name"), _c.group_name))
        write(self._connection, change, [{"of_key": key, "new_group_name": group} for key, group in groups])

    def set_documents(self, remote_ids: Collection[str], **values: Any) -> None:
        """Set ``status``, or ``state="removed"``, for documents of the site, of all sources."""
        is_document = sa.and_(is_in(_c.kind, DOCUMENT_KINDS), _c.state == "created")
        change = sa.update(attempts).where(self.scope.site.of(attempts), is_document).values(values)
        for chunk in chunks(sorted(remote_ids)):
            write(self._connection, change.where(_c.remote_id.in_(chunk)))

    def check(self) -> None:
        """Check that the file of the ledger was not deleted or replaced."""
        check_in_place(self._engine, self._inode)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
