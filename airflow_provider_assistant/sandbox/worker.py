"""The background worker that processes async chat requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_assistant.sandbox.assistant import Assistant
    from airflow_provider_assistant.sandbox.chats import Chats
    from airflow_provider_assistant.sandbox.database import Database
    from airflow_provider_assistant.sandbox.faults import Faults

# Requests processed per step; other handlers run between the steps.
_STEP = 50
# While requests are unfinished, a change of processing_seconds takes effect within this time, in seconds.
_NAP = 0.1


class Worker:
    """Process async chat requests.

    They spend half of ``processing_seconds`` in the queue and half in processing.
    """

    def __init__(
        self,
        database: Database,
        chats: Chats,
        assistant: Assistant,
        faults: Faults,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._chats = chats
        self._assistant = assistant
        self._faults = faults
        self._clock = clock
        self._submitted = asyncio.Event()

    def submitted(self) -> None:
        """Wake the worker for a new request."""
        self._submitted.set()

    async def run(self) -> None:
        """Work until cancelled."""
        self._chats.requeue()
        while True:
            self._submitted.clear()
            timeout = self.step()
            if timeout is not None:
                timeout = min(timeout, _NAP)
            await self._database.settled()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._submitted.wait()

    def step(self) -> float | None:
        """Advance the requests that are due.

        :return: seconds until the next request is due; ``None`` if none is left.
        """
        now = self._clock()
        half = self._faults.settings.processing_seconds / 2
        self._chats.start(now - half, now, _STEP)
        for request in self._chats.started(now - half, _STEP):
            self._assistant.finish(request)
        unfinished_since = self._chats.unfinished_since()
        if unfinished_since is None:
            return None
        due = unfinished_since + half
        return max(0.0, due - self._clock())
