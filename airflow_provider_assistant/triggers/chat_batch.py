"""Trigger that waits for all chat requests of a batch (``GET …/chat/requests/{request_id}``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_assistant.asking.poller import Poller
from airflow_provider_assistant.asking.state import BatchState, Writer
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared_client import shared_client
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers.events import carried, failure_of, wait_until


class AssistantChatBatchTrigger(BaseTrigger):
    """
    Poll the open chat requests of a batch until all have ended, or the deadline passes.

    The trigger reads the open requests from the batch state, and adds answers to it as they arrive. It can
    therefore restart at any time on any triggerer, and continues where it stopped. It sends only ``GET`` requests to
    the service.
    Its event carries counts, not answers.

    :param assistant_conn_id: Id of the Airflow connection.
    :param site_id: Site of the chat requests.
    :param folder: Folder of the batch state: a shared local path or an object storage URL.
    :param deadline: Time at which to stop polling, in seconds since the epoch.
    :param timeout: Longest wait in seconds since the trigger starts, also if the clock was set back.
    :param poll_interval: Maximum time between two polls of one chat request, in seconds.
    :param max_concurrency: Maximum number of polls in flight; the connection may set a lower one.
    :param not_before: Time of the event at the earliest, in seconds since the epoch. Default: 0, at once.
    :param rendered: Rendered attributes of the task, which the event returns to it. Default: None.
    """

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

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments with which Airflow restarts the trigger."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "assistant_conn_id": self.assistant_conn_id,
                "site_id": self.site_id,
                "folder": self.folder,
                "deadline": self.deadline,
                "timeout": self.timeout,
                "poll_interval": self.poll_interval,
                "max_concurrency": self.max_concurrency,
                "not_before": self.not_before,
                **carried(self.rendered),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Yield one event when all chat requests have ended or the deadline has passed.

        :return: The event's payload has ``ended`` (counts by state), ``open`` (requests without an answer), ``polls``
            and, if no poll was answered at the end, ``silence``; or else ``error``. It also has ``rendered`` if it
            was given.
        """
        try:
            event = await self._poll()
        except Exception as error:  # noqa: BLE001 (the task says what was submitted, whatever the error is)
            event = failure_of(error)
        await wait_until(self.not_before)
        yield TriggerEvent({**event, **carried(self.rendered)})

    async def _poll(self) -> dict[str, Any]:
        # In a thread: Airflow connects to an S3 folder when its path is made, and cannot do that in an event loop.
        state = await asyncio.to_thread(BatchState, self.folder)
        waiting = await asyncio.to_thread(state.read_open)
        self.log.info("Waiting for %s on site %r.", counted(len(waiting), "request"), self.site_id)
        async with shared_client(AssistantHook(self.assistant_conn_id)) as client, Writer(state) as writer:
            poller = Poller(
                client,
                self.site_id,
                interval=self.poll_interval,
                deadline=min(self.deadline, client.now() + self.timeout),
                on_end=writer.add,
                max_concurrency=self.max_concurrency,
            )
            poller.close()
            await poller.run(waiting)
        schedule = poller.schedule
        event: dict[str, Any] = {"ended": dict(schedule.ended), "open": schedule.open, "polls": schedule.polls}
        if silence := schedule.silence(client.now()):
            event["silence"] = silence._asdict()
        return event
