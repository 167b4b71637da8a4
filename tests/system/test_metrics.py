"""Metrics and spans of the worker and the triggerer, as StatsD and an OpenTelemetry collector receive them."""

from __future__ import annotations

import time

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT, wait_for
from tests.live.service import AssistantService
from tests.system.otlp import OtlpReceiver, Span
from tests.system.statsd import StatsdReceiver

pytestmark = pytest.mark.system

DAG = "assistant_async_chat"
# Processing time of the service in seconds: first it never finishes, then it does.
NEVER, SOON = 3600, 0.2


@pytest.mark.promise("Airflow", "StatsD gets every request, retry and duration of a worker and of the triggerer.")
@pytest.mark.promise("Airflow", "The span of a call is below the span of its task or trigger, in one trace.")
def test_a_deferred_chat_is_counted_measured_and_traced(
    airflow: LiveAirflow, service: AssistantService, statsd: StatsdReceiver, otlp: OtlpReceiver
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
    assert len(statsd.metrics("airflow.assistant.retries", endpoint="chat.feedback")) == 1
    assert len(statsd.metrics("airflow.assistant.server_errors", endpoint="chat.feedback", status="503")) == 1
    assert {metric.kind for metric in statsd.metrics("airflow.assistant.requests")} == {"c"}

    durations = statsd.metrics(duration)
    assert len(durations) == polls + 4
    assert {metric.kind for metric in durations} == {"ms"}
    assert all(0 < metric.value < milliseconds for metric in durations)
    [completion] = statsd.metrics("airflow.assistant.async_completion_duration")
    assert completion.tags["state"] == "complete"
    assert 0 < completion.value < milliseconds

    for name, above in (
        ("assistant.chat.async", "worker."),
        ("assistant.wait", "trigger."),
        ("assistant.session.close", "worker."),
    ):
        # A triggerer sends its spans every few seconds.
        found = wait_for(
            f"{name} and the span above it", lambda name=name: with_parent(otlp, name, run_id), timeout=WAIT
        )
        assert found[1].name.startswith(above)
        assert found[0].trace == found[1].trace


def with_parent(otlp: OtlpReceiver, name: str, run_id: str) -> tuple[Span, Span] | None:
    """Return a span and the one above it, which has the id of the run."""
    spans = {span.id: span for span in tuple(otlp.spans)}
    for span in spans.values():
        above = spans.get(span.parent)
        if span.name == name and above and above.attributes.get("airflow.dag_run.run_id") == run_id:
            return span, above
    return None
