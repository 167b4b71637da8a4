"""Wait for one async chat request (``GET …/chat/requests/{request_id}``), in the triggerer or elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.asking.poller import poll_until
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError, AssistantRequestTimeoutError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared_client import shared_client
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers.events import AssistantTrigger, failure_of, raise_failure


@dataclass(kw_only=True, eq=False, repr=False)
class AssistantChatRequestTrigger(AssistantTrigger):
    """
    Poll one async chat request until it ends, or the deadline passes.

    The trigger sends only ``GET`` requests, so it can restart at any time on any triggerer. The deadline is a
    wall-clock time and stays the same. The API key is read from the connection and is not stored with the trigger.
    All triggers of one triggerer that use the same connection share a client, and so one concurrency limit and one rate
    limit.

    :param since: Time of the start of the wait, in seconds since the epoch. The first poll comes one interval later.
    :param deadline: Time at which to stop polling, in seconds since the epoch.
    :param poll_interval: Seconds between polls.
    :param longest_interval: Seconds up to which the interval grows. Default: None, it stays the same.
    :param polls: Number of polls that the task has sent itself. Default: 0.
    """

    request_id: str
    since: float
    longest_interval: float | None = None
    polls: int = 0

    async def _wait(self) -> dict[str, Any]:
        request = Answer("", request_id=self.request_id, submitted_at=self.since, polls=self.polls)
        interval = self.longest_interval or self.poll_interval
        async with shared_client(AssistantHook(self.assistant_conn_id)) as client:
            wait = Wait(interval=interval, deadline=self.deadline, now=client.now(), first=self.poll_interval)
            return await event_of_wait(client, self.site_id, wait, request)


async def event_of_wait(client: AssistantClient, site_id: str, wait: Wait, request: Answer) -> dict[str, Any]:
    """Wait for a chat request until the deadline, and return its :func:`event_of_end`."""
    ends: list[Answer] = []
    await poll_until(client, site_id, wait, [request], on_end=ends.append)
    if not ends:
        raise timed_out(wait, site_id, request, client.now())
    return event_of_end(wait, ends[0])


def event_of_end(wait: Wait, end: Answer) -> dict[str, Any]:
    """Return the event payload for the end of a chat request; :func:`ended_request` reads it."""
    if wait.error or not wait.reply:
        return failure_of(wait.error or AssistantError("the chat request has no reply"))
    times = {"polls": end.polls, "seconds": round(end.seconds or 0.0, 3), "ended_at": end.ended_at}
    return {"request": {**wait.reply.as_dict(), **times}}


def ended_request(event: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Return the ended chat request in an event.

    :return: The keys of :meth:`.ChatRequest.as_dict`, ``polls``, ``seconds`` from the start of the wait, and
        ``ended_at`` in seconds since the epoch.
    :raises AssistantError: The event reports an error, or has neither a request nor an error.
    """
    if event and isinstance(event.get("request"), Mapping):
        return dict(event["request"])
    raise_failure(event)
    raise AssistantError(f"the trigger's event has neither a request nor an error: {event!r}")


def timed_out(wait: Wait, site_id: str, request: Answer, now: float) -> AssistantRequestTimeoutError:
    """Return the error of a wait that ended before the chat request: how long it was, and what the polls met."""
    call = str(endpoints.get_chat_request(site_id, str(request.request_id)))
    status = wait.reply.status if wait.reply else ""
    met = f"the last status was {status!r}" if wait.reply else "no poll was answered"
    if silence := wait.silence(now):
        met = silence
    elif wait.error:
        met = wait.error.happened
    seconds = max(0.0, now - (request.submitted_at or now))
    waited = f"{seconds:.0f} s and {counted(request.polls + wait.polls, 'poll')}"
    happened = f"The chat request did not end within {waited}; {met}"
    if call not in happened:
        happened += f" ({call})"
    return AssistantRequestTimeoutError(
        happened,
        todo="It may still complete: run the task again to wait longer. If the status is final, add it to the status "
        "words of the Airflow connection.",
        request_id=str(request.request_id),
        status=status,
    )
