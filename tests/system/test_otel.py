"""Metrics and spans of a worker and the triggerer of a real Airflow, as an OpenTelemetry collector receives them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT, wait_for
from tests.live.service import AssistantService
from tests.system.otlp import OtlpReceiver, Span

# tests/integration/test_telemetry.py also tests sockets and names, without starting Airflow.
pytestmark = [pytest.mark.system, pytest.mark.slow]

DAG = "assistant_async_chat"
# Processing time of the service in seconds: first it never finishes, then it does.
NEVER, SOON = 3600, 0.2


@pytest.fixture(scope="module")
def otlp() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def observed(home: Path, service: AssistantService, otlp: OtlpReceiver) -> Iterator[LiveAirflow]:
    """A separate Airflow, because StatsD and OpenTelemetry exclude each other."""
    dags = home / "observed-dags"
    dags.mkdir()
    (dags / f"{DAG}.py").write_text((Path(__file__).parents[2] / "dags" / f"{DAG}.py").read_text())
    env = {
        "AIRFLOW_CONN_ASSISTANT_DEFAULT": json.dumps(service.connection),
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "AIRFLOW__TRACES__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": otlp.url,
        "OTEL_TRACES_EXPORTER": "otlp_proto_http",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    }
    with LiveAirflow(home / "observed", dags, env) as airflow:
        yield airflow


@pytest.mark.promise("Airflow", "Spans of calls are below the span of their task or trigger.")
def test_a_deferred_chat_is_counted_and_spanned(
    observed: LiveAirflow, service: AssistantService, otlp: OtlpReceiver
) -> None:
    service.reset("journal")
    service.faults(processing_seconds=NEVER)
    started = time.monotonic()
    run_id = observed.trigger(DAG)
    wait_for("polls", lambda: len(service.journal(path="chat/requests/")) >= 3, timeout=WAIT)
    service.faults(processing_seconds=SOON)
    assert observed.wait_run(DAG, run_id) == "success"
    milliseconds = 1000 * (time.monotonic() - started)

    def counted(**tags: str) -> float:
        return sum(point.value for point in otlp.metrics("airflow.assistant.requests", **tags))

    polls = len(service.journal(path="chat/requests/"))
    wait_for("the last metric", lambda: counted(endpoint="session.close") and counted() >= polls + 3, timeout=WAIT)
    assert counted(endpoint="chat.request", status="200") == polls
    assert counted(endpoint="chat.async") == counted(endpoint="session.close") == 1
    [completion] = otlp.metrics("airflow.assistant.async_completion_duration", state="complete")
    assert 0 < completion.value < milliseconds

    for name, above in (
        ("assistant.chat.async", "worker."),
        ("assistant.wait", "trigger."),
        ("assistant.session.close", "worker."),
    ):
        # A triggerer sends its spans every few seconds.
        span, parent = wait_for(f"{name} and what is above it", lambda name=name: with_parent(otlp, name), timeout=WAIT)
        assert parent.name.startswith(above)
        assert parent.attributes["airflow.dag_run.run_id"] == run_id
        assert parent.trace == span.trace


def with_parent(otlp: OtlpReceiver, name: str) -> tuple[Span, Span] | None:
    spans = tuple(otlp.spans)
    found = [(span, above) for span in spans if span.name == name for above in spans if above.id == span.parent]
    return found[0] if found else None
