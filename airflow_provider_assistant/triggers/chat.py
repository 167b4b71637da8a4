"""The trigger that polls one async chat request (endpoint 7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_assistant import tracing
from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.models import ChatRequest
from airflow_provider_assistant.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared import shared_client
from airflow_provider_assistant.triggers.events import carried, failure_of, raise_failure

# Seconds beyond the deadline in which the last poll may still get its turn and its answer.
GRACE = 5.0


class AssistantChatRequestTrigger(BaseTrigger):
    """
    Poll one async chat request until it ends, or its deadline passes.

    It only reads, so that it may be started again at any moment, on any triggerer; the deadline is
    wall-clock and survives that. The API key stays in the connection. All triggers of one triggerer that use
    the same connection share its client: one bound on their requests, and one pause where the service asks
    for one.

    :param assistant_conn_id: The Airflow connection.
    :param site_id: Site of the request.
    :param request_id: The request.
    :param since: When it was submitted, or first looked for, in seconds since the epoch.
    :param deadline: When to give up, in seconds since the epoch.
    :param poll_interval: Seconds between polls.
    :param rendered: Attributes of the task, to be given back to it with the event.
    """

    def __init__(
        self,
        *,
        assistant_conn_id: str,
        site_id: str,
        request_id: str,
        since: float,
        deadline: float,
        poll_interval: float,
        rendered: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.request_id = request_id
        self.since = since
        self.deadline = deadline
        self.poll_interval = poll_interval
        self.rendered = rendered

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to start it anew."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "assistant_conn_id": self.assistant_conn_id,
                "site_id": self.site_id,
                "request_id": self.request_id,
                "since": self.since,
                "deadline": self.deadline,
                "poll_interval": self.poll_interval,
                **carried(self.rendered),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the ended request, or the error that ended the waiting."""
        try:
            async with shared_client(AssistantHook(self.assistant_conn_id)) as client:
                with tracing.span("wait", site_id=self.site_id, request_id=self.request_id):
                    request, polls = await self._ended(client)
                times = times_of(request, self.since, client.now())
            event = {"request": {**request.as_dict(), "polls": polls, **times}}
        except AssistantError as error:
            event = failure_of(error)
        yield TriggerEvent({**event, **carried(self.rendered)})

    async def _ended(self, client: AssistantClient) -> tuple[ChatRequest, int]:
        call = endpoints.get_chat_request(self.site_id, self.request_id, client.settings.words)
        steps = flow.wait_for(
            call, since=self.since, deadline=self.deadline, interval=self.poll_interval, now=client.now
        )
        try:
            async with asyncio.timeout(self._patience(client)):
                return await client.arun(steps)
        except TimeoutError as late:
            # The flow knows what was seen until then, and raises its own error.
            steps.throw(late)
            raise

    def _patience(self, client: AssistantClient) -> float:
        """
        Return the seconds after which a poll is given up that still waits for its turn or its answer.

        A pause that the service asks all requests for may be longer than the deadline is away. Where the deadline
        has passed already, as after an outage of the triggerer, there is time for the one poll.
        """
        left = self.deadline - client.now()
        return left + GRACE if left > 0 else min(client.settings.timeout, flow.LAST_POLL)


def times_of(request: ChatRequest, since: float, now: float) -> dict[str, float | None]:
    """
    Return how long an ended request took.

    :param request: The request.
    :param since: When it was submitted, in seconds since the epoch.
    :param now: When its end was noticed.
    :return: ``seconds`` by the service's own times, None where its reply has none; ``noticed_after``, seconds from
        submission to the poll that noticed the end; ``ended_at``, in seconds since the epoch.
    """
    # A clock that is set back must not make it negative.
    noticed_after = max(0.0, now - since)
    took = request.service_seconds
    seconds = None if took is None else min(took, noticed_after)
    return {
        "seconds": None if seconds is None else round(seconds, 3),
        "noticed_after": round(noticed_after, 3),
        "ended_at": now if seconds is None else since + seconds,
    }


def ended_request(event: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Return the ended request that a trigger's event reports.

    :param event: The event's payload.
    :raises AssistantError: The event reports an error, which is raised as the class it was; a class that this
        worker does not know becomes an AssistantError.
    """
    if event and isinstance(event.get("request"), Mapping):
        return dict(event["request"])
    raise_failure(event)
    raise AssistantError(f"the trigger's event has neither a request nor an error: {event!r}")
