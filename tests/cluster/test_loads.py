"""Loads on a Celery cluster. All counts are taken at the service."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cluster.scenario import CONCURRENCY, TIMEOUT, Cluster, documents
from tests.live.cluster import WORKERS

SHARDS, ROWS = 8, 1000
ALL = SHARDS * ROWS
# Seconds from the moment when Airflow notices that a worker is dead to the end of the load.
SOON = 60

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
    assert cluster.outcomes(run) == {"created": ALL}
    assert cluster.local_ledgers() == []


def test_a_killed_worker_loses_nothing(cluster: Cluster, report: Report) -> None:
    run = cluster.load("killed", shards=SHARDS, rows=ROWS)
    cluster.wait_documents(ALL // 8)
    victim = cluster.airflow.wait("a load on a worker", lambda: _busy(cluster, run), timeout=TIMEOUT)
    cluster.airflow.stop(victim, kill=True)
    killed_at, killed_after = time.monotonic(), cluster.service.count_documents()
    shards = cluster.running_on(run, victim)

    cluster.airflow.wait("Airflow to notice", lambda: not cluster.running_on(run, victim), timeout=TIMEOUT)
    noticed_at = time.monotonic()
    assert cluster.finish(run) == "success"
    ended_at = time.monotonic()

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
    )
    assert shards
    for index in shards:
        tries = cluster.airflow.tries(run.dag_id, run.run_id, "load", index)
        assert (tries[0]["hostname"], tries[0]["state"]) == (victim, "failed")
        assert tries[-1]["hostname"] != victim
    assert set(titles) == titles_of("killed")
    assert titles.total() - ALL <= len(shards) * CONCURRENCY
    assert duplicates <= listed
    assert len(listed) <= len(shards) * CONCURRENCY
    assert ended_at - noticed_at <= SOON


def _busy(cluster: Cluster, run) -> str | None:
    """Return the worker that executes most shards of a run, if any."""
    worker = max(WORKERS, key=lambda name: len(cluster.running_on(run, name)))
    return worker if cluster.running_on(run, worker) else None


def test_two_runs_of_one_load_create_each_row_once(cluster: Cluster, report: Report) -> None:
    first = cluster.load("first", shards=SHARDS, rows=ROWS)
    second = cluster.load_again(first, "second")

    assert cluster.finish(first) == "success"
    assert cluster.finish(second) == "success"
    created, others = [
        [sum(count[outcome] for count in cluster.counts(run)) for run in (first, second)]
        for outcome in ("created", "skipped")
    ]
    report(created=created, skipped=others, documents=cluster.service.count_documents())
    assert cluster.titles() == dict.fromkeys(titles_of("first"), 1)
    assert sum(created) == ALL
    # Both were at work at the same time.
    assert min(created) > 0
