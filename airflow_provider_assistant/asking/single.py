"""Wait for one async chat request: a batch of one, whose reply and errors the caller gets as they are."""

from __future__ import annotations

from typing import Any

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.asking.poller import poll_until
from airflow_provider_assistant.asking.schedule import Schedule
from airflow_provider_assistant.asking.state import End, Request
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantRequestTimeoutError
from airflow_provider_assistant.texts import counted


async def poll_chat(
    client: AssistantClient,
    site_id: str,
    request: Request,
    *,
    deadline: float,
    interval: float,
    first: float | None = None,
) -> dict[str, Any]:
    """
    Poll a chat request until it ends, and return what :func:`ended_chat` returns.

    The parameters are those of :class:`.Poller`.

    :raises AssistantRequestTimeoutError: The chat request did not end before the deadline.
    :raises AssistantAPIError: The service answered with a 4xx that another poll would get as well.
    """
    ends: list[End] = []
    schedule = await poll_until(
        client, site_id, [request], deadline=deadline, interval=interval, first=first, on_end=ends.append
    )
    if not ends:
        raise timed_out(schedule, site_id, request, client.now())
    return ended_chat(schedule, ends[0])


def ended_chat(schedule: Schedule, end: End) -> dict[str, Any]:
    """
    Return the ended chat request: the keys of :meth:`.ChatRequest.as_dict`, ``polls``, ``seconds`` and ``ended_at``.

    :raises AssistantAPIError: The service no longer knows the chat request.
    """
    if end.status == "lost" and schedule.error:
        raise schedule.error
    reply = schedule.reply.as_dict() if schedule.reply else {}
    return {**reply, "polls": end.polls, "seconds": round(end.seconds or 0.0, 3), "ended_at": end.ended_at}


def timed_out(schedule: Schedule, site_id: str, request: Request, now: float) -> AssistantRequestTimeoutError:
    """Return the error of a wait that ended before the chat request: how long it was, and what the polls met."""
    call = str(endpoints.get_chat_request(site_id, str(request.request_id)))
    status = schedule.reply.status if schedule.reply else ""
    if silence := schedule.silence(now):
        met = str(silence)
    elif schedule.error:
        met = schedule.error.happened
    else:
        met = f"the last status was {status!r}" if schedule.reply else "no poll was sent"
    waited = f"{max(0.0, now - request.submitted_at):.0f} s and {counted(request.polls + schedule.polls, 'poll')}"
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
