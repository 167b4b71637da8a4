"""The schedule of polls as a pure function of replies and times."""

from __future__ import annotations

import json
import random

import pytest

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.asking.schedule import Schedule
from airflow_provider_assistant.asking.state import End, Request
from airflow_provider_assistant.exceptions import AssistantServerError

START, INTERVAL = 1000.0, 20.0


def schedule(*submitted_at, now=START):
    plan = Schedule(interval=INTERVAL, deadline=START + 3600, now=now)
    for number, at in enumerate(submitted_at):
        plan.add(Request(f"q{number}", f"r{number}", "s", at), now)
    return plan


def reply(status, **raw):
    body = {"status": status, **raw}
    return ChatRequest(body, CallInfo(200, raw_json=json.dumps(body)), "r0")


def test_nothing_is_due_too_early():
    plan = schedule(START)
    assert plan.take(START + 4.9) is None
    assert plan.take(START + 5).request == Request("q0", "r0", "s", START)
    assert (plan.take(START + 5), plan.next_due, plan.polls, plan.open) == (None, None, 1, 1)


def test_the_end_has_the_answer_and_the_time_that_it_took():
    plan = schedule(START)
    raw = {"answer": "42", "confidence_level": "low", "confidence_score": 0.2}
    end = plan.on_reply(plan.take(START + 5), reply("complete", **raw), START + 6)
    assert end == End(
        "q0", "complete", START + 6, "r0", "s", START, 6.0, "42", None, json.dumps({"status": "complete", **raw}), 1, 1,
        "low", 0.2,
    )  # fmt: skip
    assert (plan.open, plan.ended, plan.next_due) == (0, {"complete": 1}, None)


def test_polls_before_a_deferral_count():
    plan = schedule(START)
    plan.on_reply(plan.take(START + 5), reply("pending"), START + 5)
    (waiting,) = plan.waiting
    later = Schedule(interval=INTERVAL, deadline=START + 3600, now=START + 30)
    later.add(waiting, START + 30)
    assert later.on_reply(later.take(START + 30), reply("complete"), START + 30).polls == 2


@pytest.mark.parametrize("seed", range(5))
def test_an_end_is_noticed_within_an_interval_or_as_long_as_the_polls_failed(seed):
    rng = random.Random(seed)
    took = rng.uniform(0.1, 300)
    plan, end, last = schedule(START), None, START
    while end is None:
        sent_at = plan.next_due + rng.uniform(0, 0.5)
        poll = plan.take(sent_at)
        if rng.random() < 0.3:
            assert plan.on_error(poll, AssistantServerError("500"), sent_at) is None
            continue
        end = plan.on_reply(poll, reply("complete" if sent_at >= START + took else "running"), sent_at)
        last = last if end else sent_at
    assert took <= end.seconds
    assert last <= START + took
