"""The pages on chat batches: the columns of the file, and the queries on it and on the ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.asking import answers
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from tests.docs.conftest import QUESTIONS
from tests.docs.generated import OPERATORS
from tests.docs.pages import codes, section, table
from tests.docs.test_loads import LEDGER, dag_on, queries

CHAT_BATCH = "docs/ask/chat-batch.md"
pytestmark = pytest.mark.usefixtures("files")


def test_columns_of_the_file(connect, run_operator, tmp_path):
    connect()
    path = tmp_path / "answers.parquet"
    run = run_operator(AssistantChatBatchOperator, source=QUESTIONS, output_path=str(path), poll_interval=0.05)
    assert run.state == "success"
    schema = pq.read_schema(path)
    rows = table(section(OPERATORS, "What is in the file"))
    said = [(codes(row["Column"])[0], codes(row["Type"])[0]) for row in rows]
    assert [name for name, _ in said] == list(answers.COLUMNS)
    assert said == [(field.name, str(field.type)) for field in schema][: len(said)]
    assert schema.names[len(said) :] == ["id", "expected", "language"]


def test_queries(connect, run_dag, ledger_home, tmp_path, monkeypatch):
    import duckdb

    connect()
    run = run_dag(dag_on(CHAT_BATCH, "ask_golden_set", tmp_path))
    assert run.state == "success"
    monkeypatch.chdir(tmp_path)
    (query,) = queries(CHAT_BATCH)
    ((path, questions, answered, p50, p99),) = duckdb.sql(query).fetchall()
    assert run.run_id in path
    assert (questions, answered) == (3, 3)
    assert 0 <= p50 <= p99
    (query,) = [query for query in queries(LEDGER) if "kind = 'chat'" in query]
    with closing(sqlite3.connect(ledger_home / "assistant_ledger.db")) as ledger:
        rows = ledger.execute(query).fetchall()
    assert {row[1] for row in rows} == {str(question["id"]) for question in QUESTIONS}
    assert {(row[0], row[3]) for row in rows} == {(run.run_id, "created")}
