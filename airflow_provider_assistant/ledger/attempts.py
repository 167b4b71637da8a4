"""
Attempts of one scope: claim, record, renew, read.

Each attempt is a row of its own, so a claim never overwrites the record of an earlier document. To claim a key is to
insert its next number: the primary key decides which of two tasks wins.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger.clock import Clock
from airflow_provider_assistant.ledger.database import connected, transaction
from airflow_provider_assistant.ledger.schema import DOCUMENT_KINDS, RunRef, State, attempts, is_in
from airflow_provider_assistant.ledger.scopes import Scope
from airflow_provider_assistant.ledger.sqlite_file import check_in_place

log = logging.getLogger(__name__)

# Values of one IN list.
CHUNK = 1000
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
    Hold the outcome of a claim.

    :param state: ``created``, ``ambiguous``, ``rejected`` by the service, or ``failed``.
    :param remote_id: Id that the service returned; None if it returned none.
    :param status: Word of the service for a new document, such as ``draft``; None if it has none.
    :param requests: Number of requests sent.
    :param ambiguous: Number of them that may have created something besides what ``remote_id`` names.
    :param http_status: Status of the last response; None if there was none.
    :param details: Values of further columns.
    """

    claim: Claim
    state: State
    remote_id: str | None = None
    status: str | None = None
    requests: int = 0
    ambiguous: int = 0
    http_status: int | None = None
    error: str | None = None
    details: Mapping[str, Any] | None = None


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
        self._postponed: list[Outcome] = []
        self._of_scope = _c.scope == scope.id
        self._is_own = sa.and_(self._of_scope, _c.source == source, _c.state == "created")
        self._common = {**scope.columns(), "source": source, "token": self.token, **run.columns()}

    # -- read ----------------------------------------------------------------------------------

    def known(self, keys: Collection[str]) -> Mapping[str, list[Known]]:
        """
        Return the attempts of these keys, earliest first.

        :return: Attempts by key; keys without any are left out.
        """
        found: defaultdict[str, list[Known]] = defaultdict(list)

        def read(connection: sa.Connection) -> None:
            found.clear()
            query = self._known(self.clock.read(connection)).order_by(_c.key, _c.number)
            query = query.where(_c.key.in_(sa.bindparam("keys", expanding=True)))
            for chunk in chunks(keys):
                # Reading all rows of a chunk at once takes half the time.
                for row in connection.execute(query, {"keys": chunk}).all():
                    found[row[0]].append(Known._make(row))

        transaction(self._connection, read)
        return found

    def _known(self, now: datetime) -> sa.Select[Any]:
        columns = (_c.key, _c.number, _c.source, _c.state, _c.content_hash, _c.remote_id, _c.group_name)
        # Earlier tries of this task instance have ended.
        is_same_run = sa.and_(*(_c[name].is_not_distinct_from(value) for name, value in self.run.columns().items()))
        is_other = sa.or_(_c.token == self.token, ~is_same_run)
        is_alive = sa.func.coalesce(sa.and_(self.clock.is_alive(now), is_other), sa.false())
        return sa.select(*columns, is_alive, _c.gone_at.is_not(None)).where(self._of_scope)

    def with_content(self, hashes: Collection[str]) -> dict[str, str | None]:
        """
        Return the documents of the site that have this content, under any key and in any namespace.

        :return: Id of a document by content hash; None for an id that the service did not return.
        """
        site = self.scope.site
        query = (
            sa.select(_c.content_hash, _c.remote_id)
            .where(site.of(attempts), _c.kind == self.scope.kind, _c.state == "created")
            .where(_c.content_hash.in_(sa.bindparam("hashes", expanding=True)))
        )

        def read(connection: sa.Connection) -> dict[str, str | None]:
            found: dict[str, str | None] = {}
            for chunk in chunks(hashes):
                for content_hash, remote_id in connection.execute(query, {"hashes": chunk}):
                    if found.get(content_hash) is None:
                        found[content_hash] = remote_id
            return found

        return transaction(self._connection, read)

    # -- claim and record ----------------------------------------------------------------------

    def commit(self, outcomes: Sequence[Outcome], claims: Sequence[Claim]) -> set[str]:
        """
        Record outcomes and claim keys, in one transaction.

        It may be repeated after a commit whose answer was lost.

        :return: Keys that are claimed. Another task has claimed the others in the meantime.
        :raises AssistantLedgerError: The database cannot be used; the claims must not be sent.
        """
        self.check()

        def write(connection: sa.Connection) -> set[str]:
            now = self.clock.read(connection)
            if outcomes:
                connection.execute(_RECORD, [self._recorded(outcome, now) for outcome in outcomes])
            if not claims:
                return set()
            # All tasks claim keys in the same order, which avoids deadlocks.
            rows = [self._claimed(claim, now) for claim in sorted(claims, key=lambda claim: claim.key)]
            connection.execute(_insert(connection), rows)
            return self._won(connection, claims)

        return transaction(self._connection, write, writes=True)

    def _claimed(self, claim: Claim, now: datetime) -> dict[str, Any]:
        return {
            **_EMPTY_DETAILS,
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
        claim = outcome.claim
        details = {**(claim.details or {}), **(outcome.details or {})}
        return {
            "of_scope": self.scope.id,
            "of_key": claim.key,
            "of_number": claim.number,
            "of_token": self.token,
            "new_state": outcome.state,
            # A rating has the id of its request before it is sent.
            "new_id": outcome.remote_id or details.get("remote_id"),
            "new_status": outcome.status,
            "new_requests": outcome.requests,
            "new_ambiguous": outcome.ambiguous,
            "new_http": outcome.http_status,
            "new_error": outcome.error,
            "new_session": details.get("session_id"),
            "now": now,
        }

    def _won(self, connection: sa.Connection, claims: Sequence[Claim]) -> set[str]:
        """Return the keys whose number this try has inserted."""
        keys = [claim.key for claim in claims]
        query = sa.select(_c.key, _c.number).where(self._of_scope, _c.key.in_(keys), _c.token == self.token)
        mine = {(key, number) for key, number in connection.execute(query)}
        return {claim.key for claim in claims if (claim.key, claim.number) in mine}

    def renew(self) -> None:
        """Prove that the sender of this try's claims is alive."""
        is_claim = sa.and_(self._of_scope, _c.token == self.token, is_in(_c.state, ("claimed",)))

        def write(connection: sa.Connection) -> None:
            alive_until = self.clock.read(connection) + self.clock.lease
            connection.execute(sa.update(attempts).where(is_claim).values(alive_until=alive_until))

        transaction(self._connection, write, writes=True)

    def end_earlier_tries(self) -> None:
        """Record that earlier tries of this task instance have ended, so that nobody is sending their claims."""
        is_run = sa.and_(*(_c[name].is_not_distinct_from(value) for name, value in self.run.columns().items()))
        is_claim = sa.and_(self._of_scope, is_run, _c.token != self.token, is_in(_c.state, ("claimed",)))
        change = sa.update(attempts).where(is_claim).values(alive_until=None)
        transaction(self._connection, lambda connection: connection.execute(change), writes=True)

    # -- documents that need no request ----------------------------------------------------------

    def share(self, documents: Sequence[Outcome]) -> None:
        """
        Record rows whose document is on the site already, under another key or for another source.

        :param documents: Outcomes with the state ``created``; none of them was sent.
        """

        def write(connection: sa.Connection) -> None:
            now = self.clock.read(connection)
            for chunk in chunks(documents):
                rows = []
                for document in chunk:
                    row = self._claimed(document.claim, now)
                    values = {"state": "created", "remote_id": document.remote_id, "recorded_at": now}
                    rows.append(row | values | {"alive_until": None})
                connection.execute(_insert(connection), rows)

        transaction(self._connection, write, writes=True)

    def renumber(self, latest: Collection[tuple[str, int, int]]) -> None:
        """
        Make earlier attempts the latest ones of their keys: the source has their content again.

        :param latest: Key, number and new number of each attempt.
        """
        change = sa.update(attempts).where(
            self._of_scope, _c.key == sa.bindparam("of_key"), _c.number == sa.bindparam("of_number")
        )
        rows = [{"of_key": key, "of_number": number, "new_number": new} for key, number, new in latest]

        def write(connection: sa.Connection) -> None:
            if rows:
                connection.execute(change.values(number=sa.bindparam("new_number"), gone_at=None), rows)

        transaction(self._connection, write, writes=True)

    # -- rows that are gone ----------------------------------------------------------------------

    def mark_gone(self, keys: Collection[str]) -> None:
        """
        Record that rows of this source are gone from it. Rows that are known to be gone keep their time.

        :param keys: Keys of the rows.
        """

        def write(connection: sa.Connection) -> None:
            moment = self.clock.read(connection)
            for chunk in chunks(sorted(keys)):
                condition = sa.and_(self._is_own, _c.gone_at.is_(None), _c.key.in_(chunk))
                connection.execute(sa.update(attempts).where(condition).values(gone_at=moment))

        transaction(self._connection, write, writes=True)

    def mark_back(self, groups: Collection[tuple[str, str | None]]) -> None:
        """
        Record that rows of this source are in it again, or that they have other groups.

        :param groups: Key of each row, and the name of its group; None to leave it as it is.
        """
        change = sa.update(attempts).where(self._is_own, _c.key == _bind("of_key"))
        change = change.values(
            gone_at=None,
            group_name=sa.func.coalesce(_bind("new_group", type_=_c.group_name.type), _c.group_name),
        )
        rows = [{"of_key": key, "new_group": group} for key, group in groups]

        def write(connection: sa.Connection) -> None:
            for chunk in chunks(rows):
                connection.execute(change, chunk)

        transaction(self._connection, write, writes=True)

    def set_documents(self, remote_ids: Collection[str], **values: Any) -> None:
        """
        Change the attempts of documents of the site, of all sources.

        :param remote_ids: Ids of the documents.
        :param values: Columns to change: ``status``, or ``state="removed"``.
        """
        site = self.scope.site
        is_document = sa.and_(site.of(attempts), is_in(_c.kind, DOCUMENT_KINDS), _c.state == "created")

        def write(connection: sa.Connection) -> None:
            for chunk in chunks(sorted(remote_ids)):
                condition = sa.and_(is_document, _c.remote_id.in_(chunk))
                connection.execute(sa.update(attempts).where(condition).values(**values))

        transaction(self._connection, write, writes=True)

    # -- end ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """
        Check that the file of the ledger is still in its place.

        :raises AssistantLedgerError: It was deleted or replaced.
        """
        check_in_place(self._engine, self._inode)

    def record(self, outcome: Outcome) -> None:
        """Record an outcome now or, if the ledger cannot be written, when it is closed: the answer has arrived."""
        try:
            self.commit([outcome], [])
        except AssistantLedgerError as error:
            log.warning("An outcome is recorded later: %s", error)
            self._postponed.append(outcome)

    def close(self) -> None:
        """Record what is postponed, and close the connection."""
        try:
            if self._postponed:
                self.commit(self._postponed, [])
        except AssistantLedgerError as error:
            labels = ", ".join(f"{outcome.claim.label} ({outcome.state})" for outcome in self._postponed)
            log.error("Not recorded: %s. %s", labels, error)  # noqa: TRY400
        finally:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Columns that not every claim sets: all rows of an INSERT need the same ones.
_EMPTY_DETAILS = dict.fromkeys(("session_id", "mode", "rating", "remote_id", "recorded_at"))
_bind = sa.bindparam
_RECORD = (
    sa.update(attempts)
    .where(_c.scope == _bind("of_scope"), _c.key == _bind("of_key"), _c.number == _bind("of_number"))
    .where(_c.token == _bind("of_token"))
    .values(
        state=_bind("new_state"),
        alive_until=None,
        remote_id=_bind("new_id", type_=_c.remote_id.type),
        status=_bind("new_status", type_=_c.status.type),
        requests=_bind("new_requests"),
        ambiguous=_bind("new_ambiguous"),
        http_status=_bind("new_http"),
        error=_bind("new_error", type_=_c.error.type),
        session_id=_bind("new_session", type_=_c.session_id.type),
        recorded_at=_bind("now", type_=_c.recorded_at.type),
    )
)


def _insert(connection: sa.Connection) -> Any:
    """Return the statement that inserts attempts, except those whose number is taken."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(attempts).on_conflict_do_nothing()


def chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the values in lists of at most CHUNK, which the parameters of a statement can hold."""
    remaining = iter(values)
    while chunk := list(itertools.islice(remaining, CHUNK)):
        yield chunk
