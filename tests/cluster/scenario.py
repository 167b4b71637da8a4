"""A cluster, a service and an S3, and what the tests do with them."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import create_engine, text

from tests.live.cluster import LEDGER, CeleryAirflow
from tests.live.service import AssistantService
from tests.storage_server import Fault, Storage

DAGS = Path(__file__).with_name("dags")
LOAD, BATCH, RATES = "cluster_load", "cluster_batch", "cluster_rates"
BUCKET = "cluster"
# Of every key of the tenant, in requests per second.
RATE_LIMIT = 300
# Seconds until an answer is ready, and longer than any test.
SOON, NEVER = 0.5, 86_400
# Requests in flight of one task.
CONCURRENCY = 16
# Seconds in which a run ends even on a very busy machine.
TIMEOUT = 900
# All requests for objects and lists of objects.
ANY_REQUEST = ("get", "put", "delete", "get bucket", "post bucket")


@dataclass(frozen=True)
class Run:
    """One run of a DAG; no other run uses its data."""

    dag_id: str
    run_id: str
    name: str
    source: str


@dataclass
class Cluster:
    """
    Everything that runs, and what the tests ask it.

    :param airflow: the cluster
    :param service: the embedded service, with a limit on the tenant's rate
    :param storage: an S3 in this process, which can fail
    """

    airflow: CeleryAirflow
    service: AssistantService
    storage: Storage

    def __post_init__(self) -> None:
        self._s3 = boto3.client(
            "s3",
            endpoint_url=self.storage.url,
            region_name="us-east-1",
            aws_access_key_id="an-access-key",
            aws_secret_access_key="a-secret-key",
        )

    # -- files -------------------------------------------------------------------------------------

    def create_bucket(self) -> None:
        self._s3.create_bucket(Bucket=BUCKET)

    def write(self, name: str, rows: Sequence[dict[str, Any]]) -> str:
        """Write a Parquet file, and return its URL for tasks."""
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows)), buffer)
        self._s3.put_object(Bucket=BUCKET, Key=f"sources/{name}.parquet", Body=buffer.getvalue())
        return f"s3://lake@{BUCKET}/sources/{name}.parquet"

    def read(self, prefix: str) -> list[dict[str, Any]]:
        """Return the rows of all Parquet files whose key begins with a prefix; hidden files do not count."""
        rows: list[dict[str, Any]] = []
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
            for found in page.get("Contents", ()):
                body = self._s3.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read()
                rows += pq.read_table(io.BytesIO(body)).to_pylist()
        return rows

    @contextmanager
    def failing_storage(self) -> Iterator[list[Fault]]:
        """Answer every request to S3 with 503; the faults count them."""
        # The answer to HEAD has no body.
        faults = [Fault(ANY_REQUEST, status=503), Fault(("head", "head bucket"), status=503, body=b"")]
        self.storage.faults.extend(faults)
        try:
            yield faults
        finally:
            self.storage.faults.clear()

    # -- runs --------------------------------------------------------------------------------------

    def load(self, name: str, *, shards: int = 8, rows: int = 1000) -> Run:
        """Start a load of some shards with this many rows each: the files of a folder."""
        all_rows = documents(name, shards * rows)
        for number in range(shards):
            self.write(f"{name}/{number}", all_rows[number * rows : (number + 1) * rows])
        return self._start(LOAD, name, f"s3://lake@{BUCKET}/sources/{name}")

    def load_again(self, run: Run, name: str) -> Run:
        """Start another run of a load, with the same source."""
        return self._start(LOAD, name, run.source)

    def load_two_sites(self, name: str, rows: int) -> Run:
        """Start a load of each site, one on each worker."""
        return self._start(RATES, name, self.write(name, documents(name, rows)))

    def batch(self, name: str, questions: int) -> Run:
        """Start a chat batch."""
        rows = [{"id": f"{name}-{number}", "message": f"{name}: question {number}?"} for number in range(questions)]
        return self._start(BATCH, name, self.write(name, rows))

    def _start(self, dag_id: str, name: str, source: str) -> Run:
        run_id = self.airflow.trigger(dag_id, {"name": name, "source": source})
        return Run(dag_id, run_id, name, source)

    def finish(self, run: Run) -> str:
        """Wait until a run is over; return its state, and the log of a task that failed."""
        state = self.airflow.wait_run(run.dag_id, run.run_id, TIMEOUT)
        self.service.settle()
        for task in self.airflow.task_instances(run.dag_id, run.run_id):
            if task["state"] == "failed":
                return self.airflow.task_log(run.dag_id, run.run_id, task["task_id"], map_index=task["map_index"])
        return state

    def wait_documents(self, count: int) -> int:
        """Wait until the site has this many documents; return how many it has."""
        return self.airflow.wait(f"{count} documents", lambda: self._enough(count), timeout=TIMEOUT)

    def _enough(self, count: int) -> int:
        found = self.service.count_documents()
        return found if found >= count else 0

    def running_on(self, run: Run, worker: str) -> list[int]:
        """Return the map indexes of the loads of a run that a worker is executing."""
        return [
            task["map_index"]
            for task in self.airflow.task_instances(run.dag_id, run.run_id)
            if (task["task_id"], task["state"], task["hostname"]) == ("load", "running", worker)
        ]

    def wait_deferred(self, run: Run) -> str:
        """Wait until the task of a batch is in a triggerer; return the worker that asked the questions."""
        return self.airflow.wait_task(run.dag_id, run.run_id, "ask", "deferred", timeout=TIMEOUT)["hostname"]

    def triggerer_of(self, run: Run) -> str | None:
        """Return the triggerer that holds the trigger of a batch."""
        job = self.airflow.task_instance(run.dag_id, run.run_id, "ask")["triggerer_job"]
        return job["hostname"] if job else None

    def wait_triggerer(self, run: Run, other_than: str | None = None) -> str:
        """Wait until a triggerer holds the trigger of a batch, and return it."""

        def found() -> str | None:
            triggerer = self.triggerer_of(run)
            return triggerer if triggerer != other_than else None

        return self.airflow.wait("a triggerer", found, timeout=TIMEOUT)

    def tries_of_batch(self, run: Run) -> int:
        return len(self.airflow.tries(run.dag_id, run.run_id, "ask"))

    # -- counts at the service ---------------------------------------------------------------------

    def titles(self) -> Counter[str]:
        """Return how often each document exists at the service."""
        found = self.service.documents()
        return Counter(document["title"] for document in found)

    def messages(self, run: Run) -> Counter[str]:
        """Return how often the service was asked each question of a batch."""
        rows = self.service.chats()
        return Counter(row["message"] for row in rows if row["message"].startswith(f"{run.name}: "))

    def requests(self, path: str = "") -> int:
        """Return how many of the last requests have a path that a regular expression matches."""
        return len(self.service.journal(path=path))

    def polls(self) -> int:
        return self.requests("chat/requests/")

    # -- what the client says ----------------------------------------------------------------------

    def counts(self, run: Run, shards: int = 8) -> list[dict[str, Any]]:
        """Return the counts of each shard's last try."""
        return [self.airflow.xcom(run.dag_id, run.run_id, "load", map_index=index) for index in range(shards)]

    def listed(self, run: Run, kind: str = "possibly_duplicated") -> set[str]:
        """Return the keys in the findings of all tries of a run."""
        return {row["key"] for row in self.read(f"lake/findings/{run.name}/") if row["kind"] == kind}

    def answers(self, run: Run) -> list[dict[str, Any]]:
        return self.read(f"lake/answers/{run.name}.parquet")

    def states(self, run: Run) -> Counter[str]:
        """Return the states of the attempts of a run in the ledger's database."""
        query = text("SELECT state, count(*) FROM assistant_attempts WHERE run_id = :run_id GROUP BY state")
        engine = create_engine(self.airflow.database.url_of(LEDGER))
        with engine.connect() as connection:
            counts = Counter(dict(connection.execute(query, {"run_id": run.run_id}).all()))
        engine.dispose()
        return counts

    def local_ledgers(self) -> list[Path]:
        """Return the ledgers in the homes of the machines; there must be none."""
        return list((self.airflow.home / "machines").rglob("assistant_ledger.db*"))

    # -- between tests -----------------------------------------------------------------------------

    def reset(self) -> None:
        """Start what was stopped, and forget the documents, answers and faults."""
        self.storage.faults.clear()
        self.airflow.restore()
        self.service.reset("data", "journal", "faults")


def documents(name: str, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{name}-{number}",
            "title": f"{name}-{number}",
            "question": f"What is {name} {number}?",
            "answer": f"Row {number} of {name}.",
        }
        for number in range(count)
    ]


@contextmanager
def running(home: Path) -> Iterator[Cluster]:
    """Start everything, and end every process when the block exits."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for each request to S3
    with (
        AssistantService(
            home / "service", rate_limit=RATE_LIMIT, processing_seconds=SOON, allow_duplicates=True
        ) as service,
        Storage() as storage,
    ):
        service.connection["extra"]["max_concurrency"] = CONCURRENCY
        extra = {"endpoint_url": storage.url, "region_name": "us-east-1"}
        s3 = {"conn_type": "aws", "login": "an-access-key", "password": "a-secret-key", "extra": extra}
        env = {
            **service.env,
            "AIRFLOW_CONN_LAKE": json.dumps(s3),
            "AIRFLOW_VAR_ASSISTANT_LAKE": f"s3://lake@{BUCKET}/lake",
        }
        cluster = Cluster(CeleryAirflow(home / "airflow", DAGS, env), service, storage)
        cluster.create_bucket()
        with cluster.airflow:
            yield cluster
