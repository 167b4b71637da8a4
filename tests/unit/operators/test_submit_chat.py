"""One async chat over several tries: what a retry takes up, what it submits again, and what is recorded."""

from __future__ import annotations

import time

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousPermanentError,
    AssistantRateLimitError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Filter, Ledger, queries
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.triggers.events import carried
from tests.task_runs.context import task_context

POLL = r"chat/requests/"
SUBMIT = r"chat/async$"
CHAT = {"session_id": "s", "message": "Anything?"}
WAITING = {"poll_interval": 0.01, "timeout": 30}
waits = pytest.mark.parametrize(
    "waiting", [{"wait_for_completion": True}, {"deferrable": True}], ids=["on the worker", "deferred"]
)


def recorded(*columns):
    """Return columns of the attempts in the ledger, the latest one first."""
    with Ledger.open() as ledger:
        page = ledger.read(queries.entries, ledger.clock, Filter(kinds=["chat"]))
    return [tuple(row[name] for name in columns) for row in page.rows]


@pytest.fixture
def submit(service, connection, run_operator):
    def submitted(**options):
        return run_operator(AssistantSubmitChatOperator, **{**CHAT, **options})

    return submitted


def test_submit(service, submit):
    run = submit()
    submitted = run.xcom()
    assert set(submitted) == {"request_id", "session_id", "site_id", "submitted_at"}
    (row,) = service.chats()
    assert (row["id"], row["mode"]) == (submitted["request_id"], "async")
    assert service.seen() == [("POST", "/m2m/sites/acme-docs/chat/async")]
    ((state, request_id, dag_id, session_id, recorded_at),) = recorded(
        "state", "remote_id", "dag_id", "session_id", "recorded_at"
    )
    assert (state, request_id, dag_id, session_id) == ("created", row["id"], run.dag_id, "s")
    # It is taken after the outcome has been recorded.
    assert 0 <= submitted["submitted_at"] - recorded_at.timestamp() < 60


@waits
def test_submit_and_wait(waiting, service, submit):
    run = submit(**waiting, **WAITING)
    assert run.state == "success", run.errors
    ended = run.xcom()
    assert set(ended) == {
        "request_id", "session_id", "site_id", "state", "status", "text", "confidence_level", "confidence_score",
        "error", "polls", "seconds", "raw", "noticed_after",
    }  # fmt: skip
    assert (ended["state"], ended["status"], ended["session_id"], ended["site_id"]) == (
        "complete", "completed", "s", "acme-docs",
    )  # fmt: skip
    assert ended["text"].startswith("I don't know")
    assert ended["polls"] == len(service.journal("GET", POLL))
    assert ended["seconds"] is None, "the replies have no times"
    assert ended["noticed_after"] >= 0
    assert service.posts() == 1
    ((end, ended_at, recorded_at),) = recorded("ended", "ended_at", "recorded_at")
    assert end == "complete"
    assert ended_at >= recorded_at


@pytest.mark.promise("chat", "A retry waits for the request that an earlier try submitted, and submits no other one.")
@waits
def test_a_retry_takes_up_the_request_that_was_submitted(waiting, service, submit):
    service.behave(processing_seconds=3600)
    run = submit(retries=2, poll_interval=0.01, timeout=0, reuse=False, **waiting)
    assert (run.task_state(), run.tries()) == ("failed", 3)
    assert [type(error) for error in run.errors] == [AssistantRequestTimeoutError] * 3
    assert service.posts() == 1
    (row,) = service.chats()
    assert {entry.path.rpartition("/")[2] for entry in service.journal("GET", POLL)} == {row["id"]}
    assert (run.error.request_id, run.error.status) == (row["id"], "queued")


def test_without_the_ledger_a_retry_asks_again(service, submit):
    service.behave(processing_seconds=3600)
    submit(retries=1, poll_interval=0.01, timeout=0, wait_for_completion=True, ledger=False)
    assert service.posts() == 2


@waits
def test_a_request_that_failed_is_asked_again_by_the_retry(waiting, service, submit):
    service.behave(fail_messages="impossible")
    run = submit(message="impossible", retries=1, **waiting, **WAITING)
    assert (run.task_state(), run.tries()) == ("failed", 2)
    assert service.posts() == 2
    for error, row in zip(run.errors, service.chats(), strict=True):
        assert isinstance(error, AssistantRequestFailedError)
        assert (error.request_id, error.status) == (row["id"], "failed")
        assert "the assistant could not answer" in str(error)
    assert recorded("state", "ended") == [("failed", "failed")] * 2


def test_a_refused_submission_is_recorded_as_refused(service, submit):
    service.answer("retry-after:3600", path=SUBMIT)
    run = submit()
    assert isinstance(run.error, AssistantRateLimitError)
    assert run.error.retry_after == 3600
    assert recorded("state") == [("failed",)]
    assert service.posts() == 1


