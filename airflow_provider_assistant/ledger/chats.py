"""Ledger entries of chat requests: single ones, and the questions of a chat batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.claims import ScopeLedger
from airflow_provider_assistant.ledger.database import Bind, stream, transaction
from airflow_provider_assistant.ledger.schema import chat_requests
from airflow_provider_assistant.ledger.scopes import Site


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
    Hold the entry of a question that the service has accepted.

    :param question_id: Id of the question; it is the content hash of its entry.
    :param request_id: None if the service returned none.
    :param recorded_at: Time at which the outcome was recorded, UTC.
    :param attempts: Number of requests sent for it.
    """

    key: str
    question_id: str | None
    request_id: str | None
    recorded_at: datetime
    attempts: int


class ChatLedger(ScopeLedger):
    """Keep the ledger of a chat batch, or of single chat requests, see :class:`.ScopeLedger`."""

    def accepted(self) -> Iterator[AcceptedQuestion]:
        """Yield the questions that the service has accepted."""
        c = chat_requests.c
        columns = (c.key, c.content_hash, c.request_id, c.recorded_at, c.attempts)
        query = sa.select(*columns).where(c.scope == self._scope, c.outcome == "created")
        for row in stream(self._connection, query):
            yield AcceptedQuestion(*row)

    def record_late(self, accepted: Collection[AcceptedQuestion]) -> None:
        """
        Record questions that an earlier try sent and saved elsewhere, but could not record before it was killed.

        A question is ignored unless its key has a claim without an outcome, made before the
        question was accepted by a task that is no longer alive.
        """
        entries = self.entries([question.key for question in accepted])
        parameters = []
        for question in accepted:
            entry = entries.get(question.key)
            # A living task has leased its claims; it records the outcome itself.
            if entry and entry.outcome == "claimed" and entry.state != "leased":
                parameters.append(
                    {
                        "entry_key": question.key,
                        "token": entry.claim,
                        "question": question.question_id,
                        "request": question.request_id,
                        "at": question.recorded_at,
                        "count": question.attempts,
                    }
                )
        if not parameters:
            return
        c = chat_requests.c
        bind = sa.bindparam
        change = (
            sa.update(chat_requests)
            .where(c.scope == self._scope, c.key == bind("entry_key"), c.claim == bind("token"))
            .where(c.outcome == "claimed", c.claimed_at <= bind("at"))
            .values(
                outcome="created",
                attempts=c.attempts + bind("count"),
                content_hash=bind("question"),
                request_id=bind("request"),
                recorded_at=bind("at"),
            )
        )

        def write(connection: sa.Connection) -> None:
            connection.execute(change, parameters)

        transaction(self._connection, write, writes=True)

    def record_ends(self, ends: Mapping[str, RequestEnd]) -> None:
        """Record how chat requests ended, see :func:`record_ends`."""
        record_ends(self._connection, self._site, ends)

    def withdraw(self, keys: Collection[str], reason: str) -> None:
        """Mark questions as ambiguous whose answers were lost: the next try asks them again."""
        change = sa.update(chat_requests).values(
            outcome="ambiguous",
            content_hash=None,
            ambiguous=chat_requests.c.ambiguous + 1,
            error=reason,
        )
        self._change(keys, change)


def record_ends(bind: Bind, site: Site, ends: Mapping[str, RequestEnd]) -> None:
    """
    Record how async chat requests of a site ended. Requests that have no entry are ignored.

    Only the first end counts, except that ``lost`` replaces an earlier state: a service may forget a
    request after it has answered it. A request that failed or was lost is submitted again by the
    next try; its entry keeps the id for manual checks.

    :param ends: End by request id.
    """
    c = chat_requests.c
    is_request = (site.of(chat_requests), c.request_id == sa.bindparam("ended_id"))
    at = sa.bindparam("at", type_=c.completed_at.type)
    session_id = sa.bindparam("session", type_=c.session_id.type)
    set_end = sa.update(chat_requests).values(
        state=sa.bindparam("end"),
        completed_at=sa.func.coalesce(c.completed_at, at),
        session_id=sa.func.coalesce(c.session_id, session_id),
    )
    # The next try submits a request again whose outcome is "failed".
    set_failed = set_end.values(
        outcome="failed",
        content_hash=None,
        error="its request failed or was lost",
    )
    has_no_end = c.completed_at.is_(None)
    update_of_finished = set_end.where(*is_request, has_no_end)
    update_of_failed = set_failed.where(*is_request, has_no_end)
    update_of_lost = set_failed.where(*is_request)

    def write(connection: sa.Connection) -> None:
        if finished := _end_parameters(ends, ("complete", "timed_out")):
            connection.execute(update_of_finished, finished)
        if failed := _end_parameters(ends, ("failed",)):
            connection.execute(update_of_failed, failed)
        if lost := _end_parameters(ends, ("lost",)):
            connection.execute(update_of_lost, lost)

    transaction(bind, write, writes=True)


def _end_parameters(
    ends: Mapping[str, RequestEnd],
    states: Collection[str],
) -> list[dict[str, Any]]:
    """Return the parameters that record the ends with these states, one mapping per request."""
    parameters = []
    # Tasks that change the same entries lock them in the same order, which avoids deadlocks.
    for request_id, end in sorted(ends.items()):
        if end.state in states:
            parameters.append(
                {
                    "ended_id": request_id,
                    "end": end.state,
                    "at": end.completed_at,
                    "session": end.session_id,
                }
            )
    return parameters


def find_request(engine: sa.Engine, site: Site, request_id: str) -> sa.Row[Any] | None:
    """Return the entry of an async chat request, or None if this ledger did not record it."""
    c = chat_requests.c
    is_request = (site.of(chat_requests), c.request_id == request_id)
    query = sa.select(chat_requests).where(*is_request).limit(1)
    return transaction(engine, lambda connection: connection.execute(query).one_or_none())
