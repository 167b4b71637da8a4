"""Loads on a Celery cluster. All counts are taken at the service."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cluster.scenario import CONCURRENCY, TIMEOUT, Cluster, Run, documents
from tests.live.cluster import SLOTS, WORKERS

SHARDS, ROWS = 8, 1000
ALL = SHARDS * ROWS
# Seconds from the moment when Airflow notices that a worker is dead to the end of the load, on a machine that is not
# busy: one worker with two slots has at most eight shards to do.
SOON, TURNS = 60, SHARDS // SLOTS

pytestmark = pytest.mark.system

Report = Callable[..., None]


def titles_of(name: str) -> set[str]:
    return {document["title"] for document in documents(name, ALL)}


def test_shards_run_on_both_workers(cluster: Cluster, report: Report) -> None:
    run = cluster.load("both", shards=SHARDS, rows=ROWS)

    assert cluster.finish(run) == "success"
    counts = cluster.counts(run)
    workers = [cluster.airflow.tries(run.dag_id, run.run_id, "load", index)[-1]["hostname"] for index in range(SHARDS)]
    report(documents=cluster.service.count_documents(), shards={name: workers.count(name) for name in WORKERS})
    assert set(workers) == set(WORKERS)
    assert cluster.titles() == dict.fromkeys(titles_of("both"), 1)
    assert [(count["created"], count["possibly_duplicated"]) for count in counts] == [(ROWS, 0)] * SHARDS
    assert cluster.states(run) == {"created": ALL}
    assert cluster.local_ledgers() == []


@pytest.mark.promise("loads", "A worker of a cluster dies: no row is lost, and what may exist twice is listed.")
def test_a_killed_worker_loses_nothing(cluster: Cluster, report: Report) -> None:
    run = cluster.load("killed", shards=SHARDS, rows=ROWS)
    cluster.wait_documents(ALL // 8)
    victim = cluster.airflow.wait("a load on a worker", lambda: _busy(cluster, run), timeout=TIMEOUT)
    cluster.airflow.components[victim].stop(kill=True)
    killed_at, killed_after = time.monotonic(), cluster.service.count_documents()
    shards = cluster.running_on(run, victim)

    cluster.airflow.wait("Airflow to notice", lambda: not cluster.running_on(run, victim), timeout=TIMEOUT)
    noticed_at = time.monotonic()
    assert cluster.finish(run) == "success"
    ended_at = time.monotonic()

    tries = [cluster.airflow.tries(run.dag_id, run.run_id, "load", index) for index in range(SHARDS)]
    slowest = max(found["duration"] for found in (shard[-1] for shard in tries))
    titles = cluster.titles()
    duplicates = {title for title, count in titles.items() if count > 1}
    listed = cluster.listed(run)
    report(
        killed_after=killed_after,
        shards=len(shards),
        noticed_after=round(noticed_at - killed_at, 1),
        done_after=round(ended_at - noticed_at, 1),
        duplicates=titles.total() - ALL,
        listed=len(listed),
        slowest_shard=round(slowest, 1),
    )
    assert shards
    for index in shards:
        assert (tries[index][0]["hostname"], tries[index][0]["state"]) == (victim, "failed")
        assert tries[index][-1]["hostname"] != victim
    assert set(titles) == titles_of("killed")
    assert titles.total() - ALL <= len(shards) * CONCURRENCY
    assert duplicates <= listed
    assert len(listed) <= len(shards) * CONCURRENCY
    assert ended_at - noticed_at <= max(SOON, TURNS * slowest)


def _busy(cluster: Cluster, run: Run) -> str | None:
    """Return the worker that executes most shards of a run, if any."""
    worker = max(WORKERS, key=lambda name: len(cluster.running_on(run, name)))
    return worker if cluster.running_on(run, worker) else None


@pytest.mark.promise("ledger", "Two runs of one load on two machines create each row once.")
def test_two_runs_of_one_load_create_each_row_once(cluster: Cluster, report: Report) -> None:
    shards = 2
    # Slow, until both runs are at work: so they meet on the same rows.
    cluster.service.faults(latency=1)
    first = cluster.load("first", shards=shards, rows=ALL // shards)
    second = cluster.load_again(first, "second")
    for run in (first, second):
        cluster.airflow.wait("all shards", lambda run=run: _running(cluster, run) == shards, timeout=TIMEOUT)
    cluster.service.faults(latency=0)

    assert cluster.finish(first) == "success"
    assert cluster.finish(second) == "success"
    counts = [cluster.counts(run, shards) for run in (first, second)]
    found = {
        name: [sum(count[name] for count in run) for run in counts] for name in ("created", "unchanged", "skipped")
    }
    report(documents=cluster.service.count_documents(), **found)
    assert cluster.titles() == dict.fromkeys(titles_of("first"), 1)
    assert sum(found["created"]) == ALL
    assert min(found["created"]) > 0


def _running(cluster: Cluster, run: Run) -> int:
    return sum(len(cluster.running_on(run, worker)) for worker in WORKERS)