# -- lost requests ---------------------------------------------------------------------------------


@pytest.mark.promise("chat", "A request that the service forgot is submitted again by the next try, once.")
@waits
@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_request_that_was_lost_is_submitted_again_by_the_retry(status, waiting, service, submit):
    service.answer(f"status:{status}", path=POLL)
    run = submit(retries=2, **waiting, **WAITING)
    assert (run.state, run.tries()) == ("success", 2)
    first, second = (row["id"] for row in service.chats())
    assert type(run.error) is AssistantRequestLostError
    assert first in str(run.error)
    assert run.xcom()["request_id"] == second
    assert recorded("state", "ended") == [("created", "complete"), ("failed", "lost")]


@waits
def test_each_try_submits_a_lost_request_once(waiting, service, submit):
    service.answer("status:404", path=POLL, times=None)
    run = submit(retries=2, **waiting, **WAITING)
    assert [type(error) for error in run.errors] == [AssistantRequestLostError] * 3
    assert service.posts() == 3
    assert recorded("ended") == [("lost",)] * 3


@pytest.mark.parametrize("sensing", [{"mode": "poke"}, {"deferrable": True}], ids=["on the worker", "deferred"])
def test_a_cleared_task_submits_again_what_its_sensor_found_lost(sensing, service, connection, run_dag):
    service.answer("status:404", path=POLL)
    with DAG("lost", schedule=None) as dag:
        submit = AssistantSubmitChatOperator(task_id="submit", **CHAT)
        AssistantChatRequestSensor(
            task_id="task", request_id=submit.output["request_id"], poke_interval=0.01, **sensing
        )
    runs = [run_dag(dag, run_id="run", clears=clears) for clears in range(2)]
    assert [run.state for run in runs] == ["failed", "success"]
    assert service.posts() == 2


@pytest.mark.parametrize(("reuse", "posts"), [(True, 1), (False, 2)])
def test_a_cleared_task_asks_again_if_it_is_told_not_to_reuse(reuse, posts, service, connection, run_dag):
    with DAG("reuse", schedule=None) as dag:
        AssistantSubmitChatOperator(task_id="task", reuse=reuse, **CHAT)
    for clears in range(2):
        assert run_dag(dag, run_id="run", clears=clears).state == "success"
    assert service.posts() == posts


def test_the_ledger_has_the_moment_at_which_the_trigger_saw_the_end(service, connection):
    operator = AssistantSubmitChatOperator(task_id="t", deferrable=True, **CHAT)
    service.behave(processing_seconds=3600)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(task_context("t"))
    ended_at = time.time() - 100
    request = AssistantHook().get_chat_request(operator.request_id).as_dict()
    request |= {"state": "complete", "polls": 1, "seconds": 1.0, "noticed_after": 1.0, "ended_at": ended_at}
    event = {"request": request, **carried(deferred.value.trigger.rendered)}
    assert "ended_at" not in operator.execute_complete(task_context("t"), event)
    ((recorded_end,),) = recorded("ended_at")
    assert abs(recorded_end.timestamp() - ended_at) < 1e-5


# -- ambiguous submissions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_ambiguous", "state", "tries"), [("retry", "success", 2), ("skip", "skipped", 1), ("fail", "failed", 1)]
)
@pytest.mark.parametrize("ledger", [True, False])
@pytest.mark.parametrize("fault", ["store-then-status:502", "store-then-drop", "truncate"])
def test_a_submission_that_may_have_happened(fault, ledger, on_ambiguous, state, tries, service, submit, caplog, capfd):
    service.answer(fault, path=SUBMIT)
    run = submit(retries=2, on_ambiguous=on_ambiguous, ledger=ledger)
    assert (run.task_state(), run.tries()) == (state, tries)
    rows = service.chats()
    assert len(rows) == tries
    if ledger and state == "success":
        assert recorded("state", "remote_id") == [("created", rows[1]["id"]), ("ambiguous", None)]
        assert "may have submitted this chat" in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize(("on_ambiguous", "state"), [("skip", "skipped"), ("fail", "failed")])
def test_what_an_earlier_try_may_have_submitted_stays_unsent(on_ambiguous, state, service, connection, run_dag):
    service.answer("store-then-status:502", path=SUBMIT)
    for clears, choice in enumerate(("retry", on_ambiguous)):
        with DAG("left", schedule=None) as dag:
            AssistantSubmitChatOperator(task_id="task", on_ambiguous=choice, **CHAT)
        run = run_dag(dag, run_id="run", clears=clears)
    assert run.task_state() == state
    if state == "failed":
        assert type(run.error) is AssistantAmbiguousPermanentError
        assert "ledger resolve" in str(run.error)
    assert service.posts() == 1
