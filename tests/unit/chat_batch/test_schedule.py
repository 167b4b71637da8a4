"""The schedule of polls as a pure function of results and times: no event loop, no clock, no client."""

from __future__ import annotations

import json
import random

import pytest

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest
from airflow_provider_assistant.chat_batch.schedule import PollSchedule
from airflow_provider_assistant.exceptions import AssistantServerError

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
        "q0", "r0", "complete", "42", None, json.dumps(raw), START + 6, 6.0, 1, latency=6.0,
        noticed_after=6.0, latency_source="measured", latency_error=6.0,
    )  # fmt: skip
    assert (plan.open, plan.finished, plan.next_due) == (0, {"complete": 1}, None)


def polled_until(plan, ends_at, rng, *, failures=0.0, answer_seconds=0.5):
    """Poll until the request of a schedule has ended; ``ends_at`` is the time at which its service ends it."""
    while True:
        sent_at = plan.next_due + rng.uniform(0, 0.5)
        poll = plan.take(sent_at)
        now = sent_at + rng.uniform(0, answer_seconds)
        seen_at = rng.uniform(sent_at, now)
        if rng.random() < failures:
            plan.on_error(poll, AssistantServerError("500"), now=now)
            continue
        status = "complete" if seen_at >= ends_at else "running"
        finished = plan.on_state(poll, reply(status), now=now)
        if finished:
            return finished


@pytest.mark.parametrize("seed", range(5))
def test_without_times_in_the_reply_the_latency_lies_between_two_polls(seed):
    rng = random.Random(seed)
    took = rng.uniform(0.1, 300)
    finished = polled_until(schedule(START), START + took, rng)
    assert finished.latency_source == "measured"
    assert finished.latency == finished.noticed_after == finished.seconds
    assert finished.latency - finished.latency_error <= took <= finished.latency
    assert finished.latency_error <= INTERVAL + 2


@pytest.mark.parametrize("seed", range(5))
def test_failed_polls_make_the_measured_latency_less_exact_or_unknown(seed):
    rng = random.Random(seed)
    took = rng.uniform(1, 100)
    finished = polled_until(schedule(START), START + took, rng, failures=0.6)
    if finished.latency is None:
        assert (finished.latency_source, finished.latency_error) == (None, None)
        assert finished.noticed_after - took > 0
    else:
        assert finished.latency - finished.latency_error <= took <= finished.latency
        assert finished.latency_error <= 2 * INTERVAL


@pytest.mark.parametrize(("pause", "is_known"), [(0, True), (5, True), (39, True), (41, False), (3600, False)])
def test_the_latency_is_unknown_if_nobody_polled_for_more_than_two_intervals(pause, is_known):
    """A triggerer that starts again, or a long submission: the request may have ended at any time before."""
    plan = schedule(START, now=START + pause)
    at = max(plan.next_due, START + pause)
    finished = plan.on_state(plan.take(at), reply("complete"), now=at)
    assert (finished.latency is not None) is is_known
    assert finished.noticed_after == at - START
    if is_known:
        assert finished.latency_error == finished.noticed_after


def test_the_confidence_is_that_of_the_reply():
    plan = schedule(START, START)
    low = plan.on_state(
        plan.take(START + 5), reply("complete", confidence_level="low", confidence_score=0.2), now=START
    )
    failed = plan.on_state(plan.take(START + 5), reply("failed", confidence_score=0.2), now=START)
    assert (low.confidence_level, low.confidence_score) == ("low", 0.2)
    assert (failed.confidence_level, failed.confidence_score) == (None, None)
