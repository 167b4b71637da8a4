"""Trigger that waits for all chat requests of a batch (``GET …/chat/requests/{request_id}``)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from airflow_provider_assistant.asking.poller import poll_until
from airflow_provider_assistant.asking.state import BatchState, Writer
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared_client import shared_client
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers.events import AssistantTrigger


class AssistantChatBatchTrigger(AssistantTrigger):
    """
    Poll the open chat requests of a batch until all have ended, or the deadline passes.

    The trigger reads the open requests from the batch state, and adds answers to it as they arrive. It can therefore
    restart at any time on any triggerer, and continues where it stopped. It sends only ``GET`` requests to the service.
    Its event carries counts, not answers: ``ended`` (by state), ``open`` (requests without an answer), ``polls`` and,
    if no poll was answered at the end, ``silence``; or else ``error``.

    :param folder: Folder of the batch state: a shared local path or an object storage URL.
    :param deadline: Time at which to stop polling, in seconds since the epoch.
    :param timeout: Longest wait in seconds since the trigger starts, also if the clock was set back.
    :param poll_interval: Maximum time between two polls of one chat request, in seconds.
    :param max_concurrency: Maximum number of polls in flight; the connection may set a lower one.
    :param not_before: Time of the event at the earliest, in seconds since the epoch. Default: 0, at once.
    :param rendered: Rendered attributes of the task, which the event returns to it. Default: None.
    """

    arguments = (
        "assistant_conn_id",
        "site_id",
        "folder",
        "deadline",
        "timeout",
        "poll_interval",
        "max_concurrency",
        "not_before",
        "rendered",
    )

    def __init__(
        self,
        *,
        assistant_conn_id: str,
        site_id: str,
        folder: str,
        deadline: float,
        timeout: float,
        poll_interval: float,
        max_concurrency: int,
        not_before: float = 0.0,
        rendered: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__()
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.folder = folder
        self.deadline = deadline
        self.timeout = timeout
        self.poll_interval = poll_interval
        self.max_concurrency = max_concurrency
        self.not_before = not_before
        self.rendered = rendered

    async def _wait(self) -> dict[str, Any]:
        # In a thread: Airflow connects to an S3 folder when its path is made, and cannot do that in an event loop.
        state = await asyncio.to_thread(BatchState, self.folder)
        waiting = await asyncio.to_thread(state.read_open)
        self.log.info("Waiting for %s on site %r.", counted(len(waiting), "request"), self.site_id)
        async with shared_client(AssistantHook(self.assistant_conn_id)) as client, Writer(state) as writer:
            schedule = await poll_until(
                client,
                self.site_id,
                waiting,
                deadline=min(self.deadline, client.now() + self.timeout),
                interval=self.poll_interval,
                on_end=writer.add,
                max_concurrency=self.max_concurrency,
            )
            silence = schedule.silence(client.now())
        event = {"ended": dict(schedule.ended), "open": schedule.open, "polls": schedule.polls}
        return {**event, "silence": silence._asdict()} if silence else event
