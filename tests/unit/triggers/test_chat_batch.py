"""The batch trigger: it polls the open requests of a record, saves answers, and sends only counts."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import replace

import pytest

from airflow_provider_assistant.asking import state as state_module
from airflow_provider_assistant.asking.questions import Questions
from airflow_provider_assistant.asking.state import BatchState, Request
from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger
from airflow_provider_assistant.triggers.events import raise_failure
from tests.live.clients import local_client
from tests.versions import deserialize, import_string, serialize

POLL = r"chat/requests/"


@pytest.fixture
def record(tmp_path):
    record = BatchState(str(tmp_path / ".out.parquet.chat-batch"))
    record.write_questions(Questions())
    return record


def answers(record):
    _requests, ends = record.read()
    return list(ends.values())


@pytest.fixture
def submit(service, record):
    """Submit a number of questions, and write them to the record as open."""

    def submit_questions(count):
        headers = {"X-API-Key": "dev-acme-full"}
        pending = []
        with local_client(headers=headers, base_url=service.url) as client:
            for number in range(count):
                body = {"session_id": f"s{number}", "message": f"Question {number}?"}
                reply = client.post("m2m/sites/acme-docs/chat/async", json=body)
                request_id = reply.raise_for_status().json()["request_id"]
                pending.append(Request(f"question {number}", request_id, f"s{number}", time.time()))
        record.add(pending)
        service.server.service.journal.clear()
        return [one.request_id for one in pending]

    return submit_questions


@pytest.fixture
def client_defaults():
    """Replace defaults of all clients until the end of the test."""
    previous = get_client_defaults()
    yield lambda **changes: set_client_defaults(replace(previous, **changes))
    set_client_defaults(previous)


@pytest.fixture
def trigger(record):
    def made(**changes):
        arguments = {
            "assistant_conn_id": "assistant_default",
            "site_id": "acme-docs",
            "folder": str(record.folder),
            "deadline": time.time() + 120,
            "timeout": 120,
            "poll_interval": 0.05,
            "max_concurrency": 8,
        }
        return AssistantChatBatchTrigger(**arguments | changes)

    return made


async def event_of(one):
    (event,) = [event.payload async for event in one.run()]
    assert deserialize(json.loads(json.dumps(serialize(event)))) == event
    return event


def polled(service):
    return {entry.path.rpartition("/")[2] for entry in service.journal("GET", POLL)}


def test_serialize_round_trip(trigger):
    one = trigger(deadline=2.5)
    path, arguments = one.serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert type(again) is AssistantChatBatchTrigger
    assert again.serialize() == one.serialize()
    assert deserialize(serialize(arguments)) == arguments


async def test_its_arguments_do_not_grow_with_the_batch(service, connection, trigger, record):
    record.add([Request(f"{number:032x}", f"req_{number:020}", "s", 1e9) for number in range(10_000)])
    assert len(json.dumps(trigger().serialize())) < 1000


async def test_all_answers_are_saved(service, connection, submit, trigger, record):
    requests = submit(20)
    one = trigger()
    event = await event_of(one)
    assert event == {"ended": {"complete": 20}, "open": 0, "polls": len(service.journal("GET", POLL))}
    ends = answers(record)
    assert sorted(end.request_id for end in ends) == sorted(requests)
    assert all(end.answer.startswith("I don't know") and end.polls >= 1 for end in ends)
    assert record.read_open() == []
    assert service.posts() == 0
    assert len(json.dumps(event)) < 1000


async def test_failed_and_lost_requests_are_counted_and_saved(service, connection, submit, trigger, record):
    service.behave(fail_messages=r"Question 3\?")
    requests = submit(5)
    service.answer("status:404", path=f"{POLL}{requests[1]}", times=None)
    event = await event_of(trigger())
    assert event["ended"] == {"complete": 3, "failed": 1, "lost": 1}
    statuses = {answer.request_id: answer.status for answer in answers(record)}
    assert (statuses[requests[1]], statuses[requests[3]]) == ("lost", "failed")


async def test_at_the_deadline_the_event_counts_the_open_requests(service, connection, submit, trigger, record):
    service.behave(processing_seconds=3600)
    requests = submit(5)
    one = trigger(deadline=time.time() + 0.2)
    event = await event_of(one)
    assert (event["ended"], event["open"]) == ({}, 5)
    assert time.time() < one.deadline + 60
    assert polled(service) == set(requests)
    assert len(record.read_open()) == 5


async def test_a_clock_that_is_set_back_does_not_prolong_the_wait(service, connection, submit, trigger):
    service.behave(processing_seconds=3600)
    submit(1)
    async with asyncio.timeout(60):
        event = await event_of(trigger(deadline=time.time() + 86_400, timeout=0.2))
    assert (event["ended"], event["open"]) == ({}, 1)


async def test_requests_with_a_saved_answer_are_not_polled_again(service, connection, submit, trigger, record):
    submit(10)
    await event_of(trigger())
    done = answers(record)
    record.begin([Request(end.question_id, end.request_id, "s", time.time()) for end in done], done[:6])
    service.server.service.journal.clear()
    event = await event_of(trigger())
    assert event["ended"] == {"complete": 4}
    assert polled(service) == {answer.request_id for answer in done[6:]}
    assert len(answers(record)) == 10


@pytest.mark.promise(
    "chat", "After a restart of the triggerer, a batch goes on from its saved answers and asks nothing again."
)
async def test_a_restart_continues_at_the_saved_state(service, connection, submit, trigger, record, monkeypatch):
    monkeypatch.setattr(state_module, "FLUSH", 0.01)
    requests = submit(12)
    late = requests[6:]
    service.answer("status:503", path=f"{POLL}({'|'.join(late)})", times=None)
    one = trigger()
    running = asyncio.create_task(event_of(one))
    async with asyncio.timeout(120):
        while len(answers(record)) < 6:  # noqa: ASYNC110 (the service lives in a thread)
            await asyncio.sleep(0.005)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    service.behave(rules=[])
    service.server.service.journal.clear()
    path, arguments = one.serialize()
    event = await event_of(import_string(path)(**json.loads(json.dumps(arguments))))
    assert event["ended"] == {"complete": 6}
    assert polled(service) == set(late)
    assert sorted(answer.request_id for answer in answers(record)) == sorted(requests)
    assert service.posts() == 0


async def test_nothing_open_is_an_event_at_once(service, connection, submit, trigger):
    submit(0)
    event = await event_of(trigger())
    assert (event["ended"], event["open"], event["polls"]) == ({}, 0, 0)
    assert service.journal() == []


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_of_all_is_an_error(status, service, connection, submit, trigger):
    submit(20)
    service.answer(f"status:{status}", path=POLL, times=None)
    event = await event_of(trigger())
    assert event["error"]["fields"]["status"] == status
    assert len(service.journal("GET", POLL)) <= 8


async def test_an_incomplete_connection_is_an_error(service, connection, submit, trigger, monkeypatch):
    submit(1)
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", '{"conn_type": "assistant", "host": "no url"}')
    with pytest.raises(AssistantInputError):
        raise_failure(await event_of(trigger()))


async def test_no_more_polls_than_allowed_are_in_flight(service, connection, submit, trigger, client_defaults):
    submit(20)
    flying = most = 0

    class Counted(AiohttpTransport):
        async def exchange(self, call):
            nonlocal flying, most
            flying += 1
            most = max(most, flying)
            try:
                return await super().exchange(call)
            finally:
                flying -= 1

    client_defaults(async_transport=Counted)
    await event_of(trigger(max_concurrency=3))
    assert most == 3


async def test_the_api_key_is_in_no_event_argument_or_file(service, canary, submit, trigger):
    submit(2)
    one = trigger()
    event = await event_of(one)
    service.answer("status:401", path=POLL, times=None)
    refused = await event_of(trigger())
    files = [path.read_text() for path in BatchState(one.folder).folder.glob("*.jsonl")]
    assert files
    assert canary not in f"{event} {refused} {one.serialize()} {vars(one)} {files}"


async def test_progress_is_logged(service, connection, submit, trigger, capfd, caplog):
    submit(3)
    with caplog.at_level(logging.INFO, logger="airflow_provider_assistant.asking.poller"):
        await event_of(trigger())
    logged = "".join(capfd.readouterr()) + caplog.text
    assert "Waiting for 3 requests on site 'acme-docs'." in logged
    assert "Open: 0 requests; ended: 3 complete" in logged
