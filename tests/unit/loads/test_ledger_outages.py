"""Outages of the ledger: the task keeps the answer even if it cannot be recorded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.database import ATTEMPTS
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sending import sender
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.live.clients import local_request
from tests.task_runs.context import task_context
from tests.unit.ledger.outage import away
from tests.unit.loads.loads import in_flight


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    """Repeat what the database refused without a pause."""
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda _: None))


def submit():
    return AssistantSubmitChatOperator(task_id="ask", session_id="s", message="?").execute(task_context("ask"))


@pytest.fixture
def asked(service, connection):
    reply = local_request(
        "POST",
        f"{service.url}/m2m/sites/acme-docs/chat/async",
        json={"session_id": "s", "message": "Anything?"},
        headers={"X-API-Key": "dev-acme-full"},
    )
    return reply.raise_for_status().json()["request_id"]


@pytest.mark.parametrize("mode", [{"mode": "poke"}, {"mode": "reschedule"}, {"deferrable": True}], ids=str)
@pytest.mark.parametrize("is_distributed", [False, True], ids=["broken", "on another machine"])
def test_a_sensor_returns_its_answer_without_a_ledger(
    is_distributed, mode, asked, run_operator, ledger_home, monkeypatch
):
    if is_distributed:
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    else:
        (ledger_home / "assistant_ledger.db").write_bytes(b"not a database" * 1000)
    run = run_operator(AssistantChatRequestSensor, request_id=asked, poke_interval=0.01, timeout=30, **mode)
    assert run.state == "success", run.errors
    assert run.xcom()["state"] == "complete"


def test_a_sensor_returns_its_answer_while_the_ledger_is_locked(asked, caplog):
    sensor = AssistantChatRequestSensor(task_id="wait", request_id=asked, poke_interval=0.01, timeout=30)
    Ledger.open().close()
    with away(sa.Engine, "UPDATE assistant_attempts") as outage:
        answer = sensor.execute(task_context("ask"))
    assert (answer["request_id"], answer["state"]) == (asked, "complete")
    assert len(outage.failed) == ATTEMPTS
    assert "is not recorded" in caplog.text


@pytest.mark.parametrize("begins", ["UPDATE assistant_attempts"])
def test_a_submission_that_is_recorded_late_is_taken_up_by_a_retry(begins, service, connection):
    with away(sa.Engine, begins, when=lambda: service.posts() == 1, times=ATTEMPTS) as outage:
        first = submit()
    assert outage.failed
    assert submit()["request_id"] == first["request_id"]
    assert service.posts() == 1


def test_a_locked_ledger_is_retried_by_airflow(service, connection, run_operator):
    Ledger.open().close()
    rating = {"session_id": "s", "request_id": "r", "feedback": "good"}
    with away(sa.Engine, "SELECT assistant_attempts", times=ATTEMPTS):
        run = run_operator(AssistantFeedbackOperator, retries=1, **rating)
    assert run.tries() == 2
    assert not isinstance(run.error, AssistantLedgerError)


@pytest.mark.promise("loads", "A row that was created while the ledger was away is not sent again by the retry.")
@pytest.mark.parametrize(("most", "first"), [(1, 6), (5, 2)])
def test_a_retry_sends_no_row_that_a_load_created_during_an_outage(most, first, service, connection, monkeypatch):
    """The outcomes of a group of rows are recorded when the load ends, if they could not be recorded before."""
    monkeypatch.setattr(sender, "GRACE", 60.0)  # the requests in flight are answered, however slow the machine is
    rows = [{"title": f"T{number}", "question": "Q?", "answer": "A.", "category": "c"} for number in range(12)]

    def load():
        with in_flight(most):
            return AssistantLoadQAOperator(task_id="load", source=rows).execute(task_context("ask"))

    outage = away(sa.Engine, "INSERT", "UPDATE", when=lambda: service.posts() >= first, times=ATTEMPTS)
    with outage, pytest.raises(AssistantLedgerError, match="A retry of the task") as caught:
        load()
    assert not isinstance(caught.value, AirflowFailException)
    created = service.posts()
    assert first <= created < len(rows)
    done = load()
    assert (done["unchanged"], done["created"]) == (created, len(rows) - created)
    assert (done["possibly_duplicated"], service.posts()) == (0, len(rows))
