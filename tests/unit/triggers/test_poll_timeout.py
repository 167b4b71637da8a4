"""Triggers that share a client, with a simulated clock: how long they wait after a 429 with Retry-After."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.exceptions import AssistantRequestTimeoutError
from airflow_provider_assistant.triggers import chat
from airflow_provider_assistant.triggers.chat import GRACE, AssistantChatRequestTrigger, ended_request
from tests.virtual_time import now, simulated

SETTINGS = ClientSettings("http://127.0.0.1:1/api/v1", "canary-key-0123456789")
QUEUED, COMPLETE = {"request_id": "r1", "status": "queued"}, {"request_id": "r1", "status": "complete"}


def reply(body):
    return Response(200, {}, json.dumps(body).encode())


def refusal(seconds):
    return Response(429, {"retry-after": str(seconds)}, b"")


class Service(AsyncTransport):
    """A transport that answers polls from a list, in order; the last answer repeats."""

    def __init__(self, monkeypatch):
        self.answers = [reply(QUEUED)]
        self.polled = []
        self.flying = self.most = 0
        self.latency = 0.1
        monkeypatch.setattr(chat, "shared_client", self.shared_client)

    async def exchange(self, call):
        self.polled.append(now())
        self.flying += 1
        self.most = max(self.most, self.flying)
        await asyncio.sleep(self.latency)
        self.flying -= 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @contextlib.asynccontextmanager
    async def shared_client(self, hook):
        self.client = getattr(self, "client", None) or AssistantClient(SETTINGS, async_transport=self, now=now)
        yield self.client


@pytest.fixture
def service(monkeypatch):
    return Service(monkeypatch)


async def waited(deadline, *, start=0.0, interval=5.0):
    """Run a trigger, and return its event and the time of the event."""
    await asyncio.sleep(start)
    trigger = AssistantChatRequestTrigger(
        assistant_conn_id="assistant_default",
        site_id="docs",
        request_id="r1",
        since=0.0,
        deadline=deadline,
        poll_interval=interval,
    )
    (event,) = [event.payload async for event in trigger.run()]
    return event, now()


def timeout_of(event):
    with pytest.raises(AssistantRequestTimeoutError) as caught:
        ended_request(event)
    return caught.value


@pytest.mark.promise("chat", "A deferred wait keeps its timeout, also while the service asks for a pause.")
def test_a_pause_that_outlasts_the_deadline_ends_close_to_it(service):
    service.answers = [reply(QUEUED), refusal(3600)]
    event, at = simulated(waited(60.0))
    assert 60.0 <= at <= 60.0 + GRACE
    error = timeout_of(event)
    assert "2 polls" in str(error)
    assert "429" in str(error)
    assert error.status == "queued"
    assert len(service.polled) == 2


def test_a_trigger_that_starts_during_a_pause_keeps_its_deadline(service):
    service.answers = [refusal(3600)]

    async def main():
        (_, first), (event, second) = await asyncio.gather(waited(60.0), waited(90.0, start=1.0))
        return first, event, second

    first, event, second = simulated(main())
    assert 60.0 <= first <= 60.0 + GRACE
    assert 90.0 <= second <= 90.0 + GRACE
    assert "0 polls" in str(timeout_of(event))
    assert len(service.polled) == 1


def test_a_pause_that_ends_in_time_does_no_harm(service):
    service.answers = [refusal(40), reply(COMPLETE)]

    async def main():
        return await asyncio.gather(*(waited(60.0, start=0.2 * number) for number in range(5)))

    ended = simulated(main())
    assert all(ended_request(event)["state"] == "complete" for event, _ in ended)
    assert all(40.0 <= at <= 50.0 for _, at in ended)


def test_the_last_poll_is_made_at_the_deadline_and_its_answer_taken(service):
    service.answers = [reply(QUEUED), reply(QUEUED), reply(COMPLETE)]
    service.latency = 4.0
    event, at = simulated(waited(20.0, interval=8.0))
    assert service.polled == [0.0, 12.0, 20.0]
    assert ended_request(event)["polls"] == 3
    assert at == 24.0


def test_after_the_deadline_there_is_time_for_one_poll(service):
    service.answers = [reply(COMPLETE)]
    service.latency = 20.0
    event, _ = simulated(waited(50.0, start=100.0))
    assert ended_request(event)["state"] == "complete"


def test_after_the_deadline_no_trigger_waits_for_a_pause(service):
    service.answers = [refusal(3600)]

    async def main():
        return (await asyncio.gather(waited(50.0), waited(50.0, start=100.0)))[1]

    event, at = simulated(main())
    assert at <= 100.0 + SETTINGS.timeout
    assert "0 polls" in str(timeout_of(event))


def test_a_thousand_triggers_are_never_more_than_the_bound(service):
    service.latency = 0.02

    async def main():
        answers = asyncio.gather(*(waited(600.0) for _ in range(1000)))
        await asyncio.sleep(30.0)
        service.answers = [reply(COMPLETE)]
        return await answers

    ended = simulated(main())
    assert service.most == 32
    assert all(ended_request(event)["state"] == "complete" for event, _ in ended)
    assert max(at for _, at in ended) <= 30.0 + 5.0 + 1000 / 32 * 0.02 + 0.1
