"""Close the sessions of a chat batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import SessionClose, checked
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import AssistantError, AssistantNotFoundError, AssistantPermissionError

if TYPE_CHECKING:
    import pyarrow as pa

# Consecutive failures after which no further session is closed.
BREAKER = 25

log = logging.getLogger(__name__)


def ended_sessions(table: pa.Table) -> list[str]:
    """
    Return the sessions that no retry needs.

    A retry waits for pending questions. It also continues conversations that ended early, so these stay open.
    """
    unfinished_statuses = {"timed_out"}
    has_conversations = table["turn"].null_count < table.num_rows
    if has_conversations:
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
        log.warning("%d of %d sessions could not be closed: %s", len(sessions) - closed, len(sessions), errors[0])
    return closed, len(sessions) - closed
