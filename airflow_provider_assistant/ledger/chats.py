"""Attempts of chat requests: which questions were accepted, and how their requests ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.attempts import chunks
from airflow_provider_assistant.ledger.database import Bind, stream, transaction
from airflow_provider_assistant.ledger.schema import attempts
from airflow_provider_assistant.ledger.scopes import Scope, Site
from airflow_provider_assistant.ledger.store import Ledger

_c = attempts.c


class RequestEnd(NamedTuple):
    """
    Hold how an async chat request ended.

    :param state: ``complete``, ``failed``, ``lost``, or ``timed_out`` if the task stopped waiting for it.
    :param completed_at: Time at which the end was observed, timezone-aware; None for a request that timed out.
    :param session_id: Id of its session, if it is not recorded yet.
    """

    state: str
    completed_at: datetime | None
    session_id: str | None = None


class AcceptedQuestion(NamedTuple):
    """
    Hold the attempt of a question that the service has accepted.

    :param question_id: Id of the question; it is the content hash of its attempt.
    :param request_id: None if the service returned none.
    :param recorded_at: Time at which the outcome was recorded, UTC.
    :param requests: Number of requests sent for the question, also by earlier attempts.
    """

    key: str
    number: int
    question_id: str | None
    request_id: str | None
    recorded_at: datetime
    requests: int


def accepted(ledger: Ledger, scope: Scope) -> Iterator[AcceptedQuestion]:
    """Yield the questions of a scope that the service has accepted."""
    earlier = attempts.alias()
    is_earlier = (earlier.c.scope == _c.scope, earlier.c.key == _c.key, earlier.c.number <= _c.number)
    requests = sa.select(sa.func.sum(earlier.c.requests)).where(*is_earlier).scalar_subquery()
    columns = (_c.key, _c.number, _c.content_hash, _c.remote_id, _c.recorded_at, requests)
    query = sa.select(*columns).where(_c.scope == scope.id, _c.state == "created").order_by(_c.key, _c.number)
    with ledger.connect() as connection:
        for row in stream(connection, query):
            yield AcceptedQuestion._make(row)


def record_late(ledger: Ledger, scope: Scope, questions: Collection[AcceptedQuestion]) -> None:
    """
    Record questions that an earlier try sent and saved elsewhere, but could not record before it was killed.

    A question is ignored unless its attempt is a claim without an outcome, made before the question was accepted.

    :param questions: Their ``number`` is not used.
    """
    bind = sa.bindparam
    change = (
        sa.update(attempts)
        .where(_c.scope == scope.id, _c.key == bind("of_key"), _c.content_hash == bind("question"))
        .where(_c.state == "claimed", _c.claimed_at <= bind("at", type_=_c.recorded_at.type))
        .values(
            state="created",
            alive_until=None,
            requests=_c.requests + bind("count"),
            remote_id=bind("request", type_=_c.remote_id.type),
            recorded_at=bind("at", type_=_c.recorded_at.type),
        )
    )
    rows = [
        {
            "of_key": question.key,
            "question": question.question_id,
            "request": question.request_id,
            "at": question.recorded_at,
            "count": question.requests,
        }
        for question in questions
    ]

    def write(connection: sa.Connection) -> None:
        for chunk in chunks(rows):
            connection.execute(change, chunk)

    transaction(ledger.engine, write, writes=True)


def withdraw(ledger: Ledger, scope: Scope, questions: Collection[AcceptedQuestion], reason: str) -> None:
    """Mark questions as ambiguous whose answers were lost: the next try asks them again."""
    of_attempt = (_c.scope == scope.id, _c.key == sa.bindparam("of_key"), _c.number == sa.bindparam("of_number"))
    change = sa.update(attempts).where(*of_attempt).values(state="ambiguous", error=reason)
    rows = [{"of_key": question.key, "of_number": question.number} for question in questions]

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
