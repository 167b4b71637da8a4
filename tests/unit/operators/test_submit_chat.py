"""One async chat over several tries: lost requests, templates after a deferral, and completion times."""

from __future__ import annotations

import time

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import AssistantAmbiguousPermanentError, AssistantRequestLostError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, find_request
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.triggers.events import carried
from tests.task_runs.context import task_context

POLL = r"chat/requests/"
SUBMIT = r"chat/async$"
WAITING = {"poll_interval": 0.01, "timeout": 30}
waits = pytest.mark.parametrize(
    "waiting", [{"wait_for_completion": True}, {"deferrable": True}], ids=["on the worker", "deferred"]
)
# Templates that render to a different text each time.
FRESH = "{{ macros.uuid.uuid4() }}"


def submission(request_id):
    with Ledger.open() as ledger:
        return find_request(ledger.engine, AssistantHook().site(), request_id)


def ended(hook, request_id, trigger=None, **times):
    """Return the event of a trigger for a finished request."""
    request = {**hook.get_chat_request(request_id).as_dict(), "state": "complete", "polls": 1}
    request |= {"seconds": 1.0, "noticed_after": 1.0}
    return {"request": {**request, **times}, **carried(trigger and trigger.rendered)}


@waits
@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_request_that_was_lost_is_submitted_again_by_the_retry(status, waiting, service, connection, run_operator):
    service.answer(f"status:{status}", path=POLL)
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="?", retries=2, **waiting, **WAITING)
    assert (run.state, run.tries()) == ("success", 2)
    first, second = (row["id"] for row in service.rows("requests"))
    assert type(run.error) is AssistantRequestLostError
    assert first in str(run.error)
    assert run.xcom()["request_id"] == second
    kept = submission(second)
    assert (kept.state, kept.attempts) == ("complete", 2)


@waits
def test_each_try_submits_a_lost_request_once(waiting, service, connection, run_operator, caplog, capfd):
    service.answer("status:404", path=POLL, times=None)
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="?", retries=2, **waiting, **WAITING)
    assert [type(error) for error in run.errors] == [AssistantRequestLostError] * 3
    assert service.posts() == 3
    lost = [row["id"] for row in service.rows("requests")]
    assert submission(lost[-1]).state == "lost"
    logged = caplog.text + "".join(capfd.readouterr())
    assert [f"The service lost request {one!r}" in logged for one in lost] == [True, True, False]


@pytest.mark.parametrize("sensing", [{"mode": "poke"}, {"deferrable": True}], ids=["on the worker", "deferred"])
def test_a_cleared_task_submits_again_what_its_sensor_found_lost(sensing, service, connection, run_dag):
    service.answer("status:404", path=POLL)
    with DAG("lost", schedule=None) as dag:
        submit = AssistantSubmitChatOperator(task_id="submit", session_id="s", message="?")
        AssistantChatRequestSensor(
            task_id="task", request_id=submit.output["request_id"], poke_interval=0.01, **sensing
        )
    runs = [run_dag(dag, run_id="run", clears=clears) for clears in range(2)]
    assert [run.state for run in runs] == ["failed", "success"]
    assert service.posts() == 2


@pytest.mark.parametrize(("reuse", "posts"), [(True, 1), (False, 2)])
def test_a_cleared_task_asks_again_if_it_is_told_not_to_reuse(reuse, posts, service, connection, run_dag):
    with DAG("reuse", schedule=None) as dag:
        AssistantSubmitChatOperator(task_id="task", session_id="s", message="?", reuse=reuse)
    for clears in range(2):
        assert run_dag(dag, run_id="run", clears=clears).state == "success"
    assert service.posts() == posts


def test_told_not_to_reuse_a_retry_still_takes_up_its_request(service, connection, run_operator):
    service.behave(processing_seconds=3600)
    run_operator(
        AssistantSubmitChatOperator, session_id="s", message="?", reuse=False, retries=1, wait_for_completion=True,
        poll_interval=0.01, timeout=0,
    )  # fmt: skip
    assert service.posts() == 1


def test_a_deferred_task_names_the_session_that_it_submitted_to(service, connection, run_operator):
    run = run_operator(
        AssistantSubmitChatOperator, session_id=f"s-{FRESH}", message="?", site_id="acme-shop", deferrable=True,
        **WAITING,
    )  # fmt: skip
    assert run.state == "success", run.errors
    (row,) = service.rows("requests")
    assert run.xcom()["session_id"] == row["session_id"]
    assert run.xcom()["site_id"] == row["site"] == "acme-shop"


