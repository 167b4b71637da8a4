"""Trigger that polls one async chat request (``GET …/chat/requests/{request_id}``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared_client import shared_client
from airflow_provider_assistant.observability import tracing
from airflow_provider_assistant.triggers.events import carried, failure_of, raise_failure, wait_until

# Seconds after the deadline in which the last poll may still be sent and answered.
GRACE = 5.0


class AssistantChatRequestTrigger(BaseTrigger):
    """
    Poll one async chat request until it ends, or the deadline passes.

    The trigger sends only ``GET`` requests, so it can restart at any time on any triggerer. The deadline is a
    wall-clock time and stays the same. The API key is read from the connection and is not stored with the trigger.
    All triggers of one triggerer that use the same connection share a client, and so one concurrency limit and one rate
    limit.

    :param assistant_conn_id: Id of the Airflow connection.
    :param site_id: Site of the chat request.
    :param request_id: Id of the chat request.
    :param since: Time of the submission, or of the start of the wait, in seconds since the epoch.
    :param deadline: Time at which to stop polling, in seconds since the epoch.
    :param poll_interval: Seconds between polls.
    :param longest_interval: Seconds up to which the interval doubles after each poll. Default: None, it stays the same.
    :param first_poll: Time of the first poll, in seconds since the epoch. Default: None, at once.
    :param polls: Number of polls that the task has sent itself. Default: 0.
    :param not_before: Time of the event at the earliest, in seconds since the epoch. Default: 0, at once.
    :param rendered: Rendered attributes of the task, which the event returns to it. Default: None.
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
        longest_interval: float | None = None,
        first_poll: float | None = None,
        polls: int = 0,
        not_before: float = 0.0,
        rendered: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__()
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.request_id = request_id
        self.since = since
        self.deadline = deadline
        self.poll_interval = poll_interval
        self.longest_interval = longest_interval
        self.first_poll = first_poll
        self.polls = polls
        self.not_before = not_before
        self.rendered = rendered

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments with which Airflow restarts the trigger."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "assistant_conn_id": self.assistant_conn_id,
                "site_id": self.site_id,
                "request_id": self.request_id,
                "since": self.since,
                "deadline": self.deadline,
                "poll_interval": self.poll_interval,
                "longest_interval": self.longest_interval,
                "first_poll": self.first_poll,
                "polls": self.polls,
                "not_before": self.not_before,
                **carried(self.rendered),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Yield one event when the chat request has ended or the deadline has passed.

        :return: The event's payload has ``request`` (the ended chat request with ``polls``, ``seconds`` and
            ``ended_at``) or ``error``, and ``rendered`` if it was given.
        """
        try:
            async with shared_client(AssistantHook(self.assistant_conn_id)) as client:
                with tracing.span("wait", site_id=self.site_id, request_id=self.request_id):
                    request, polls = await self._ended(client)
                times = times_of(self.since, client.now())
            event = {"request": {**request.as_dict(), "polls": polls, **times}}
        except Exception as error:  # noqa: BLE001 (the task says what was submitted, whatever the error is)
            event = failure_of(error)
        await wait_until(self.not_before)
        yield TriggerEvent({**event, **carried(self.rendered)})

    async def _ended(self, client: AssistantClient) -> tuple[ChatRequest, int]:
        call = endpoints.get_chat_request(self.site_id, self.request_id, client.settings.words)
        steps = flow.wait_for(
            call,
            since=self.since,
            deadline=self.deadline,
            interval=self.poll_interval,
            longest_interval=self.longest_interval,
            first_poll=self.first_poll,
            polls=self.polls,
            now=client.now,
        )
        try:
            async with asyncio.timeout(self._poll_timeout(client)):
                return await client.arun(steps)
        except TimeoutError as late:
            # The flow raises a better error, with the last status that it received.
            steps.throw(late)
            # Not reached, because the flow has raised.
            raise

    def _poll_timeout(self, client: AssistantClient) -> float:
        """
        Return the seconds after which to cancel the flow, even if a poll still waits for its turn or its answer.

        A ``Retry-After`` that holds back all requests may last longer than the deadline. If the deadline has already
        passed, for example after an outage of the triggerer, there is still time for one poll.
        """
        seconds_left = self.deadline - client.now()
        if seconds_left > 0:
            return seconds_left + GRACE
        return min(client.settings.timeout, flow.LAST_POLL)


def times_of(since: float, now: float) -> dict[str, float]:
    """
    Return how long an ended chat request took.

    :param since: Time of the submission, in seconds since the epoch.
    :param now: Time of the poll that found the end, in seconds since the epoch.
    :return: ``seconds`` from the submission to the poll that found the end; ``ended_at``, the time of that poll in
        seconds since the epoch.
    """
    # If the clock was set back, the difference would be negative.
    return {"seconds": round(max(0.0, now - since), 3), "ended_at": now}


def ended_request(event: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Return the ended chat request in the event of an :class:`AssistantChatRequestTrigger`.

    :param event: Payload of the event.
    :return: The ended chat request: the keys of :meth:`.ChatRequest.as_dict`, ``polls``, ``seconds`` and
        ``ended_at``.
    :raises AssistantError: The event reports an error. The error has its original class, or AssistantError if this
        worker does not have that class. An event with neither a request nor an error raises AssistantError, too.
    """
    if event and isinstance(event.get("request"), Mapping):
        return dict(event["request"])
    raise_failure(event)
    raise AssistantError(f"the trigger's event has neither a request nor an error: {event!r}")
