"""Sessions of a chat batch: which ones to close, and how to close them."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import SessionClose, checked
from airflow_provider_assistant.chat_batch.answers import has_own_sessions
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import AssistantError, AssistantNotFoundError, AssistantPermissionError
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.chat_batch.questions import Questions

# Metadata key of the output: the closed sessions, see encoded_closed().
CLOSED = b"assistant.closed_sessions"
# Consecutive failures after which no further session is closed.
BREAKER = 25

log = logging.getLogger(__name__)


def ended_sessions(table: pa.Table) -> list[str]:
    """
    Return the sessions that no retry needs.

    A retry waits for pending questions, continues conversations that ended early, and asks questions
    again in the sessions that the source names. All these sessions stay open. Other questions are
    asked again in new sessions.
    """
    unfinished_statuses = {"timed_out"}
    has_conversations = table["turn"].null_count < table.num_rows
    if has_conversations or not has_own_sessions(table):
        unfinished_statuses |= {"failed", "lost", "not_submitted"}
    ended: set[str] = set()
    unfinished: set[str] = set()
    # A session has several questions, so it may be in both sets.
    for row in table.select(["session_id", "status"]).to_pylist():
        session, status = row["session_id"], row["status"]
        if session and status in {"complete", "failed"}:
            ended.add(session)
        if session and status in unfinished_statuses:
            unfinished.add(session)
    return sorted(ended - unfinished)


def next_session(session: str) -> str:
    """
    Return the session that replaces a closed one: ``thread-…``, ``thread-…-2``, ``thread-…-3`` and so on.

    :param session: A generated session id.
    """
    scope, digest, *number = session.split("-")
    following = int(number[0]) + 1 if number else 2
    return f"{scope}-{digest}-{following}"


def in_closed_sessions(questions: Questions, closed: set[str], accepted_ids: set[str]) -> list[int]:
    """
    Return the positions of the questions that would be sent to a closed session.

    If a turn of a conversation would be, all its turns are returned: an answer depends on the turns
    before it, which a new session does not have. So the whole conversation is asked again.

    :param closed: Sessions that are closed, or may be.
    :param accepted_ids: Questions that the ledger knows as accepted; these are not sent.
    """
    sessions = questions.field("session_id")
    positions = []
    for position, question_id in enumerate(questions.question_ids):
        is_sent = question_id not in accepted_ids and position not in questions.problems
        if is_sent and sessions[position] in closed:
            positions.append(position)
    if questions.turns is None:
        return positions
    conversations = {sessions[position] for position in positions}
    return [position for position, session in enumerate(sessions) if session in conversations]


def encoded_closed(table: pa.Table, closed: set[str]) -> bytes:
    """
    Return the closed sessions for the metadata of an output file, most of which its rows already contain.

    :param table: The output.
    :param closed: Sessions that are closed, or may be.
    """
    ended = set(ended_sessions(table))
    has_closed = bool(ended) and ended <= closed
    others = closed - ended if has_closed else closed
    return json.dumps({"ended": has_closed, "others": sorted(others)}).encode()


def decoded_closed(table: pa.Table) -> set[str]:
    """Return the sessions that :func:`encoded_closed` encoded in the metadata of an output file."""
    encoded = json.loads((table.schema.metadata or {}).get(CLOSED, b"{}"))
    closed = set(encoded.get("others", ()))
    if encoded.get("ended"):
        closed.update(ended_sessions(table))
    return closed


async def close_sessions(settings: ClientSettings, site_id: str, sessions: Sequence[str]) -> tuple[int, int]:
    """
    Close sessions (``POST …/chat/session/close``).

    :return: How many sessions were closed, and how many could not be.
    """
    errors: list[AssistantError] = []
    closed = 0

    async def close(session: str) -> None:
        nonlocal closed
        call = endpoints.close_session(site_id, checked(SessionClose, {"session_id": session}))
        await client.asend(call)
        closed += 1

    async with RateLimitedClient(settings) as client:
        await for_each(
            sessions,
            close,
            max_concurrency=settings.max_concurrency,
            # All sessions are of one site, so a 403 or a 404 concerns all of them.
            breaker=CircuitBreaker(BREAKER, AssistantPermissionError, AssistantNotFoundError),
            on_error=lambda _, error: errors.append(error),
        )
    if errors:
        log.warning("Not closed: %d of %s: %s", len(sessions) - closed, counted(len(sessions), "session"), errors[0])
    return closed, len(sessions) - closed
