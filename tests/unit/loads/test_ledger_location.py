"""Tasks refuse a ledger that their workers do not share, and use that of the configuration."""

from __future__ import annotations

import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from tests.live.clients import local_request
from tests.task_runs.context import task_context
from tests.task_runs.finals import is_final

CONN_ID = "AIRFLOW__ASSISTANT__LEDGER_CONN_ID"
QA = [{"title": "Refunds", "question": "Refunds?", "answer": "In five days.", "category": "faq"}]
CHAT = {"session_id": "s", "message": "Anything?"}
QUESTIONS = {"source": [{"message": "Anything?"}], "output_path": "{folder}/answers.parquet", "poll_interval": 0.1}
EXPORT = {"output_path": "{folder}/lake"}
TASKS = {
    "qa": (AssistantLoadQAOperator, {"source": QA}),
    "text": (AssistantLoadTextOperator, {"source": [{"title": "t", "content": "c", "category": "c"}]}),
    "files": (AssistantUploadFilesOperator, {"files": "{folder}/a.txt"}),
    "batch": (AssistantChatBatchOperator, QUESTIONS),
    "deferrable batch": (AssistantChatBatchOperator, {**QUESTIONS, "deferrable": True}),
    "submit": (AssistantSubmitChatOperator, CHAT),
    "chat": (AssistantChatOperator, CHAT),
    "rate": (AssistantFeedbackOperator, {"session_id": "s", "request_id": "{request}", "feedback": "good"}),
    "rate many": (
        AssistantRateAnswersOperator,
        {"answers": "{folder}/a.parquet", "scores": "{folder}/s.parquet", "rules": {"good": "token_f1 >= 0.5"}},
    ),
    "export of ratings": (AssistantFeedbackToParquetOperator, EXPORT),
    "export of requests": (AssistantRequestsToParquetOperator, EXPORT),
    "export of loads": (AssistantLoadsToParquetOperator, EXPORT),
}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor,CeleryExecutor")


@pytest.fixture
def task(tmp_path, service):
    """Return a function that returns the class and the arguments of a task."""

    def described(name):
        kind, arguments = TASKS[name]
        (tmp_path / "a.txt").write_text("Refunds are paid in five days.")
        request = submitted(service) if "{request}" in arguments.values() or "scores" in arguments else None
        answers = {"request_id": [request], "session_id": ["s"]}
        scores = {"key": ["k"], "status": ["complete"], "request_id": [request], "token_f1": [0.9]}
        pq.write_table(pa.table(answers), tmp_path / "a.parquet")
        pq.write_table(pa.table(scores), tmp_path / "s.parquet")
        filled = {
            key: value.format(folder=tmp_path, request=request) if isinstance(value, str) else value
            for key, value in arguments.items()
        }
        return kind, filled

    return described


def submitted(service):
    """Submit an async chat without this package; return its request id."""
    url, headers = f"{service.url}/m2m/sites/acme-docs/chat/async", {"X-API-Key": "dev-acme-full"}
    return local_request("POST", url, json=CHAT, headers=headers).raise_for_status().json()["request_id"]


def execute(kind, **arguments):
    """Execute a task until it ends or is deferred; return its result or its trigger."""
    with DAG("dag", schedule=None):
        operator = kind(task_id="task", **arguments)
    operator.render_template_fields({})
    try:
        return operator.execute(task_context())
    except TaskDeferred as deferred:
        return deferred.trigger


@pytest.mark.promise("ledger", "A task that needs the ledger sends nothing if its workers do not share one.")
@pytest.mark.parametrize("name", TASKS)
def test_no_request_is_sent_with_a_ledger_per_machine(name, service, connection, cluster, task):
    kind, arguments = task(name)
    before = service.seen()
    with pytest.raises(AssistantLedgerError, match="CeleryExecutor", check=is_final) as caught:
        execute(kind, **arguments)
    assert "LEDGER_CONN_ID" in caught.value.todo
    assert service.seen() == before


RECORDING = ("qa", "files", "batch", "deferrable batch", "submit", "chat", "rate", "rate many")


@pytest.mark.promise("ledger", "All tasks record in the ledger of the configuration, and the exports read it.")
@pytest.mark.parametrize("name", RECORDING)
def test_all_tasks_use_the_ledger_of_the_configuration(
    name, service, connection, task, tmp_path, monkeypatch, ledger_home
):
    monkeypatch.setenv("AIRFLOW_CONN_SHARED", f"sqlite:///{tmp_path}/shared.db")
    monkeypatch.setenv(CONN_ID, "shared")
    kind, arguments = task(name)
    execute(kind, **arguments)
    with sqlite3.connect(tmp_path / "shared.db") as raw:
        assert raw.execute("SELECT count(*) FROM assistant_attempts").fetchone() == (1,)
    kind, arguments = task("export of loads")
    # Of the tries, at least that of the export itself.
    assert execute(kind, **arguments)["rows"] >= 1
    assert not (ledger_home / "assistant_ledger.db").exists()


def test_an_export_of_all_sites_needs_no_connection(ledger_home, task):
    kind, arguments = task("export of ratings")
    execute(kind, **arguments)
    assert (ledger_home / "assistant_ledger.db").is_file()
