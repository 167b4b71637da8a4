"""Sessions of a batch: which ones to close, and how to close them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import SessionClose, checked
from airflow_provider_assistant.asking.questions import SESSION, Question
from airflow_provider_assistant.asking.state import End
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import AssistantError, AssistantNotFoundError, AssistantPermissionError
from airflow_provider_assistant.texts import counted

# Consecutive failures after which no further session is closed.
BREAKER = 25

log = logging.getLogger(__name__)


def ended_sessions(conversations: Iterable[Sequence[Question]], ends: Mapping[str, End]) -> list[str]:
    """
    Return the sessions of the batch that no retry needs.

    A retry goes on with a conversation in its session, and asks a single question again in a new one.
    """
    sessions = []
    for conversation in conversations:
        found = [ends.get(question.question_id) for question in conversation]
        last = found[-1]
        is_named = any(SESSION in question.fields for question in conversation)
        is_complete = all(end and end.status == "complete" for end in found)
        is_single = len(conversation) == 1 and last is not None and last.status == "failed"
        if last and last.session_id and (is_complete or is_single) and not is_named:
            sessions.append(last.session_id)
    return sorted(sessions)


async def close_sessions(settings: ClientSettings, site_id: str, sessions: Sequence[str]) -> tuple[int, int]:
    """
    Close sessions (``POST …/chat/session/close``).

    :return: How many sessions were closed, and how many could not be.
    """
    errors: list[AssistantError] = []
    closed = 0

    async def close(session: str) -> None:
        nonlocal closed
        await client.asend(endpoints.close_session(site_id, checked(SessionClose, {"session_id": session})))
        closed += 1

    async with AssistantClient(settings) as client:
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
