"""Attempts of chat requests: which questions were accepted, and how their requests ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.attempts import chunks
from airflow_provider_assistant.ledger.database import Bind, stream, transaction
from airflow_provider_assistant.ledger.schema import State, attempts
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
    columns = (_c.key, _c.number, _c.session_id, _c.recorded_at, _c.requests, _c.ambiguous)
    query = sa.select(*columns).where(_c.scope == scope.id)
    with ledger.connect() as connection:
        for row in stream(connection, query):
            yield Sent._make(row)


def correct(ledger: Ledger, scope: Scope, corrections: Collection[Correction]) -> None:
    """Change attempts whose state is not true."""
    bind = sa.bindparam
    at = bind("at", type_=_c.recorded_at.type)
    request_id = sa.func.coalesce(bind("request", type_=_c.remote_id.type), _c.remote_id)
    change = (
        sa.update(attempts)
        .where(_c.scope == scope.id, _c.key == bind("of_key"), _c.number == bind("of_number"))
        .where(_c.state == bind("before"))
        .values(
            state=bind("after"),
            alive_until=None,
            remote_id=request_id,
            recorded_at=sa.func.coalesce(at, _c.recorded_at),
            error=bind("reason", type_=_c.error.type),
        )
    )
    rows = [
        {
            "of_key": one.key,
            "of_number": one.number,
            "before": one.before,
            "after": one.state,
            "request": one.request_id,
            "at": None if one.ended_at is None else datetime.fromtimestamp(one.ended_at, UTC),
            "reason": one.error,
        }
        for one in corrections
    ]

    def write(connection: sa.Connection) -> None:
        for chunk in chunks(rows):
            connection.execute(change, chunk)

    transaction(ledger.engine, write, writes=True)


def record_ends(bind: Bind, site: Site, ends: Mapping[str, RequestEnd]) -> None:
    """
    Record how async chat requests of a site ended. Requests that have no attempt are ignored.

    Only the first end counts, except that ``lost`` replaces an earlier one: a service may forget a request after it has
    answered it. A request that failed or was lost is submitted again by the next try; its attempt keeps the id for
    manual checks.

    :param ends: End by request id.
    """
    at = sa.bindparam("at", type_=_c.ended_at.type)
    session_id = sa.bindparam("session", type_=_c.session_id.type)
    is_request = (site.of(attempts), _c.kind == "chat", _c.remote_id == sa.bindparam("request"))
    ended = sa.update(attempts).values(
        ended=sa.bindparam("end"),
        ended_at=sa.func.coalesce(_c.ended_at, at),
        session_id=sa.func.coalesce(_c.session_id, session_id),
    )
    without_answer = ended.values(state="failed", error="its request failed or was lost")
    changes = (
        (("complete", "timed_out"), ended.where(*is_request, _c.ended_at.is_(None))),
        (("failed",), without_answer.where(*is_request, _c.ended_at.is_(None))),
        (("lost",), without_answer.where(*is_request)),
    )

    def write(connection: sa.Connection) -> None:
        for states, change in changes:
            for chunk in chunks(_parameters(ends, states)):
                connection.execute(change, chunk)

    transaction(bind, write, writes=True)


def _parameters(ends: Mapping[str, RequestEnd], states: Collection[str]) -> Iterator[dict[str, Any]]:
    # Tasks that change the same attempts lock them in the same order, which avoids deadlocks.
    for request_id, end in sorted(ends.items()):
        if end.state in states:
            yield {"request": request_id, "end": end.state, "at": end.completed_at, "session": end.session_id}


def submitted_at(ledger: Ledger, site: Site, request_id: str) -> datetime | None:
    """Return when the service accepted an async chat request, UTC; None if this ledger did not record it."""
    query = sa.select(sa.func.max(_c.recorded_at)).where(
        site.of(attempts), _c.kind == "chat", _c.remote_id == request_id
    )
    moment: datetime | None = ledger.read(lambda connection: connection.execute(query).scalar())
    return moment
