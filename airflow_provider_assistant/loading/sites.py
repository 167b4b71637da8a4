"""One call for each of many sites, at the same time: what one of them answers is nothing to the others."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.models import ApiReply
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantConnectionError,
    AssistantError,
    AssistantRateLimitError,
    AssistantServerError,
    AssistantTimeout,
)
from airflow_provider_assistant.loading.limited import LimitedClient

log = logging.getLogger(__name__)

# So many sites in a row without an answer, after all their retries, and the rest is not asked.
BREAKER = 10
# These concern the key or the tenant, and so every site.
FATAL = (AssistantAuthenticationError, AssistantRateLimitError)
OUTAGE = (AssistantServerError, AssistantConnectionError, AssistantTimeout)


# No repr: asyncio.run() ends by making one of its result and throwing it away, which took as long as the requests.
@dataclass(frozen=True, slots=True, repr=False)
class SiteReplies:
    """
    What came of the calls.

    :param replies: When a site's reply arrived, and the reply.
    :param errors: Why a site has none.
    """

    replies: dict[str, tuple[datetime, ApiReply]] = field(default_factory=dict)
    errors: dict[str, AssistantError] = field(default_factory=dict)


async def read_sites(client: LimitedClient, calls: Mapping[str, Call[ApiReply]]) -> SiteReplies:
    """
    Send every site's call, with its retries.

    :param client: Bounds how many are in flight; a 429 to one holds back all.
    :param calls: By site.
    :raises AssistantAuthenticationError: 401, for whichever site came first.
    :raises AssistantRateLimitError: The service asks for a longer pause than the connection's retries allow.
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
        # The others were cancelled.
        raise group.exceptions[0] from None
    if waiting:
        log.error("The service is down: %d sites in a row gave no answer, %d are not asked.", failures, len(waiting))
        for site_id, _ in waiting:
            found.errors[site_id] = AssistantConnectionError(
                f"site {site_id!r} was not asked: the service gave no answer for {failures} others in a row"
            )
    return found
