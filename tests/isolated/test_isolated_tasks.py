"""
A real Airflow whose tasks run as in pods: ledger on PostgreSQL, files on S3, nothing local.

The tasks have no connection to Airflow's database, and only the connections and variables that the API server gives
them. As in a pod, every task has a new, empty AIRFLOW_HOME.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from tests.live.airflow import LiveAirflow
from tests.live.executor import RECORDS
from tests.live.postgres import PostgresServer
from tests.live.process import WAIT
from tests.live.service import AssistantService
from tests.storage_server import Storage

# A separate Airflow, and imports of Airflow for each task: over a minute of processor time.
pytestmark = [pytest.mark.system, pytest.mark.nightly]

DAG, BUCKET, ROWS, QUESTIONS, FAILING = "isolated", "lake", 200, 10, "must fail"
TASKS = ["ask", "ask", "evaluate", "export_loads", "export_statistics", "load", "rate", "upload"]


class Site:
    """Airflow, the embedded service, S3 and PostgreSQL; ``run_id`` is a run of the DAG that is over."""

    def __init__(self, home: Path, service: AssistantService, storage: Storage, ledger: PostgresServer) -> None:
        self.service, self.ledger = service, sa.create_engine(ledger.url)
        keys = {"aws_access_key_id": "an-access-key", "aws_secret_access_key": "a-secret-key"}
        self.s3 = boto3.client("s3", endpoint_url=storage.url, region_name="us-east-1", **keys)
        self.s3.create_bucket(Bucket=BUCKET)
        self.lake = f"s3://{storage.conn_id}@{BUCKET}/lake"
        self.tasks = home / "airflow" / "tasks"
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
        self.airflow = LiveAirflow(home / "airflow", Path(__file__).with_name("dags"), env, executor="isolated")
        self.run_id = ""

    def put(self, key: str, lines: list[str]) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=f"lake/{key}", Body="\n".join(lines).encode())

    def keys(self) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [entry["Key"].removeprefix("lake/") for entry in found]

    def table(self, url: str) -> list[dict[str, Any]]:
        body = self.s3.get_object(Bucket=BUCKET, Key=f"lake/{url.removeprefix(f'{self.lake}/')}")["Body"].read()
        return pq.ParquetFile(io.BytesIO(body)).read().to_pylist()

    def result(self, task_id: str) -> dict[str, Any]:
        return self.airflow.xcom(DAG, self.run_id, task_id)

    def attempts(self, *kinds: str) -> int:
        """Return the number of attempts of these kinds in the ledger."""
        query = sa.text("SELECT count(*) FROM assistant_attempts WHERE kind = ANY(:kinds)")
        with self.ledger.connect() as connection:
            return connection.execute(query, {"kinds": list(kinds)}).scalar_one()

    def left(self, count: int) -> list[str]:
        """Wait for the ends of this many tasks, each in its own home, and return the files that they left."""

        def ended() -> list[Any] | None:
            records = [json.loads(line) for line in (self.tasks / RECORDS).read_text().splitlines()]
            return records if len(records) >= count else None

        records = self.airflow.wait("the ends of all processes", ended)
        assert len({home for _, home, _ in records}) == len(records)
        return [file for *_, left in records for file in left]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("isolated")
    with (
        Storage() as storage,
        PostgresServer() as ledger,
        AssistantService(home / "service", fail_messages=FAILING, allow_duplicates=True) as service,
    ):
        site = Site(home, service, storage, ledger)
        faq = [f"{number},Title {number},Question {number}?,Answer {number}" for number in range(ROWS)]
        site.put("faq.csv", ["id,title,question,answer", *faq, f"{ROWS},No answer,Question?,"])
        for number in range(3):
            site.put(f"guides/guide-{number}.txt", [f"Guide {number}", "Text."])
        asked = [f"{number},Question {number}?,Answer {number}" for number in range(QUESTIONS - 1)]
        site.put("questions.csv", ["key,message,expected", *asked, f"{QUESTIONS - 1},This {FAILING}?,Never"])
        with site.airflow as airflow:
            site.run_id = airflow.trigger(DAG)
            state = airflow.wait_run(DAG, site.run_id, 4 * WAIT)
            failed = [task for task, state in airflow.task_states(DAG, site.run_id).items() if state == "failed"]
            assert state == "success", [airflow.task_log(DAG, site.run_id, task)[-3000:] for task in failed]
            yield site


@pytest.mark.promise("Airflow", "Tasks in pods leave no file and need no database of Airflow.")
def test_no_task_leaves_a_file(site: Site) -> None:
    assert site.left(len(TASKS)) == []
    # Neither do the components, such as the triggerer.
    assert [file for file in site.airflow.home.rglob("assistant*") if "logs" not in file.parts] == []


def test_load_batch_evaluation_and_exports_work(site: Site) -> None:
    results = {task: site.result(task) for task in sorted(set(TASKS))}
    assert (results["load"]["created"], results["load"]["rejected"], results["upload"]["created"]) == (ROWS, 1, 3)
    assert site.service.count_documents() == ROWS + 3
    assert (results["ask"]["complete"], results["ask"]["failed"]) == (QUESTIONS - 1, 1)
    assert (results["evaluate"]["verdict"], results["rate"]["sent"]) == ("passed", QUESTIONS - 1)
    keys = site.keys()
    # Every file is on S3, and the batch state is deleted.
    for result, name in (("ask", "output_path"), ("evaluate", "scores_path"), ("evaluate", "report_path")):
        assert results[result][name].removeprefix(f"{site.lake}/") in keys
    assert len([key for key in keys if key.startswith("answers/") and "findings" not in key]) == 1
    assert {"tries", "statistics", "evaluations"} <= {key.split("/")[0] for key in keys if "/date=" in key}
    assert [(row["kind"], row["row"]) for row in site.table(results["load"]["findings"])] == [("rejected", ROWS + 1)]
    assert site.attempts("qa", "file") == ROWS + 3
    assert site.attempts("chat") == QUESTIONS


def test_the_api_server_shows_the_report(site: Site) -> None:
    path = site.airflow.xcom(DAG, site.run_id, "evaluate", key="_link_AssistantReportLink")
    shown = site.airflow.send("GET", path)
    assert shown.status_code == 200
    assert "golden" in shown.text


@pytest.mark.promise("loads", "A load that is cleared and runs on another machine creates nothing again.")
def test_a_cleared_load_in_another_home_creates_nothing(site: Site) -> None:
    site.airflow.clear(DAG, site.run_id, "load")
    assert site.airflow.wait_run(DAG, site.run_id) == "success"
    again = site.result("load")
    assert (again["created"], again["unchanged"]) == (0, ROWS)
    assert site.service.count_documents() == ROWS + 3
    assert site.left(len(TASKS) + 1) == []
