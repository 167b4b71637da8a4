"""A client whose requests share one limit: for many flows that each know nothing of the others."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider_assistant.api import errors, flow
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client import AssistantClient, ClientSettings
from airflow_provider_assistant.loading.limiter import Limiter

# The pause after a 429 that does not say how long, in seconds.
PAUSE = 1.0


class LimitedClient(AssistantClient):
    """
    A client for many flows in one event loop: one bound, one pace and one pause for all of them.

    A 429 to one holds back all. A request may therefore wait for its turn longer than for its answer; who has a
    deadline bounds the whole.

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
            await self.limiter.acquire()
            try:
                outcome = await super()._aexchange(call)
                self._learn(outcome)
            finally:
                self.limiter.release()
        return outcome

    def _learn(self, outcome: Response | TransportFailure) -> None:
        if isinstance(outcome, TransportFailure) or outcome.status >= 500:
            self.limiter.failed()
        elif outcome.status == 429:
            asked = errors.parse_retry_after(outcome.headers.get("retry-after"), self.now())
            self.limiter.refused(flow.jittered(PAUSE if asked is None else asked, self._rng))
        else:
            self.limiter.accepted()
