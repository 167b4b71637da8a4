"""The trigger that waits for all requests of a batch (endpoint 7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_assistant.asking.journal import Journal, recording
from airflow_provider_assistant.asking.poller import Poller
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared import shared_client
from airflow_provider_assistant.triggers.events import carried, failure_of


class AssistantChatBatchTrigger(BaseTrigger):
    """
    Poll the open requests of a batch until all of them have ended, or the deadline passes.

    Which requests these are stands in the journal of the batch, and so do the answers as they come: the trigger may
    be started again at any moment, on any triggerer, and goes on where it was. Its event carries counts only. To
    the service it only reads.

    :param assistant_conn_id: The Airflow connection.
    :param site_id: Site of the requests.
    :param folder: The journal's folder.
    :param deadline: When to give up, in seconds since the epoch.
    :param poll_interval: The longest time between two polls of one request, in seconds.
    :param max_concurrency: The most polls in flight, as far as the connection allows.
    :param rendered: Attributes of the task, to be given back to it with the event.
    """

    def __init__(
        self,
        *,
        assistant_conn_id: str,
        site_id: str,
        folder: str,
        deadline: float,
        poll_interval: float,
        max_concurrency: int,
        rendered: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.folder = folder
        self.deadline = deadline
        self.poll_interval = poll_interval
        self.max_concurrency = max_concurrency
        self.rendered = rendered

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to start it anew."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "assistant_conn_id": self.assistant_conn_id,
                "site_id": self.site_id,
                "folder": self.folder,
                "deadline": self.deadline,
                "poll_interval": self.poll_interval,
                "max_concurrency": self.max_concurrency,
                **carried(self.rendered),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: counts and the deadline, or the error that ended the waiting."""
        try:
            event = await self._counts()
        except AssistantError as error:
            event = failure_of(error)
        yield TriggerEvent({**event, "deadline": self.deadline, **carried(self.rendered)})

    async def _counts(self) -> dict[str, Any]:
        journal = Journal(self.folder)
        pending = await asyncio.to_thread(journal.read_open)
        self.log.info("Waiting for %d requests on site %r.", len(pending), self.site_id)
        async with (
            shared_client(AssistantHook(self.assistant_conn_id)) as client,
            recording(journal) as record,
        ):
            poller = Poller(
                client,
                site_id=self.site_id,
                interval=self.poll_interval,
                deadline=self.deadline,
                max_concurrency=self.max_concurrency,
                on_end=record,
            )
            try:
                await poller.run(pending)
            finally:
                self.log.info("%s", poller)
        return {"ended": dict(poller.ended), "open": poller.open, "polls": poller.polls}


def deadline_of(event: Mapping[str, Any] | None) -> float:
    """
    Return the deadline up to which a trigger has waited.

    :param event: The event's payload.
    :raises AssistantError: The event has none.
    """
    if not event or not isinstance(event.get("deadline"), int | float):
        raise AssistantError(f"the trigger's event is of no use: {event!r}")
    return float(event["deadline"])
