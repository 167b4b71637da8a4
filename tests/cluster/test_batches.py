"""Chat batches on a Celery cluster. All counts are taken at the service."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cluster.scenario import NEVER, SOON, TIMEOUT, Cluster

pytestmark = pytest.mark.system

Report = Callable[..., None]


def test_a_killed_triggerer_loses_no_answer(cluster: Cluster, report: Report) -> None:
    count = 1000
    cluster.service.faults(processing_seconds=NEVER)
    run = cluster.batch("triggerer", count)
    cluster.wait_deferred(run)
    victim = cluster.wait_triggerer(run)
    cluster.airflow.wait("every request to be polled", lambda: cluster.polls() > count, timeout=TIMEOUT)
    cluster.airflow.components[victim].stop(kill=True)
    killed_at = time.monotonic()

    other = cluster.wait_triggerer(run, other_than=victim)
    moved_at = time.monotonic()
    cluster.service.faults(processing_seconds=SOON)
    assert cluster.finish(run) == "success"

    asked, answers = cluster.messages(run), cluster.answers(run)
    report(
        requests=asked.total(),
        answers=len(answers),
        tries=cluster.tries_of_batch(run),
        moved_after=round(moved_at - killed_at, 1),
    )
    assert other != victim
    assert (len(asked), asked.total()) == (count, count)
    assert [answer["status"] for answer in answers] == ["complete"] * count
    assert len({answer["request_id"] for answer in answers}) == count


@pytest.mark.promise("chat", "A batch goes on after its worker or its triggerer has died, on another machine.")
def test_a_task_resumes_on_the_other_machine(cluster: Cluster, report: Report) -> None:
    count = 200
    cluster.service.faults(processing_seconds=NEVER)
    run = cluster.batch("resumed", count)
    first = cluster.wait_deferred(run)
    cluster.airflow.components[first].stop(kill=True)
    cluster.service.faults(processing_seconds=SOON)
    assert cluster.finish(run) == "success"

    second = cluster.airflow.task_instance(run.dag_id, run.run_id, "ask")["hostname"]
    asked, answers = cluster.messages(run), cluster.answers(run)
    report(asked_on=first, answered_on=second, requests=asked.total(), answers=len(answers))
    assert second != first
    assert (len(asked), asked.total()) == (count, count)
    assert [answer["status"] for answer in answers] == ["complete"] * count
