"""A client whose concurrent requests share one rate limiter."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from airflow_provider_assistant.api import errors, flow
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter
from airflow_provider_assistant.client.settings import ClientSettings

# The endpoint whose callers limit the total wait themselves.
POLL = "chat.request"
# Pause after a 429 without Retry-After.
DEFAULT_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A 429 that asked for too long a pause, and the end of the pause by the event loop's clock."""

    response: Response
    until: float


class RateLimitedClient(AssistantClient):
    """
    Send concurrent requests of one event loop through one rate limiter.

    A 429 to one request pauses all requests. A request may therefore wait for a slot longer than for its response;
    callers with a ``timeout`` have to include this wait. If the service asks for a longer pause than the connection's
    ``max_backoff``, waiting requests fail with the same 429 at once. Only polls keep waiting, because their callers
    limit the total wait.

    :param settings: Settings of the connection.
    :param limiter: Rate limiter. Default: a new one for the connection's ``max_concurrency``.
    :param options: Keyword arguments of :class:`.AssistantClient` for transports, clock, sleep and jitter.
    """

    def __init__(self, settings: ClientSettings, limiter: AdaptiveRateLimiter | None = None, **options: Any) -> None:
        super().__init__(settings, **options)
        self.limiter = limiter or AdaptiveRateLimiter(settings.max_concurrency)
        # First come, first served: the limiter does not guarantee an order, and its limit may be low.
        self._queue = asyncio.Semaphore(self.limiter.max_concurrency)
        self._refusal: _Refusal | None = None
        # One timeout per request that waits for a slot.
        self._waiting_timeouts: set[asyncio.Timeout] = set()
        self._prepare_lock = asyncio.Lock()
        self._is_prepared = False

    async def prepare(self) -> None:
        """
        Initialize the client in a thread, once, so that the first request does not block the event loop.

        :raises AssistantInputError: The settings cannot be used.
        """
        if self._is_prepared:
            return
        async with self._prepare_lock:
            if not self._is_prepared:
                await asyncio.to_thread(self._async_transport.prepare)
                self._is_prepared = True

    async def _exchange(self, call: Call[Any]) -> Response | TransportFailure:
        async with self._queue:
            refusal = await self._wait_for_slot(call)
            if refusal:
                return refusal
            try:
                outcome = await super()._exchange(call)
                self._learn(outcome)
            finally:
                self.limiter.release()
        return outcome

    async def _wait_for_slot(self, call: Call[Any]) -> Response | None:
        """Wait for a slot and return None, or return the 429 whose pause is too long without waiting."""
        if self.limiter.acquire_now():
            return None
        if call.endpoint == POLL:
            await self.limiter.acquire()
            return None
        if self._refusal and self._refusal.until <= asyncio.get_running_loop().time():
            self._refusal = None
        if self._refusal:
            return self._refusal.response
        # No limit yet: _learn ends the wait when the service asks for too long a pause.
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                self._waiting_timeouts.add(timeout)
                await self.limiter.acquire()
        except TimeoutError:
            if self._refusal:
                return self._refusal.response
            return await self._wait_for_slot(call)
        finally:
            self._waiting_timeouts.discard(timeout)
        return None

    def _learn(self, outcome: Response | TransportFailure) -> None:
        if isinstance(outcome, TransportFailure) or outcome.status >= 500:
            self.limiter.failed()
        elif outcome.status == 429:
            retry_after = errors.parse_retry_after(outcome.headers.get("retry-after"), self.now())
            pause = DEFAULT_PAUSE_SECONDS if retry_after is None else retry_after
            self.limiter.refused(flow.jittered(pause, self._rng))
            if pause > self.settings.retry.max_backoff:
                now = asyncio.get_running_loop().time()
                self._refusal = _Refusal(response=outcome, until=now + pause)
                for timeout in self._waiting_timeouts:
                    timeout.reschedule(now)
        else:
            self.limiter.accepted()
