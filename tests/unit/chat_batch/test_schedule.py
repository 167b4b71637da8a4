"""The schedule of polls as a pure function of results and times: no event loop, no clock, no client."""

from __future__ import annotations

import json

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest
from airflow_provider_assistant.chat_batch.schedule import PollSchedule

START, INTERVAL = 1000.0, 20.0


def schedule(*submitted_at, deadline=START + 3600, now=START):
    pending = [PendingRequest(f"q{number}", f"r{number}", at) for number, at in enumerate(submitted_at)]
    return PollSchedule(pending, interval=INTERVAL, deadline=deadline, now=now)


def reply(status, **raw):
    body = {"status": status, **raw}
    return ChatRequest(body, CallInfo(200, raw_json=json.dumps(body)), "r0")


def test_nothing_is_due_too_early():
    plan = schedule(START)
    assert plan.take(START + 4.9) is None
    assert plan.take(START + 5).request == ("q0", "r0", START)
    assert (plan.take(START + 5), plan.next_due, plan.polls, plan.open) == (None, None, 1, 1)


def test_requests_that_were_polled_less_often_come_first():
    plan = schedule(START, START + 5)
    plan.on_state(plan.take(START + 5), reply("pending"), now=START + 5)
    order = [(poll.request.request_id, poll.number) for poll in (plan.take(START + 99), plan.take(START + 99))]
    assert order == [("r1", 1), ("r0", 2)]


def test_a_complete_request_has_its_answer():
    plan = schedule(START)
    finished = plan.on_state(plan.take(START + 5), reply("complete", answer="42"), now=START + 6)
    raw = {"status": "complete", "answer": "42"}
    assert finished == FinishedRequest(
        "q0", "r0", "complete", "42", None, json.dumps(raw), START + 6, 6.0, 1, latency=None, noticed_after=6.0
    )
    assert (plan.open, plan.finished, plan.next_due) == (0, {"complete": 1}, None)


def test_the_service_s_own_times_are_the_latency_but_no_longer_than_the_wait():
    for seconds, latency in ((2, 2.0), (900, 6.0)):
        times = {"created_at": "2026-11-21T03:00:00Z", "completed_at": f"2026-11-21T03:{seconds // 60:02}:02Z"}
        plan = schedule(START)
        finished = plan.on_state(plan.take(START + 5), reply("complete", **times), now=START + 6)
        assert (finished.latency, finished.seconds, finished.ended_at) == (latency, latency, START + latency)


def test_giving_up_keeps_the_open_requests_in_the_count():
    plan = schedule(START, START)
    plan.give_up()
    assert (plan.next_due, plan.open) == (None, 2)
