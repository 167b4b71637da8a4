"""Trigger that polls one async chat request (``GET …/chat/requests/{request_id}``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_assistant.asking.single import poll_chat
from airflow_provider_assistant.asking.state import Request
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.shared_client import shared_client
from airflow_provider_assistant.triggers.events import AssistantTrigger, raise_failure


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
    :param not_before: Time of the event at the earliest, in seconds since the epoch. Default: 0, at once.
    :param rendered: Rendered attributes of the task, which the event returns to it. Default: None.
    """

    arguments = (
        "assistant_conn_id",
        "site_id",
        "request_id",
        "since",
        "deadline",
        "poll_interval",
        "longest_interval",
        "polls",
        "not_before",
        "rendered",
    )

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
        self.polls = polls
        self.not_before = not_before
        self.rendered = rendered

    async def _wait(self) -> dict[str, Any]:
        request = Request("", self.request_id, "", self.since, polls=self.polls)
        async with shared_client(AssistantHook(self.assistant_conn_id)) as client:
            ended = await poll_chat(
                client,
                self.site_id,
                request,
                deadline=self.deadline,
                first=self.poll_interval,
                interval=self.longest_interval or self.poll_interval,
            )
        return {"request": ended}


def ended_request(event: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Return the ended chat request in the event of an :class:`AssistantChatRequestTrigger`.

    :return: What :func:`.ended_chat` returns.
    :raises AssistantError: The event reports an error, or has neither a request nor an error.
    """
    if event and isinstance(event.get("request"), Mapping):
        return dict(event["request"])
    raise_failure(event)
    raise AssistantError(f"the trigger's event has neither a request nor an error: {event!r}")
