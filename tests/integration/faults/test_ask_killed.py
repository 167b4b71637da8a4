"""A chat batch task that is killed or terminated, and its retry."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import TimeoutPosix

from airflow_provider_assistant.chat_batch.poller import Poller
from tests.integration.faults.asks import CONCURRENCY, NEVER, POLLS, SOON, SUBMITS
from tests.integration.faults.loads import no_garbage_collection
from tests.live.process import wait_for

COUNT = 120
SEEDS = range(int(os.environ.get("ASSISTANT_FAULT_SEEDS", "2")))
# A quarter of the chat requests, whose polls are held until the test releases them.
SOME = r"/chat/requests/req_[0-3]"


def killed_while_submitting(asking, attempt, seed, number=signal.SIGKILL, rest="hold"):
    """Kill an attempt before it has submitted everything: the service holds its last questions."""
    rng = random.Random(seed)
    count = int(rng.uniform(0.02, 0.9) * attempt.count)
    asking.service.hold(SUBMITS, skip=min(count + 2 * CONCURRENCY, attempt.count - 1), action=rest)
    loader = asking.start(attempt)
    asking.wait_seen(count, SUBMITS)
    time.sleep(rng.uniform(0, 0.02))
    loader.kill(number)
    ended = loader.wait()
    asking.service.faults(rules=[])
    return ended


def most_of_them_answered(asking, attempt):
    """Start an attempt in which most chat requests are answered soon, and the others are not."""
    asking.service.faults(
        processing_seconds=SOON, rules=[{"action": "status:503", "match": {"path": SOME}, "times": None}]
    )
    loader = asking.start(attempt)
    asking.wait_seen(attempt.count // 4, POLLS, 200)
    return loader


def fetches_only_the_rest(asking, attempt):
    """Run the next attempt, which only polls the requests without a saved answer, and return their number."""
    rest = set(asking.requests()) - asking.noted()
    asking.service.reset("journal", "faults")
    asking.service.faults(processing_seconds=SOON)
    result = asking.run(attempt)
    assert asking.seen(SUBMITS) == 0
    assert set(asking.polls()) == rest
    assert result["submitted"] == 0
    assert result["reused"] == result["complete"] == attempt.count
    assert asking.audit(attempt.count) == 0
    return len(rest)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_while_it_submits(seed, asking, measured):
    asking.service.faults(processing_seconds=SOON)
    attempt = asking.attempt(COUNT)
    assert killed_while_submitting(asking, attempt, seed).exitcode == -signal.SIGKILL
    asking.service.settle()
    there, ambiguous = len(asking.requests()), asking.ambiguous()
    assert ambiguous <= CONCURRENCY
    result = asking.run(attempt)
    twice = asking.audit(COUNT)
    assert twice <= result["possibly_duplicated"] == len(asking.suspected()) <= ambiguous
    assert result["submitted"] + result["reused"] == result["complete"] == COUNT
    measured(killed_at=there, listed=len(asking.suspected()), twice=twice)


@pytest.mark.parametrize(("setup", "sent"), [("dies_before_sending", False), ("dies_after_sending", True)])
def test_killed_around_a_submission(setup, sent, asking, measured):
    asking.service.faults(processing_seconds=SOON)
    assert asking.run_apart(asking.attempt(COUNT, setup=setup)).exitcode == -signal.SIGKILL
    asking.service.settle()
    there = len(asking.requests())
    asking.run(asking.attempt(COUNT))
    twice = asking.audit(COUNT)
    assert twice <= len(asking.suspected()) <= CONCURRENCY
    if sent:
        assert twice
    measured(killed_at=there, listed=len(asking.suspected()), twice=twice)


def test_killed_again_and_again(asking, measured):
    asking.service.faults(processing_seconds=SOON)
    attempt, kills = asking.attempt(COUNT), 4
    for kill in range(1, kills + 1):
        asking.service.hold(SUBMITS, skip=COUNT // (kills + 1))
        loader = asking.start(attempt)
        asking.submitted(kill * COUNT // (kills + 1))
        loader.kill()
        loader.wait()
        asking.service.faults(rules=[])
        assert asking.ambiguous() <= CONCURRENCY
    asking.run(attempt)
    twice = asking.audit(COUNT, kills * CONCURRENCY)
    measured(kills=kills, listed=len(asking.suspected()), twice=twice)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_while_it_polls(seed, asking, measured):
    loader = most_of_them_answered(asking, asking.attempt(COUNT, setup="notes_answers_often"))
    time.sleep(random.Random(seed).uniform(0, 0.5))
    loader.kill()
    assert loader.wait().exitcode == -signal.SIGKILL
    noted = len(asking.noted())
    rest = fetches_only_the_rest(asking, asking.attempt(COUNT))
    assert noted + rest == COUNT
    measured(noted=noted, fetched=rest, polls=asking.polls().total(), twice=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_terminated_while_it_submits(seed, asking, measured):
    asking.service.faults(processing_seconds=SOON)
    attempt = asking.attempt(COUNT)
    ended = killed_while_submitting(asking, attempt, seed, signal.SIGTERM, rest="delay:0.5")
    assert ended.error, "a terminated task does not succeed"
    assert ended.error.startswith("AssistantIncompleteError"), ended.trace
    assert "a retry goes on with the others" in ended.error
    assert asking.ambiguous() == 0
    there = len(asking.requests())
    assert there < COUNT
    assert asking.run(attempt)["submitted"] == COUNT - there
    assert asking.audit(COUNT) == 0
    measured(ended_at=there, listed=len(asking.suspected()), twice=0)


def test_terminated_while_the_service_does_not_answer(asking, measured):
    rule = {"action": "hold", "times": 3, "skip": 60, "match": {"path": SUBMITS}}
    asking.service.faults(processing_seconds=SOON, rules=[rule])
    attempt = asking.attempt(COUNT)
    loader = asking.start(attempt)
    asking.submitted(100)
    ended, seconds = loader.terminate()
    assert "a retry goes on with the others" in ended.error, ended.trace
    # The service accepts the questions it holds, although the client has disconnected.
    asking.service.faults(rules=[])
    asking.service.settle()
    asking.run(attempt)
    assert asking.seen(SUBMITS, 202) == COUNT + 3
    assert asking.audit(COUNT) == len(asking.suspected()) == 3
    measured(seconds=round(seconds, 1), listed=3, twice=3)


@pytest.mark.parametrize("action", ["status:503", "hold"])
def test_terminated_while_it_polls(action, asking, measured):
    """The received answers are saved; polls without a response do not delay the end."""
    attempt = asking.attempt(COUNT)
    loader = most_of_them_answered(asking, attempt)
    asking.service.faults(rules=[{"action": action, "match": {"path": SOME}, "times": None}])
    asking.wait_seen(asking.seen(SOME) + 1, SOME)
    ended, seconds = loader.terminate()
    asking.service.faults(rules=[])
    assert ended.error.startswith("AssistantIncompleteError"), ended.trace
    assert "a retry takes up the requests that are open" in ended.error
    noted = asking.noted()
    assert noted
    rest = fetches_only_the_rest(asking, attempt)
    assert len(noted) + rest == COUNT
    measured(seconds=round(seconds, 1), noted=len(noted), fetched=rest, twice=0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("phase", ["submitting", "fetching"])
def test_execution_timeout(phase, seed, asking, measured):
    """Airflow raises its timeout in a signal handler, at any point in the event loop."""
    rng = random.Random(seed)
    is_submitting = phase == "submitting"
    # Fast answers keep the event loop busy.
    asking.service.faults(processing_seconds=NEVER, **({} if is_submitting else {"latency": 0}))
    attempt = asking.attempt(COUNT, options={"poll_interval": 0.05})
    path, seen = (SUBMITS, int(rng.uniform(0.02, 0.7) * COUNT)) if is_submitting else (POLLS, COUNT)
    if is_submitting:
        asking.service.hold(SUBMITS, skip=min(seen + 2 * CONCURRENCY, COUNT - 1))

    def expire():
        asking.wait_seen(seen, path)
        time.sleep(rng.uniform(0, 0.02 if is_submitting else 0.2))
        os.kill(os.getpid(), signal.SIGALRM)

    expiry = threading.Thread(target=expire)
    expiry.start()
    with pytest.raises(AirflowTaskTimeout), no_garbage_collection(), TimeoutPosix(300):
        asking.run(attempt)
    expiry.join()
    asking.service.faults(rules=[])
    asking.service.settle()
    asking.service.faults(processing_seconds=SOON)
    there = len(asking.requests())
    assert (there < COUNT) is is_submitting
    asking.run(attempt)
    twice = asking.audit(COUNT)
    measured(ended_at=there, listed=len(asking.suspected()), twice=twice)


def test_execution_timeout_between_two_tasks_of_the_event_loop(asking, monkeypatch):
    """In such a callback, asyncio would only log the exception and continue."""
    asking.service.faults(processing_seconds=SOON)
    land, landed = Poller._landed, []

    def expired(self, task):
        land(self, task)
        landed.append(task)
        if len(landed) == COUNT // 2:
            raise AirflowTaskTimeout

    monkeypatch.setattr(Poller, "_landed", expired)
    attempt = asking.attempt(COUNT)
    with pytest.raises(AirflowTaskTimeout):
        asking.run(attempt)
    assert len(asking.noted()) >= COUNT // 2
    fetches_only_the_rest(asking, attempt)


class TestSync:
    """In sync mode the answer is in the response: a question whose answer was not saved is asked again."""

    def attempt(self, asking, **changes):
        return asking.attempt(COUNT, options={"mode": "sync"}, **changes)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_killed_in_sync_mode(self, seed, asking, measured):
        ended = killed_while_submitting(asking, self.attempt(asking, setup="notes_answers_often"), seed)
        assert ended.exitcode == -signal.SIGKILL
        asking.service.settle()
        there, noted = len(asking.requests()), len(asking.noted())
        result = asking.run(self.attempt(asking))
        twice = asking.audit(COUNT, COUNT)
        assert result["reused"] == noted
        assert result["submitted"] == COUNT - noted
        assert there - noted == twice <= result["possibly_duplicated"] == len(asking.suspected())
        measured(killed_at=there, noted=noted, listed=len(asking.suspected()), twice=twice)

    def test_killed_again_and_again_in_sync_mode(self, asking, measured):
        """Questions that the first attempt asked without a saved answer are in the findings of the last one."""
        for setup, noted in ((None, 0), ("notes_answers_often", COUNT // 2)):
            loader = asking.start(self.attempt(asking, setup=setup))
            asking.wait_seen(asking.seen(SUBMITS, 200) + COUNT // 3, SUBMITS, 200)
            wait_for("answers noted down", lambda noted=noted: len(asking.noted()) >= noted, timeout=120)
            loader.kill()
            loader.wait()
        asking.run(self.attempt(asking))
        twice = asking.audit(COUNT, COUNT)
        assert twice >= COUNT // 3
        measured(kills=2, listed=len(asking.suspected()), twice=twice)

    def test_terminated_in_sync_mode(self, asking, measured):
        ended = killed_while_submitting(asking, self.attempt(asking), 1, signal.SIGTERM)
        assert "a retry goes on with the others" in ended.error, ended.trace
        there = len(asking.requests())
        assert there < COUNT
        assert asking.run(self.attempt(asking))["reused"] == there
        assert asking.audit(COUNT) == 0
        measured(ended_at=there, twice=0)
