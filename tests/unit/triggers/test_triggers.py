"""Both triggers: they only read, keep their deadline, survive a restart, and report answers as counts and errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.asking import state as state_module
from airflow_provider_assistant.asking.questions import Questions
from airflow_provider_assistant.asking.state import BatchState, Request
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantRequestTimeoutError
from airflow_provider_assistant.triggers import chat
from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger, ended_request
from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger
from airflow_provider_assistant.triggers.events import raise_failure
from tests.live.clients import local_client
from tests.versions import deserialize, import_string, serialize
from tests.virtual_time import now, simulated
from tests.wire import client_with

POLL = r"chat/requests/"


@pytest.fixture
def state(tmp_path):
    state = BatchState(str(tmp_path / ".out.parquet.chat-batch"))
    state.write_questions(Questions())
    return state


@pytest.fixture
def submit(service, state):
    """Submit a number of questions, and write them to the batch state as open; return their request ids."""

    def submitted(count):
        requests = []
        with local_client(headers={"X-API-Key": "dev-acme-full"}, base_url=service.url) as client:
            for number in range(count):
                body = {"session_id": f"s{number}", "message": f"Question {number}?"}
                reply = client.post("m2m/sites/acme-docs/chat/async", json=body).raise_for_status()
                requests.append(Request(f"question {number}", reply.json()["request_id"], f"s{number}", time.time()))
        state.add(requests)
        service.server.service.journal.clear()
        return [request.request_id for request in requests]

    return submitted


@pytest.fixture
def batch(state):
    def trigger(**changes):
        arguments = {
            "assistant_conn_id": "assistant_default",
            "site_id": "acme-docs",
            "folder": str(state.folder),
            "deadline": time.time() + 120,
            "timeout": 120,
            "poll_interval": 0.05,
            "max_concurrency": 8,
        }
        return AssistantChatBatchTrigger(**arguments | changes)

    return trigger


def single(request_id="r1", **changes):
    moment = time.time()
    arguments = {
        "assistant_conn_id": "assistant_default",
        "site_id": "acme-docs",
        "request_id": request_id,
        "since": moment,
        "deadline": moment + 300,
        "poll_interval": 0.01,
    }
    return AssistantChatRequestTrigger(**arguments | changes)


async def event_of(trigger):
    (event,) = [event.payload async for event in trigger.run()]
    assert deserialize(json.loads(json.dumps(serialize(event)))) == event, "the event passes Airflow's serializer"
    return event


def restarted(trigger):
    path, arguments = trigger.serialize()
    return import_string(path)(**json.loads(json.dumps(arguments)))


def answers(state):
    _requests, ends = state.read()
    return list(ends.values())


async def cancelled_when(trigger, condition):
    """Run a trigger until a condition holds, and cancel it as a triggerer does that ends."""
    running = asyncio.create_task(event_of(trigger))
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (the service lives in a thread)
            await asyncio.sleep(0.005)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_a_restarted_trigger_has_the_same_arguments(batch, state):
    for trigger in (batch(deadline=2.5), single(since=1.5, rendered={"site_id": "a"}, not_before=9.0)):
        again = restarted(trigger)
        assert type(again) is type(trigger)
        assert again.serialize() == trigger.serialize()
    state.add([Request(f"{number:032x}", f"req_{number:020}", "s", 1e9) for number in range(1000)])
    assert len(json.dumps(batch().serialize())) < 1000, "they do not grow with the batch"


# -- one chat request --------------------------------------------------------------------------------


async def test_a_restart_polls_on_and_posts_nothing(service, connection, submit):
    service.behave(processing_seconds=3600)
    (request_id,) = submit(1)
    trigger = single(request_id)
    await cancelled_when(trigger, lambda: len(service.journal("GET", POLL)) >= 3)
    service.behave(processing_seconds=0)
    waited = time.time() - trigger.since
    event = await event_of(restarted(trigger))
    assert event["request"]["seconds"] >= waited, "the restart counts as a part of the wait"
    assert service.posts() == 0


# -- a batch ---------------------------------------------------------------------------------------


async def test_ends_are_saved_and_counted(service, connection, submit, batch, state):
    service.behave(fail_messages=r"Question 3\?")
    requests = submit(20)
    service.answer("status:404", path=f"{POLL}{requests[1]}", times=None)
    event = await event_of(batch())
    polls = len(service.journal("GET", POLL))
    ended = {"complete": 18, "failed": 1, "lost": 1}
    assert event == {"ended": ended, "open": 0, "polls": polls, "rendered": None}
    statuses = {answer.request_id: answer.status for answer in answers(state)}
    assert (statuses[requests[1]], statuses[requests[3]], len(statuses)) == ("lost", "failed", 20)
    assert (state.read_open(), service.posts()) == ([], 0)
    assert (await event_of(batch()))["polls"] == 0, "nothing is open any more"


@pytest.mark.parametrize(
    "limits", [{"deadline": 0.2}, {"deadline": 86_400, "timeout": 0.2}], ids=["", "clock set back"]
)
async def test_at_the_deadline_the_event_counts_the_open_requests(limits, service, connection, submit, batch, state):
    service.behave(processing_seconds=3600)
    submit(5)
    async with asyncio.timeout(60):
        event = await event_of(batch(**{**limits, "deadline": time.time() + limits["deadline"]}))
    assert (event["ended"], event["open"], len(state.read_open())) == ({}, 5, 5)


@pytest.mark.promise(
    "chat", "After a restart of the triggerer, a batch goes on from its saved answers and asks nothing again."
)
async def test_a_restart_continues_at_the_saved_state(service, connection, submit, batch, state, monkeypatch):
    monkeypatch.setattr(state_module, "FLUSH", 0.01)
    requests = submit(12)
    late = requests[6:]
    service.answer("status:503", path=f"{POLL}({'|'.join(late)})", times=None)
    trigger = batch()
    await cancelled_when(trigger, lambda: len(answers(state)) == 6)
    service.behave(rules=[])
    service.server.service.journal.clear()
    event = await event_of(restarted(trigger))
    assert event["ended"] == {"complete": 6}
    assert {entry.path.rpartition("/")[2] for entry in service.journal("GET", POLL)} == set(late)
    assert sorted(answer.request_id for answer in answers(state)) == sorted(requests)
    assert service.posts() == 0


# -- errors, and the key ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_of_all_is_an_error_and_the_key_is_nowhere(status, service, canary, submit, batch, state):
    requests = submit(20)
    service.answer(f"status:{status}", path=POLL, times=None)
    triggers = [batch(), single(requests[0])]
    events = [await event_of(trigger) for trigger in triggers]
    assert [event["error"]["fields"]["status"] for event in events] == [status, status]
    assert len(service.journal("GET", POLL)) <= 9
    service.behave(rules=[])
    events.append(await event_of(batch()))
    files = [path.read_text() for path in BatchState(triggers[0].folder).folder.glob("*.jsonl")]
    assert files
    assert canary not in f"{events} {[(one.serialize(), vars(one)) for one in triggers]} {files}"


async def test_an_incomplete_connection_is_an_error(batch, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", '{"conn_type": "assistant", "host": "no url"}')
    for trigger in (batch(), single()):
        with pytest.raises(AssistantInputError):
            raise_failure(await event_of(trigger))


# -- a shared rate limit, with a simulated clock ---------------------------------------------------


class Service(AsyncTransport):
    """A transport that answers polls from a list of statuses or pauses, in order; the last one repeats."""

    settings = ClientSettings("http://127.0.0.1:1/api/v1", "canary-key-0123456789")

    def __init__(self, monkeypatch):
        self.answers = ["queued"]
        self.polled = []
        self.client = None
        monkeypatch.setattr(chat, "shared_client", self.shared_client)

    async def exchange(self, call):
        self.polled.append(now())
        await asyncio.sleep(0.02)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            return Response(429, {"retry-after": str(answer)}, b"")
        return Response(200, {}, json.dumps({"request_id": "r1", "status": answer, "answer": "Yes."}).encode())

    @contextlib.asynccontextmanager
    async def shared_client(self, hook):
        self.client = self.client or client_with(self.settings, async_transport=self, now=now)
        yield self.client


@pytest.fixture
def shared(monkeypatch):
    return Service(monkeypatch)


async def waited(deadline, *, start=0.0):
    """Run a trigger, and return its event and the time of the event."""
    await asyncio.sleep(start)
    (event,) = [event.payload async for event in single(since=0.0, deadline=deadline, poll_interval=5.0).run()]
    return event, now()


@pytest.mark.promise("chat", "A deferred wait keeps its timeout, also while the service asks for a pause.")
def test_a_pause_that_outlasts_the_deadline_ends_close_to_it(shared):
    shared.answers = ["queued", 3600]

    async def main():
        return await asyncio.gather(waited(60.0), waited(90.0, start=11.0), waited(5.0, start=100.0))

    ended = simulated(main())
    assert len(shared.polled) == 2
    for (event, at), deadline in zip(ended, (60.0, 90.0, 100.0), strict=True):
        assert deadline <= at <= deadline + Service.settings.timeout
        with pytest.raises(AssistantRequestTimeoutError) as caught:
            ended_request(event)
    assert "0 polls; no poll was answered since" in str(caught.value)
    assert "its rate limit held the polls back" in str(caught.value)
    with pytest.raises(AssistantRequestTimeoutError, match=r"2 polls; .*429") as caught:
        ended_request(ended[0][0])
    assert caught.value.status == "queued"


def test_a_pause_that_ends_in_time_does_no_harm(shared):
    shared.answers = [40, "complete"]

    async def main():
        return await asyncio.gather(*(waited(60.0, start=0.2 * number) for number in range(5)))

    ended = simulated(main())
    assert all(ended_request(event)["state"] == "complete" for event, _ in ended)
    assert all(45.0 <= at <= 55.0 for _, at in ended)
