"""The client of one load: the connection's settings with the options of the load, and a count of its requests."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.decisions import is_repeat
from airflow_provider_assistant.loading.ledger_writer import Attempt
from airflow_provider_assistant.loading.options import LoadOptions

CANCELLED = "the load ended before there was an answer"


class TrackingLimiter(AdaptiveRateLimiter):
    """
    A rate limiter that knows which tasks have sent a request.

    The client takes a slot inside a request. Only the limiter can tell whether a task that was cancelled had sent its
    request, which is ambiguous then, or was still waiting for a slot.
    """

    def __init__(self, max_concurrency: int, **clocks: Any) -> None:
        super().__init__(max_concurrency, **clocks)
        self._senders: set[asyncio.Task[Any] | None] = set()

    def acquire_now(self) -> bool:
        """Take a slot for the current task if that needs no wait."""
        is_taken = super().acquire_now()
        if is_taken:
            self._senders.add(asyncio.current_task())
        return is_taken

    async def acquire(self, *, is_patient: bool = True) -> bool:
        """Take a slot for the current task."""
        is_alone = await super().acquire(is_patient=is_patient)
        self._senders.add(asyncio.current_task())
        return is_alone

    def take_sent(self) -> bool:
        """Return whether the current task has sent a request since it last called this."""
        task = asyncio.current_task()
        is_sent = task in self._senders
        self._senders.discard(task)
        return is_sent


class LoadClient(RateLimitedClient):
    """
    Send the requests of one load.

    :param options: Options of the load; they replace the connection's concurrency and limits of retries.
    :param limiter: Default: a new one for the load's ``max_concurrency``.
    :param injected: Further keyword arguments of :class:`RateLimitedClient`.
    """

    limiter: TrackingLimiter

    def __init__(
        self,
        settings: ClientSettings,
        options: LoadOptions,
        *,
        limiter: TrackingLimiter | None = None,
        **injected: Any,
    ) -> None:
        retry = replace(
            settings.retry, max_backoff=options.max_backoff, retry_ambiguous=options.on_ambiguous == "retry"
        )
        settings = replace(settings, retry=retry, max_concurrency=options.max_concurrency)
        super().__init__(settings, limiter or TrackingLimiter(options.max_concurrency), **injected)

    async def create(self, attempt: Attempt, counts: LoadCounts) -> ApiReply:
        """
        Send the request of a row, with retries, except for a ``POST …/chat`` that timed out.

        :param attempt: The claimed row; ``ambiguous`` is increased by each request that may have created its document,
            except the one behind an :class:`AssistantAmbiguousError`.
        :param counts: ``requests`` is increased.
        :raises AssistantError: The row was not created, or perhaps was.
        """
        call = attempt.row.call
        if call is None:
            raise TypeError("a row without a call is never sent")

        def on_wait(wait: flow.Wait) -> None:
            # The retry is not logged: a load may have many thousands of them.
            counts.requests += self.limiter.take_sent()
            if wait.ambiguous or not attempt.ambiguous:
                attempt.sent_error = wait.reason
            attempt.ambiguous += wait.ambiguous

        steps = flow.perform(
            call,
            self.settings.retry,
            now=self.now,
            rng=self._rng,
            is_repeat=is_repeat(attempt.claim.entry, attempt.row.fingerprint.content_hash),
            outage=self.outage,
        )
        try:
            return await self.arun(steps, on_wait)
        except AssistantInputError:
            # The file has changed or can no longer be opened, so the request was not sent.
            self.limiter.take_sent()
            raise
        except asyncio.CancelledError:
            # The connection may not stand yet, although the request has its slot.
            is_sent = self.limiter.take_sent() and self._async_transport.has_sent()
            counts.requests += is_sent
            attempt.ambiguous += is_sent
            if is_sent:
                attempt.sent_error = AssistantError(CANCELLED)
            raise
        finally:
            counts.requests += self.limiter.take_sent()
