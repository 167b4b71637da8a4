"""
A real Airflow whose tasks run as in pods, or on an edge worker: ledger on PostgreSQL, files on S3, nothing local.

The tasks have no connection to Airflow's database, and only the connections and variables that the API server gives
them. As in a pod, every task has a new, empty AIRFLOW_HOME. The edge worker needs apache-airflow-providers-edge3.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import psycopg2
import pyarrow.parquet as pq
import pytest

from tests.integration.faults.storage import Storage
from tests.live.isolated import EdgeAirflow, PodAirflow
from tests.live.postgres import PostgresServer
from tests.live.process import WAIT
from tests.live.service import AssistantService

# A separate Airflow, and imports of Airflow for each task: over a minute of processor time.
pytestmark = [pytest.mark.system, pytest.mark.slow]

DAG, BUCKET, ROWS, QUESTIONS, FAILING = "isolated", "lake", 200, 10, "must fail"
TASKS = ["ask", "ask", "evaluate", "export_loads", "export_statistics", "load", "rate", "upload"]


class Site:
    """Airflow, the embedded service, S3 and PostgreSQL."""

    def __init__(
        self,
        home: Path,
        deployment: type[PodAirflow | EdgeAirflow],
        service: AssistantService,
        storage: Storage,
        ledger: PostgresServer,
    ) -> None:
        self.service = service
        self.ledger = ledger
        self.s3 = boto3.client(
            "s3",
            endpoint_url=storage.url,
            aws_access_key_id="an-access-key",
            aws_secret_access_key="a-secret-key",
            region_name="us-east-1",
        )
        self.s3.create_bucket(Bucket=BUCKET)
        self.lake = f"s3://{storage.conn_id}@{BUCKET}/lake"
        env = {
            **service.env,
            f"AIRFLOW_CONN_{storage.conn_id.upper()}": storage.connection(),
            "AIRFLOW_CONN_ASSISTANT_LEDGER": ledger.airflow_url,
            "AIRFLOW_VAR_ASSISTANT_LAKE": self.lake,
            "AIRFLOW__ASSISTANT__LEDGER_CONN_ID": "assistant_ledger",
            "AIRFLOW__ASSISTANT__FINDINGS_FOLDER": f"{self.lake}/findings",
            "AIRFLOW__CORE__PARALLELISM": "2",
            # Seconds. The first request of a task takes long: the API server then builds its routes.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",
        }
        self.airflow = deployment(home / "airflow", Path(__file__).with_name("dags"), env)

    def put(self, key: str, lines: list[str]) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=f"lake/{key}", Body="\n".join(lines).encode())

    def keys(self) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [entry["Key"].removeprefix("lake/") for entry in found]

    def table(self, key: str, folder: Path) -> list[dict[str, Any]]:
        copy = folder / "copy.parquet"
        self.s3.download_file(BUCKET, f"lake/{key}", str(copy))
        return pq.ParquetFile(copy).read().to_pylist()

    def result(self, run_id: str, task_id: str) -> dict[str, Any]:
        return self.airflow.xcom(DAG, run_id, task_id)

    def entries(self, table: str) -> int:
        connection = psycopg2.connect(self.ledger.url.replace("+psycopg2", ""))
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM {table}")
                return cursor.fetchone()[0]
        finally:
            connection.close()


@pytest.fixture(scope="module", params=[PodAirflow, EdgeAirflow])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if request.param is EdgeAirflow and not EdgeAirflow.is_installed():
        pytest.skip("apache-airflow-providers-edge3 is not installed")
    home = tmp_path_factory.mktemp("isolated")
    with (
        Storage() as storage,
        PostgresServer() as ledger,
        AssistantService(home / "service", fail_messages=FAILING) as service,
    ):
        site = Site(home, request.param, service, storage, ledger)
        faq = [f"{number},Title {number},Question {number}?,Answer {number}" for number in range(ROWS)]
        site.put("faq.csv", ["id,title,question,answer", *faq, f"{ROWS},No answer,Question?,"])
        for number in range(3):
            site.put(f"guides/guide-{number}.md", [f"# Guide {number}", "Text."])
        asked = [f"{number},Question {number}?,Answer {number}" for number in range(QUESTIONS - 1)]
        site.put("questions.csv", ["key,message,expected", *asked, f"{QUESTIONS - 1},This {FAILING}?,Never"])
        with site.airflow:
            yield site


@pytest.fixture(scope="module")
def run_id(site: Site) -> str:
    run_id = site.airflow.trigger(DAG)
    state = site.airflow.wait_run(DAG, run_id, 4 * WAIT)
    assert state == "success", "\n".join(
        site.airflow.task_log(DAG, run_id, task["task_id"])[-3000:]
        for task in site.airflow.task_instances(DAG, run_id)
        if task["state"] == "failed"
    )
    return run_id


def test_no_task_leaves_a_file(site: Site, run_id: str) -> None:
    assert site.airflow.left(len(TASKS)) == []
    # Neither do the components, such as the triggerer.
    assert [file for file in site.airflow.home.rglob("assistant*") if "logs" not in file.parts] == []


def test_load_batch_evaluation_and_exports_work(site: Site, run_id: str, tmp_path: Path) -> None:
    results = {task: site.result(run_id, task) for task in sorted(set(TASKS))}
    assert (results["load"]["created"], results["load"]["rejected"], results["upload"]["created"]) == (ROWS, 1, 3)
    assert site.service.count_documents() == ROWS + 3
    assert (results["ask"]["complete"], results["ask"]["failed"]) == (QUESTIONS - 1, 1)
    assert (results["evaluate"]["verdict"], results["rate"]["sent"]) == ("passed", QUESTIONS - 1)
    keys = site.keys()
    # Every file is on S3, and the batch state is deleted.
    for result, name in (("ask", "output_path"), ("evaluate", "scores_path"), ("evaluate", "report_path")):
        assert results[result][name].removeprefix(f"{site.lake}/") in keys
    assert len([key for key in keys if key.startswith("answers/") and "findings" not in key]) == 1
    assert {"loads", "statistics", "evaluations"} <= {key.split("/")[0] for key in keys if "/date=" in key}
    found = site.table(results["load"]["findings"].removeprefix(f"{site.lake}/"), tmp_path)
    assert [(row["kind"], row["row"]) for row in found] == [("rejected", ROWS + 1)]
    assert site.entries("assistant_documents") >= ROWS + 3
    assert site.entries("assistant_chat_requests") == QUESTIONS


def test_the_api_server_shows_the_report(site: Site, run_id: str) -> None:
    shown = site.airflow.send("GET", site.airflow.xcom(DAG, run_id, "evaluate", key="_link_AssistantReportLink"))
    assert shown.status_code == 200
    assert "golden" in shown.text


def test_a_cleared_load_in_another_home_creates_nothing(site: Site, run_id: str) -> None:
    site.airflow.clear(DAG, run_id, "load")
    assert site.airflow.wait_run(DAG, run_id) == "success"
    again = site.result(run_id, "load")
    assert (again["created"], again["unchanged"]) == (0, ROWS)
    assert site.service.count_documents() == ROWS + 3
    assert site.airflow.left(len(TASKS) + 1) == []
