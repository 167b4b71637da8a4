"""Trigger that waits for all chat requests of a batch (``GET …/chat/requests/{request_id}``)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from airflow_provider_assistant.asking.poller import poll_until
from airflow_provider_assistant.asking.state import BatchState, Writer
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared_client import shared_client
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers.events import AssistantTrigger


@dataclass(kw_only=True, eq=False, repr=False)
class AssistantChatBatchTrigger(AssistantTrigger):
    """
    Poll the open chat requests of a batch until all have ended, or the deadline passes.

    The trigger reads the open requests from the batch state, and adds answers to it as they arrive. It can therefore
    restart at any time on any triggerer, and continues where it stopped. It sends only ``GET`` requests to the service.
    Its event carries counts, not answers: ``ended`` (by state), ``open`` (requests without an answer), ``polls``, and
    ``silence``, a text if no poll was answered at the end; or else ``error``.

    :param folder: Folder of the batch state: a shared local path or an object storage URL.
    :param deadline: Time at which to stop polling, in seconds since the epoch.
    :param timeout: Longest wait in seconds since the trigger starts, also if the clock was set back.
    :param poll_interval: Maximum time between two polls of one chat request, in seconds.
    :param max_concurrency: Maximum number of polls in flight; the connection may set a lower one.
    """

    folder: str
    timeout: float
    max_concurrency: int

    async def _wait(self) -> dict[str, Any]:
        # In a thread: Airflow connects to an S3 folder when its path is made, and cannot do that in an event loop.
        state = await asyncio.to_thread(BatchState, self.folder)
        waiting = await asyncio.to_thread(state.read_open)
        self.log.info("Waiting for %s on site %r.", counted(len(waiting), "request"), self.site_id)
        async with shared_client(AssistantHook(self.assistant_conn_id)) as client, Writer(state) as writer:
            now = client.now()
            wait = Wait(interval=self.poll_interval, deadline=min(self.deadline, now + self.timeout), now=now)
            await poll_until(
                client, self.site_id, wait, waiting, on_end=writer.add, max_concurrency=self.max_concurrency
            )
            silence = wait.silence(client.now())
        return {"ended": dict(wait.ended), "open": wait.open, "polls": wait.polls, "silence": silence}
