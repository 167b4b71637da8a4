"""Waiting for async answers on a real Airflow with restarts and failures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT, wait_for
from tests.live.service import AssistantService

pytestmark = pytest.mark.system

# The test finishes requests explicitly, not after a delay.
NEVER, SOON = 3600, 0.2


def posts(service: AssistantService, path: str) -> int:
    return len(service.journal(method="POST", path=path))


def polls(service: AssistantService, path: str) -> int:
    return len(service.journal(method="GET", path=path))


class Runs:
    """One run of each DAG of ``ends_of_requests.py``."""

    def __init__(self, airflow: LiveAirflow, service: AssistantService) -> None:
        self.airflow = airflow
        self.service = service
        self.ids: dict[str, str] = {}

    def start(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.ids[dag_id] = self.airflow.trigger(dag_id)

    def wait_task(self, dag_id: str, task_id: str, *states: str) -> None:
        self.airflow.wait_task(dag_id, self.ids[dag_id], task_id, *states)

    def wait(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.airflow.wait_run(dag_id, self.ids[dag_id])

    def task(self, dag_id: str, task_id: str) -> tuple[str, int]:
        task = self.airflow.task_instance(dag_id, self.ids[dag_id], task_id)
        return task["state"], task["try_number"]

    def log(self, dag_id: str, task_id: str) -> str:
        return self.airflow.task_log(dag_id, self.ids[dag_id], task_id)

    def xcom(self, dag_id: str, task_id: str) -> Any:
        return self.airflow.xcom(dag_id, self.ids[dag_id], task_id)


@pytest.fixture(scope="module")
def runs(airflow: LiveAirflow, service: AssistantService) -> Runs:
    """All runs, started at the same time and finished before the tests check them."""
    runs = Runs(airflow, service)
    service.reset("journal")
    # The poll of the worker passes; those of the triggerer fail.
    revoked = {"key": "globex-readonly", "path": "chat/requests"}
    rules = [{"action": "status:401", "match": revoked, "skip": 1, "times": None}]
    service.faults(processing_seconds=NEVER, rules=rules)
    runs.start("complete", "cleared", "on_the_worker", "late", "unauthorized", "failed")

    runs.wait_task("on_the_worker", "ask", "running")
    wait_for("a poll by the worker", lambda: polls(service, "acme-docs/chat/requests/"), timeout=WAIT)
    airflow.kill_task("on_the_worker", runs.ids["on_the_worker"], "ask")
    runs.wait_task("cleared", "ask", "deferred")
    airflow.clear("cleared", runs.ids["cleared"], "ask")
    airflow.wait("its second try", lambda: runs.task("cleared", "ask") == ("deferred", 2), timeout=WAIT)
    runs.wait_task("complete", "ask", "deferred")
    runs.wait_task("failed", "wait", "deferred")
    runs.wait_task("failed", "ask", "deferred")
    runs.wait("late", "unauthorized")
    service.faults(processing_seconds=SOON)
    runs.wait("complete", "cleared", "on_the_worker", "failed")
    service.reset("faults")
    return runs


def test_a_deferrable_submit_returns_the_answer_also_after_it_is_cleared(runs: Runs) -> None:
    assert runs.task("complete", "ask") == ("success", 1)
    answer = runs.xcom("complete", "ask")
    assert answer["state"] == "complete"
    assert answer["text"]
    assert answer["site_id"] == "acme-shop"
    assert answer["session_id"] == runs.ids["complete"]
    assert posts(runs.service, "acme-shop/chat/async") == 1

    runs.airflow.clear("complete", runs.ids["complete"], "ask")
    runs.wait_task("complete", "ask", "success", "failed")
    runs.wait("complete")
    assert runs.task("complete", "ask") == ("success", 2)
    again = runs.xcom("complete", "ask")
    assert (again["request_id"], again["text"]) == (answer["request_id"], answer["text"])
    assert posts(runs.service, "acme-shop/chat/async") == 1


@pytest.mark.parametrize("task_id", ["wait", "ask"])
def test_a_failed_request_fails_its_task(runs: Runs, task_id: str) -> None:
    assert runs.task("failed", task_id) == ("failed", 1)
    log = runs.log("failed", task_id)
    assert "AssistantRequestFailed" in log
    assert "The assistant could not answer this message." in log
    assert posts(runs.service, "globex-help/chat/async") == 2


def test_a_deadline_is_a_sensor_timeout_and_not_retried(runs: Runs) -> None:
    assert runs.task("late", "wait") == ("failed", 1)
    log = runs.log("late", "wait")
    assert "AirflowSensorTimeout" in log
    assert "did not end within" in log
    assert "TaskDeferralError" not in log


@pytest.mark.parametrize("task_id", ["wrong_key", "revoked_key"])
def test_an_unknown_key_is_tried_once(runs: Runs, task_id: str) -> None:
    assert runs.task("unauthorized", task_id) == ("failed", 1)
    log = runs.log("unauthorized", task_id)
    assert "AssistantAuthenticationError" in log
    assert "Fix the API key in the Airflow connection's password." in log


def test_unknown_keys_reach_the_service_once(runs: Runs) -> None:
    refused = [(entry["key"], entry["method"]) for entry in runs.service.journal(status=401)]
    assert sorted(refused, key=str) == [("globex-readonly", "GET"), (None, "POST")]


def test_a_killed_worker_asks_nothing_twice(runs: Runs) -> None:
    assert runs.task("on_the_worker", "ask") == ("success", 2)
    assert "Continuing with its request" in runs.log("on_the_worker", "ask")
    assert posts(runs.service, "acme-docs/chat/async") == 1 + 1  # the other had the wrong key


def test_a_task_cleared_while_it_waits_takes_up_its_request(runs: Runs) -> None:
    assert runs.task("cleared", "ask") == ("success", 2)
    assert "Continuing with its request" in runs.log("cleared", "ask")


def test_no_chat_is_submitted_twice(runs: Runs) -> None:
    """Each task has a unique session or message, so each submission has a unique body."""
    accepted = runs.service.journal(method="POST", path="chat/async", status=202)
    assert len({entry["digest"] for entry in accepted}) == len(accepted) == 7
