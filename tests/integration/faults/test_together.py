"""Several tasks that load the same rows at the same time."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing

import psutil
import pytest

from tests.integration.faults.attempts import listed
from tests.live.process import wait_for

HALF, ROWS = range(300), range(450)
LEASE = ("AIRFLOW__ASSISTANT__LEASE_SECONDS", "5")


@pytest.mark.parametrize("overlap", [range(150, 450), range(300)])
def test_two_tasks_post_no_row_twice(overlap, case, measured):
    one = case.attempt(HALF, task_id="one")
    other = case.attempt(overlap, task_id="other")
    loaders = [case.start(one), case.start(other)]
    ends = [loader.wait() for loader in loaders]
    results = [ended.result for ended in ends]
    assert all(results), [ended.trace for ended in ends]
    audit = case.audit(range(max(HALF.stop, overlap.stop)), one)
    audit.honest()
    assert not audit.missing
    assert not audit.duplicates
    assert sum(result["created"] for result in results) == len(case.documents())
    for result in results:
        assert result["created"] + result["skipped"] + result["unchanged"] == len(HALF)
    measured(skipped=sum(result["skipped"] for result in results), duplicates=audit.duplicates)


def test_one_of_them_is_killed(case, measured):
    one = case.attempt(HALF, task_id="one")
    other = case.attempt(range(150, 450), task_id="other")
    loaders = [case.start(one), case.start(other)]
    case.wait_for(150)
    loaders[0].kill()
    loaders[0].wait()
    skipped = loaders[1].wait().result["skipped"]
    case.run(one)
    audit = case.audit(ROWS, one)
    audit.complete()
    measured(skipped=skipped, listed=len(audit.suspected), duplicates=audit.duplicates)


def until_nothing_is_skipped(case, attempt):
    """Run an attempt until it has taken over the rows of another run, and return the seconds that this took."""
    began = time.monotonic()
    while case.run(attempt)["skipped"]:
        assert time.monotonic() < began + 120, "the lease expires"
        time.sleep(0.2)
    return time.monotonic() - began


def test_another_run_takes_over_when_the_lease_of_a_killed_load_expires(case, measured, monkeypatch):
    monkeypatch.setenv(*LEASE)
    killed = case.attempt(HALF, run_id="killed", env=dict([LEASE]))
    case.kill_in_flight(killed, 100)
    in_flight = {row for row, (outcome, _) in case.outcomes().items() if outcome == "claimed"}
    assert in_flight
    other = case.attempt(HALF, run_id="other")
    seconds = until_nothing_is_skipped(case, other)
    audit = case.audit(HALF, other)
    audit.complete()
    assert audit.suspected == in_flight
    measured(seconds=round(seconds, 1), listed=len(audit.suspected), duplicates=audit.duplicates)


def test_a_load_that_is_stopped_for_longer_than_its_lease(case, measured, monkeypatch):
    """As on a suspended machine. Its late outcomes do not overwrite those of the run that has taken its rows over."""
    monkeypatch.setenv(*LEASE)
    one, other = (case.attempt(HALF, task_id=name, env=dict([LEASE])) for name in ("one", "other"))
    stopped = case.start_and_hold(one, 100)
    with closing(sqlite3.connect(case.ledger, timeout=60, isolation_level=None)) as ledger:
        ledger.execute("BEGIN IMMEDIATE")  # a load that is stopped in a transaction would keep the ledger locked
        stopped.kill(signal.SIGSTOP)
        wait_for("the stop", lambda: stopped.status() == psutil.STATUS_STOPPED, timeout=60)
        ledger.execute("ROLLBACK")
    case.service.faults(rules=[])
    until_nothing_is_skipped(case, other)
    outcomes = case.outcomes()
    stopped.kill(signal.SIGCONT)
    ended = stopped.wait()
    assert ended.result, ended.trace
    audit = case.audit(HALF, other)
    audit.complete()
    assert audit.duplicated
    assert set(audit.duplicated) <= audit.suspected & listed(one.findings_path, "possibly_duplicated")
    assert ended.result["possibly_duplicated"] == len(listed(one.findings_path, "possibly_duplicated"))
    assert case.outcomes() == outcomes
    measured(listed=len(audit.suspected), duplicates=audit.duplicates)
