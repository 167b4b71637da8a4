"""Tasks refuse a ledger that their workers do not share, and use that of their tenant or team."""

from __future__ import annotations

import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException, TaskDeferred
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

EXECUTOR = "AIRFLOW__CORE__EXECUTOR"
CONN_ID, SHARED = "AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "AIRFLOW__ASSISTANT__LEDGER_FILE_IS_SHARED"
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
    "export of loads": (AssistantLoadsToParquetOperator, {**EXPORT, "site_id": "acme-docs"}),
}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv(EXECUTOR, "LocalExecutor,CeleryExecutor")


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


@pytest.fixture
def ledgers(tmp_path, monkeypatch):
    """Connections to three ledgers."""
    for name in ("by_task", "by_team", "by_config"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", f"sqlite:///{tmp_path}/{name}.db")

    def counted(table):
        found = {}
        for path in tmp_path.glob("by_*.db"):
            with sqlite3.connect(path) as raw:
                found[path.stem] = raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return {name: count for name, count in found.items() if count}

    return counted


# -- the guard -------------------------------------------------------------------------------------


@pytest.mark.promise("ledger", "A task that needs the ledger sends nothing if its workers do not share one.")
@pytest.mark.parametrize("name", TASKS)
def test_no_request_is_sent_with_a_ledger_per_machine(name, service, connection, cluster, task):
    kind, arguments = task(name)
    before = service.seen()
    with pytest.raises(AssistantLedgerError, match="CeleryExecutor", check=is_final) as caught:
        execute(kind, **arguments)
    assert "LEDGER_CONN_ID" in caught.value.todo
    assert service.seen() == before


@pytest.mark.parametrize("name", ["submit", "chat", "rate"])
def test_a_task_without_the_ledger_runs_anywhere(name, service, connection, cluster, task):
    kind, arguments = task(name)
    before = service.posts()
    execute(kind, ledger=False, **arguments)
    assert service.posts() > before


@pytest.mark.parametrize("name", ["qa", "export of loads"])
def test_a_file_that_is_shared_is_used(name, service, connection, cluster, task, ledger_home, monkeypatch):
    monkeypatch.setenv(SHARED, "True")
    kind, arguments = task(name)
    execute(kind, **arguments)
    assert (ledger_home / "assistant_ledger.db").is_file()


# -- one ledger per tenant or team -----------------------------------------------------------------


RECORDING = ("qa", "files", "batch", "deferrable batch", "submit", "chat", "rate", "rate many")


@pytest.mark.promise("ledger", "The ledger is that of the task, else of its connection, else of the configuration.")
@pytest.mark.parametrize(
    "where", [("by_task", "by_team", "by_config"), (None, "by_team", "by_config"), (None, None, "by_config")], ids=str
)
@pytest.mark.parametrize("name", RECORDING)
def test_the_task_wins_over_the_connection_and_that_over_the_configuration(
    name, where, service, connect, ledgers, task, monkeypatch, ledger_home
):
    by_task, by_team, by_config = where
    if name in {"qa", "files", "batch", "deferrable batch"}:
        # A load and a batch have no parameter for it.
        by_task = None
    connect(ledger_conn_id=by_team or "")
    monkeypatch.setenv(CONN_ID, by_config)
    kind, arguments = task(name)
    execute(kind, **({"ledger_conn_id": by_task} if by_task else {}), **arguments)
    assert ledgers("assistant_attempts") == {by_task or by_team or by_config: 1}
    assert not (ledger_home / "assistant_ledger.db").exists()


@pytest.mark.parametrize("name", ["submit", "export of loads"])
def test_an_error_names_where_the_connection_comes_from(name, service, connect, task):
    kind, arguments = task(name)
    given = {
        "the task's ledger_conn_id": ({}, {"ledger_conn_id": "gone"}),
        "the extra of connection 'tenant_b'": ({"ledger_conn_id": "gone"}, {}),
    }
    for origin, (extra, argument) in given.items():
        connect(conn_id="tenant_b", **extra)
        before = service.seen()
        with pytest.raises(
            AssistantLedgerError, match=f"connection 'gone', from {origin}: it does not exist", check=is_final
        ):
            execute(kind, assistant_conn_id="tenant_b", **argument, **arguments)
        assert service.seen() == before


# -- exports ---------------------------------------------------------------------------------------


def test_an_export_reads_the_ledger_of_the_loads(service, connect, ledgers, task, ledger_home):
    connect(ledger_conn_id="by_team")
    kind, arguments = task("qa")
    execute(kind, **arguments)
    kind, arguments = task("export of loads")
    assert execute(kind, **arguments)["rows"] == 1
    assert not (ledger_home / "assistant_ledger.db").exists()


def test_an_export_of_all_sites_needs_no_connection(ledger_home, task):
    kind, arguments = task("export of ratings")
    execute(kind, **arguments)
    assert (ledger_home / "assistant_ledger.db").is_file()


def test_an_export_needs_the_connection_that_it_names(ledger_home, task):
    """The connection may name another ledger."""
    kind, arguments = task("export of ratings")
    with pytest.raises(AirflowNotFoundException):
        execute(kind, assistant_conn_id="tenant_b", **arguments)
    assert not (ledger_home / "assistant_ledger.db").exists()
