"""Chat operators against the embedded service: their XCom values and their requests."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from airflow.sdk import DAG, task

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantRequestFailedError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.schema import chat_requests
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
    AssistantCloseSessionOperator,
)
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from tests.wire import Answer, ScriptedService

UNKNOWN = "I don't know"
POLL = r"chat/requests/"
SUBMIT = r"chat/async$"
WAITED = {
    "request_id",
    "session_id",
    "site_id",
    "state",
    "status",
    "text",
    "confidence_level",
    "confidence_score",
    "error",
    "polls",
    "seconds",
    "raw",
    "noticed_after",
}
WAITING = {"poll_interval": 0.01, "timeout": 30}


def recorded():
    with Ledger.open() as ledger, ledger.engine.connect() as connection:
        return connection.execute(chat_requests.select()).all()


def test_chat(service, connection, run_operator):
    options = {"session_id": "s-{{ dag.dag_id }}", "message": "What is {{ 'this' }}?"}
    run = run_operator(AssistantChatOperator, multiple_outputs=True, **options)
    answer = run.xcom()
    confidence = {"confidence_level", "confidence_score"}
    assert set(answer) == {"text", "session_id", "request_id", "seconds", "site_id", "raw"} | confidence
    assert answer["text"].startswith(UNKNOWN)
    assert answer["session_id"] == f"s-{run.dag_id}"
    assert answer["raw"]["answered"] is False
    assert run.xcom(key="text") == answer["text"]
    (row,) = service.rows("requests")
    assert (row["message"], row["mode"], row["id"]) == ("What is this?", "sync", answer["request_id"])


ODD_REPLY = rb"""{"answer": "42 \ud83d \u0000 end", "request_id": "r1", "score": NaN, "other": -Infinity, "n": 1e400,
"long": 123456789012345678901234567890, "__classname__": "builtins.tuple", "facts": {"__type": "x", "__var": 1}}"""


def test_an_odd_answer_is_kept(connection, run_operator, monkeypatch):
    """The question is answered and paid for: an answer that XCom refuses would be asked again."""
    with ScriptedService(Answer(200, ODD_REPLY)) as service:
        url = urlsplit(service.url)
        uri = f"assistant://:a-key-0123456789@{url.hostname}:{url.port}/http?site_id=docs&retries=0"
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", uri)
        run = run_operator(AssistantChatOperator, session_id="s", message="m")
    assert len(service.received) == 1
    answer = run.xcom()
    assert answer["text"] == "42 \ufffd \ufffd end"
    assert answer["raw"] == {
        "answer": answer["text"],
        "request_id": "r1",
        "score": None,
        "other": None,
        "n": None,
        "long": "123456789012345678901234567890",
        "___classname__": "builtins.tuple",
        "facts": {"___type": "x", "___var": 1},
    }


def test_chat_sends_every_field_and_goes_to_the_site_it_is_told(service, connection, run_operator):
    run = run_operator(
        AssistantChatOperator,
        session_id="s",
        message="Hallo?",
        user_email="a@example.com",
        response_language="de",
        site_id="acme-shop",
    )
    assert run.xcom()["site_id"] == "acme-shop"
    (row,) = service.rows("requests")
    assert (row["site"], row["language"]) == ("acme-shop", "de")


@pytest.mark.filterwarnings("ignore:Setting email")
@pytest.mark.parametrize("operator", [AssistantChatOperator, AssistantSubmitChatOperator])
def test_the_address_for_alerts_is_not_sent_as_that_of_the_user(operator, connection, run_operator, monkeypatch):
    """Airflow's own parameter email often comes from the default_args of a DAG."""
    with ScriptedService(Answer(200, {"request_id": "r1", "answer": "42"})) as service:
        url = urlsplit(service.url)
        uri = f"assistant://:a-key-0123456789@{url.hostname}:{url.port}/http?site_id=docs&retries=0"
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", uri)
        run_operator(operator, session_id="s", message="m", email="oncall@example.com", email_on_failure=False)
        run_operator(operator, session_id="t", message="m", user_email="a@example.com")
    assert [request.json().get("email") for request in service.received] == [None, "a@example.com"]


