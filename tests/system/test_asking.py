"""Asking many questions on a real Airflow, whatever happens meanwhile; counted at the service."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.asking.journal import Journal
from tests.live.airflow import LiveAirflow
from tests.live.process import wait_for
from tests.live.requests import requests_of
from tests.live.service import AssistantService
from tests.system.search import places

pytestmark = pytest.mark.system

NEVER, SOON = 3600, 0.2
COUNT, CONCURRENCY = 40, 8
# Half of all requests: their polls fail for as long as the test wants them to be open.
HALF = re.compile(r"req_[0-7]")
FEW = 4


def rule(action: str, path: str, times: int | None = None, skip: int = 0) -> dict[str, Any]:
    return {"action": action, "match": {"path": path}, "times": times, "skip": skip}


class Runs:
    """One run of each DAG of ``asking.py``, and what was asked."""

    def __init__(self, airflow: LiveAirflow, service: AssistantService, lake: Path) -> None:
        self.airflow = airflow
        self.service = service
        self.folder = lake / "asked"
        self.ids: dict[str, str] = {}
        self.notes: dict[str, Any] = {}

    def start(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.ids[dag_id] = self.airflow.trigger(dag_id)

    def wait(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.airflow.wait_run(dag_id, self.ids[dag_id])

    def wait_task(self, dag_id: str, task_id: str, state: str, try_number: int = 1) -> None:
        wait_for(f"{dag_id}.{task_id}: {state}", lambda: self.task(dag_id, task_id) == (state, try_number), timeout=60)

    def task(self, dag_id: str, task_id: str) -> tuple[str, int]:
        task = self.airflow.task_instance(dag_id, self.ids[dag_id], task_id)
        return task["state"], task["try_number"]

    def clear(self, dag_id: str, task_id: str) -> None:
        self.airflow.clear(dag_id, self.ids[dag_id], task_id)

    def log(self, dag_id: str, task_id: str, try_number: int | None = None) -> str:
        return self.airflow.task_log(dag_id, self.ids[dag_id], task_id, try_number)

    def xcom(self, dag_id: str, task_id: str) -> Any:
        return self.airflow.xcom(dag_id, self.ids[dag_id], task_id)

    def rows(self, dag_id: str, task_id: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / dag_id / f"{task_id}.parquet").to_pylist()

    def noted(self, dag_id: str, task_id: str) -> set[str]:
        """Return the requests whose answers are in the journal of a task."""
        folders = (self.folder / dag_id).glob(f".{task_id}.parquet.*")
        return {answer.request_id or "" for folder in folders for answer in Journal(str(folder)).read_answers()}

    def asked(self, message: str) -> dict[str, int]:
        """Return the requests that ask a message, each with the number of its question."""
        asked = {request_id: row["message"] for request_id, row in requests_of(self.service).items()}
        return {
            request_id: int(text.removeprefix(message).strip(" ?"))
            for request_id, text in asked.items()
            if text.startswith(message)
        }

    def polled(self, since: int = 0) -> Counter[str]:
        """Return how often each request was polled, from so many entries of the service's journal on."""
        entries = self.service.journal(method="GET", path="chat/requests/", limit=100_000)
        return Counter(entry["path"].rpartition("/")[2] for entry in entries[since:])


@pytest.fixture(scope="module")
def runs(airflow: LiveAirflow, service: AssistantService, lake: Path, home: Path) -> Runs:
    """All of them at the same time, over when a test sees them."""
    runs = Runs(airflow, service, lake)
    service.reset("journal", "faults")
    rules = [
        rule("delay:0", "globex-help/chat/requests"),
        rule("status:404", "acme-shop/chat/requests"),
        rule("status:503", f"chat/requests/{HALF.pattern}"),
        rule("delay:5", "globex-labs/chat/async", CONCURRENCY, COUNT // 2),
    ]
    service.faults(processing_seconds=SOON, rules=rules)
    runs.start("asked_by_a_killed_worker", "asked_through_restarts", "asked_and_cleared", "asked_in_vain")

    submitted = lambda: len(service.journal(method="POST", path="globex-labs/chat/async"))  # noqa: E731
    wait_for("half of the submissions", lambda: submitted() >= COUNT // 2 + CONCURRENCY, timeout=60)
    airflow.kill_task("asked_by_a_killed_worker", runs.ids["asked_by_a_killed_worker"], "ask")

    runs.wait_task("asked_through_restarts", "ask", "deferred")
    half = {request_id for request_id in runs.asked("Through restarts") if not HALF.match(request_id)}
    wait_for("answers noted down", lambda: runs.noted("asked_through_restarts", "ask") >= half, timeout=30)
    airflow.stop("triggerer", kill=True)
    runs.notes["noted"] = runs.noted("asked_through_restarts", "ask")
    before = runs.polled().total()
    airflow.start("triggerer")
    started = time.monotonic()

    runs.wait_task("asked_and_cleared", "marked", "deferred")
    airflow.set_task_state("asked_and_cleared", runs.ids["asked_and_cleared"], "marked", "failed")
    for task_id in ("taken_up", "anew"):
        runs.wait_task("asked_and_cleared", task_id, "deferred")
        runs.clear("asked_and_cleared", task_id)
    runs.clear("asked_and_cleared", "marked")
    for task_id in ("taken_up", "anew", "marked"):
        runs.wait_task("asked_and_cleared", task_id, "deferred", 2)
    runs.wait_task("asked_by_a_killed_worker", "ask", "deferred", 2)
    runs.wait("asked_in_vain")
    try:
        runs.notes["log"] = wait_for("a line of progress", lambda: progress(runs), timeout=35)
    except AssertionError:
        print(runs.log("asked_through_restarts", "ask"))
        for p in (airflow.home/"logs").rglob("*.log*"):
            if "asked_through" in str(p): print("=====", p, "\n", p.read_text())
        print(airflow.log_path("triggerer").read_text()[-3000:])
        raise
    runs.notes["seconds"] = time.monotonic() - started
    runs.notes["polled"] = runs.polled(before)
    passwords = {service.api_key}
    runs.notes["keys"] = places(home, *passwords)
    service.reset("faults")
    service.faults(processing_seconds=SOON)
    runs.wait("asked_by_a_killed_worker", "asked_through_restarts", "asked_and_cleared")
    return runs


def progress(runs: Runs) -> str | None:
    log = runs.log("asked_through_restarts", "ask")
    return log if re.search(r"\d+ requests are open, ended are \d+ complete", log.partition("Waiting for")[2]) else None


def complete(runs: Runs, dag_id: str, task_id: str, message: str) -> None:
    """Every question has the answer that the service gave to it, in the order of the source."""
    requests = requests_of(runs.service)
    rows = runs.rows(dag_id, task_id)
    assert [row["id"] for row in rows] == list(range(COUNT))
    assert {row["status"] for row in rows} == {"complete"}
    for row in rows:
        request = requests[row["request_id"]]
        assert row["message"] == request["message"] == f"{message} {row['id']}?"
        assert row["answer"] == request["answer"]
    assert not list((runs.folder / dag_id).glob(f".{task_id}.parquet.*")), "the journal is gone"


def test_debug(runs: Runs) -> None:
    print(runs.notes)
    print(runs.log("asked_through_restarts", "ask"))
