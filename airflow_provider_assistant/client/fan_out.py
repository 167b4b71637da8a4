"""Concurrent calls to many sites; an error of one site does not affect the others."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantConnectionError,
    AssistantError,
    AssistantRateLimitError,
    AssistantServerError,
    AssistantTimeoutError,
)

log = logging.getLogger(__name__)

# Consecutive sites without a response, after all retries, that stop the reading.
BREAKER = 10
# These errors concern the API key or the tenant, and so every site.
FATAL = (AssistantAuthenticationError, AssistantRateLimitError)
OUTAGE = (AssistantServerError, AssistantConnectionError, AssistantTimeoutError)


# No repr: asyncio.run() computes the repr of its result and discards it, which took as long as the requests.
@dataclass(frozen=True, slots=True, repr=False)
class SiteReplies:
    """
    Hold the results of the calls.

    :param replies: Time of arrival (UTC) and reply by site id.
    :param errors: Error by site id, for sites without a reply.
    """

    replies: dict[str, tuple[datetime, ApiReply]] = field(default_factory=dict)
    errors: dict[str, AssistantError] = field(default_factory=dict)


async def read_sites(client: RateLimitedClient, calls: Mapping[str, Call[ApiReply]]) -> SiteReplies:
    """
    Send one call per site, with retries, and collect the replies.

    :param client: Client that limits the requests in flight; a 429 pauses all of them.
    :param calls: Call by site id.
    :return: Replies and errors by site id.
    :raises AssistantAuthenticationError: The service answered 401.
    :raises AssistantRateLimitError: The service asks for a longer pause than the connection's ``max_backoff``.
    """
    await client.prepare()
    found = SiteReplies()
    waiting = deque(calls.items())
    failures = 0

    async def work() -> None:
        nonlocal failures
        while waiting and failures < BREAKER:
            site_id, call = waiting.popleft()
            try:
                reply = await client.asend(call)
            except FATAL:
                raise
            except AssistantError as error:
                log.warning("Site %r cannot be read: %s", site_id, error)
                found.errors[site_id] = error
                failures = failures + 1 if isinstance(error, OUTAGE) else 0
            else:
                found.replies[site_id] = (datetime.now(UTC), reply)
                failures = 0

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(len(calls), client.limiter.max_concurrency)):
                workers.create_task(work())
    except ExceptionGroup as group:
        # The first error cancelled the other workers.
        raise group.exceptions[0] from None
    if waiting:
        log.error(
            "The service is down: %d consecutive sites did not respond; %d were not asked.", failures, len(waiting)
        )
        for site_id, _ in waiting:
            found.errors[site_id] = AssistantConnectionError(
                f"site {site_id!r} was not asked: {failures} consecutive other sites did not respond"
            )
    return found
