"""
The error of a failed task says what happened, what is safe, and what to do.

This is the place for the wording of errors of tasks; other tests check the type of an error and what it names.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException

from airflow_provider_assistant.asking.answers import STATUSES
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantGateFailedError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
    AssistantServerError,
)
from airflow_provider_assistant.failures import RUNBOOK, FailureContext, anchor_of, explained
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.operators.batch_counts import batch_failure
from airflow_provider_assistant.operators.chat import AssistantChatOperator, AssistantCloseSessionOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.task_runs.context import execute_operator
from tests.task_runs.finals import kind_of
from tests.unit.lake.nights import FIRST, write_statistics
from tests.unit.loads.loads import many as rows_of
from tests.unit.operators.batches import many
from tests.unit.test_counts_in_texts import problems


@dataclass
class Failure:
    """
    How a task fails, and parts of the texts that its error has to have.

    :param arguments: Arguments of the operator; ``{folder}`` and ``{request}`` stand for those of the test.
    :param faults: What the service answers: the action and what it applies to.
    :param fails: Whether chats fail.
    """

    kind: type
    arguments: dict
    error: type[BaseException]
    happened: tuple[str, ...]
    safe: tuple[str, ...]
    todo: tuple[str, ...]
    faults: tuple[str, dict] | None = None
    fails: bool = False
    connection: dict = field(default_factory=dict)


CHAT = {"session_id": "s", "message": "Question 1?"}
BATCH = {"output_path": "{folder}/a.parquet", "poll_interval": 0.05, "deferrable": False}
LOAD = {"source": rows_of(9)}
CREATED = "This try created 3 of 9 rows"
FAILURES = {
    "batch with failed questions": Failure(
        AssistantChatBatchOperator, {"source": many(4), **BATCH}, AssistantRequestFailedError,
        ("1 of 4 questions without an answer", "{folder}/a.parquet", "'acme-docs'"), ("Answered: 3 of 4 questions",),
        ("A retry keeps the answers",), fails=True,
    ),
    "batch that is refused": Failure(
        AssistantChatBatchOperator, {"source": many(4), **BATCH, "max_concurrency": 1}, AssistantPermissionError,
        ("403 Forbidden",), ("This try submitted 2 of 4 questions",),
        ("Check the plan", "Airflow does not retry this task"),
        faults=("status:403", {"path": "chat/async", "skip": 2}),
    ),
    "batch with bad rows": Failure(
        AssistantChatBatchOperator, {"source": [*many(4), {"id": 9, "message": ""}], **BATCH}, AssistantInputError,
        ("1 of 5 questions",), ("Answered: 4 of 5 questions",), ("Fix these rows in the source", "Findings: {folder}"),
    ),
    "export": Failure(
        AssistantStatisticsToParquetOperator, {"output_path": "{folder}/lake"}, AssistantServerError,
        ("500 Internal Server Error", "{folder}/lake"), ("Nothing was written",), ("",),
        faults=("status:500", {"path": "acme-docs/statistics"}),
    ),
    "limits": Failure(
        AssistantLimitsOperator, {}, AssistantAuthenticationError, ("401 Unauthorized", "'assistant_default'"), ("",),
        ("Fix the API key",), faults=("status:401", {"path": "limits"}),
    ),
    "service that is down": Failure(
        AssistantChatOperator, CHAT, AssistantConnectionError, ("No answer from 127.0.0.1:9", "session 's'"), ("",),
        ("Check the base URL",), connection={"host": "http://127.0.0.1:9"},
    ),
    "chat that is refused": Failure(
        AssistantChatOperator, CHAT, AssistantBadRequestError, ("The service said: 'injected fault'",),
        ("changed nothing",), ("#assistantbadrequesterror-422",), faults=("status:422", {"path": "chat$"}),
    ),
    "sensor": Failure(
        AssistantChatRequestSensor, {"request_id": "{request}", "poke_interval": 0.05},
        AssistantRequestFailedError, ("{request}", "'acme-docs'"), ("a sensor only reads",),
        ("Airflow does not retry this task",), fails=True,
    ),
    "session": Failure(
        AssistantCloseSessionOperator, {"session_id": "s"}, AssistantNotFoundError, ("close of session 's'",), ("",),
        ("Check the identifiers",), faults=("status:404", {"path": "close"}),
    ),
    "ratings": Failure(
        AssistantRateAnswersOperator,
        {"answers": "{folder}/answers.parquet", "scores": "{folder}/scores.parquet", "rules": {"good": "f1 >= 0.8"}},
        AssistantIncompleteError, ("refused 3 ratings", "'acme-docs'"),
        ("Ratings: 0 sent by this try, 0 before, 3 left.",), ("Findings: ",),
    ),
    "evaluation": Failure(
        AssistantEvaluateOperator,
        {"answers": [{"key": "1", "message": "m", "answer": "no", "expected": "yes"}], "output_path": "{folder}",
         "scorers": ["exact_match"], "gate": ["exact_match >= 0.5"], "name": "golden"},
        AssistantGateFailedError, ("evaluation 'golden'", "1 of 1 rule failed: 'exact_match"), ("report.html",),
        ("Open the report",),
    ),
    "warehouse": Failure(
        AssistantParquetToWarehouseOperator,
        {"output_path": "{folder}/lake", "database": "{folder}/w.duckdb", "datasets": ["loads"]},
        AssistantError, ("w.duckdb",), ("Nothing was changed",), ("",),
    ),
    "load with a wrong key": Failure(
        AssistantLoadQAOperator, LOAD, AssistantAuthenticationError,
        ("401 Unauthorized", "'assistant_default'", "'acme-docs'", "127.0.0.1", "dag.task"), (CREATED,),
        ("Fix the API key",), faults=("status:401", {"path": "documents", "skip": 3}),
        connection={"max_concurrency": 1},
    ),
    "load that is throttled": Failure(
        AssistantLoadQAOperator, LOAD, AssistantRateLimitError, ("429 Too Many Requests",), (CREATED,),
        ("etry later",), faults=("retry-after:3600", {"path": "documents", "skip": 3}),
        connection={"max_concurrency": 1},
    ),
    "load behind a bad gateway": Failure(
        AssistantLoadQAOperator, LOAD, AssistantError, ("mbiguous",), (CREATED,), ("indings",),
        faults=("status:502", {"path": "documents", "skip": 3}),
        connection={"max_concurrency": 1},
    ),
    "load that did not begin": Failure(
        AssistantLoadQAOperator, {"source": [{"title": "T"}]}, AssistantInputError, ("no column",),
        ("Nothing was sent.",), ("Airflow does not retry this task",),
    ),
}  # fmt: skip


@pytest.fixture
def prepared(service, connect, tmp_path):
    """Prepare the files and the request that some of the tasks need; return a function that fills in arguments."""
    connect(max_concurrency=1)
    answers = {"request_id": list("abc"), "session_id": list("sss")}
    scores = {"key": list("012"), "status": ["complete"] * 3, "request_id": list("abc"), "f1": [1.0] * 3}
    pq.write_table(pa.table(answers), tmp_path / "answers.parquet")
    pq.write_table(pa.table(scores), tmp_path / "scores.parquet")
    write_statistics(tmp_path / "lake", FIRST, {"a": 1})
    (tmp_path / "w.duckdb").write_text("no database")

    def filled(arguments):
        names = {"folder": tmp_path}
        if "{request}" in arguments.values():
            names["request"] = AssistantHook().submit_chat("s", "Question 1?").request_id
        return names, {
            name: value.format(**names) if isinstance(value, str) else value for name, value in arguments.items()
        }

    return filled


@pytest.mark.promise("replies and errors", "The error of a task says what happened, what is safe and what to do.")
@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_task_says_what_happened_what_is_safe_and_what_to_do(name, prepared, service, connection, monkeypatch):
    failure = FAILURES[name]
    if failure.fails:
        service.behave(fail_messages=r"Question 1\?")
    if failure.faults:
        action, match = failure.faults
        service.answer(action, **match, times=None)
    if "max_concurrency" in failure.connection:
        connection(**failure.connection)
    elif failure.connection:
        extra = {"tenant_id": "acme-inc", "site_id": "acme-docs", "retries": 0}
        fields = {"conn_type": "assistant", "password": "a-key-of-some-length", "extra": extra, **failure.connection}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
    names, arguments = prepared(failure.arguments)
    with pytest.raises(failure.error) as raised:
        execute_operator(failure.kind(task_id="task", **arguments))
    text = str(raised.value)
    for part in (*failure.happened, *failure.safe, *failure.todo):
        assert part.format(**names) in text
    assert text.endswith(f"Runbook: {RUNBOOK}#{anchor_of(raised.value)}")
    assert "\n" not in text
    assert not problems(text)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (AssistantChatBatchOperator, {"source": [*many(3), {"id": 9, "message": ""}], **BATCH, "max_failed": 1}),
        (AssistantLoadQAOperator, {"source": [*rows_of(3), {**rows_of(1)[0], "answer": ""}], "max_rejected": 1}),
    ],
)
def test_findings_of_a_success_are_a_warning_with_their_path(kind, arguments, prepared, caplog):
    _, arguments = prepared(arguments)
    result = execute_operator(kind(task_id="task", **arguments))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line for line in warnings if f"listed in {result['findings']}" in line]


RETRIES = {
    "failed": (AssistantRequestFailedError, "retry", "asks those again that failed"),
    "lost": (AssistantRequestLostError, "retry", "asks those again that were lost"),
    "timed_out": (AssistantRequestTimeoutError, "retry", "waits for those that are open"),
    "not_submitted": (AssistantIncompleteError, "retry", "submits the rest"),
    "ambiguous": (AssistantIncompleteError, "skip", "does not ask those again"),
}


@pytest.mark.parametrize("status", RETRIES)
def test_a_failed_batch_says_what_a_retry_does(status):
    """The most frequent status says the class; rejected rows, which no retry can fix, do not count."""
    error, on_ambiguous, plan = RETRIES[status]
    result = {**dict.fromkeys([*STATUSES, "rejected", "ambiguous"], 0), "complete": 3, "output_path": "a.parquet"}
    result[status] += 2
    result["not_submitted"] += result["ambiguous"] + 5
    result["rejected"] = 5
    result["rows"] = sum(result[one] for one in STATUSES)
    failed = batch_failure(result, 0, on_ambiguous)
    assert kind_of(failed) is error
    assert plan in failed.todo


# -- what is not said by the task itself -----------------------------------------------------------


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


def told(error, situation):
    with pytest.raises(type(error)) as raised:
        Task(error, situation).execute({})
    assert raised.value is error
    return str(error)


def rejected():
    return AssistantInputError("1 row was rejected", safe="The others are loaded.", todo="Fix it.")


def timed_out_sensor():
    cause = AssistantRequestTimeoutError("The chat request did not end. It is queued", todo="Wait longer.")
    error = AirflowSensorTimeout(str(cause))
    error.__cause__ = cause
    return error


FINAL = "Airflow does not retry this task: clear it afterwards."


@pytest.mark.parametrize(
    ("error", "situation", "said"),
    [
        # The error comes before the counts of the task, and both before its class.
        (rejected(), FailureContext("work", "3 rows."), "1 row was rejected. The others are loaded. 3 rows. Fix it."),
        (rejected(), FailureContext("work"), f"work: 1 row was rejected. The others are loaded. Fix it. {FINAL}"),
        (rejected(), FailureContext("work", "", "f.parquet"), f"Fix it. {FINAL} Findings: f.parquet."),
        (
            AssistantConnectionError("No answer"), FailureContext("work"),
            f"work: No answer. {AssistantConnectionError.default_safe} {AssistantConnectionError.default_todo} Runbook",
        ),
        (timed_out_sensor(), FailureContext("wait"), "wait: The chat request did not end. It is queued. "),
        # A failure to describe the task does not hide the error.
        (rejected(), RuntimeError("the storage has gone"), "task 'task': 1 row was rejected."),
    ],
)  # fmt: skip
def test_what_an_error_says(error, situation, said):
    assert said in told(error, situation)


@pytest.mark.parametrize("error", [AirflowSkipException("Skipped."), OSError(28, "full"), ZeroDivisionError("x")])
def test_exceptions_of_others_are_not_touched_and_what_is_safe_is_logged(error, caplog):
    before = str(error)
    assert told(error, FailureContext("work", "3 rows are done.")) == before
    assert ("work: " in caplog.text and "3 rows are done." in caplog.text) != isinstance(error, AirflowSkipException)


def test_the_findings_of_the_try_are_named_without_asking_the_storage(connection, service, caplog, monkeypatch):
    """An error of the storage during error handling must not replace the original error."""
    service.answer("status:400", path="documents", times=1)
    with pytest.raises(AssistantInputError, match="Findings: "):
        execute_operator(AssistantLoadQAOperator(task_id="load", source=rows_of(2)))
    service.answer("status:401", path="documents", times=None)
    monkeypatch.setattr(FindingsFile, "close", lambda self: None)
    with pytest.raises(AssistantAuthenticationError):
        execute_operator(AssistantLoadQAOperator(task_id="load", source=rows_of(1, question="New?")))
