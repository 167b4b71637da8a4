"""Evaluations on object storage, which has neither rename nor folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_assistant.evaluation import report
from airflow_provider_assistant.exceptions import AssistantGateFailedError, AssistantInputError
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator

pytest.importorskip("moto")
NIGHT = datetime(2026, 11, 21, tzinfo=UTC)


# Airflow caches the file system of a connection, so the module uses one.
@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=url, **keys).create_bucket(Bucket="evaluations")
    yield url
    server.stop()


@pytest.fixture
def bucket(store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    connection = {"conn_type": "aws", "login": "x", "password": "y"}
    extra = {"endpoint_url": store, "region_name": "us-east-1"}
    monkeypatch.setenv("AIRFLOW_CONN_EVALUATION_STORE", json.dumps({**connection, "extra": extra}))
    return "s3://evaluation_store@evaluations"


def evaluate(bucket: str, night: int, answer: str = "Yes") -> tuple[AssistantEvaluateOperator, dict[str, Any]]:
    operator = AssistantEvaluateOperator(
        task_id="judge",
        answers=lambda: [
            {"key": str(number), "message": "?", "answer": answer, "expected": "Yes"} for number in range(20)
        ],
        output_path=f"{bucket}/runs",
        lake_path=f"{bucket}/lake",
        name="golden",
        scorers=["token_f1"],
        gate=["token_f1 drop <= 0.02"],
        baseline="previous",
    )
    operator.render_template_fields({})
    pushed: dict[str, Any] = {}
    run_id, moment = f"scheduled__{night}", NIGHT + timedelta(days=night)
    ti = SimpleNamespace(dag_id="d", task_id="judge", run_id=run_id, map_index=-1, xcom_push=pushed.__setitem__)
    run = SimpleNamespace(run_after=moment, logical_date=moment, run_id=run_id)
    return operator, operator.execute({"ti": ti, "dag_run": run})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "render", lambda evaluation: f"{len(evaluation.trend)} runs before")


def test_runs_on_object_storage_are_compared_and_a_retry_changes_nothing(bucket: str) -> None:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    first = evaluate(bucket, 0)[1]
    second = evaluate(bucket, 1)[1]
    assert (first["baseline"], second["baseline"]) == (None, first["summary_path"].rpartition("/")[0])
    assert second["lake_path"].startswith(f"{bucket}/lake/evaluations/date=2026-11-22/")
    written = {path: ObjectStoragePath(second[path]).read_bytes() for path in ("scores_path", "summary_path")}
    assert evaluate(bucket, 1)[1] == second
    assert written == {path: ObjectStoragePath(second[path]).read_bytes() for path in written}
    with pytest.raises(AssistantGateFailedError):
        evaluate(bucket, 2, answer="No")
    assert evaluate(bucket, 3)[1]["baseline"] == second["summary_path"].rpartition("/")[0]
    assert Path(second["report_path"]).name == "report.html"


def test_a_missing_baseline_on_object_storage_is_an_error(bucket: str) -> None:
    from airflow_provider_assistant.evaluation.runs import RunFolder, earlier_runs

    with pytest.raises(AssistantInputError, match=r"has no summary\.json"):
        earlier_runs(RunFolder.of(bucket, "golden", NIGHT, "r"), f"{bucket}/nowhere")
