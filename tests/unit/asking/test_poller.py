"""Polling one or many chat requests with a simulated clock: how often, how long, and what each reply means."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.status import StatusMapping
from airflow_provider_assistant.asking import wait as module
from airflow_provider_assistant.asking.poller import Poller, poll_until
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantGatewayError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantRequestTimeoutError,
    AssistantResponseError,
    AssistantServerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.sending.outcomes import NotSentError
from airflow_provider_assistant.triggers.chat import ended_request, event_of_wait
from tests.virtual_time import now, simulated

EPOCH = 1_700_000_000.0
INTERVAL = 20.0
TIMEOUT = 30.0
PENDING = {"request_id": "r", "status": "queued"}
COMPLETE = {"request_id": "r", "status": "complete", "answer": "42", "confidence_level": "low"}
HANGS = "hangs"
UNAVAILABLE = AssistantServerError("503 Service Unavailable", status=503)


def too_many(seconds: float) -> AssistantRateLimitError:
    return AssistantRateLimitError("429 Too Many Requests", status=429, retry_after=seconds)


class Client:
    """
    A client whose answers are a function of the request and the number of the poll.

    An answer is a body, an error, or HANGS: a service that never answers, or a rate limit that holds the poll back.
    """

    settings = SimpleNamespace(timeout=TIMEOUT, words=StatusMapping())

    def __init__(self, answer: Any, *, latency: float = 0.02, jump: float = 0.0) -> None:
        self.answer = answer
        self.latency = latency
        self.jump = jump
        self.sent: dict[str, list[float]] = defaultdict(list)
        self.flying = self.most = 0

    def now(self) -> float:
        return EPOCH + now() + (self.jump if self.sent else 0.0)

    async def asend_once(self, call: Any) -> Any:
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
        if isinstance(answer, Exception):
            raise answer
        return call.parse(answer, CallInfo(200, raw_json=json.dumps(answer)))


def pending(count: int, submitted_at: float = 0.0) -> list[Answer]:
    return [Answer(f"q{number}", "open", f"r{number}", "s", EPOCH + submitted_at) for number in range(count)]


def wait_until(deadline: float = 3600.0) -> Wait:
    return Wait(interval=INTERVAL, deadline=EPOCH + deadline, now=EPOCH + now())


def poll(
    answer: Any, count: int = 1, *, deadline: float = 3600.0, submitted_at: float = 0.0, most: int = 16, **options: Any
) -> Any:
    """Poll a number of chat requests; times are relative to the start."""

    async def main() -> Any:
        client, ended = Client(answer, **options), []
        wait = wait_until(deadline)
        requests = pending(count, submitted_at)
        await poll_until(client, "docs", wait, requests, on_end=ended.append, max_concurrency=most)
        assert client.flying == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"
        assert len({end.request_id for end in ended}) == len(ended), "a request has ended twice"
        ends = {end.request_id: end for end in ended}
        return SimpleNamespace(wait=wait, sent=client.sent, most=client.most, ends=ends, took=now())

    return simulated(main())


# -- when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("submitted_at", "ages"), [(0.0, [5, 10, 20, 40, 60, 80, 100]), (-1000.0, [0, 20, 40, 60, 80, 100, 120])]
)
def test_the_pauses_double_up_to_the_interval(submitted_at, ages):
    polled = poll(lambda _, number: COMPLETE if number == 7 else PENDING, submitted_at=submitted_at)
    assert [round(at) for at in polled.sent["r0"]] == ages
    end = polled.ends["r0"]
    assert (end.status, end.answer, end.confidence_level, end.polls) == ("complete", "42", "low", 7)
    assert json.loads(end.raw) == COMPLETE
    assert end.seconds == round(end.ended_at - EPOCH - submitted_at, 6) == pytest.approx(ages[-1] - submitted_at, abs=1)


@pytest.mark.promise("chat", "Polls are few, and late answers are noticed soon.")
def test_polls_are_few_and_late_answers_are_noticed_soon():
    count, span = 1000, 60.0
    ready = [span * (number + 0.5) / count for number in range(count)]
    polled = poll(lambda name, _: COMPLETE if now() >= ready[int(name[1:])] else PENDING, count, most=64)
    assert polled.wait.polls / count <= 4
    late = [polled.ends[f"r{number}"].ended_at - EPOCH - at for number, at in enumerate(ready)]
    assert min(late) >= 0
    assert max(late) <= INTERVAL + 1
    assert mean(late[: count // 10]) <= INTERVAL / 4
    assert (polled.wait.ended, polled.wait.open) == (Counter(complete=count), 0)


@pytest.mark.parametrize("deadline", [-100.0, 1.0, 300.0])
def test_every_request_is_polled_at_least_once_and_last_at_the_deadline(deadline):
    polled = poll(lambda *_: PENDING, 100, deadline=deadline, most=8)
    assert set(polled.sent) == {f"r{number}" for number in range(100)}
    assert (polled.wait.open, polled.ends) == (100, {})
    last = max(deadline, 0.0)
    assert last <= polled.took <= last + 1
    assert all(polls[-1] >= last - 0.001 for polls in polled.sent.values())
    assert deadline > 0 or all(len(polls) == 1 for polls in polled.sent.values())


def test_after_the_deadline_polls_go_on_that_are_answered():
    """A trigger that starts late polls each request once, however many there are."""
    polled = poll(lambda *_: COMPLETE, 300, deadline=-50.0, latency=2.0)
    assert polled.wait.ended == Counter(complete=300)
    assert polled.took > TIMEOUT


def test_a_pause_that_the_service_asks_for_is_honoured():
    polled = poll(lambda _, number: too_many(50) if number == 1 else COMPLETE)
    first, second = polled.sent["r0"]
    assert second - first >= 50


def test_no_more_polls_than_allowed_are_in_flight():
    # An answer at the deadline counts.
    polled = poll(lambda *_: COMPLETE if now() >= 12.0 else PENDING, 200, deadline=12.0, most=8)
    assert (polled.most, polled.wait.ended) == (8, Counter(complete=200))


@pytest.mark.parametrize("jump", [-900.0, 864_000.0])
def test_a_clock_that_is_set_changes_nothing(jump):
    polled = poll(lambda *_: PENDING, deadline=100.0, jump=jump)
    assert (polled.wait.open, round(polled.took)) == (1, 100)


# -- what a reply means ------------------------------------------------------------------------------


@pytest.mark.promise("chat", "A lost chat request does not end the others.")
@pytest.mark.parametrize(
    "error", [AssistantBadRequestError("no 400", status=400), AssistantNotFoundError("no 404", status=404)]
)
def test_a_request_that_the_service_does_not_know_is_lost_and_the_others_go_on(error):
    polled = poll(lambda name, _: error if name == "r1" else COMPLETE, 3)
    assert {name: end.status for name, end in polled.ends.items()} == {"r0": "complete", "r1": "lost", "r2": "complete"}
    lost = polled.ends["r1"]
    assert (str(error), None, None) == (lost.error, lost.answer, lost.raw)


@pytest.mark.parametrize(
    "error",
    [
        AssistantAuthenticationError("no", status=401),
        AssistantPermissionError("no", status=403),
        AssistantGatewayError("no", status=407, stops_all=True),
        AssistantInputError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_refusal_of_all_is_raised_and_cancels_the_others(error):
    async def main():
        client, ended = Client(lambda name, _: error if name == "r5" else HANGS), []
        with pytest.raises(type(error)):
            await poll_until(client, "docs", wait_until(), pending(100), on_end=ended.append, max_concurrency=8)
        assert (client.flying, ended, len(client.sent)) == (0, [], 8)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return now()

    assert simulated(main()) < INTERVAL


TRANSIENT = [
    UNAVAILABLE,
    too_many(0),
    AssistantGatewayError("302 Found", status=302),
    AssistantAPIError("408", status=408),
    AssistantConnectionError("dropped"),
    AssistantTimeoutError("no answer"),
    AssistantResponseError("a page"),
]


def test_polling_continues_after_transient_errors_which_are_one_warning(caplog):
    def answer(name, number):
        return TRANSIENT[number - 1] if number <= len(TRANSIENT) else COMPLETE

    with caplog.at_level(logging.DEBUG):
        polled = poll(answer, 50)
    assert polled.wait.ended == Counter(complete=50)
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "Polling goes on after this: " in warning.getMessage()
    assert "after 400 polls, 350 of them failed" in str(polled.wait)


@pytest.mark.promise("replies and errors", "An unknown status of a chat means that it runs.")
def test_unknown_status_words_mean_pending_and_are_logged_once(caplog):
    words = ["gelato", "", "queued"]

    def answer(_, number):
        return {"request_id": "r", "status": words[number - 1]} if number <= 3 else COMPLETE

    with caplog.at_level(logging.INFO, logger=module.__name__):
        polled = poll(answer, 50)
    assert polled.wait.ended == Counter(complete=50)
    logged = [record.getMessage() for record in caplog.records if "still going" in record.getMessage()]
    assert logged == [f"Status {word!r} is taken for still going." for word in words]


@pytest.mark.promise(
    "chat", "Waiting for answers ends at its timeout, also if the network is gone, and says what it met."
)
@pytest.mark.parametrize("met", [HANGS, AssistantConnectionError("dropped"), UNAVAILABLE])
@pytest.mark.parametrize("count", [1, 300])
def test_a_network_that_is_gone_ends_the_wait_at_the_deadline_plus_one_reply(count, met):
    rng = random.Random(count)
    deadline, gone = rng.uniform(60, 300), rng.uniform(5, 40)
    polled = poll(lambda *_: PENDING if now() < gone else met, count, deadline=deadline)
    assert deadline <= polled.took <= deadline + TIMEOUT + 0.1
    assert polled.wait.open == count
    assert gone - INTERVAL <= polled.wait.answered_at - EPOCH <= gone + 0.1
    silence = polled.wait.silence(EPOCH + polled.took)
    moment = f"{datetime.fromtimestamp(polled.wait.answered_at, UTC):%H:%M:%S} UTC"
    assert f"no poll was answered since {moment}" in silence
    assert met == HANGS or met.happened in silence


# -- requests that are added, ends that cannot be kept -------------------------------------------------


def test_requests_may_be_added_while_others_are_polled():
    async def main():
        client, ended = Client(lambda *_: COMPLETE if now() >= 100 else PENDING), []
        async with Poller(client, "docs", wait_until(), on_end=ended.append, max_concurrency=8) as poller:
            for request in pending(2):
                poller.add(request)
            await asyncio.sleep(50)
            poller.add(Answer("late", "open", "late", "s", EPOCH + 50))
            await poller.finish()
        assert [round(at) for at in client.sent["late"]] == [55, 60, 70, 90, 110]
        return sorted(end.question_id for end in ended)

    assert simulated(main()) == ["late", "q0", "q1"]


def test_a_poll_that_was_not_sent_does_not_count():
    polled = poll(lambda _, number: NotSentError("stopped") if number == 1 else COMPLETE)
    assert (polled.wait.polls, polled.ends["r0"].polls) == (1, 1)


def test_an_answer_that_cannot_be_saved_ends_the_polling():
    def refuse(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simulated(
            poll_until(
                Client(lambda *_: COMPLETE),
                "docs",
                Wait(interval=INTERVAL, deadline=EPOCH + 60, now=EPOCH),
                pending(20),
                on_end=refuse,
            )
        )


# -- one request -----------------------------------------------------------------------------------


def wait_for_one(
    answer: Any, *, deadline: float = 60.0, longest: float = 8.0, start: float = 0.0, **options: Any
) -> Any:
    """Wait for one request that a sensor has polled once; return what came, the polls and the time."""

    async def main() -> Any:
        client = Client(answer, **options)
        await asyncio.sleep(start)
        request = Answer("", "open", "r", "", EPOCH, polls=1)
        try:
            wait = Wait(interval=longest, deadline=EPOCH + deadline, now=EPOCH + now(), first=8.0)
            end = ended_request(await event_of_wait(client, "docs", wait, request))
        except AssistantRequestTimeoutError as error:
            end = error
        return end, client.sent["r"], now()

    return simulated(main())


@pytest.mark.parametrize(("longest", "polls"), [(8.0, [8, 16, 24, 32, 40]), (20.0, [8, 16, 32, 52, 72])])
def test_one_request_is_polled_every_interval_which_may_grow(longest, polls):
    def answer(_, number):
        return COMPLETE if number == 5 else PENDING

    ended, sent, _ = wait_for_one(answer, longest=longest, deadline=100, latency=0.0)
    assert sent == polls
    assert (ended["state"], ended["text"], ended["polls"], ended["seconds"]) == ("complete", "42", 6, polls[-1])
    assert ended["ended_at"] == EPOCH + polls[-1]


def test_a_batch_logs_its_progress_and_one_request_does_not(caplog):
    for count, lines in ((1, 1), (2, 4)):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="airflow_provider_assistant.asking.poller"):
            poll(lambda *_: PENDING, count, deadline=100)
        assert caplog.text.count(f"Open: {count} request") == lines


def test_the_last_poll_is_made_at_the_deadline_and_its_answer_taken():
    def answer(_, number):
        return COMPLETE if number == 2 else PENDING

    ended, sent, took = wait_for_one(answer, deadline=20, longest=16, latency=4.0)
    assert (sent, took, ended["polls"]) == ([8.0, 20.0], 24.0, 3)


@pytest.mark.parametrize("start", [1.0, 100.0])
def test_after_an_outage_of_the_triggerer_there_is_one_poll(start):
    ended, sent, _ = wait_for_one(lambda *_: COMPLETE, deadline=0.0, start=start, latency=20.0)
    assert (ended["state"], sent) == ("complete", [start])


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([PENDING], "3 polls; the last status was 'queued'"),
        ([PENDING, UNAVAILABLE], "3 polls; 503 Service Unavailable"),
        ([PENDING, too_many(3600)], "3 polls; 429 Too Many Requests"),
        ([HANGS], "1 poll; no poll was answered since 22:13:20 UTC (1 poll failed): the service did not reply, or its"),
    ],
    ids=["pending", "unavailable", "refused", "held back"],
)
def test_a_wait_that_times_out_says_what_it_met_and_ends_soon(answers, words):
    error, _, took = wait_for_one(lambda _, number: answers[min(number, len(answers)) - 1], deadline=15.0)
    assert words in str(error)
    assert ".." not in str(error)
    assert "(GET chat.request for request 'r' of site 'docs')" in str(error)
    assert 15.0 <= took <= 15.0 + TIMEOUT
    assert (error.request_id, error.status) == ("r", "queued" if answers[0] == PENDING else "")
