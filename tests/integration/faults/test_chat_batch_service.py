"""A service that fails during a chat batch."""

from __future__ import annotations

import re
import threading
import time

import pytest

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
)
from tests.integration.faults.attempts import CONCURRENCY
from tests.integration.faults.chat_batches import NEVER, POLLS, SOON, SUBMITS
from tests.integration.faults.conftest import in_slow

COUNT = 100
SHARE = 0.1
# A batch waits this long for a reply after its timeout.
REPLY_SECONDS = 3.0
# A quarter of all chat requests.
SOME = re.compile(r"req_[0-3]")


@pytest.fixture
def later(batch):
    """Call a function during the batch, once the service has seen a number of requests."""
    threads = []

    def do(what, count, path=SUBMITS, status=None):
        def wait():
            batch.wait_seen(count, path, status)
            what()

        threads.append(threading.Thread(target=wait))
        threads[-1].start()

    yield do
    for thread in threads:
        thread.join()


def failing(path, action):
    return {"action": action, "match": {"path": path}, "times": None}


def gone(batch):
    return {request_id for request_id in batch.requests() if SOME.match(request_id)}


def kept_answers(batch, complete):
    """The output of a failed task has every complete answer."""
    rows = batch.rows()
    assert len(rows) == COUNT
    assert batch.statuses()["complete"] == complete
    assert all(row["answer"] for row in rows if row["status"] == "complete")


def test_a_tenth_of_polls_answers_503(batch, later, measured):
    batch.service.faults(processing_seconds=NEVER)
    later(
        lambda: batch.service.faults(processing_seconds=SOON, fault_rate=SHARE, fault_status="503", seed=5),
        COUNT,
        status=202,
    )
    result = batch.run(batch.attempt(COUNT))
    assert result["complete"] == result["submitted"] == COUNT
    refused = batch.seen(POLLS, 503)
    assert refused
    assert batch.seen(SUBMITS) == COUNT
    assert batch.audit(COUNT) == 0
    measured(polls=batch.seen(POLLS), of_them_503=refused, twice=0)


@pytest.mark.parametrize("fault", ["store-then-drop", *in_slow("store-then-status:502", "truncate")])
def test_submitted_without_a_response(fault, batch, measured):
    batch.service.faults(processing_seconds=SOON, fault_rate=SHARE, fault_status=fault, seed=3)
    result = batch.run(batch.attempt(COUNT, retries=5))
    assert result["complete"] == COUNT
    batch.service.faults(fault_rate=0.0)
    twice = batch.audit(COUNT, COUNT)
    assert twice
    assert result["possibly_duplicated"] == len(batch.suspected())
    measured(listed=len(batch.suspected()), twice=twice)


def test_a_storm_of_429(batch, measured):
    batch.service.faults(processing_seconds=SOON, rate_limit=100, rate_burst=20)
    started = time.monotonic()
    result = batch.run(batch.attempt(COUNT))
    seconds = time.monotonic() - started
    assert result["complete"] == COUNT
    refused = {"submits": batch.seen(SUBMITS, 429), "polls": batch.seen(POLLS, 429)}
    assert batch.seen(SUBMITS, 202) == COUNT
    assert batch.audit(COUNT) == 0
    assert not batch.suspected(), "refused questions were not asked"
    assert sum(refused.values()) < COUNT / 2
    measured(seconds=round(seconds, 1), **{f"refused_{what}": count for what, count in refused.items()}, twice=0)


