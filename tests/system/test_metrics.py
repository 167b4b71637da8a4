"""Metrics of the worker and the triggerer, as StatsD receives them."""

from __future__ import annotations

import time

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT, wait_for
from tests.live.service import AssistantService
from tests.system.statsd import StatsdReceiver

pytestmark = pytest.mark.system

DAG = "async_chat"
# Processing time of the service in seconds: first it never finishes, then it does.
NEVER, SOON = 3600, 0.2


@pytest.mark.promise("Airflow", "StatsD gets every request and duration of a worker and of the triggerer.")
def test_a_deferred_chat_is_counted_and_measured(
    airflow: LiveAirflow, service: AssistantService, statsd: StatsdReceiver
) -> None:
    service.reset("journal")
    service.faults(processing_seconds=NEVER, rules=[{"action": "status:503", "path": "chat/feedback"}])
    statsd.lines.clear()
    started = time.monotonic()
    run_id = airflow.trigger(DAG)
    wait_for("polls", lambda: len(service.journal(path="chat/requests/")) >= 3, timeout=WAIT)
    service.faults(processing_seconds=SOON)
    assert airflow.wait_run(DAG, run_id) == "success"
    milliseconds = 1000 * (time.monotonic() - started)

    def counted(**tags: str) -> float:
        return sum(metric.value for metric in statsd.metrics("airflow.assistant.requests", **tags))

    polls = len(service.journal(path="chat/requests/"))
    assert polls >= 3
    duration = "airflow.assistant.request_duration"
    wait_for("the last metric", lambda: len(statsd.metrics(duration)) >= polls + 4, timeout=WAIT)
    assert counted(endpoint="chat.request", status="200") == polls
    assert counted(endpoint="chat.async") == counted(endpoint="session.close") == 1
    assert counted(endpoint="chat.feedback", status="503") == 1
    assert {metric.kind for metric in statsd.metrics("airflow.assistant.requests")} == {"c"}

    durations = statsd.metrics(duration)
    assert len(durations) == polls + 4
    assert {metric.kind for metric in durations} == {"ms"}
    assert all(0 < metric.value < milliseconds for metric in durations)
    [completion] = statsd.metrics("airflow.assistant.async_completion_duration")
    assert completion.tags["state"] == "complete"
    assert 0 < completion.value < milliseconds
