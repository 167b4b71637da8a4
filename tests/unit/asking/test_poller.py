"""The poller with a simulated clock: how often it polls, when it stops, and how it handles every response."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from statistics import mean
from typing import Any

import pytest

from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.asking import poller as module
from airflow_provider_assistant.asking.poller import Poller
from airflow_provider_assistant.asking.schedule import Schedule
from airflow_provider_assistant.asking.state import End, Request
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.exceptions import AssistantAuthenticationError, AssistantPermissionError
from tests.virtual_time import now, simulated

EPOCH = 1_700_000_000.0
INTERVAL = 20.0
TIMEOUT = 30.0
SETTINGS = ClientSettings("http://127.0.0.1:1/api/v1", "canary-key-0123456789", timeout=TIMEOUT)
DROPPED = TransportFailure("connection", "dropped", sent=True)
HANGS = "hangs"
PAGE = b"<html>Sign in"


def response(status: int = 200, body: Any = None, **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, encoded(body or {}))


def encoded(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def said(status: str, **more: Any) -> Response:
    return response(body={"request_id": "r", "status": status, **more})


PENDING = said("queued")
COMPLETE = said("complete", result={"answer": "42"})
FAILED = said("failed", error={"message": "no idea"})


class Wire(AsyncTransport):
    """A transport whose responses are a function of the request and the number of the poll."""

    latency = 0.02

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.sent: dict[str, list[float]] = defaultdict(list)
        self.flying = self.most = 0

    async def exchange(self, call: Any) -> Any:
        request_id = call.path.rpartition("/")[2]
        self.sent[request_id].append(now())
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            await asyncio.sleep(self.latency)
            answer = self.answer(request_id, len(self.sent[request_id]))
            if answer == HANGS:
                await asyncio.Event().wait()
        finally:
            self.flying -= 1
        return answer


def client_of(wire: Wire) -> AssistantClient:
    return AssistantClient(SETTINGS, async_transport=wire, now=lambda: EPOCH + now())


def limited(wire: Wire, most: int) -> AssistantClient:
    """Return a client with the shared rate limiter of triggers."""
    settings = replace(SETTINGS, max_concurrency=most)
    return AssistantClient(settings, async_transport=wire, now=lambda: EPOCH + now(), rng=random.Random(1))


def pending(count: int, submitted_at: Any = lambda _: 0.0) -> list[Request]:
    return [Request(f"q{number}", f"r{number}", "s", EPOCH + submitted_at(number)) for number in range(count)]


class Polled:
    """The result of polling."""

    def __init__(self, schedule: Schedule, wire: Wire, ended: list[End]) -> None:
        self.schedule = schedule
        self.wire = wire
        self.ended = {end.request_id: end for end in ended}
        self.took = now()
        assert len(self.ended) == len(ended), "a request has ended twice"


def poller_of(
    client: Any, on_end: Any, *, interval: float = INTERVAL, deadline: float = 3600.0, most: int = 8
) -> Poller:
    return Poller(client, "docs", interval=interval, deadline=EPOCH + deadline, on_end=on_end, max_concurrency=most)


def poll(
    answer: Any,
    count: int = 1,
    *,
    deadline: float = 3600.0,
    submitted_at: Any = lambda _: 0.0,
    most: int = 16,
    interval: float = INTERVAL,
    client: Any = client_of,
) -> Polled:
    """Poll a number of chat requests; times are relative to the start."""

    async def main() -> Polled:
        wire, ended = Wire(answer), []
        poller = poller_of(client(wire), ended.append, interval=interval, deadline=deadline, most=most)
        poller.close()
        await poller.run(pending(count, submitted_at))
        assert wire.flying == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"
        return Polled(poller.schedule, wire, ended)

    return simulated(main())


def test_the_pauses_double_up_to_the_interval():
    polled = poll(lambda _, number: COMPLETE if number == 7 else PENDING)
    ages = [round(at, 0) for at in polled.wire.sent["r0"]]
    assert ages == [5, 10, 20, 40, 60, 80, 100]
    end = polled.ended["r0"]
    assert (end.status, end.answer, end.polls) == ("complete", "42", 7)
    assert end.seconds == round(end.ended_at - EPOCH, 6) == pytest.approx(100, abs=1)


def test_an_earlier_submission_is_polled_at_once_and_then_by_its_age():
    polled = poll(lambda _, number: COMPLETE if number == 3 else PENDING, submitted_at=lambda _: -1000.0)
    assert [round(at) for at in polled.wire.sent["r0"]] == [0, 20, 40]
    assert polled.ended["r0"].seconds == pytest.approx(1040, abs=1)


@pytest.mark.promise("chat", "Polls are few, and late answers are noticed soon.")
def test_polls_are_few_and_late_answers_are_noticed_soon():
    count, span = 1000, 60.0
    ready = [span * (number + 0.5) / count for number in range(count)]

    def answer(request_id, _):
        return COMPLETE if now() >= ready[int(request_id[1:])] else PENDING

    polled = poll(answer, count, most=64)
    assert polled.schedule.polls / count <= 4
    late = [polled.ended[f"r{number}"].ended_at - EPOCH - at for number, at in enumerate(ready)]
    assert min(late) >= 0
    assert max(late) <= INTERVAL + 1
    assert mean(late[: count // 10]) <= INTERVAL / 4
    assert polled.schedule.ended == Counter(complete=count)
    assert polled.schedule.open == 0


@pytest.mark.parametrize("deadline", [-100.0, 1.0, 300.0])
def test_every_request_is_polled_at_least_once_and_last_at_the_deadline(deadline):
    polled = poll(lambda *_: PENDING, 100, deadline=deadline, most=8)
    assert set(polled.wire.sent) == {f"r{number}" for number in range(100)}
    assert polled.schedule.open == 100
    assert polled.ended == {}
    last = max(deadline, 0.0)
    assert last <= polled.took <= last + 1
    if deadline > 0:
        assert all(polls[-1] >= last - 0.001 for polls in polled.wire.sent.values())
    else:
        assert all(len(polls) == 1 for polls in polled.wire.sent.values())


@pytest.mark.parametrize("deadline", [-1.0, 50.0])
def test_a_service_that_hangs_does_not_hold_it_beyond_the_deadline(deadline):
    def answer(request_id, _):
        return HANGS if request_id in {"r3", "r7"} else PENDING if request_id == "r5" else COMPLETE

    polled = poll(answer, 10, deadline=deadline, most=4)
    assert (polled.schedule.open, dict(polled.schedule.ended)) == (3, {"complete": 7})
    assert polled.took <= max(deadline, 0.0) + TIMEOUT + 1


def test_a_long_pause_that_the_service_asks_for_does_not_hold_it_beyond_the_deadline():
    refused = response(429, retry_after="7200")
    polled = poll(lambda *_: refused, 100, deadline=50.0, most=4, client=lambda wire: limited(wire, 4))
    assert polled.schedule.open == 100
    assert polled.took <= 50 + TIMEOUT + 1
    assert sum(map(len, polled.wire.sent.values())) <= 4


def test_a_pause_for_one_request_is_honoured():
    polled = poll(lambda _, number: response(429, retry_after="50") if number == 1 else COMPLETE)
    first, second = polled.wire.sent["r0"]
    assert second - first >= 50


@pytest.mark.promise("chat", "A lost chat request does not end the others.")
@pytest.mark.parametrize("status", [400, 404])
def test_a_request_that_the_service_does_not_know_is_lost_and_the_others_go_on(status):
    polled = poll(lambda request_id, _: response(status) if request_id == "r1" else COMPLETE, 3)
    assert {name: end.status for name, end in polled.ended.items()} == {
        "r0": "complete", "r1": "lost", "r2": "complete",
    }  # fmt: skip
    assert str(status) in polled.ended["r1"].error
    assert (polled.ended["r1"].answer, polled.ended["r1"].raw) == (None, None)


@pytest.mark.parametrize(("status", "error"), [(401, AssistantAuthenticationError), (403, AssistantPermissionError)])
def test_a_refusal_of_all_is_raised_and_cancels_the_others(status, error):
    async def main():
        wire, ended = Wire(lambda request_id, _: response(status) if request_id == "r5" else HANGS), []
        with pytest.raises(error):
            await poller_of(client_of(wire), ended.append).run(pending(100))
        assert (wire.flying, ended) == (0, [])
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return len(wire.sent), now()

    sent, took = simulated(main())
    assert sent == 8
    assert took < INTERVAL


TROUBLES = {
    "500": response(500),
    "503": response(503),
    "429": response(429),
    "302": response(302),
    "408": response(408),
    "dropped": DROPPED,
    "page": response(body=b"<html>"),
    "empty": response(body=b" "),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_polling_continues_after_transient_errors(trouble):
    polled = poll(lambda _, number: TROUBLES[trouble] if number <= 3 else COMPLETE, 5)
    assert polled.schedule.ended == Counter(complete=5)
    assert all(len(polls) == 4 for polls in polled.wire.sent.values())


def test_many_transient_errors_are_one_warning(caplog):
    rng = random.Random(7)

    def answer(_, number):
        return response(503) if rng.random() < 0.3 else COMPLETE if number > 2 else PENDING

    with caplog.at_level(logging.DEBUG):
        polled = poll(answer, 1000, most=64)
    assert polled.schedule.ended == Counter(complete=1000)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "Polling goes on after this: " in warnings[0].getMessage()
    troubles = sum(len(polls) for polls in polled.wire.sent.values())
    assert f"after {troubles:,} polls, " in str(polled.schedule)
    assert "of them failed" in str(polled.schedule)


@pytest.mark.promise("replies and errors", "An unknown status of a chat means that it runs.")
def test_unknown_status_words_mean_pending_and_are_logged_once(caplog):
    words = ["gelato", "", "queued"]

    def answer(_, number):
        return said(words[number - 1]) if number <= 3 else COMPLETE

    with caplog.at_level(logging.INFO, logger=module.__name__):
        polled = poll(answer, 50)
    assert polled.schedule.ended == Counter(complete=50)
    logged = [record.getMessage() for record in caplog.records if "still going" in record.getMessage()]
    assert logged == [f"Status {word!r} is taken for still going." for word in words]


def test_no_more_polls_than_allowed_are_in_flight():
    # An answer at the deadline counts.
    polled = poll(lambda *_: COMPLETE if now() >= 12.0 else PENDING, 200, deadline=12.0, most=8)
    assert (polled.wire.most, polled.schedule.ended) == (8, Counter(complete=200))


@pytest.mark.parametrize("at", [0.0, 5.01, 7.0])
def test_a_cancelled_poller_leaves_no_task_behind(at):
    async def main():
        wire = Wire(lambda *_: HANGS)
        running = asyncio.create_task(poller_of(client_of(wire), lambda _: None).run(pending(100)))
        await asyncio.sleep(at)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert wire.flying == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    simulated(main())


def test_an_answer_that_cannot_be_saved_ends_the_polling():
    def refuse(_):
        raise ZeroDivisionError

    async def main():
        await poller_of(client_of(Wire(lambda *_: COMPLETE)), refuse).run(pending(20))

    with pytest.raises(ZeroDivisionError):
        simulated(main())


@pytest.mark.parametrize("jump", [-900.0, 864_000.0])
def test_a_clock_that_is_set_changes_nothing(jump):
    def jumping(wire: Wire) -> AssistantClient:
        return AssistantClient(SETTINGS, async_transport=wire, now=lambda: EPOCH + now() + (jump if wire.sent else 0.0))

    polled = poll(lambda *_: PENDING, deadline=100.0, client=jumping)
    assert (polled.schedule.open, round(polled.took)) == (1, 100)


@pytest.mark.promise(
    "chat", "Waiting for answers ends at its timeout, also if the network is gone, and says what it met."
)
@pytest.mark.parametrize("kind", ["hangs", "dropped", "unavailable", "page"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_network_that_is_gone_ends_the_wait_at_the_deadline_plus_one_reply(kind, shared):
    replies = {
        "hangs": HANGS,
        "dropped": DROPPED,
        "unavailable": response(503),
        "page": response(body=b"<html>Sign in"),
    }
    words = {"dropped": "dropped", "unavailable": "503", "page": "Sign in"}
    rng = random.Random(f"{kind}{shared}")
    for count in (1, 300):
        deadline, gone = rng.uniform(60, 300), rng.uniform(5, 40)
        polled = poll(
            lambda *_, gone=gone: PENDING if now() < gone else replies[kind],
            count,
            deadline=deadline,
            client=(lambda wire: limited(wire, 16)) if shared else client_of,
        )
        assert deadline <= polled.took <= deadline + TIMEOUT + 0.1
        assert polled.schedule.open == count
        assert gone - INTERVAL <= polled.schedule.answered_at - EPOCH <= gone + 0.1
        silence = polled.schedule.silence(EPOCH + polled.took)
        assert silence.polls > 0
        moment = f"{datetime.fromtimestamp(polled.schedule.answered_at, UTC):%H:%M:%S} UTC"
        assert f"no poll was answered since {moment}" in str(silence)
        assert words.get(kind, "") in str(silence)


def test_requests_may_be_added_while_others_are_polled():
    async def main():
        wire, ended = Wire(lambda *_: COMPLETE if now() >= 100 else PENDING), []
        poller = poller_of(client_of(wire), ended.append)
        running = asyncio.create_task(poller.run(pending(2)))
        await asyncio.sleep(50)
        poller.add(Request("late", "late", "s", EPOCH + 50))
        await asyncio.sleep(100)
        assert not running.done()
        poller.close()
        await running
        assert [round(at) for at in wire.sent["late"]] == [55, 60, 70, 90, 110]
        return sorted(end.question_id for end in ended)

    assert simulated(main()) == ["late", "q0", "q1"]


def test_after_the_deadline_polls_go_on_that_are_answered(monkeypatch):
    """A trigger that starts late polls each request once, however many there are."""
    monkeypatch.setattr(Wire, "latency", 2.0)
    polled = poll(lambda *_: COMPLETE, 300, deadline=-50.0)
    assert polled.schedule.ended == Counter(complete=300)
    assert polled.took > TIMEOUT