@pytest.mark.parametrize("operator", [AssistantChatOperator, AssistantSubmitChatOperator])
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"message": " "}, "message"),
        ({"session_id": ""}, "session_id"),
        ({"message": 7}, "message"),
        ({"user_email": "nobody"}, "email"),
        ({"response_language": "as you like"}, "response_language"),
    ],
)
def test_what_cannot_be_sent_is_named_before_any_request(operator, fields, field, service, connection):
    arguments = {"session_id": "s", "message": "m"} | fields
    with pytest.raises(AssistantInputError, match=field) as caught:
        operator(task_id="t", **arguments).execute({})
    assert caught.value.field == field
    assert service.journal() == []


def test_submit(service, connection, run_operator):
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="Anything?")
    submitted = run.xcom()
    assert set(submitted) == {"request_id", "session_id", "site_id", "submitted_at"}
    (row,) = service.rows("requests")
    assert (row["id"], row["mode"]) == (submitted["request_id"], "async")
    assert service.seen() == [("POST", "/m2m/sites/acme-docs/chat/async")]
    (kept,) = recorded()
    assert (kept.outcome, kept.request_id, kept.dag_id, kept.session_id) == (
        "created", submitted["request_id"], run.dag_id, "s",
    )  # fmt: skip
    # It is taken after the outcome has been recorded.
    assert 0 <= submitted["submitted_at"] - kept.recorded_at.timestamp() < 60


def test_an_item_of_the_output_goes_to_the_next_task(service, connection, run_dag):
    with DAG("submit_output", schedule=None) as dag:
        submit = AssistantSubmitChatOperator(task_id="submit", session_id="s", message="Anything?")

        @task
        def receive(request_id):
            return {"got": request_id}

        receive(submit.output["request_id"])
    run = run_dag(dag)
    assert run.xcom("receive") == {"got": service.rows("requests")[0]["id"]}


@pytest.mark.parametrize(
    "waiting", [{"wait_for_completion": True}, {"deferrable": True}], ids=["on the worker", "deferred"]
)
def test_submit_and_wait(waiting, service, connection, run_operator):
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="Anything?", **waiting, **WAITING)
    assert run.state == "success", run.errors
    ended = run.xcom()
    assert set(ended) == WAITED
    assert (ended["state"], ended["status"], ended["session_id"], ended["site_id"]) == (
        "complete", "complete", "s", "acme-docs",
    )  # fmt: skip
    assert ended["text"].startswith(UNKNOWN)
    assert ended["polls"] == len(service.journal("GET", POLL))
    assert ended["seconds"] >= 0
    assert service.posts() == 1
    (kept,) = recorded()
    assert kept.state == "complete"
    assert kept.completed_at >= kept.recorded_at


@pytest.mark.parametrize(
    "waiting", [{"wait_for_completion": True}, {"deferrable": True}], ids=["on the worker", "deferred"]
)
def test_a_retry_takes_up_the_request_that_was_submitted(waiting, service, connection, run_operator):
    service.behave(processing_seconds=3600)
    run = run_operator(
        AssistantSubmitChatOperator, session_id="s", message="Anything?", retries=2, poll_interval=0.01, timeout=0,
        **waiting,
    )  # fmt: skip
    assert (run.task_state(), run.tries()) == ("failed", 3)
    assert [type(error) for error in run.errors] == [AssistantRequestTimeoutError] * 3
    assert service.posts() == 1
    (row,) = service.rows("requests")
    assert {entry.path.rpartition("/")[2] for entry in service.journal("GET", POLL)} == {row["id"]}


def test_without_the_ledger_a_retry_asks_again(service, connection, run_operator):
    service.behave(processing_seconds=3600)
    run_operator(
        AssistantSubmitChatOperator, session_id="s", message="?", retries=1, poll_interval=0.01, timeout=0,
        wait_for_completion=True, ledger=False,
    )  # fmt: skip
    assert service.posts() == 2


