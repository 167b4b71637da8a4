"""Concurrent calls to many sites; an error of one site does not affect the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import AssistantConnectionError, AssistantError
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Consecutive sites without a response, after all retries, after which the circuit breaker opens.
BREAKER = 10


# No repr: asyncio computes the repr of its result and discards it, which took as long as the requests.
@dataclass(frozen=True, slots=True, repr=False)
class SiteReplies:
    """Time of arrival (UTC) and reply by site id, and the errors of sites without a reply."""

    replies: dict[str, tuple[datetime, ApiReply]] = field(default_factory=dict)
    errors: dict[str, AssistantError] = field(default_factory=dict)


async def read_sites(client: AssistantClient, calls: Mapping[str, Call[ApiReply]]) -> SiteReplies:
    """
    Send one call per site, with retries, and collect the replies.

    :param calls: Call by site id.
    :raises AssistantError: Every site would meet the same error, such as a 401.
    """
    await client.prepare()
    result = SiteReplies()
    breaker = CircuitBreaker(BREAKER)
    site_ids = iter(calls)

    async def read(site_id: str) -> None:
        reply = await client.asend(calls[site_id])
        result.replies[site_id] = (datetime.now(UTC), reply)

    def note(site_id: str, error: AssistantError) -> None:
        if error.stops_all:
            raise error
        log.warning("Site %r cannot be read: %s", site_id, error)
        result.errors[site_id] = error

    most = min(len(calls), client.settings.max_concurrency)
    await for_each(site_ids, read, max_concurrency=most, breaker=breaker, on_error=note)
    # The circuit breaker has opened before these sites were taken.
    silent_sites = counted(breaker.failures, "other site")
    for site_id in site_ids:
        result.errors[site_id] = AssistantConnectionError(
            f"site {site_id!r} was not asked: {silent_sites} in a row did not respond"
        )
    return result
