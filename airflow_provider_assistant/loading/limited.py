"""A client whose requests share one limit: for many flows that each know nothing of the others."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider_assistant.api import errors, flow
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client import AssistantClient, ClientSettings
from airflow_provider_assistant.loading.limiter import Limiter

# The endpoint whose calls have a deadline of their own.
POLL = "chat.request"
# The pause after a 429 that does not say how long, in seconds.
PAUSE = 1.0


class LimitedClient(AssistantClient):
    """
    A client for many flows in one event loop: one bound, one pace and one pause for all of them.

    A 429 to one holds back all. A request may therefore wait for its turn longer than for its answer; who has a
    deadline bounds the whole. Where the service asks for a longer pause than the connection's retries allow, calls that
    wait for their turn get the same 429 at once. Only polls wait on, because they have a deadline.

    :param settings: Where to send, and how.
    :param limiter: Gives out the turns; by default one for the connection's ``max_concurrency``.
    :param options: Clock, waiting and jitter, as :class:`AssistantClient` takes them.
    """

    def __init__(self, settings: ClientSettings, limiter: Limiter | None = None, **options: Any) -> None:
        super().__init__(settings, **options)
        self.limiter = limiter or Limiter(settings.max_concurrency)
        # First come, first served: the limiter wakes whom it likes, and as many as work with it can be few.
        self._queue = asyncio.Semaphore(self.limiter.max_concurrency)
        self._preparing = asyncio.Lock()
        self._is_prepared = False
        # The 429 that asked for too long a pause, when that ends, and those who were waiting for their turn.
        self._refusal: tuple[Response, float] | None = None
        self._waiting: set[asyncio.Timeout] = set()

    async def prepare(self) -> None:
        """Do in a thread, once, what would otherwise hold up the event loop at the first request."""
        if self._is_prepared:
            return
        async with self._preparing:
            if not self._is_prepared:
                await asyncio.to_thread(self._prepare)
                self._is_prepared = True

    def _prepare(self) -> None:
        import aiohttp  # noqa: F401

        # Certificates are read, and expressions compiled that find the key in any spelling.
        _ = self._tls, self._key, self._key_bytes

    async def _aexchange(self, call: Call[Any]) -> Response | TransportFailure:
        async with self._queue:
            if refusal := await self._turn(call):
                return refusal
            try:
                outcome = await super()._aexchange(call)
                self._learn(outcome)
            finally:
                self.limiter.release()
        return outcome

    async def _turn(self, call: Call[Any]) -> Response | None:
        """Wait for a turn, and return None; or at once the 429 of a pause that is too long."""
        if call.endpoint == POLL:
            await self.limiter.acquire()
            return None
        if self._refusal and self._refusal[1] <= asyncio.get_running_loop().time():
            self._refusal = None
        if self._refusal:
            return self._refusal[0]
        waiting = asyncio.timeout(None)
        try:
            async with waiting:
                self._waiting.add(waiting)
                await self.limiter.acquire()
        except TimeoutError:
            return self._refusal[0] if self._refusal else await self._turn(call)
        finally:
            self._waiting.discard(waiting)
        return None

    def _learn(self, outcome: Response | TransportFailure) -> None:
        if isinstance(outcome, TransportFailure) or outcome.status >= 500:
            self.limiter.failed()
        elif outcome.status == 429:
            asked = errors.parse_retry_after(outcome.headers.get("retry-after"), self.now())
            pause = PAUSE if asked is None else asked
            self.limiter.refused(flow.jittered(pause, self._rng))
            if pause > self.settings.retry.max_pause:
                now = asyncio.get_running_loop().time()
                self._refusal = outcome, now + pause
                for waiting in self._waiting:
                    waiting.reschedule(now)
        else:
            self.limiter.accepted()
