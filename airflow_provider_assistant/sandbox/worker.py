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
            wait = self.step()
            await self._database.settled()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait is None else min(wait, _NAP)):
                    await self._submitted.wait()

    def step(self) -> float | None:
        """Advance the requests that are due.

        :return: seconds until the next request is due; ``None`` if none is left.
        """
        now, half = self._clock(), self._faults.settings.processing_seconds / 2
        self._chats.start(now - half, now, _STEP)
        for row in self._chats.started(now - half, _STEP):
            self._assistant.finish(row)
        since = self._chats.unfinished_since()
        return None if since is None else max(0.0, since + half - self._clock())
