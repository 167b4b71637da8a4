"""Waiting for async answers on a real Airflow with restarts and failures."""

from __future__ import annotations

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT, wait_for
from tests.live.service import AssistantService
from tests.system.runs import Runs

pytestmark = pytest.mark.system

# The test finishes requests explicitly, not after a delay.
NEVER, SOON = 3600, 0.2


@pytest.fixture(scope="module")
def runs(airflow: LiveAirflow, service: AssistantService) -> Runs:
    """One run of each DAG of ``ends_of_requests.py``, finished before the tests check them."""
    runs = Runs(airflow)
    service.reset("journal")
    # The poll of the worker passes; those of the triggerer fail.
    revoked = {"key": "globex-readonly", "path": "chat/requests"}
    rules = [{"action": "status:401", **revoked, "skip": 1, "times": None}]
    service.faults(processing_seconds=NEVER, rules=rules)
    runs.start("complete", "cleared", "on_the_worker", "late", "unauthorized", "failed")

    runs.wait_task("on_the_worker", "wait", "running")
    polls = {"method": "GET", "path": "acme-docs/chat/requests/"}
    wait_for("polls by the workers", lambda: len(service.journal(**polls)) >= 5, timeout=WAIT)
    runs.kill("on_the_worker", "wait")
    runs.wait_task("cleared", "wait", "deferred")
    runs.clear("cleared", "submit", "wait")
    runs.wait_task("cleared", "wait", "deferred", 2)
    for dag_id in ("complete", "failed"):
        runs.wait_task(dag_id, "wait", "deferred")
    runs.wait("late", "unauthorized")
    service.faults(processing_seconds=SOON)
    runs.wait("complete", "cleared", "on_the_worker", "failed")
    service.reset("faults")
    return runs


def posts(service: AssistantService, site: str) -> int:
    return len(service.journal(method="POST", path=f"{site}/chat/async"))


@pytest.mark.promise("chat", "A chat whose tasks are cleared, killed or deferred is submitted once, and is answered.")
def test_a_request_keeps_its_answer_also_after_its_tasks_are_cleared(runs: Runs, service: AssistantService) -> None:
    assert runs.task("complete", "wait") == ("success", 1)
    answer = runs.xcom("complete", "wait")
    assert answer["state"] == "complete"
    assert answer["text"]
    assert posts(service, "acme-shop") == 1

    runs.clear("complete", "submit", "wait")
    runs.wait("complete")
    assert runs.task("complete", "wait") == ("success", 2)
    again = runs.xcom("complete", "wait")
    assert (again["request_id"], again["text"]) == (answer["request_id"], answer["text"])
    assert posts(service, "acme-shop") == 1


@pytest.mark.parametrize("task_id", ["wait", "poke"])
def test_a_failed_request_fails_its_sensor(runs: Runs, service: AssistantService, task_id: str) -> None:
    assert runs.task("failed", task_id) == ("failed", 1)
    log = runs.log("failed", task_id)
    assert "AssistantRequestFailed" in log
    assert "the assistant could not answer" in log
    assert posts(service, "globex-help") == 1


def test_a_sensor_in_reschedule_mode_counts_the_polls_of_all_its_processes(runs: Runs) -> None:
    state, tries = runs.task("on_the_worker", "reschedule")
    assert state == "success"
    answer = runs.xcom("on_the_worker", "reschedule")
    log = runs.log("on_the_worker", "reschedule")
    # Airflow 3.4.0b2 may take a task that it has just rescheduled for a failed one: the next try counts its own polls.
    assert answer["polls"] >= (3 if tries == 1 else 1)
    assert f"and {answer['polls']} polls" in log


@pytest.mark.promise("Airflow", "A sensor that waited for its whole timeout fails and is not retried.")
def test_a_deadline_is_a_sensor_timeout_and_not_retried(runs: Runs) -> None:
    assert runs.task("late", "wait") == ("failed", 1)
    log = runs.log("late", "wait")
    assert "AirflowSensorTimeout" in log
    assert "TaskDeferralError" not in log


@pytest.mark.promise("Airflow", "A task with a wrong API key fails once and says so; it is not retried.")
@pytest.mark.parametrize("task_id", ["wrong_key", "revoked_key"])
def test_an_unknown_key_is_tried_once(runs: Runs, service: AssistantService, task_id: str) -> None:
    assert runs.task("unauthorized", task_id) == ("failed", 1)
    assert "AssistantAuthenticationError" in runs.log("unauthorized", task_id)
    refused = [(entry["key"], entry["method"]) for entry in service.journal(status=401)]
    assert sorted(refused, key=str) == [("globex-readonly", "GET"), (None, "POST")]


@pytest.mark.parametrize("dag_id", ["on_the_worker", "cleared"])
def test_a_sensor_that_was_killed_or_cleared_waits_for_the_same_request(runs: Runs, dag_id: str) -> None:
    assert runs.task(dag_id, "wait") == ("success", 2)
    assert runs.xcom(dag_id, "wait")["request_id"] == runs.xcom(dag_id, "submit")["request_id"]


def test_no_chat_is_submitted_twice(runs: Runs, service: AssistantService) -> None:
    """Each run has a unique session, so each submission has a unique body."""
    accepted = service.journal(method="POST", path="chat/async", status=202)
    assert len({entry["digest"] for entry in accepted}) == len(accepted) == 6