def test_a_pause_of_an_hour_for_submissions_ends_the_try(batch, measured):
    """Retry-After exceeds the limit of the task: it still waits for the open requests, and the message has the rest."""
    rule = {"action": "retry-after:3600", "match": {"path": SUBMITS}, "times": None, "skip": COUNT // 2}
    batch.service.faults(processing_seconds=SOON, rules=[rule])
    attempt = batch.attempt(COUNT)
    ended = batch.run_apart(attempt)
    assert ended.error.startswith("AssistantIncompleteError"), ended.trace
    assert "A retry keeps the answers and submits the rest." in ended.error
    kept_answers(batch, COUNT // 2)
    rest = [row for row in batch.rows() if row["status"] == "not_submitted"]
    assert len(rest) == COUNT - COUNT // 2
    assert all("429" in row["error"] or "had stopped" in row["error"] for row in rest)
    batch.service.faults(rules=[])
    assert batch.run(attempt)["submitted"] == len(rest)
    assert batch.audit(COUNT) == 0
    measured(error=ended.error, not_submitted=len(rest), twice=0)


def test_lost_requests(batch, measured):
    batch.service.faults(processing_seconds=SOON, rules=[failing(f"{POLLS}{SOME.pattern}", "status:404")])
    attempt = batch.attempt(COUNT)
    with pytest.raises(AssistantRequestLostError) as raised:
        batch.run(attempt)
    lost = gone(batch)
    assert "A retry keeps the answers and asks those again that were lost." in str(raised.value)
    assert f"{len(lost)} lost" in str(raised.value)
    kept_answers(batch, COUNT - len(lost))
    assert {row["request_id"] for row in batch.rows() if row["status"] == "lost"} == lost
    batch.service.reset("journal", "faults")
    batch.service.faults(processing_seconds=SOON)
    result = batch.run(attempt)
    assert result["submitted"] == batch.seen(SUBMITS) == len(lost)
    assert result["complete"] == COUNT
    assert not set(batch.polls()) & lost, "lost requests are not polled again"
    assert sum(batch.received().values()) == COUNT + len(lost)
    measured(lost=len(lost), asked_anew=result["submitted"])


def test_unknown_status_words_for_pending(batch, later, caplog, measured):
    word = "ruminating"
    batch.service.faults(processing_seconds=NEVER, async_status_words={"queued": word, "processing": word})
    later(lambda: batch.service.faults(processing_seconds=SOON), COUNT, POLLS)
    result = batch.run(batch.attempt(COUNT, options={"close_sessions": True}))
    assert result["complete"] == result["sessions_closed"] == COUNT
    assert batch.audit(COUNT) == 0
    said = [line for line in caplog.messages if f"Status '{word}' is taken for still going." in line]
    assert len(said) == 1, "logged once for all requests"
    measured(polls=batch.seen(POLLS), twice=0)


def test_an_unknown_status_word_for_the_end(batch, measured):
    """The first attempt times out; with the word added to the connection, the retry gets the answers."""
    batch.service.faults(processing_seconds=SOON, async_status_words={"complete": "finito"})
    with pytest.raises(AssistantRequestTimeoutError) as raised:
        batch.run(batch.attempt(COUNT, options={"timeout": 1.0}))
    assert "A retry keeps the answers and waits for those that are open." in str(raised.value)
    assert batch.statuses() == {"timed_out": COUNT}
    batch.service.reset("journal")
    result = batch.run(batch.attempt(COUNT, extra={"complete_words": ["finito"]}))
    assert (result["submitted"], result["reused"], batch.seen(SUBMITS)) == (0, COUNT, 0)
    assert batch.audit(COUNT) == 0
    measured(polls=batch.seen(POLLS), twice=0)


def test_a_service_that_never_finishes(batch, measured):
    batch.service.faults(processing_seconds=NEVER)
    attempt = batch.attempt(COUNT, options={"timeout": 1.5})
    started = time.monotonic()
    with pytest.raises(AssistantRequestTimeoutError) as raised:
        batch.run(attempt)
    seconds = time.monotonic() - started
    assert "A retry keeps the answers and waits for those that are open." in str(raised.value)
    assert batch.statuses() == {"timed_out": COUNT}
    polls = batch.polls()
    assert len(polls) == COUNT, "every request was polled"
    # The deadline has passed before the attempt starts, so each request is polled once.
    batch.service.reset("journal")
    with pytest.raises(AssistantRequestTimeoutError):
        batch.run(batch.attempt(COUNT, options={"timeout": 0.0}))
    assert set(batch.polls().values()) == {1}
    batch.service.faults(processing_seconds=SOON)
    result = batch.run(batch.attempt(COUNT))
    assert batch.seen(SUBMITS) == result["submitted"] == 0
    assert batch.audit(COUNT) == 0
    measured(seconds=round(seconds, 1), polls=polls.total(), twice=0)


def test_requests_that_fail(batch, measured):
    batch.service.faults(processing_seconds=SOON, fail_messages=r"Question 1\d\?")
    attempt = batch.attempt(COUNT)
    with pytest.raises(AssistantRequestFailedError) as raised:
        batch.run(attempt)
    assert "10 failed" in str(raised.value)
    assert "A retry keeps the answers and asks those again that failed." in str(raised.value)
    kept_answers(batch, COUNT - 10)
    assert batch.run(batch.attempt(COUNT, options={"max_failed": 10}))["failed"] == 10
    batch.service.faults(fail_messages=None)
    batch.service.reset("journal")
    result = batch.run(attempt)
    assert result["submitted"] == batch.seen(SUBMITS) == 10
    assert result["complete"] == COUNT
    measured(failed=10, asked_anew=10)


def test_failed_lost_and_timed_out_together(batch):
    """The most frequent reason decides the exception; the message has all of them."""
    batch.service.faults(processing_seconds=SOON, fail_messages=r"Question [1-4]\d\?")
    batch.service.faults(rules=[failing(f"{POLLS}req_[01]", "status:404"), failing(f"{POLLS}req_[2-9]", "status:503")])
    attempt = batch.attempt(COUNT, extra={"timeout": REPLY_SECONDS}, options={"timeout": 2.0})
    with pytest.raises(AssistantRequestTimeoutError) as raised:
        batch.run(attempt)
    found = batch.statuses()
    assert set(found) == {"complete", "failed", "timed_out", "lost"}
    plan = "asks those again that failed and asks those again that were lost and waits for those that are open."
    assert plan in str(raised.value)
    batch.service.reset("journal", "faults")
    batch.service.faults(processing_seconds=SOON)
    # Some of the requests that timed out have failed in the meantime.
    result = batch.run(batch.attempt(COUNT, options={"max_failed": 40}))
    assert result["submitted"] == found["failed"] + found["lost"] == batch.seen(SUBMITS)
    assert result["complete"] + result["failed"] == COUNT


def test_a_key_that_is_revoked_while_it_polls(batch, later, measured):
    batch.service.faults(processing_seconds=NEVER)
    revoked = [failing(POLLS, "status:401")]
    later(lambda: batch.service.faults(rules=revoked, processing_seconds=SOON), COUNT // 2, POLLS)
    attempt = batch.attempt(COUNT)
    with pytest.raises(AssistantAuthenticationError) as raised:
        batch.run(attempt)
    assert "Fix the API key in the Airflow connection's password." in str(raised.value)
    refused = batch.seen(POLLS, 401)
    assert refused <= CONCURRENCY
    batch.service.reset("faults")
    batch.service.faults(processing_seconds=SOON)
    assert batch.run(attempt)["submitted"] == 0
    assert batch.audit(COUNT) == 0
    measured(refused=refused, twice=0)


@pytest.mark.parametrize("kill", [True, *in_slow(False)])
@pytest.mark.parametrize("phase", ["submitting", "fetching"])
def test_restarted_midway(phase, kill, batch, measured):
    batch.service.faults(processing_seconds=SOON if phase == "submitting" else NEVER)
    attempt = batch.attempt(COUNT, retries=8, options={"timeout": 120.0})
    loader = batch.start(attempt)
    batch.wait_seen(COUNT // 2, SUBMITS if phase == "submitting" else POLLS)
    batch.service.restart(kill=kill)
    batch.service.faults(processing_seconds=SOON)
    ended = loader.wait(180)
    tries = 1
    if ended.result is None:
        assert "retry" in ended.error
        batch.run(attempt)
        tries = 2
    twice = batch.audit(COUNT)
    if phase == "fetching":
        assert (tries, twice, batch.seen(SUBMITS)) == (1, 0, 0)
    measured(tries=tries, listed=len(batch.suspected()), twice=twice)


def test_down_while_it_polls_until_the_retry(batch, measured):
    batch.service.faults(processing_seconds=NEVER)
    attempt = batch.attempt(COUNT, extra={"timeout": REPLY_SECONDS}, options={"timeout": 2.5})
    loader = batch.start(attempt)
    batch.wait_seen(COUNT // 2, POLLS)
    batch.service.stop(kill=True)
    ended = loader.wait(90)
    batch.service.start()
    batch.service.faults(processing_seconds=SOON)
    assert ended.error.startswith("AssistantRequestTimeoutError"), ended.trace
    assert "waits for those that are open" in ended.error
    assert batch.statuses() == {"timed_out": COUNT}
    result = batch.run(attempt)
    assert (result["submitted"], batch.seen(SUBMITS)) == (0, 0)
    assert batch.audit(COUNT) == 0
    measured(error=ended.error, twice=0)
