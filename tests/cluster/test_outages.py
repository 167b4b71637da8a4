"""What a cluster shares fails: the database, the broker, object storage. All counts are taken at the service."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.scenario import CONCURRENCY, NEVER, SOON, TIMEOUT, Cluster, Run, documents

SHARDS, ROWS = 8, 1000
ALL = SHARDS * ROWS

pytestmark = pytest.mark.system

Report = Callable[..., None]


def check_load(cluster: Cluster, run: Run, report: Report) -> None:
    """Check that every document exists, and that the duplicates are few and listed."""
    titles, listed = cluster.titles(), cluster.listed(run)
    tries = [len(cluster.airflow.tries(run.dag_id, run.run_id, "load", index)) for index in range(SHARDS)]
    report(documents=len(titles), duplicates=titles.total() - ALL, listed=len(listed), tries=sum(tries))
    assert set(titles) == {document["title"] for document in documents(run.name, ALL)}
    assert {title for title, count in titles.items() if count > 1} <= listed
    assert titles.total() - ALL <= (sum(tries) - SHARDS) * CONCURRENCY


@pytest.mark.promise("ledger", "A restart of the database or the broker loses no row.")
def test_postgresql_restarts(cluster: Cluster, report: Report) -> None:
    run = cluster.load("postgresql", shards=SHARDS, rows=ROWS)
    cluster.wait_documents(ALL // 4)
    cluster.airflow.restart_database()

    assert cluster.finish(run) == "success"
    check_load(cluster, run, report)


def test_redis_restarts(cluster: Cluster, report: Report) -> None:
    """Four shards run, and the messages of the other four are in Redis."""
    run = cluster.load("redis", shards=SHARDS, rows=ROWS)
    cluster.wait_documents(ALL // 8)
    cluster.airflow.restart_broker()

    assert cluster.finish(run) == "success"
    check_load(cluster, run, report)


def test_object_storage_answers_503(cluster: Cluster, report: Report) -> None:
    """The triggerer cannot save answers, and the worker cannot read them: a try of the task fails."""
    count = 200
    cluster.service.faults(processing_seconds=NEVER)
    run = cluster.batch("storage", count)
    cluster.wait_deferred(run)
    cluster.airflow.wait("every request to be polled", lambda: cluster.polls() > count, timeout=TIMEOUT)
    with cluster.failing_storage() as faults:
        cluster.service.faults(processing_seconds=SOON)
        cluster.airflow.wait("a failed try", lambda: cluster.tries_of_batch(run) > 1, timeout=TIMEOUT)
    assert cluster.finish(run) == "success"

    asked, answers, tries = cluster.messages(run), cluster.answers(run), cluster.tries_of_batch(run)
    report(refused=sum(fault.seen for fault in faults), requests=asked.total(), answers=len(answers), tries=tries)
    assert (len(asked), asked.total()) == (count, count)
    assert [answer["status"] for answer in answers] == ["complete"] * count