@pytest.mark.parametrize(
    "waiting", [{"wait_for_completion": True}, {"deferrable": True}], ids=["on the worker", "deferred"]
)
def test_a_request_that_failed_is_asked_again_by_the_retry(waiting, service, connection, run_operator):
    service.behave(fail_messages="impossible")
    run = run_operator(
        AssistantSubmitChatOperator, session_id="s", message="impossible", retries=1, **waiting, **WAITING
    )
    assert (run.task_state(), run.tries()) == ("failed", 2)
    assert service.posts() == 2
    for error, row in zip(run.errors, service.rows("requests"), strict=True):
        assert isinstance(error, AssistantRequestFailedError)
        assert (error.request_id, error.status) == (row["id"], "failed")
        assert "The assistant could not answer this message." in str(error)
    (kept,) = recorded()
    assert (kept.state, kept.attempts) == ("failed", 2)


def test_a_submission_that_may_have_happened_is_made_again_and_recorded(
    service, connection, run_operator, caplog, capfd
):
    service.answer("store-then-status:502", path=SUBMIT)
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="?", retries=1)
    assert (run.state, run.tries()) == ("success", 2)
    assert isinstance(run.error, AssistantAmbiguousError)
    assert len(service.rows("requests")) == 2
    (kept,) = recorded()
    assert (kept.outcome, kept.attempts) == ("created", 2)
    assert kept.request_id == service.rows("requests")[1]["id"]
    assert "An earlier try may have submitted this chat" in caplog.text + "".join(capfd.readouterr())


def test_a_refused_submission_is_recorded_as_refused(service, connection, run_operator):
    service.answer("retry-after:3600", path=SUBMIT)
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="?")
    assert isinstance(run.error, AssistantRateLimitError)
    assert run.error.retry_after == 3600
    (kept,) = recorded()
    assert kept.outcome == "failed"
    assert service.posts() == 1


def test_the_request_that_did_not_end_is_named(service, connection, run_operator):
    service.behave(processing_seconds=3600)
    run = run_operator(
        AssistantSubmitChatOperator, session_id="s", message="?", wait_for_completion=True, poll_interval=0.1, timeout=0
    )  # fmt: skip
    (row,) = service.rows("requests")
    assert run.error.request_id == row["id"]
    assert run.error.status == "queued"


@pytest.mark.parametrize(
    ("default", "given", "expected"),
    [("True", None, True), ("False", None, False), ("True", False, False), ("False", True, True)],
)
def test_deferrable_follows_the_configuration(default, given, expected, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", default)
    operator = AssistantSubmitChatOperator(task_id="t", session_id="s", message="m", deferrable=given)
    assert operator.deferrable is expected
    assert operator.wait_for_completion is bool(given)


def test_a_timeout_may_be_a_timedelta():
    operator = AssistantSubmitChatOperator(task_id="t", session_id="s", message="m", timeout=timedelta(minutes=2))
    assert operator.timeout == 120


def test_close_session(service, connection, run_dag):
    with DAG("close", schedule=None) as dag:
        ask = AssistantChatOperator(task_id="ask", session_id="s", message="?")
        close = AssistantCloseSessionOperator(task_id="task", session_id="{{ 's' }}")
        ask >> close
    run = run_dag(dag)
    assert run.xcom()["session_id"] == "s"
    assert set(run.xcom()) == {"session_id", "site_id", "raw"}
    (row,) = service.rows("sessions")
    assert row["closed_at"] is not None


def test_close_session_tolerates_an_empty_body(service, connection, run_dag):
    service.answer("empty", path="session/close")
    with DAG("close_empty", schedule=None) as dag:
        ask = AssistantChatOperator(task_id="ask", session_id="s", message="?")
        ask >> AssistantCloseSessionOperator(task_id="task", session_id="s")
    run = run_dag(dag)
    assert run.state == "success"
    assert run.xcom() == {"session_id": "s", "site_id": "acme-docs", "raw": None}
