"""A permanent rejection fails the task at its first try, without retries."""

from __future__ import annotations

import itertools

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantServerError,
)
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
    AssistantCloseSessionOperator,
)
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.ledger_to_parquet import AssistantFeedbackToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.task_runs.context import execute_operator
from tests.task_runs.finals import kind_of

DOCUMENT = {"title": "T", "content": "C", "category": "faq"}
QA = {"title": "T", "question": "Q", "answer": "A", "category": "faq"}
OPERATORS = {
    "limits": (AssistantLimitsOperator, {}),
    "upload": (AssistantUploadFilesOperator, {"files": __file__}),
    "text": (AssistantLoadTextOperator, {"source": [DOCUMENT, DOCUMENT]}),
    "qa": (AssistantLoadQAOperator, {"source": [QA, QA]}),
    "chat": (AssistantChatOperator, {"session_id": "s", "message": "m"}),
    "submit": (AssistantSubmitChatOperator, {"session_id": "s", "message": "m"}),
    "feedback": (AssistantFeedbackOperator, {"session_id": "s", "request_id": "r", "feedback": "good"}),
    "close": (AssistantCloseSessionOperator, {"session_id": "s"}),
    "statistics": (AssistantStatisticsToParquetOperator, {"output_path": "unused"}),
    "sensor": (AssistantChatRequestSensor, {"request_id": "r"}),
    "sensor deferred": (AssistantChatRequestSensor, {"request_id": "r", "deferrable": True}),
}
LOADS = {"upload", "text", "qa"}
PERMANENT = {
    400: AssistantBadRequestError,
    401: AssistantAuthenticationError,
    403: AssistantPermissionError,
    404: AssistantNotFoundError,
}


def requests(service, name):
    """Return the number of requests, without those that read the limits before a load."""
    return len(service.journal("POST" if name in LOADS else None))


def is_permanent(error, status, name):
    """Check the error of an operator; Airflow does not retry after an AirflowFailException."""
    assert isinstance(error, AirflowFailException)
    if status == 400 and name in LOADS:
        assert "1 rejected" in str(error)
    else:
        assert kind_of(error) is PERMANENT[status]
        assert error.status == status


@pytest.mark.promise("replies and errors", "Airflow does not retry a task after 400, 401, 403 or 404.")
@pytest.mark.parametrize(("name", "status"), zip(OPERATORS, itertools.cycle(PERMANENT)))
def test_airflow_does_not_retry_after_a_permanent_rejection(name, status, service, connect, run_operator):
    connect(retries=5)
    operator, arguments = OPERATORS[name]
    service.answer(f"status:{status}", times=None)
    run = run_operator(operator, retries=3, **arguments)
    assert (run.task_state(), run.tries()) == ("failed", 1)
    assert requests(service, name) == 1
    is_permanent(run.error, status, name)


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - {"sensor", "sensor deferred"}))
def test_a_server_failure_is_left_to_airflow_s_retries(name, service, connection, run_operator):
    operator, arguments = OPERATORS[name]
    service.answer("status:503", times=None)
    run = run_operator(operator, retries=1, **arguments)
    assert (run.task_state(), run.tries()) == ("failed", 2)
    assert isinstance(run.error, AssistantServerError | AssistantAmbiguousError | AssistantIncompleteError)
    assert requests(service, name) == 2


def test_nobody_listens(connect, run_operator, monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_ASSISTANT_DEFAULT",
        '{"conn_type": "assistant", "host": "http://127.0.0.1:9", "password": "k", "extra":'
        ' {"tenant_id": "t", "retries": 0}}',
    )
    run = run_operator(AssistantLimitsOperator, retries=1)
    assert isinstance(run.error, AssistantConnectionError)
    assert run.tries() == 2


@pytest.mark.parametrize("name", OPERATORS)
def test_no_site_is_named_before_any_request(name, service, connect):
    connect(site_id="", tenant_id="")
    operator, arguments = OPERATORS[name]
    with pytest.raises(AssistantInputError) as caught:
        execute_operator(operator(task_id="task", **arguments))
    assert caught.value.field == ("tenant_id" if name == "limits" else "site_id")
    assert service.journal() == []


@pytest.mark.promise("ledger", "Nothing is sent that could not be recorded.")
@pytest.mark.parametrize("name", ["submit", "feedback", "qa"])
def test_nothing_is_sent_that_could_not_be_recorded(name, service, connection, run_operator, ledger_home):
    (ledger_home / "assistant_ledger.db").write_bytes(b"not a database" * 1000)
    operator, arguments = OPERATORS[name]
    run = run_operator(operator, retries=3, **arguments)
    assert isinstance(run.error, AssistantLedgerError)
    assert run.tries() == 1
    assert service.journal() == []


def test_an_export_without_a_ledger_fails(connection, run_operator, ledger_home, tmp_path):
    (ledger_home / "assistant_ledger.db").write_bytes(b"not a database" * 1000)
    run = run_operator(AssistantFeedbackToParquetOperator, output_path=str(tmp_path / "lake"))
    assert isinstance(run.error, AssistantLedgerError)
    assert not (tmp_path / "lake").exists()
