"""The sessions of a batch: which ones no retry needs, and how they are closed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import SessionClose, checked
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.asking.questions import SESSION, Question
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import AssistantError, AssistantNotFoundError, AssistantPermissionError
from airflow_provider_assistant.sending.sender import BREAKER
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)


def ended_sessions(conversations: Sequence[Sequence[Question]], answers: Mapping[str, Answer]) -> list[str]:
    """
    Return the sessions that no retry needs; those that the source names stay open.

    A retry goes on with a conversation in its session, and asks a single question again in a new one.

    :param answers: What is known of each question, by its id.
    """
    sessions = []
    for conversation in conversations:
        found = [answers.get(question.question_id) for question in conversation]
        last = found[-1]
        is_named = any(SESSION in question.fields for question in conversation)
        is_complete = all(answer and answer.status == "complete" for answer in found)
        is_single = len(conversation) == 1 and last is not None and last.status == "failed"
        if last and last.session_id and (is_complete or is_single) and not is_named:
            sessions.append(last.session_id)
    return sorted(sessions)


async def close_sessions(settings: ClientSettings, site_id: str, sessions: Sequence[str]) -> int:
    """Close sessions (``POST …/chat/session/close``), and return how many were closed."""
    closed: list[str] = []
    errors: list[AssistantError] = []

    async def close(session: str) -> ApiReply:
        payload = checked(SessionClose, {"session_id": session})
        return await client.asend(endpoints.close_session(site_id, payload))

    async with AssistantClient(settings) as client:
        await for_each(
            sessions,
            close,
            max_concurrency=settings.max_concurrency,
            # All sessions are of one site, so a 403 or a 404 concerns all of them.
            breaker=CircuitBreaker(BREAKER, AssistantPermissionError, AssistantNotFoundError),
            on_error=lambda _, error: errors.append(error),
            on_result=lambda session, _: closed.append(session),
        )
    if errors:
        count = len(sessions) - len(closed)
        log.warning("Not closed: %d of %s: %s", count, counted(len(sessions), "session"), errors[0])
    return len(closed)