def test_a_deferred_batch_writes_where_it_began(service, connection, run_operator, tmp_path):
    run = run_operator(
        AssistantChatBatchOperator, source=[{"message": "?"}], output_path=f"{tmp_path}/out/{FRESH}/answers.parquet",
        deferrable=True, poll_interval=0.01,
    )  # fmt: skip
    assert run.state == "success", run.errors
    written = list(tmp_path.rglob("*.parquet"))
    assert [str(path) for path in written] == [run.xcom()["output_path"]]
    assert list((tmp_path / "out").iterdir()) == [written[0].parent]
    assert service.posts(SUBMIT) == 1


@pytest.mark.parametrize("kind", [AssistantSubmitChatOperator, AssistantChatRequestSensor])
def test_a_resumed_task_uses_the_connection_and_the_site_it_began_with(kind, service, connect):
    connect(conn_id="first")
    service.behave(processing_seconds=3600)
    hook = AssistantHook("first")
    request_id = hook.submit_chat("s", "?").request_id
    arguments = {"request_id": request_id}
    if kind is AssistantSubmitChatOperator:
        arguments = {"session_id": "s", "message": "?"}
    with pytest.raises(TaskDeferred) as deferred:
        kind(task_id="t", assistant_conn_id="first", deferrable=True, **arguments).execute(task_context("t"))
    resumed = kind(task_id="t", assistant_conn_id="rendered_again", site_id="rendered_again", **arguments)
    resumed.execute_complete(task_context("t"), ended(hook, request_id, deferred.value.trigger))
    assert (resumed.hook.assistant_conn_id, resumed.hook.resolve_site_id()) == ("first", "acme-docs")


def test_a_task_is_resumed_without_rendered_attributes(service, connection):
    request_id = AssistantHook().submit_chat("s", "?").request_id
    operator = AssistantSubmitChatOperator(task_id="t", session_id="s", message="?", deferrable=True)
    assert operator.execute_complete(task_context("t"), ended(AssistantHook(), request_id))["session_id"] == "s"


def test_the_ledger_has_the_moment_at_which_the_trigger_saw_the_end(service, connection):
    operator = AssistantSubmitChatOperator(task_id="t", session_id="s", message="?", deferrable=True)
    service.behave(processing_seconds=3600)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(task_context("t"))
    ended_at = time.time() - 100
    request_id = operator.request_id
    event = ended(AssistantHook(), request_id, deferred.value.trigger, ended_at=ended_at)
    assert "ended_at" not in operator.execute_complete(task_context("t"), event)
    assert abs(submission(request_id).completed_at.timestamp() - ended_at) < 1e-5


def test_the_trigger_says_when_it_saw_the_end(service, connection, run_operator):
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="?", deferrable=True, **WAITING)
    kept = submission(run.xcom()["request_id"])
    # The time of the submission is taken after its outcome has been recorded.
    late = (kept.completed_at - kept.recorded_at).total_seconds() - run.xcom()["seconds"]
    assert -0.002 < late < 60


@pytest.mark.parametrize(
    ("on_ambiguous", "state", "tries", "posts"),
    [("retry", "success", 2, 2), ("skip", "skipped", 1, 1), ("fail", "failed", 1, 1)],
)
@pytest.mark.parametrize("ledger", [True, False])
@pytest.mark.parametrize("fault", ["store-then-status:502", "store-then-drop", "truncate"])
def test_a_submission_that_may_have_happened(
    fault, ledger, on_ambiguous, state, tries, posts, service, connection, run_operator
):
    service.answer(fault, path=SUBMIT)
    run = run_operator(
        AssistantSubmitChatOperator, session_id="s", message="?", retries=2, on_ambiguous=on_ambiguous, ledger=ledger
    )
    assert (run.task_state(), run.tries()) == (state, tries)
    assert len(service.rows("requests")) == posts


@pytest.mark.parametrize(("on_ambiguous", "state"), [("skip", "skipped"), ("fail", "failed")])
def test_what_an_earlier_try_may_have_submitted_stays_unsent(on_ambiguous, state, service, connection, run_dag):
    service.answer("store-then-status:502", path=SUBMIT)
    for clears, choice in enumerate(("retry", on_ambiguous)):
        with DAG("left", schedule=None) as dag:
            AssistantSubmitChatOperator(task_id="task", session_id="s", message="?", on_ambiguous=choice)
        run = run_dag(dag, run_id="run", clears=clears)
    assert run.task_state() == state
    if state == "failed":
        assert type(run.error) is AssistantAmbiguousPermanentError
        assert "ledger resolve" in str(run.error)
    assert service.posts() == 1


def test_how_often_it_may_have_been_submitted_besides_is_in_xcom(service, connect, run_operator):
    connect(retries=1)
    service.answer("store-then-status:502", path=SUBMIT)
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="?")
    assert run.xcom(key="possibly_duplicated") == 1
    assert len(service.rows("requests")) == 2
