"""A chat batch task that is killed or terminated, and its retry."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import TimeoutPosix

from airflow_provider_assistant.chat_batch.schedule import PollSchedule
from tests.integration.faults.attempts import CONCURRENCY, no_garbage_collection
from tests.integration.faults.chat_batches import NEVER, POLLS, SOON, SUBMITS
from tests.live.process import wait_for

COUNT = 120
SEEDS = range(int(os.environ.get("ASSISTANT_FAULT_SEEDS", "1")))
# A quarter of the chat requests, whose polls are held until the test releases them.
SOME = r"/chat/requests/req_[0-3]"


def killed_while_submitting(batch, attempt, seed, number=signal.SIGKILL):
    """Kill an attempt before it has submitted everything: the service holds its last questions."""
    rng = random.Random(seed)
    # A terminated attempt gets the answers to the questions that the service holds, and must not have sent all.
    count = int(rng.uniform(0.02, 0.5 if number == signal.SIGTERM else 0.9) * attempt.count)
    batch.service.hold(SUBMITS, skip=min(count + 2 * CONCURRENCY, attempt.count - 1))
    loader = batch.start(attempt)
    batch.wait_seen(count, SUBMITS)
    time.sleep(rng.uniform(0, 0.02))
    loader.kill(number)
    if number == signal.SIGTERM:
        batch.service.faults(rules=[])
    ended = loader.wait()
    batch.service.faults(rules=[])
    return ended


def most_of_them_answered(batch, attempt):
    """Start an attempt in which most chat requests are answered soon, and the others are not."""
    batch.service.faults(
        processing_seconds=SOON, rules=[{"action": "status:503", "match": {"path": SOME}, "times": None}]
    )
    loader = batch.start(attempt)
    batch.wait_seen(attempt.count // 4, POLLS, 200)
    return loader


def fetches_only_the_rest(batch, attempt):
    """Run the next attempt, which only polls the requests without a saved answer, and return their number."""
    rest = set(batch.requests()) - batch.saved()
    batch.service.reset("journal", "faults")
    batch.service.faults(processing_seconds=SOON)
    result = batch.run(attempt)
    assert batch.seen(SUBMITS) == 0
    assert set(batch.polls()) == rest
    assert result["submitted"] == 0
    assert result["reused"] == result["complete"] == attempt.count
    assert batch.audit(attempt.count) == 0
    return len(rest)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_while_it_submits(seed, batch, measured):
    batch.service.faults(processing_seconds=SOON)
    attempt = batch.attempt(COUNT)
    assert killed_while_submitting(batch, attempt, seed).exitcode == -signal.SIGKILL
    batch.service.settle()
    there, ambiguous = len(batch.requests()), batch.ambiguous()
    assert ambiguous <= CONCURRENCY
    result = batch.run(attempt)
    twice = batch.audit(COUNT)
    assert twice <= result["possibly_duplicated"] == len(batch.suspected()) <= ambiguous
    assert result["submitted"] + result["reused"] == result["complete"] == COUNT
    measured(killed_at=there, listed=len(batch.suspected()), twice=twice)


@pytest.mark.parametrize(("setup", "sent"), [("dies_before_sending", False), ("dies_after_sending", True)])
def test_killed_around_a_submission(setup, sent, batch, measured):
    batch.service.faults(processing_seconds=SOON)
    assert batch.run_apart(batch.attempt(COUNT, setup=setup)).exitcode == -signal.SIGKILL
    batch.service.settle()
    there = len(batch.requests())
    batch.run(batch.attempt(COUNT))
    twice = batch.audit(COUNT)
    assert twice <= len(batch.suspected()) <= CONCURRENCY
    if sent:
        assert twice
    measured(killed_at=there, listed=len(batch.suspected()), twice=twice)


def test_killed_again_and_again(batch, measured):
    batch.service.faults(processing_seconds=SOON)
    attempt, kills = batch.attempt(COUNT), 4
    for kill in range(1, kills + 1):
        batch.service.hold(SUBMITS, skip=COUNT // (kills + 1))
        loader = batch.start(attempt)
        batch.submitted(kill * COUNT // (kills + 1))
        loader.kill()
        loader.wait()
        batch.service.faults(rules=[])
        assert batch.ambiguous() <= CONCURRENCY
    batch.run(attempt)
    twice = batch.audit(COUNT, kills * CONCURRENCY)
    measured(kills=kills, listed=len(batch.suspected()), twice=twice)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_while_it_polls(seed, batch, measured):
    loader = most_of_them_answered(batch, batch.attempt(COUNT, setup="notes_answers_often"))
    time.sleep(random.Random(seed).uniform(0, 0.5))
    loader.kill()
    assert loader.wait().exitcode == -signal.SIGKILL
    saved = len(batch.saved())
    rest = fetches_only_the_rest(batch, batch.attempt(COUNT))
    assert saved + rest == COUNT
    measured(saved=saved, fetched=rest, polls=batch.polls().total(), twice=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_terminated_while_it_submits(seed, batch, measured):
    batch.service.faults(processing_seconds=SOON)
    attempt = batch.attempt(COUNT, setup="waits_for_every_response")
    ended = killed_while_submitting(batch, attempt, seed, signal.SIGTERM)
    assert ended.error, "a terminated task does not succeed"
    assert ended.error.startswith("AssistantIncompleteError"), ended.trace
    assert "a retry goes on with the others" in ended.error
    assert batch.ambiguous() == 0
    there = len(batch.requests())
    assert there < COUNT
    assert batch.run(attempt)["submitted"] == COUNT - there
    assert batch.audit(COUNT) == 0
    measured(ended_at=there, listed=len(batch.suspected()), twice=0)


def test_terminated_while_the_service_does_not_answer(batch, measured):
    rule = {"action": "hold", "times": 3, "skip": 60, "match": {"path": SUBMITS}}
    batch.service.faults(processing_seconds=SOON, rules=[rule])
    attempt = batch.attempt(COUNT)
    loader = batch.start(attempt)
    batch.submitted(COUNT - 3)  # all but those that the service holds
    wait_for("their outcomes", lambda: Counter(batch.outcomes().values())["created"] == COUNT - 3, timeout=120)
    ended, seconds = loader.terminate()
    assert "a retry goes on with the others" in ended.error, ended.trace
    # The service accepts the questions it holds, although the client has disconnected.
    batch.service.faults(rules=[])
    batch.service.settle()
    batch.run(attempt)
    assert batch.seen(SUBMITS, 202) == COUNT + 3
    assert batch.audit(COUNT) == len(batch.suspected()) == 3
    measured(seconds=round(seconds, 1), listed=3, twice=3)


@pytest.mark.parametrize("action", ["status:503", "hold"])
def test_terminated_while_it_polls(action, batch, measured):
    """The received answers are saved; polls without a response do not delay the end."""
    attempt = batch.attempt(COUNT)
    loader = most_of_them_answered(batch, attempt)
    batch.service.faults(rules=[{"action": action, "match": {"path": SOME}, "times": None}])
    batch.wait_seen(batch.seen(SOME) + 1, SOME)
    ended, seconds = loader.terminate()
    batch.service.faults(rules=[])
    assert ended.error.startswith("AssistantIncompleteError"), ended.trace
    assert "a retry takes up the requests that are open" in ended.error
    saved = batch.saved()
    assert saved
    rest = fetches_only_the_rest(batch, attempt)
    assert len(saved) + rest == COUNT
    measured(seconds=round(seconds, 1), saved=len(saved), fetched=rest, twice=0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("phase", ["submitting", "fetching"])
def test_execution_timeout(phase, seed, batch, measured):
    """Airflow raises its timeout in a signal handler, at any point in the event loop."""
    rng = random.Random(seed)
    is_submitting = phase == "submitting"
    # Fast answers keep the event loop busy.
    batch.service.faults(processing_seconds=NEVER, **({} if is_submitting else {"latency": 0}))
    attempt = batch.attempt(COUNT, options={"poll_interval": 0.05})
    path, seen = (SUBMITS, int(rng.uniform(0.02, 0.7) * COUNT)) if is_submitting else (POLLS, COUNT)
    if is_submitting:
        batch.service.hold(SUBMITS, skip=min(seen + 2 * CONCURRENCY, COUNT - 1))

    def expire():
        batch.wait_seen(seen, path)
        time.sleep(rng.uniform(0, 0.02 if is_submitting else 0.2))
        os.kill(os.getpid(), signal.SIGALRM)

    expiry = threading.Thread(target=expire)
    expiry.start()
    with pytest.raises(AirflowTaskTimeout), no_garbage_collection(), TimeoutPosix(300):
        batch.run(attempt)
    expiry.join()
    batch.service.faults(rules=[])
    batch.service.settle()
    batch.service.faults(processing_seconds=SOON)
    there = len(batch.requests())
    assert (there < COUNT) is is_submitting
    batch.run(attempt)
    twice = batch.audit(COUNT)
    measured(ended_at=there, listed=len(batch.suspected()), twice=twice)


def test_execution_timeout_between_two_tasks_of_the_event_loop(batch, monkeypatch):
    """In such a callback, asyncio would only log the exception and continue."""
    batch.service.faults(processing_seconds=SOON)
    on_state, polls = PollSchedule.on_state, []

    def expire():
        raise AirflowTaskTimeout

    def expired(*args, **options):
        polls.append(args)
        if len(polls) == COUNT // 2:
            asyncio.get_running_loop().call_soon(expire)
        return on_state(*args, **options)

    monkeypatch.setattr(PollSchedule, "on_state", expired)
    attempt = batch.attempt(COUNT)
    with pytest.raises(AirflowTaskTimeout):
        batch.run(attempt)
    assert len(batch.saved()) >= COUNT // 2
    fetches_only_the_rest(batch, attempt)


class TestSync:
    """In sync mode the answer is in the response: a question whose answer was not saved is asked again."""

    def attempt(self, batch, **changes):
        return batch.attempt(COUNT, options={"mode": "sync"}, **changes)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_killed_in_sync_mode(self, seed, batch, measured):
        ended = killed_while_submitting(batch, self.attempt(batch, setup="notes_answers_often"), seed)
        assert ended.exitcode == -signal.SIGKILL
        batch.service.settle()
        there, saved = len(batch.requests()), len(batch.saved())
        result = batch.run(self.attempt(batch))
        twice = batch.audit(COUNT, COUNT)
        assert result["reused"] == saved
        assert result["submitted"] == COUNT - saved
        assert there - saved == twice <= result["possibly_duplicated"] == len(batch.suspected())
        measured(killed_at=there, saved=saved, listed=len(batch.suspected()), twice=twice)

    def test_killed_again_and_again_in_sync_mode(self, batch, measured):
        """Questions that the first attempt asked without a saved answer are in the findings of the last one."""
        for setup, saved in (("saves_no_answers", 0), ("notes_answers_often", COUNT // 2)):
            batch.service.hold(SUBMITS, skip=COUNT * 3 // 4)  # so that the attempt does not end before it is killed
            answered = batch.seen(SUBMITS, 200)
            loader = batch.start(self.attempt(batch, setup=setup))
            batch.wait_seen(answered + COUNT // 3, SUBMITS, 200)
            wait_for("saved answers", lambda saved=saved: len(batch.saved()) >= saved, timeout=120)
            loader.kill()
            assert loader.wait().exitcode == -signal.SIGKILL
            batch.service.faults(rules=[])
            batch.service.settle()
        batch.run(self.attempt(batch))
        twice = batch.audit(COUNT, COUNT)
        assert twice >= COUNT // 3
        measured(kills=2, listed=len(batch.suspected()), twice=twice)

    def test_terminated_in_sync_mode(self, batch, measured):
        attempt = self.attempt(batch, setup="waits_for_every_response")
        ended = killed_while_submitting(batch, attempt, 1, signal.SIGTERM)
        assert "a retry goes on with the others" in ended.error, ended.trace
        batch.service.settle()
        there = len(batch.requests())
        assert there < COUNT
        assert batch.run(attempt)["reused"] == there
        assert batch.audit(COUNT) == 0
        measured(ended_at=there, twice=0)
