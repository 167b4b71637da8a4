"""A client whose concurrent requests share one rate limiter."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from airflow_provider_assistant.api import errors, flow
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.api.gateways import gateway_reply
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.network import host_and_port
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter, OutageError
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


@dataclass(eq=False, slots=True)
class _Waiter:
    """A request that waits for a slot: what ends its wait, and the outcome that it then has."""

    timeout: asyncio.Timeout
    outcome: Response | TransportFailure | None = None


class RateLimitedClient(AssistantClient):
    """
    Send concurrent requests of one event loop through one rate limiter.

    A 429 to one request pauses all requests. A request may therefore wait for a slot longer than for its response;
    callers with a ``timeout`` have to include this wait. If the service asks for a longer pause than the connection's
    ``max_backoff``, waiting requests fail with the same 429 at once. Until the first answer, and in an outage, one
    request goes at a time and the others wait, until the outage has lasted as long as the retry rule allows. Polls wait
    longer, because their callers limit the total wait.

    :param settings: Settings of the connection.
    :param limiter: Rate limiter. Default: a new one for the connection's ``max_concurrency``.
    :param options: Keyword arguments of :class:`.AssistantClient` for transports, clock, sleep and jitter.
    """

    def __init__(self, settings: ClientSettings, limiter: AdaptiveRateLimiter | None = None, **options: Any) -> None:
        super().__init__(settings, **options)
        self.limiter = limiter or AdaptiveRateLimiter(settings.max_concurrency)
        self.outage.now = self.limiter.now
        self.limiter.wait_in(self.outage, settings.retry.outage_seconds)
        # First come, first served: the limiter does not guarantee an order, and its limit may be low.
        self._queue = asyncio.Semaphore(self.limiter.max_concurrency)
        self._refusal: _Refusal | None = None
        self._waiting: set[_Waiter] = set()
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
            is_alone = False
            if not self.limiter.acquire_now():
                slot = await self._wait_for_slot(call)
                if not isinstance(slot, bool):
                    return slot
                is_alone = slot
            try:
                outcome = await super()._exchange(call)
                self._learn(outcome)
            finally:
                self.limiter.release(is_alone=is_alone)
        return outcome

    async def _wait_for_slot(self, call: Call[Any]) -> bool | Response | TransportFailure:
        """Wait for a slot, and return whether the request goes alone. Otherwise return why it is not sent."""
        if call.endpoint == POLL:
            return await self.limiter.acquire()
        if self._refusal and self._refusal.until <= asyncio.get_running_loop().time():
            self._refusal = None
        if self._refusal:
            return self._refusal.response
        # No limit yet: _refuse_waiting ends the wait.
        waiter = _Waiter(asyncio.timeout(None))
        try:
            async with waiter.timeout:
                self._waiting.add(waiter)
                return await self.limiter.acquire(is_patient=False)
        except OutageError:
            return replace(self.outage.unsent(), host=host_and_port(self.settings.base_url))
        except TimeoutError:
            if waiter.outcome is None:
                raise
            return waiter.outcome
        finally:
            self._waiting.discard(waiter)

    def _learn(self, outcome: Response | TransportFailure) -> None:
        if isinstance(outcome, TransportFailure):
            self.limiter.failed()
            if outcome.proxy_status and not outcome.sent:
                self._refuse_waiting(outcome)
        elif errors.asks_to_slow_down(outcome):
            self._slow_down(outcome)
        elif outcome.status == HTTPStatus.UNAUTHORIZED or self._is_for_all(outcome):
            self._refuse_waiting(outcome)
        elif outcome.status >= 500:
            self.limiter.failed()
        else:
            self.limiter.accepted()

    def _slow_down(self, response: Response) -> None:
        retry_after = errors.parse_retry_after(response.headers.get("retry-after"), self.now())
        pause = DEFAULT_PAUSE_SECONDS if retry_after is None else retry_after
        is_refusal = response.status == HTTPStatus.TOO_MANY_REQUESTS
        if is_refusal or self.outage.seconds < DEFAULT_PAUSE_SECONDS:
            self.limiter.refused(flow.jittered(pause, self._rng))
        else:
            # In an outage, a gateway's 503 says nothing about the rate.
            self.limiter.failed()
            if self.settings.retry.attempts > 1:
                self.limiter.hold(retry_after or 0.0)
        # A 503 may have been carried out, so it is not given to requests that are not sent.
        if is_refusal and pause > self.settings.retry.max_backoff:
            until = asyncio.get_running_loop().time() + pause
            self._refusal = _Refusal(response, until)
            self._refuse_waiting(response)

    def _is_for_all(self, response: Response) -> bool:
        reply = gateway_reply(response)
        return reply is not None and reply.concerns_all

    def _refuse_waiting(self, outcome: Response | TransportFailure) -> None:
        """Give this outcome to all requests that wait for a slot."""
        now = asyncio.get_running_loop().time()
        for waiter in self._waiting:
            waiter.outcome = outcome
            waiter.timeout.reschedule(now)
        # A timeout that has expired cannot be rescheduled.
        self._waiting.clear()
