"""The schedule of polls as a pure function of results and times: no event loop, no clock, no client."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest
from airflow_provider_assistant.chat_batch.schedule import PollSchedule
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantServerError,
)

START, INTERVAL = 1000.0, 20.0


def schedule(*submitted_at, deadline=START + 3600, now=START):
    pending = [PendingRequest(f"q{number}", f"r{number}", at) for number, at in enumerate(submitted_at)]
    return PollSchedule(pending, interval=INTERVAL, deadline=deadline, now=now)


def reply(status, **raw):
    return ChatRequest({"status": status, **raw}, CallInfo(200), "r0")


def error(kind, status, **options):
    return kind("no", status=status, **options)


def due_times(plan, count):
    """Poll a pending request a number of times, at once when a poll is due, and return the times."""
    times = []
    for _ in range(count):
        times.append(plan.next_due)
        plan.on_state(plan.take(plan.next_due), reply("pending"), now=times[-1])
    return times


def test_pauses_double_with_the_age_up_to_the_interval():
    assert due_times(schedule(START), 6) == [START + age for age in (5, 10, 20, 40, 60, 80)]


def test_an_old_request_is_polled_within_one_interval():
    assert schedule(START - 100).next_due == START
    assert schedule(START - 2).next_due == START + 3


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


def test_the_last_poll_is_at_the_deadline():
    plan = schedule(START, deadline=START + 7)
    assert due_times(plan, 2) == [START + 5, START + 7]
    assert (plan.next_due, plan.open) == (None, 1)


def test_after_the_deadline_each_request_is_polled_once():
    plan = schedule(START - 100, START - 1, deadline=START - 50)
    polls = [plan.take(START), plan.take(START)]
    for poll in polls:
        plan.on_state(poll, reply("pending"), now=START + 1)
    assert (plan.next_due, plan.polls, plan.open) == (None, 2, 2)


def test_a_complete_request_has_its_answer():
    plan = schedule(START)
    finished = plan.on_state(plan.take(START + 5), reply("complete", answer="42"), now=START + 6)
    raw = {"status": "complete", "answer": "42"}
    assert finished == FinishedRequest(
        "q0", "r0", "complete", "42", None, raw, START + 6, 6.0, 1, latency=None, noticed_after=6.0
    )
    assert (plan.open, plan.finished, plan.next_due) == (0, {"complete": 1}, None)


def test_the_service_s_own_times_are_the_latency_but_no_longer_than_the_wait():
    for seconds, latency in ((2, 2.0), (900, 6.0)):
        times = {"created_at": "2026-11-21T03:00:00Z", "completed_at": f"2026-11-21T03:{seconds // 60:02}:02Z"}
        plan = schedule(START)
        finished = plan.on_state(plan.take(START + 5), reply("complete", **times), now=START + 6)
        assert (finished.latency, finished.seconds, finished.ended_at) == (latency, latency, START + latency)


def test_a_request_that_the_service_does_not_know_is_lost():
    plan = schedule(START)
    finished = plan.on_error(plan.take(START + 5), error(AssistantNotFoundError, 404), now=START + 6)
    assert (finished.status, finished.error, finished.text) == ("lost", "no", None)
    assert (plan.open, plan.failed_polls) == (0, 0)


@pytest.mark.parametrize(("kind", "status"), [(AssistantAuthenticationError, 401), (AssistantPermissionError, 403)])
def test_an_error_that_every_poll_would_get_is_raised(kind, status):
    plan = schedule(START)
    with pytest.raises(kind):
        plan.on_error(plan.take(START + 5), error(kind, status), now=START + 6)


def test_a_transient_error_is_one_failed_poll():
    plan = schedule(START)
    assert plan.on_error(plan.take(START + 5), error(AssistantServerError, 503), now=START + 6) is None
    assert (plan.failed_polls, plan.open, plan.next_due) == (1, 1, START + 12)
    assert str(plan) == "1 requests are open, ended are none, after 1 polls, 1 of them failed."


def test_retry_after_postpones_the_next_poll_to_the_deadline_at_most():
    for retry_after, due in ((300.0, 306.0), (9000.0, 3600.0)):
        plan = schedule(START)
        failure = error(AssistantRateLimitError, 429, retry_after=retry_after)
        plan.on_error(plan.take(START + 5), failure, now=START + 6)
        assert plan.next_due == START + due


def test_giving_up_keeps_the_open_requests_in_the_count():
    plan = schedule(START, START)
    plan.give_up()
    assert (plan.next_due, plan.open) == (None, 2)
