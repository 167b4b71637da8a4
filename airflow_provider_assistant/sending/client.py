"""The client of a sender: it counts the requests of each row, and knows which of them were sent."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import replace
from typing import Any

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.sending.decide import Item

CANCELLED = "the task ended before there was an answer"


class TrackingLimiter(AdaptiveRateLimiter):
    """
    A rate limiter that knows which tasks have sent a request.

    The client takes a slot inside a request. Only the limiter can tell whether a task that was cancelled had sent its
    request, which is ambiguous then, or was still waiting for a slot.
    """

    def __init__(self, max_concurrency: int, **clocks: Any) -> None:
        super().__init__(max_concurrency, **clocks)
        # Polls use the limiter, too, and nobody asks whether they were sent.
        self._senders: weakref.WeakSet[Any] = weakref.WeakSet()

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


class SendingClient(RateLimitedClient):
    """
    Send the requests of one sender.

    :param settings: Settings of the connection, with the concurrency of the task.
    :param max_backoff: Longest pause to wait for after a 429, in seconds.
    :param retry_ambiguous: Whether to send a request again that may have had an effect.
    :param limiter: Default: a new one for the concurrency.
    :param injected: Further keyword arguments of :class:`RateLimitedClient`.
    :ivar logs_retries: Whether to log each retry.
    """

    limiter: TrackingLimiter

    def __init__(
        self,
        settings: ClientSettings,
        *,
        max_backoff: float,
        retry_ambiguous: bool,
        limiter: TrackingLimiter | None = None,
        **injected: Any,
    ) -> None:
        retry = replace(settings.retry, max_backoff=max_backoff, retry_ambiguous=retry_ambiguous)
        settings = replace(settings, retry=retry)
        super().__init__(settings, limiter or TrackingLimiter(settings.max_concurrency), **injected)
        # A load may have many thousands of them.
        self.logs_retries = False

    async def create(self, item: Item) -> ApiReply:
        """
        Send the request of a row, with retries, except for a ``POST …/chat`` that timed out.

        :param item: The claimed row; its counts of requests are increased.
        :raises AssistantError: The row was not created, or perhaps was.
        """

        def on_wait(wait: flow.Wait) -> None:
            if self.logs_retries:
                self._log_retry(wait)
            item.requests += self.limiter.take_sent()
            if wait.ambiguous or not item.ambiguous:
                item.sent_error = wait.reason
            item.ambiguous += wait.ambiguous

        steps = flow.perform(
            item.call,
            self.settings.retry,
            now=self.now,
            rng=self._rng,
            is_repeat=item.is_repeat,
            outage=self.outage,
        )
        try:
            return await self.arun(steps, on_wait)
        except AssistantInputError:
            # The file has changed or can no longer be opened, so the request was not sent.
            self.limiter.take_sent()
            raise
        except asyncio.CancelledError:
            is_sent = self.limiter.take_sent()
            item.requests += is_sent
            item.ambiguous += is_sent
            if is_sent:
                item.sent_error = AssistantError(CANCELLED)
            raise
        finally:
            item.requests += self.limiter.take_sent()
