"""Every metric as received by a StatsD server and an OpenTelemetry collector, which Airflow's settings select."""

from __future__ import annotations

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.live.process import wait_for
from tests.system.otlp import OtlpReceiver
from tests.system.statsd import StatsdReceiver

ROWS = [
    {"title": f"Question {number}", "question": "When?", "answer": "Now.", "category": "faq"} for number in range(3)
]
NAMES = {value for value in vars(metrics).values() if isinstance(value, str) and value.startswith("assistant.")}


@pytest.fixture
def statsd(monkeypatch):
    with StatsdReceiver() as receiver:
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", receiver.host)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(receiver.port))
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
        yield receiver, lambda: None


@pytest.fixture
def otel(monkeypatch):
    from airflow.sdk._shared.observability.metrics import otel_logger
    from opentelemetry import metrics as otel_metrics

    # The collector stops before this process ends.
    monkeypatch.setattr(otel_logger, "atexit_register_metrics_flush", lambda: None)
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        # Export only on request.
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "120")
        yield receiver, lambda: otel_metrics.get_meter_provider().force_flush()
        otel_metrics.get_meter_provider().shutdown()


@pytest.fixture(params=["statsd", "otel"])
def backend(request):
    receiver, flush = request.getfixturevalue(request.param)
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    yield receiver, flush
    stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


@pytest.fixture
def work(service, connect, run_operator, tmp_path):
    """Load, ask, evaluate and export, with a service that fails now and then."""

    def worked():
        connect(retries=3)
        service.behave(document_status="draft")
        service.answer("retry-after:0", path="documents/qa")
        service.answer("status:503", path="documents/qa")
        bad = {**ROWS[0], "answer": None}
        load = run_operator(AssistantLoadQAOperator, source=[*ROWS, bad], max_rejected=1)
        assert load.state == "success", load.errors
        answers = str(tmp_path / "answers.parquet")
        ask = run_operator(
            AssistantChatBatchOperator,
            source=[{"key": str(number), "message": "When?", "expected": "Now."} for number in range(2)],
            key_columns=["key"],
            output_path=answers,
            poll_interval=0.05,
            timeout=30,
        )
        assert ask.state == "success", ask.errors
        judged = run_operator(
            AssistantEvaluateOperator,
            answers=answers,
            output_path=str(tmp_path / "evaluations"),
            name="nightly, übung",
            scorers=["token_f1"],
            pass_if="token_f1 >= 0",
            gate=["coverage >= 1"],
        )
        assert judged.state == "success", judged.errors
        exported = run_operator(AssistantStatisticsToParquetOperator, output_path=str(tmp_path / "lake"))
        assert exported.state == "success", exported.errors
        return exported.xcom()["rows"]

    return worked


@pytest.mark.promise("Airflow", "Every metric arrives at StatsD and at OpenTelemetry.")
def test_every_metric_arrives(backend, work):
    receiver, flush = backend
    rows = work()
    flush()

    def received(name, **tags):
        return receiver.metrics(f"airflow.{name}", **tags)

    def total(name, **tags):
        return sum(metric.value for metric in received(name, **tags))

    wait_for("the last metric", lambda: received(metrics.EXPORTED_ROWS, dataset="statistics"), timeout=120)
    assert {name for name in NAMES if received(name)} == NAMES
    statuses = {
        status: total(metrics.REQUESTS, endpoint="documents.qa", status=status) for status in ("201", "429", "503")
    }
    assert statuses == {"201": 3, "429": 1, "503": 1}
    assert total(metrics.ROWS, kind="qa", outcome="created") == 3
    assert total(metrics.ROWS, kind="qa", outcome="rejected") == 1
    assert total(metrics.ROWS) == 4
    assert total(metrics.QUESTIONS, outcome="complete") == 2
    assert total(metrics.EXPORTED_ROWS, dataset="statistics") == rows
    evaluation = {"evaluation": "nightly___bung"}
    assert received(metrics.EVALUATION_SCORE, scorer="token_f1", **evaluation)
    assert [point.value for point in received(metrics.EVALUATION_COVERAGE, **evaluation)] == [1.0]
    assert [point.value for point in received(metrics.EVALUATION_PASSED, **evaluation)] == [1]
    for name in (metrics.REQUEST_DURATION, metrics.POLL_LAG, metrics.COMPLETION_DURATION, metrics.BACKOFF_DURATION):
        points = received(name)
        assert {point.kind for point in points} <= {"ms", "exponential_histogram"}, name
        assert 0 < sum(point.value for point in points) < 60_000, f"{name} is in milliseconds"
