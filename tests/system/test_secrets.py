"""The API key appears only in the environment: in no log, console output, database or Parquet file."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.live.airflow import LiveAirflow
from tests.live.service import AssistantService
from tests.system.parrot import MARKER
from tests.system.search import places

pytestmark = pytest.mark.system

LOADING = ("assistant_knowledge_base", "assistant_smoke", "parrots")
WHO_FAILS = {"use_the_hook", "chat", "rate", "close", "wait", "ask"}


@pytest.fixture(scope="module")
def ran(airflow: LiveAirflow, service: AssistantService, exported: str) -> dict[str, dict[str, str | None]]:
    """Task states of the examples, of a DAG with a wrong key, and of a DAG whose service repeats the key."""
    service.reset("faults")
    service.faults(processing_seconds=0.2)
    runs = {dag_id: airflow.trigger(dag_id) for dag_id in (*LOADING, "assistant_async_chat", "unauthorized")}
    for dag_id, run_id in runs.items():
        airflow.wait_run(dag_id, run_id)
    runs["assistant_nightly_export"] = exported
    return {dag_id: airflow.task_states(dag_id, run_id) for dag_id, run_id in runs.items()}


def test_everything_ran(ran: dict[str, dict[str, str | None]]) -> None:
    for dag_id, states in ran.items():
        if dag_id.startswith("assistant_"):
            assert set(states.values()) == {"success"}, dag_id
    assert {task for task, state in ran["parrots"].items() if state == "failed"} == WHO_FAILS
    assert ran["unauthorized"]["wrong_key"] == "failed"


@pytest.mark.usefixtures("ran")
def test_the_search_finds_what_is_there(home: Path, airflow: LiveAirflow, lake: Path) -> None:
    """The marker of the service reaches all these places, so an unmasked key would too."""
    found = places(home, MARKER, database=airflow.database.url)

    ledger = airflow.home / "assistant_ledger.db"
    console = str(airflow.log_path("scheduler"))
    assert console in found
    cells = {"postgres: xcom", f"{ledger}: assistant_submissions", f"{ledger}: assistant_ratings"}
    assert cells <= found
    logs = {where for where in found if where.startswith(str(airflow.home / "logs"))}
    assert any(where.endswith(".log") for where in logs)
    assert any(".trigger." in where for where in logs)
    assert any(where.startswith(str(lake)) and where.endswith(": text") for where in found)
    assert {f"{lake}/asked/parrots.parquet: {column}" for column in ("request_id", "error", "raw")} <= found


@pytest.mark.usefixtures("ran")
def test_no_key_is_in_any_file(home: Path, airflow: LiveAirflow, connections: dict[str, dict[str, Any]]) -> None:
    keys = {connection["password"] for connection in connections.values()}
    # Two connections to the same service share its key: one of them does not retry.
    assert len(keys) == len(connections) - 1

    assert places(home, *keys, database=airflow.database.url) == set()


@pytest.mark.usefixtures("ran")
def test_no_key_is_in_a_command_line(airflow: LiveAirflow, connections: dict[str, dict[str, Any]]) -> None:
    processes = [process for component in airflow.components.values() for process in component.tree()]
    lines = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            lines += [" ".join(process.cmdline())]

    assert any("scheduler" in line for line in lines)
    keys = {connection["password"] for connection in connections.values()}
    assert [line for line in lines if any(key in line for key in keys)] == []


@pytest.mark.usefixtures("ran")
def test_no_answer_of_airflow_has_a_key(airflow: LiveAirflow, connections: dict[str, dict[str, Any]]) -> None:
    """Check logs, XCom and rendered fields as the UI and the API show them."""
    keys = {connection["password"] for connection in connections.values()}
    seen = []
    for dag_id in ("parrots", "unauthorized"):
        for run in airflow.request("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]:
            run_id = run["dag_run_id"]
            for task in airflow.task_instances(dag_id, run_id):
                seen += [json.dumps(task), airflow.task_log(dag_id, run_id, task["task_id"])]
                seen += [json.dumps(airflow.xcom(dag_id, run_id, task["task_id"]))]

    assert any(MARKER in text for text in seen)
    assert [text for text in seen if any(key in text for key in keys)] == []
