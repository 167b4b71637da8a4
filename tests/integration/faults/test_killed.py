"""A load that is killed, and its retry."""

from __future__ import annotations

import os
import random
import signal

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import TimeoutPosix

from tests.integration.faults.attempts import CONCURRENCY, findings, listed, no_garbage_collection
from tests.integration.faults.loads import DOCUMENTS, rows_of
from tests.live.process import wait_for

ROWS, MANY = range(300), range(900)
SEEDS = range(int(os.environ.get("ASSISTANT_FAULT_SEEDS", "1")))


def killed_midway(case, attempt, seed, **options):
    rng = random.Random(seed)
    count = int(rng.uniform(0.02, 0.9) * len(attempt.numbers))
    return case.interrupt(attempt, count, pause=rng.uniform(0, 0.02), **options)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_load_is_completed(seed, case, measured):
    attempt = case.attempt(ROWS)
    assert killed_midway(case, attempt, seed).exitcode == -signal.SIGKILL
    case.agree()
    there = case.service.count_documents()
    result = case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert result["possibly_duplicated"] == len(audit.suspected)
    assert result["created"] + result["unchanged"] == len(ROWS)
    measured(killed_at=there, listed=len(audit.suspected), duplicates=audit.duplicates)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_load_that_must_not_duplicate(seed, case, measured):
    attempt = case.attempt(ROWS, options={"on_ambiguous": "skip"})
    assert killed_midway(case, attempt, seed + 1000).exitcode == -signal.SIGKILL
    case.agree()
    there = case.service.count_documents()
    result = case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.exact()
    assert result["ambiguous"] == len(audit.ambiguous) <= CONCURRENCY
    assert result["created"] + result["unchanged"] + result["ambiguous"] == len(ROWS)
    measured(killed_at=there, listed=len(audit.ambiguous), missing=len(audit.missing), duplicates=audit.duplicates)


