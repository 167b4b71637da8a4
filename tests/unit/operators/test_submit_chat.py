"""One async chat over several tries: what a retry takes up, what it submits again, and what is recorded."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import AssistantAmbiguousError, AssistantRateLimitError
from airflow_provider_assistant.ledger import Filter, Ledger, queries
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.task_runs.context import execute_operator

POLL, SUBMIT = r"chat/requests/", r"chat/async$"
CHAT = {"session_id": "s", "message": "Anything?"}


def recorded(*columns):
    """Return columns of the attempts in the ledger, the latest one first."""
    with Ledger.open() as ledger:
        page = ledger.read(queries.entries, ledger.clock, Filter(kinds=["chat"]))
    return [tuple(row[name] for name in columns) for row in page.rows]


@pytest.fixture
def submit(service, connection, run_operator):
    return lambda **options: run_operator(AssistantSubmitChatOperator, **{**CHAT, **options})


def submit_now(clears=0, **options):
    """Execute the operator without a DAG, for the same run each time."""
    return execute_operator(AssistantSubmitChatOperator(task_id="t", **{**CHAT, **options}), max_tries=clears)


def test_submit(service, submit):
    run = submit()
    submitted = run.xcom()
    assert set(submitted) == {"request_id", "session_id", "site_id", "submitted_at"}
    (row,) = service.chats()
    assert (row["id"], row["mode"]) == (submitted["request_id"], "async")
    assert service.seen() == [("POST", "/m2m/sites/acme-docs/chat/async")]
    found = recorded("state", "remote_id", "dag_id", "session_id", "mode", "recorded_at")
    ((state, request_id, dag_id, session_id, mode, recorded_at),) = found
    assert (state, request_id, dag_id, session_id, mode) == ("created", row["id"], run.dag_id, "s", "async")
    # It is taken after the outcome has been recorded.
    assert 0 <= submitted["submitted_at"] - recorded_at.timestamp() < 60


@pytest.mark.promise("chat", "A retry returns the request that an earlier try submitted, and submits no other one.")
def test_a_retry_or_cleared_task_takes_up_the_request_that_was_submitted(service, connection):
    tries = [submit_now(clears) for clears in (0, 0, 1, 1)]
    assert {one["request_id"] for one in tries} == {service.chats()[0]["id"]}
    assert service.posts() == 1
    assert tries[0]["submitted_at"] == pytest.approx(tries[1]["submitted_at"], abs=1)


def test_a_refused_submission_is_recorded_as_refused(service, submit):
    service.answer("retry-after:3600", path=SUBMIT)
    run = submit()
    assert isinstance(run.error, AssistantRateLimitError)
    assert run.error.retry_after == 3600
    assert recorded("state") == [("failed",)]
    assert service.posts() == 1


@pytest.mark.promise("chat", "A request that failed or was forgotten is submitted again by the next try, once.")
@pytest.mark.parametrize("sensing", [{"mode": "poke"}, {"mode": "reschedule"}, {"deferrable": True}])
@pytest.mark.parametrize("end", ["failed", 400, 404, 410])
def test_a_cleared_task_submits_again_what_its_sensor_found_without_an_answer(
    end, sensing, service, connection, run_dag
):
    if end == "failed":
        service.behave(fail_messages="Anything")
    else:
        service.answer(f"status:{end}", path=POLL)
    with DAG("lost", schedule=None) as dag:
        submit = AssistantSubmitChatOperator(task_id="submit", **CHAT)
        AssistantChatRequestSensor(
            task_id="task", request_id=submit.output["request_id"], poke_interval=0.01, **sensing
        )
    states = []
    for clears in range(3):
        states.append(run_dag(dag, run_id="run", clears=clears).state)
        service.behave(fail_messages=None)
    assert states == ["failed", "success", "success"]
    assert service.posts() == 2
    kept = "failed" if end == "failed" else "lost"
    assert recorded("state", "ended") == [("created", "complete"), ("failed", kept)]


# -- ambiguous submissions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_ambiguous", "state", "tries"), [("retry", "success", 2), ("skip", "skipped", 1), ("fail", "failed", 1)]
)
@pytest.mark.parametrize("fault", ["store-then-status:502", "store-then-drop", "truncate"])
def test_a_submission_that_may_have_happened(fault, on_ambiguous, state, tries, service, submit):
    service.answer(fault, path=SUBMIT)
    run = submit(retries=2, on_ambiguous=on_ambiguous)
    assert (run.task_state(), run.tries()) == (state, tries)
    rows = service.chats()
    assert len(rows) == tries
    if state == "success":
        assert recorded("state", "remote_id") == [("created", rows[1]["id"]), ("ambiguous", None)]
        assert run.xcom(key="possibly_duplicated") == 1


@pytest.mark.parametrize(("on_ambiguous", "error"), [("skip", AirflowSkipException), ("fail", AssistantAmbiguousError)])
def test_what_an_earlier_try_may_have_submitted_stays_unsent(on_ambiguous, error, service, connection):
    service.answer("store-then-status:502", path=SUBMIT)
    with pytest.raises(Exception, match="Ambiguous after"):
        submit_now()
    with pytest.raises(error, match="ledger resolve"):
        submit_now(clears=1, on_ambiguous=on_ambiguous)
    assert service.posts() == 1
