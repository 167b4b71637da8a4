"""A task that rates many answers and is killed or terminated, and its retry."""

from __future__ import annotations

import os
import random
import signal

import pytest

from tests.integration.faults.attempts import CONCURRENCY
from tests.integration.faults.rates import FEEDBACK

COUNT = 120
SEEDS = range(int(os.environ.get("ASSISTANT_FAULT_SEEDS", "1")))


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_while_it_rates(seed, rating, measured):
    rating.ask(COUNT)
    attempt = rating.attempt()
    count = int(random.Random(seed).uniform(0.02, 0.9) * COUNT)
    rating.service.hold(FEEDBACK, skip=min(count + CONCURRENCY, COUNT - 1))
    task = rating.start(attempt)
    rating.wait_seen(count, FEEDBACK)
    task.kill()
    assert task.wait().exitcode == -signal.SIGKILL
    rating.service.faults(rules=[])
    there, ambiguous = len(rating.rated()), rating.ambiguous()
    assert ambiguous <= CONCURRENCY
    result = rating.run(attempt)
    twice = rating.audit(COUNT)
    assert twice <= result["possibly_duplicated"] == len(rating.suspected()) == ambiguous
    assert result["sent"] + result["already_sent"] == result["rows"] == COUNT
    measured(killed_at=there, listed=ambiguous, twice=twice)
    sent = rating.seen(FEEDBACK)
    assert rating.run(attempt)["already_sent"] == COUNT
    assert rating.seen(FEEDBACK) == sent


@pytest.mark.parametrize(("setup", "sent"), [("dies_before_sending", False), ("dies_after_sending", True)])
def test_killed_around_a_rating(setup, sent, rating, measured):
    rating.ask(COUNT)
    assert rating.run_apart(rating.attempt(setup=setup)).exitcode == -signal.SIGKILL
    assert 0 < rating.ambiguous() <= CONCURRENCY
    rating.run(rating.attempt())
    twice = rating.audit(COUNT)
    assert bool(twice) >= sent
    measured(listed=len(rating.suspected()), twice=twice)


def test_terminated_while_it_rates(rating, measured):
    rating.ask(COUNT)
    attempt = rating.attempt(setup="waits_for_every_response")
    rating.service.hold(FEEDBACK, skip=COUNT // 2)
    task = rating.start(attempt)
    rating.wait_seen(COUNT // 3, FEEDBACK)
    task.kill(signal.SIGTERM)
    rating.service.faults(rules=[])
    ended = task.wait()
    assert ended.error, "a terminated task does not succeed"
    assert "ended from outside" in ended.error, ended.trace
    there = len(rating.rated())
    assert there < COUNT
    assert rating.ambiguous() == 0, "answers to what is in flight are awaited"
    result = rating.run(attempt)
    assert (result["sent"], result["already_sent"]) == (COUNT - there, there)
    assert rating.audit(COUNT) == 0
    measured(ended_at=there, listed=0, twice=0)