def test_killed_again_and_again(case, measured):
    attempt, kills = case.attempt(ROWS), 4
    for kill in range(1, kills + 1):
        case.interrupt(attempt, kill * len(ROWS) // (kills + 1))
        case.agree()
    case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete(kills * CONCURRENCY)
    measured(kills=kills, listed=len(audit.suspected), duplicates=audit.duplicates)


@pytest.mark.parametrize("seed", [1, 2])
def test_an_earlier_trys_duplicates_are_listed_although_it_was_killed(seed, case, measured):
    case.service.faults(fault_rate=0.05, fault_status="store-then-status:502", seed=seed)
    attempt = case.attempt(ROWS)
    assert killed_midway(case, attempt, 8).exitcode == -signal.SIGKILL
    case.service.faults(fault_rate=0.0)
    case.run(attempt)
    audit = case.audit(ROWS, attempt)
    assert audit.duplicates
    audit.complete(len(ROWS))
    measured(listed=len(audit.suspected), duplicates=audit.duplicates)


@pytest.mark.parametrize(("setup", "created"), [("dies_before_sending", False), ("dies_after_sending", True)])
def test_killed_around_a_request(setup, created, case, measured):
    attempt = case.attempt(ROWS)
    dying = case.attempt(ROWS, setup=setup)
    assert case.run_apart(dying).exitcode == -signal.SIGKILL
    case.agree()
    there = case.service.count_documents()
    case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert audit.suspected
    if created:
        assert audit.duplicates
    measured(killed_at=there, listed=len(audit.suspected), duplicates=audit.duplicates)


@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
def test_terminated(on_ambiguous, case, measured):
    attempt = case.attempt(ROWS, setup="waits_for_every_response", options={"on_ambiguous": on_ambiguous})
    ended = killed_midway(case, attempt, 5, number=signal.SIGTERM)
    assert ended.error, "a terminated load does not succeed"
    assert "a retry goes on" in ended.error, ended.trace
    case.agree()
    there = case.service.count_documents()
    assert there < len(ROWS)
    done = {row for row, (outcome, _) in case.outcomes().items() if outcome == "created"}
    assert done == set(case.documents()), "requests in flight were completed"
    case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert not audit.duplicates
    measured(ended_at=there, listed=len(audit.suspected), duplicates=audit.duplicates)


def test_terminated_while_the_service_does_not_answer(case, measured):
    attempt = case.attempt(ROWS)
    case.service.faults(rules=[{"action": "hold", "times": 3, "skip": 60}])
    loader = case.start(attempt)
    case.wait_for(len(ROWS) - 3)  # all but those that the service holds

    def created():
        return [row for row, (outcome, _) in case.outcomes().items() if outcome == "created"]

    wait_for("their outcomes", lambda: len(created()) == len(ROWS) - 3, timeout=120)
    ended, seconds = loader.terminate()
    assert "a retry goes on" in ended.error, ended.trace
    outcomes = case.outcomes()
    ambiguous = {row for row, (outcome, _) in outcomes.items() if outcome in {"claimed", "ambiguous"}}
    assert len(ambiguous) == 3
    assert ambiguous <= listed(attempt.findings_path, "ambiguous")
    # The service stores the documents it received, although the client has disconnected.
    case.service.faults(rules=[])
    case.service.settle()
    case.run(attempt)
    assert case.service.count_documents() == len(ROWS) + 3
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert set(audit.duplicated) == ambiguous
    measured(seconds=round(seconds, 1), listed=len(ambiguous), duplicates=audit.duplicates)


@pytest.mark.parametrize("seed", SEEDS)
def test_execution_timeout(seed, case, measured):
    """Airflow raises its timeout in a signal handler, at any point in the event loop."""
    # The ledger exists and the modules are imported before the time runs: it is to end a load, not its start.
    case.run(case.attempt(range(1)))
    attempt = case.attempt(MANY)
    timeout = TimeoutPosix(random.Random(seed).uniform(0.2, 0.6))
    # Also on a slow machine, the load cannot end before its timeout.
    case.service.hold(DOCUMENTS, skip=len(MANY) - CONCURRENCY)
    with pytest.raises(AirflowTaskTimeout), no_garbage_collection(), timeout:
        case.run(attempt)
    case.service.faults(rules=[])
    case.agree()
    there = case.service.count_documents()
    assert there < len(MANY)
    case.run(attempt)
    audit = case.audit(MANY, attempt)
    audit.complete()
    measured(ended_at=there, listed=len(audit.suspected), duplicates=audit.duplicates)


def pages_of(numbers, *, without=()):
    """Return the rows of pages of ten rows each."""
    return [{**row, "page": f"page {row['id'] // 10}"} for row in rows_of(numbers) if row["id"] not in without]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_feed_judges_its_groups_as_an_undisturbed_one_does(seed, case, measured):
    """The feed has some of the pages, without some of their rows and with new ones; it is killed within a page."""
    rng = random.Random(seed)
    first = range(200)
    options = {"group_columns": ["page"], "on_missing": "group"}
    case.run(case.attempt(first, run_id="first", options={**options, "source": pages_of(first)}))
    pages = rng.sample(range(20), 12)
    gone = {page * 10 + number for page in pages for number in rng.sample(range(10), 3)}
    old = [number for page in pages for number in range(page * 10, page * 10 + 10)]
    new = {number: f"page {rng.choice(pages)}" for number in range(1000, 1200)}
    feed = pages_of(old, without=gone) + [{**row, "page": new[row["id"]]} for row in rows_of(new)]
    rng.shuffle(feed)
    attempt = case.attempt(range(len(new) + 200), options={**options, "source": feed})
    ended = case.interrupt(attempt, len(first) + rng.randint(5, 150), pause=rng.uniform(0, 0.02))
    assert ended.exitcode == -signal.SIGKILL
    there = case.service.count_documents()
    assert not attempt.findings_path.exists() or not listed(attempt.findings_path, "stale")
    result = case.run(attempt)
    assert listed(attempt.findings_path, "stale") == gone
    assert {one["group"] for one in findings(attempt.findings_path) if one["kind"] == "stale"} == {
        f"page {page}" for page in pages
    }
    assert result["stale"] == len(gone)
    # Nothing changes in the next run, which sees the same pages.
    assert case.run(case.attempt(attempt.numbers, run_id="next", options=attempt.options))["stale"] == len(gone)
    measured(killed_at=there, stale=len(gone))
