"""Attempts of chat requests: which questions were accepted, and how their requests ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.database import Bind, stream, transaction, write
from airflow_provider_assistant.ledger.schema import State, attempts, given, new
from airflow_provider_assistant.ledger.scopes import Scope, Site
from airflow_provider_assistant.ledger.store import Ledger

_c = attempts.c


class RequestEnd(NamedTuple):
    """
    How an async chat request ended.

    :param state: ``complete``, ``failed``, ``lost``, or ``timed_out`` if the task stopped waiting for it.
    :param completed_at: Time at which the end was observed, timezone-aware; None for a request that timed out.
    :param session_id: Id of its session, if it is not recorded yet.
    """

    state: str
    completed_at: datetime | None
    session_id: str | None = None


class Sent(NamedTuple):
    """
    An attempt to send a question.

    :param recorded_at: Time at which its outcome was recorded, UTC.
    :param requests: Number of requests that it sent.
    :param ambiguous: Number of them, before the last one, that the service may have carried out.
    """

    key: str
    number: int
    session_id: str | None
    recorded_at: datetime | None
    requests: int
    ambiguous: int


class Correction(NamedTuple):
    """
    What a killed try left in the ledger, and what is known to be true.

    :param before: State of the attempt; one with another state is left as it is.
    :param ended_at: Time of the answer, in seconds since the epoch.
    """

    key: str
    number: int
    before: State
    state: State
    request_id: str | None = None
    ended_at: float | None = None
    error: str | None = None


def sent(ledger: Ledger, scope: Scope) -> Iterator[Sent]:
    """Yield all attempts of a scope."""
    query = sa.select(*(_c[name] for name in Sent._fields)).where(_c.scope == scope.id)
    with ledger.connect() as connection:
        yield from map(Sent._make, stream(connection, query))


def correct(ledger: Ledger, scope: Scope, corrections: Collection[Correction]) -> None:
    """Change attempts whose state is not true."""
    change = sa.update(attempts).where(_c.scope == scope.id, given("key", "number", "state"))
    change = change.values(
        state=new("state"),
        alive_until=None,
        remote_id=sa.func.coalesce(new("remote_id"), _c.remote_id),
        recorded_at=sa.func.coalesce(new("recorded_at"), _c.recorded_at),
        error=new("error"),
    )
    rows = [
        {
            "of_key": one.key,
            "of_number": one.number,
            "of_state": one.before,
            "new_state": one.state,
            "new_remote_id": one.request_id,
            "new_recorded_at": None if one.ended_at is None else datetime.fromtimestamp(one.ended_at, UTC),
            "new_error": one.error,
        }
        for one in corrections
    ]
    write(ledger.engine, change, rows)


def record_ends(bind: Bind, site: Site, ends: Mapping[str, RequestEnd]) -> None:
    """
    Record how async chat requests of a site ended. Requests that have no attempt are ignored.

    Only the first end counts, except that ``lost`` replaces an earlier one: a service may forget a request after it has
    answered it. A request that failed or was lost is submitted again by the next try; its attempt keeps the id for
    manual checks.

    :param ends: End by request id.
    """
    is_open = _c.ended.is_(None)
    ended = sa.update(attempts).where(site.of(attempts), _c.kind == "chat", given("remote_id"))
    ended = ended.values(
        ended=new("ended"),
        ended_at=sa.func.coalesce(_c.ended_at, new("ended_at")),
        session_id=sa.func.coalesce(_c.session_id, new("session_id")),
    )
    without_answer = ended.values(state="failed", error="its request failed or was lost")
    changes = {
        "complete": ended.where(is_open),
        "timed_out": ended.where(is_open),
        "failed": without_answer.where(is_open),
        "lost": without_answer,
    }

    def record(connection: sa.Connection) -> None:
        for state, change in changes.items():
            # Tasks that change the same attempts lock them in the same order, which avoids deadlocks.
            rows = [
                {
                    "of_remote_id": request_id,
                    "new_ended": state,
                    "new_ended_at": end.completed_at,
                    "new_session_id": end.session_id,
                }
                for request_id, end in sorted(ends.items())
                if end.state == state
            ]
            if rows:
                connection.execute(change, rows)

    transaction(bind, record, writes=True)


def submitted_at(ledger: Ledger, site: Site, request_id: str) -> datetime | None:
    """Return when the service accepted an async chat request, UTC; None if this ledger did not record it."""
    query = sa.select(sa.func.max(_c.recorded_at)).where(site.of(attempts), _c.kind == "chat")
    moment: datetime | None = ledger.read(lambda connection: connection.scalar(query.where(_c.remote_id == request_id)))
    return moment
