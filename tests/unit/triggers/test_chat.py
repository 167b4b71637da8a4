"""The trigger: it only reads, keeps its deadline, survives a restart and never blocks the event loop."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time

import pytest

from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantError,
)
from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger, ended_request
from tests.live.clients import local_request
from tests.versions import deserialize, import_string, serialize
from tests.wire import Answer, ScriptedService

POLL = r"chat/requests/"


@pytest.fixture
def ask(service):
    def asked(message="Anything?"):
        reply = local_request(
            "POST",
            f"{service.url}/m2m/sites/acme-docs/chat/async",
            json={"session_id": "s", "message": message},
            headers={"X-API-Key": "dev-acme-full"},
        )
        service_id = reply.raise_for_status().json()["request_id"]
        service.server.service.journal.clear()
        return service_id

    return asked


def trigger(request_id, **changes):
    now = time.time()
    arguments = {
        "assistant_conn_id": "assistant_default",
        "site_id": "acme-docs",
        "request_id": request_id,
        "since": now,
        "deadline": now + 300,
        "poll_interval": 0.01,
    }
    return AssistantChatRequestTrigger(**arguments | changes)


@pytest.fixture
def connect_to(ledger_home, monkeypatch):
    """Create the Airflow connection to a service that the test has started."""

    def open_hook(url):
        fields = {"conn_type": "assistant", "host": url, "password": "a-key-of-this-test", "extra": {"retries": 0}}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))

    return open_hook


async def events(one):
    return [event.payload async for event in one.run()]


def test_serialize_round_trip():
    one = trigger("req", since=1.5, deadline=2.5)
    path, arguments = one.serialize()
    again = import_string(path)(**arguments)
    assert type(again) is AssistantChatRequestTrigger
    assert again.serialize() == one.serialize()
    assert deserialize(serialize(arguments)) == arguments


async def test_complete(service, connection, ask):
    request_id = ask()
    (event,) = await events(trigger(request_id))
    assert set(event) == {"request"}
    assert (event["request"]["request_id"], event["request"]["state"]) == (request_id, "complete")
    assert event["request"]["polls"] == len(service.journal("GET", POLL))
    assert service.posts() == 0


async def test_a_restart_polls_on_and_posts_nothing(service, connection, ask):
    service.behave(processing_seconds=3600)
    one = trigger(ask(), since=time.time())
    running = asyncio.create_task(events(one))
    while len(service.journal("GET", POLL)) < 3:  # noqa: ASYNC110 (the service lives in a thread)
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    path, arguments = one.serialize()
    service.behave(processing_seconds=0)
    waited = time.time() - one.since
    (event,) = await events(import_string(path)(**json.loads(json.dumps(arguments))))
    assert event["request"]["state"] == "complete"
    assert event["request"]["seconds"] >= waited, "the restart counts as a part of the wait"
    assert service.posts() == 0


@pytest.mark.parametrize(
    "prepare",
    [
        lambda service: None,
        lambda service: service.answer("status:404", path=POLL),
        lambda service: service.behave(fail_messages="Anything"),
    ],
    ids=["complete", "refused", "failed"],
)
async def test_events_pass_through_airflow_s_serializer_and_hold_no_key(prepare, service, canary, ask):
    prepare(service)
    one = trigger(ask())
    (event,) = await events(one)
    stored = serialize(event)
    assert deserialize(json.loads(json.dumps(stored))) == event
    assert canary not in json.dumps(stored)
    assert canary not in f"{one.serialize()} {one!r} {vars(one)}"


async def test_many_wait_together(connect_to):
    """
    The service answers once it has received all polls, so sequential polls would never be answered.

    Only the first one goes alone.
    """
    together = threading.Barrier(19)
    received = itertools.count()

    class Together(ScriptedService):
        def next(self, request):
            if next(received):
                together.wait(20)
            name = request.path.rpartition("/")[2]
            return Answer(body={"request_id": name, "status": "complete", "answer": "Yes."})

    requests = [f"r{number}" for number in range(20)]
    with Together() as service:
        connect_to(service.url)
        results = await asyncio.gather(*(events(trigger(request_id)) for request_id in requests))
    assert [event["request"]["request_id"] for (event,) in results] == requests


async def test_triggers_of_one_connection_share_a_client(service, connection, ask, monkeypatch):
    closed, aclose = [], AssistantClient.aclose

    async def counted(client):
        closed.append(client)
        await aclose(client)

    monkeypatch.setattr(AssistantClient, "aclose", counted)
    requests = [ask() for _ in range(10)]
    await asyncio.gather(*(events(trigger(request_id)) for request_id in requests))
    assert len(closed) == 1
    await events(trigger(requests[0]))
    assert len(closed) == 2
    assert closed[0] is not closed[1]


@pytest.mark.parametrize("event", [None, {}, {"request": None}, {"error": "text"}, {"status": "success"}])
def test_a_malformed_event_is_an_error(event):
    with pytest.raises(AssistantError, match="neither"):
        ended_request(event)


def test_an_error_of_a_newer_triggerer_is_still_an_error():
    event = {"error": {"type": "AssistantQuotaError", "fields": {"happened": "used up", "left": 0}}}
    with pytest.raises(AssistantError, match="used up") as caught:
        ended_request(event)
    assert type(caught.value) is AssistantError
    assert caught.value.left == 0


@pytest.mark.parametrize("name", ["annotations", "__name__", "AirflowException", None])
def test_only_errors_of_this_package_are_raised(name):
    with pytest.raises(AssistantError):
        ended_request({"error": {"type": name, "fields": {"happened": "m"}}})
