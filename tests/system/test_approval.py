"""A person rejects and approves a baseline on a real Airflow; ``dag.test()`` cannot wait for a person."""

from __future__ import annotations

import pytest

from tests.live.airflow import LiveAirflow
from tests.live.service import AssistantService

# tests/integration/test_dags.py runs the same DAG in one process, and the demo approves.
pytestmark = [pytest.mark.system, pytest.mark.nightly]

DAG = "assistant_approve_baseline"
VARIABLE = "/api/v2/variables/assistant_baseline"


@pytest.mark.promise("evaluation", "A baseline becomes the approved one only when a person approves it.")
def test_a_rejected_baseline_is_not_set_and_an_approved_one_is(airflow: LiveAirflow, service: AssistantService) -> None:
    service.reset("faults")
    run_id = airflow.trigger(DAG)
    question = airflow.wait_question(DAG, run_id, "approve")
    head = airflow.xcom(DAG, run_id, "evaluate")
    assert f"The gate: **{head['verdict']}**. Compared with `nothing`." in question["body"]
    assert f"\n| token_f1 | {round(head['means']['token_f1'], 3)} |\n" in question["body"]
    assert f"\nReport: `{head['report_path']}`" in question["body"]

    airflow.answer(DAG, run_id, "approve", "Reject")
    assert airflow.wait_run(DAG, run_id) == "success"
    assert airflow.task_states(DAG, run_id)["set_baseline"] == "skipped"
    assert airflow.send("GET", VARIABLE).status_code == 404

    airflow.clear(DAG, run_id, "approve", include_downstream=True)
    airflow.wait_question(DAG, run_id, "approve")
    airflow.answer(DAG, run_id, "approve", "Approve")
    assert airflow.wait_run(DAG, run_id) == "success"
    assert airflow.task_states(DAG, run_id)["set_baseline"] == "success"
    assert airflow.request("GET", VARIABLE)["value"] == head["summary_path"]
    airflow.request("DELETE", VARIABLE)
