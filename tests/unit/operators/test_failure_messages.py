"""The log of a failed task says what happened, what is safe, and what to do."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException, AirflowSensorTimeout, AirflowSkipException
from airflow.sdk import timezone
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantGateFailedError,
    AssistantIncompleteExportError,
    AssistantIncompletePermanentError,
    AssistantInputError,
    AssistantRequestFailedError,
    AssistantRequestFailedPermanentError,
    AssistantRequestTimeoutError,
    AssistantWarehouseError,
)
from airflow_provider_assistant.failures import RUNBOOK, FailureContext, anchor_of, explained
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
    AssistantCloseSessionOperator,
)
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.unit.test_counts_in_texts import problems

CONTEXT_FIELDS = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": -1, "max_tries": 0, "try_number": 1}
QUESTIONS = [{"id": number, "message": f"Question {number}?"} for number in range(4)]


def context():
    run = SimpleNamespace(logical_date=timezone.datetime(2026, 11, 1), run_after=timezone.datetime(2026, 11, 1))
    return {
        "ti": SimpleNamespace(**CONTEXT_FIELDS, xcom_push=lambda *_, **__: None),
        "dag_run": run,
        "outlet_events": OutletEventAccessors(),
        "task": None,
    }


@pytest.fixture
def failed(connection, caplog):
    """Execute an operator that fails. Return its three log lines and its error."""

    def execute(operator, error):
        operator.render_template_fields({})
        with pytest.raises(error) as raised:
            operator.execute(context())
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR][-3:]
        assert [line.partition(":")[0] for line in lines] == ["What happened", "What is safe", "What to do"]
        assert lines[2].endswith(f"Runbook: {RUNBOOK}#{anchor_of(raised.value)}")
        assert not problems("".join(lines))
        return (*lines, raised.value)

    return execute


def names_the_connection(line):
    return all(name in line for name in ("'assistant_default'", "127.0.0.1", "'acme-docs'"))


def test_a_batch_with_questions_that_failed(failed, service, tmp_path):
    service.behave(fail_messages=r"Question [12]\?")
    output = tmp_path / "answers.parquet"
    ask = AssistantChatBatchOperator(
        task_id="ask", source=QUESTIONS, output_path=str(output), poll_interval=0.05, deferrable=False
    )
    happened, safe, todo, error = failed(ask, AssistantRequestFailedError)
    assert names_the_connection(happened)
    assert str(output) in happened
    assert f"Answered: 2 of 4 questions, in {output}" in safe
    assert "A retry keeps the answers" in todo
    assert str(error)[:40] == "2 of 4 questions without an answer (2 comple"[:40]


def test_a_batch_that_is_refused(failed, service, tmp_path):
    service.answer("status:403", path="chat/async", skip=2, times=None)
    ask = AssistantChatBatchOperator(
        task_id="ask", source=QUESTIONS, output_path=str(tmp_path / "a.parquet"), max_concurrency=1, deferrable=False
    )
    happened, safe, todo, _ = failed(ask, AssistantError)
    assert "403 Forbidden" in happened
    submitted = "This try submitted 2 of 4 questions; a retry continues to wait for the answers."
    assert submitted in safe
    assert "Check the plan" in todo
    assert "Airflow does not retry this task" in todo


def test_a_batch_with_bad_rows_names_its_findings(failed, tmp_path):
    rows = [*QUESTIONS, {"id": 9, "message": ""}]
    ask = AssistantChatBatchOperator(
        task_id="ask", source=rows, output_path=str(tmp_path / "a.parquet"), poll_interval=0.05, deferrable=False
    )
    _, safe, todo, _ = failed(ask, AssistantInputError)
    assert "Answered: 4 of 5 questions" in safe
    assert "Fix these rows in the source" in todo
    assert f"Findings: {tmp_path}" in todo


def test_findings_of_a_successful_batch_are_a_warning(connection, caplog, tmp_path):
    rows = [*QUESTIONS, {"id": 9, "message": ""}]
    ask = AssistantChatBatchOperator(
        task_id="ask",
        source=rows,
        output_path=str(tmp_path / "a.parquet"),
        poll_interval=0.05,
        max_failed=1,
        deferrable=False,
    )
    ask.render_template_fields({})
    result = ask.execute(context())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"Findings need attention. They are listed in {result['findings']}." in warnings


def test_an_export_of_sites_that_cannot_be_read(failed, service, tmp_path):
    service.answer("status:500", path="acme-docs/statistics", times=None)
    export = AssistantStatisticsToParquetOperator(
        task_id="export", site_ids=["acme-docs", "acme-help"], output_path=str(tmp_path / "lake")
    )
    happened, safe, todo, error = failed(export, AssistantIncompleteExportError)
    assert "127.0.0.1" in happened
    assert str(tmp_path / "lake") in happened
    assert "'assistant_default'" in happened
    assert safe.startswith(("What is safe: This run wrote 2 files", "What is safe: Nothing was written"))
    assert "reads all sites" in todo or "Run the task again" in todo
    assert "2 of 2 sites could not be read: 'acme-do" in str(error)[:40]
    assert "'acme-docs' (500 Internal Server Error), 'acme-help' (404 Not Found)" in happened
    assert len(todo) < 400


def test_limits_that_cannot_be_read(failed, service):
    service.answer("status:401", path="limits", times=None)
    happened, _, todo, error = failed(AssistantLimitsOperator(task_id="limits"), AssistantAuthenticationError)
    assert "'assistant_default'" in happened
    assert "Fix the API key in the Airflow connection's password." in todo
    assert str(error)[:40] == "401 Unauthorized: the API key is wrong o"


def test_a_service_that_is_down(failed, monkeypatch):
    where = {"conn_type": "assistant", "host": "http://127.0.0.1:9", "password": "a-key-of-some-length"}
    where["extra"] = {"tenant_id": "acme-inc", "site_id": "acme-docs", "retries": 0}
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(where))
    happened, _, todo, error = failed(
        AssistantChatOperator(task_id="chat", session_id="s", message="Hello?"), AssistantConnectionError
    )
    assert str(error)[:40].startswith("No answer from 127.0.0.1:9")
    assert "session 's'" in happened
    assert "Check the base URL" in todo


def test_a_chat_that_is_refused_says_what_the_service_said(failed, service):
    service.answer("status:422", path="chat$", times=None)
    happened, safe, todo, _ = failed(
        AssistantChatOperator(task_id="chat", session_id="s", message="Hello?"), AssistantBadRequestError
    )
    assert "The service said: 'This failure was asked for.'" in happened
    assert "changed nothing" in safe
    assert todo.endswith("#assistantbadrequesterror-422")


def test_a_submitted_chat_that_failed(failed, service):
    service.behave(fail_messages="Hello")
    submit = AssistantSubmitChatOperator(
        task_id="submit",
        session_id="s",
        message="Hello?",
        wait_for_completion=True,
        deferrable=False,
        poll_interval=0.05,
    )
    happened, safe, todo, error = failed(submit, AssistantRequestFailedError)
    assert names_the_connection(happened)
    assert "was submitted as request 'req_" in safe
    assert "submit the question again" in todo
    assert str(error).startswith("Chat ended 'failed': ")


def test_a_sensor_of_a_chat_that_failed(failed, service, connection):
    service.behave(fail_messages="Hello")
    submit = AssistantSubmitChatOperator(task_id="submit", session_id="s", message="Hello?", deferrable=False)
    request_id = submit.execute(context())["request_id"]
    sensor = AssistantChatRequestSensor(task_id="wait", request_id=request_id, poke_interval=0.05, deferrable=False)
    happened, safe, todo, _ = failed(sensor, AssistantRequestFailedPermanentError)
    assert names_the_connection(happened)
    assert request_id in happened
    assert "a sensor only reads" in safe
    assert "Airflow does not retry this task" in todo


def test_a_session_that_cannot_be_closed(failed, service):
    service.answer("status:404", path="close", times=None)
    happened, _, todo, _ = failed(AssistantCloseSessionOperator(task_id="close", session_id="s"), AssistantError)
    assert "close of session 's'" in happened
    assert "Check the identifiers" in todo


@pytest.fixture
def rated(tmp_path):
    answers = [
        {"key": str(number), "message": "m", "answer": "a", "status": "complete", "seconds": 1.0, "session_id": "s"}
        | {"request_id": f"req_{number}"}
        for number in range(3)
    ]
    scores = [
        {"key": str(number), "scorer": "f1", "score": 1.0, "outcome": "scored", "status": "complete", "seconds": 1.0}
        for number in range(3)
    ]
    for name, rows in {"answers": answers, "scores": scores}.items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    return {
        "answers": str(tmp_path / "answers.parquet"),
        "scores": str(tmp_path / "scores.parquet"),
        "rules": {"good": "f1 >= 0.8"},
    }


def test_ratings_that_are_refused(failed, rated):
    happened, safe, todo, error = failed(
        AssistantRateAnswersOperator(task_id="rate", **rated), AssistantIncompletePermanentError
    )
    assert names_the_connection(happened)
    assert "Ratings: 0 sent by this try, 0 before, 3 left." in safe
    assert "Findings: " in todo
    assert str(error).startswith("The service refused 3 ratings (3 questions: 3 failed).")


def test_an_evaluation_that_fails_its_gate(failed, tmp_path):
    answers = [{"key": "1", "message": "m", "answer": "no", "expected": "yes"}]
    evaluate = AssistantEvaluateOperator(
        task_id="evaluate",
        answers=answers,
        output_path=str(tmp_path),
        scorers=["exact_match"],
        gate=["exact_match >= 0.5"],
        name="golden",
    )
    happened, safe, todo, error = failed(evaluate, AssistantGateFailedError)
    assert "evaluation 'golden'" in happened
    assert "report.html" in safe
    assert "Open the report" in todo
    assert str(error).startswith("Gate failed: 1 of 1 rule failed: 'exact_match")


def test_a_warehouse_that_cannot_be_opened(failed, tmp_path):
    lake = tmp_path / "lake" / "loads" / "date=2026-11-01"
    lake.mkdir(parents=True)
    (tmp_path / "w.duckdb").write_text("no database")
    load = AssistantParquetToWarehouseOperator(
        task_id="load", output_path=str(tmp_path / "lake"), database=str(tmp_path / "w.duckdb"), datasets=["loads"]
    )
    happened, safe, _, _ = failed(load, (AssistantWarehouseError, AssistantInputError))
    assert "w.duckdb" in happened
    assert "Nothing was changed" in safe


def test_a_connection_that_does_not_exist(failed):
    chat = AssistantChatOperator(task_id="chat", assistant_conn_id="no_such", session_id="s", message="Hello?")
    happened, safe, todo, _ = failed(chat, AirflowNotFoundException)
    assert "'no_such'" in happened
    assert "Nothing was sent." in safe
    assert "Create the connection" in todo


class Task:
    task_id = "task"

    def __init__(self, error, failure_context=None):
        self._error, self._situation = error, failure_context

    def failure_context(self, context):
        if isinstance(self._situation, Exception):
            raise self._situation
        return self._situation

    @explained
    def execute(self, context):
        raise self._error


def test_a_failure_to_describe_the_task_does_not_hide_the_error(caplog):
    error = AssistantInputError("columns has no 'answer'", todo="Give columns=.")
    with pytest.raises(AssistantInputError) as raised:
        Task(error, RuntimeError("the storage has gone")).execute(context={})
    assert raised.value is error
    assert "What happened: task 'task': columns has no 'answer'." in caplog.text
    assert "What to do: Give columns=. Airflow does not retry" in caplog.text


@pytest.mark.parametrize(
    ("counts", "safe"),
    [
        ("3 rows were created.", "What is safe: 3 rows were created."),
        ("", "What is safe: The others are loaded."),
    ],
)
def test_counts_of_the_task_come_before_the_error_and_its_class(counts, safe, caplog):
    error = AssistantInputError("1 row was rejected", safe="The others are loaded.", todo="Fix it.")
    with pytest.raises(AssistantInputError):
        Task(error, FailureContext("work", counts)).execute({})
    happened, safe_line, todo = [record.getMessage() for record in caplog.records]
    assert happened == "What happened: work: 1 row was rejected."
    assert safe_line == safe
    assert todo.startswith("What to do: Fix it. Airflow does not retry this task")


def test_an_error_without_fields_uses_those_of_its_class(caplog):
    with pytest.raises(AssistantConnectionError):
        Task(AssistantConnectionError("No answer"), FailureContext("work")).execute({})
    happened, safe, todo = [record.getMessage() for record in caplog.records]
    assert happened == "What happened: work: No answer."
    assert safe == f"What is safe: {AssistantConnectionError.default_safe}"
    assert todo == (f"What to do: {AssistantConnectionError.default_todo} Runbook: {RUNBOOK}#assistantconnectionerror")


def test_a_sensor_that_timed_out_shows_what_its_cause_says(caplog):
    cause = AssistantRequestTimeoutError("The chat request did not end. It is queued", todo="Wait longer.")
    error = AirflowSensorTimeout(str(cause))
    error.__cause__ = cause
    with pytest.raises(AirflowSensorTimeout):
        Task(error, FailureContext("wait")).execute({})
    happened, safe, todo = [record.getMessage() for record in caplog.records]
    assert happened == "What happened: wait: The chat request did not end. It is queued."
    assert safe == "What is safe: Chats and documents stay at the service: a sensor only reads."
    assert todo.startswith("What to do: Wait longer. Airflow does not retry this task")
    assert todo.endswith("#airflowsensortimeout")


def test_a_skipped_task_logs_nothing(caplog):
    with pytest.raises(AirflowSkipException):
        Task(AirflowSkipException("Skipped."), FailureContext("work")).execute({})
    assert not caplog.records


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ZeroDivisionError("division\nby zero")])
def test_errors_of_others_are_explained_too(error, caplog):
    with pytest.raises(type(error)):
        Task(error, FailureContext("work")).execute({})
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith(f"What happened: work: {type(error).__name__}: ")
    assert all("\n" not in line for line in lines)


def test_the_findings_of_the_try_are_named_without_asking_the_storage(connection, service, caplog, monkeypatch):
    """An error of the storage during error handling must not replace the original error."""
    service.answer("status:400", path="documents", times=1)
    rows = [{"title": "T", "question": f"Q{number}?", "answer": "A", "category": "c"} for number in range(2)]
    load = AssistantLoadQAOperator(task_id="load", source=rows)
    load.render_template_fields({})
    with pytest.raises(AssistantInputError):
        load.execute(context())
    assert "Findings: " in caplog.text
    caplog.clear()
    service.answer("status:401", path="documents", times=None)
    again = AssistantLoadQAOperator(task_id="load", source=[{**rows[0], "question": "New?"}])
    monkeypatch.setattr(FindingsFile, "close", lambda self: None)
    again.render_template_fields({})
    with pytest.raises(AssistantAuthenticationError):
        again.execute(context())
