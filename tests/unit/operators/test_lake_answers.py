"""Questions, answers and findings in the lake: each request once, whoever asked and however it ended."""

from __future__ import annotations

import json

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantIncompleteError
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import AssistantFeedbackToParquetOperator
from tests.task_runs.context import execute_operator

FAILING = "This one fails."
QUESTIONS = [
    {"id": "1", "message": "Größe des „Öl“-Tanks?\nUnd 2. 🙂", "expected": "I cannot"},
    {"id": "2", "message": FAILING, "expected": "I cannot"},
    {"id": "3", "message": "", "expected": "I cannot"},
    {"id": "1", "message": "Größe des „Öl“-Tanks?\nUnd 2. 🙂", "expected": "I cannot"},
    {"id": None, "message": None, "expected": None},
    {"id": "4", "message": "' OR 1=1 -- \\u0000 {{ x }} 🙂", "expected": "zzz"},
]


@pytest.fixture
def lake_root(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def rows(lake_root):
    def read(dataset):
        return ds.dataset(lake_root / dataset, partitioning="hive").to_table().to_pylist()

    return read


@pytest.fixture
def ask(service, connection, lake_root, tmp_path):
    service.behave(fail_messages=FAILING)

    def asked(run_id="run", **arguments):
        arguments = {"source": QUESTIONS, "max_failed": 6, "poll_interval": 0.02, "key_columns": ["id"], **arguments}
        operator = AssistantChatBatchOperator(
            task_id="ask",
            output_path=str(tmp_path / f"{run_id}.parquet"),
            lake_path=str(lake_root),
            **arguments,
        )
        return execute_operator(operator, run_id=run_id)

    return asked


@pytest.mark.promise("lake and warehouse", "Each question of a batch is in the lake once, whatever its result.")
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_batch_writes_each_question_once_whatever_became_of_it(mode, ask, rows, tmp_path):
    for _ in range(2):
        result = ask(mode=mode, repeat=2)
    ask("another run", mode=mode)
    output = pq.ParquetFile(result["output_path"]).read().to_pylist()
    found = [row for row in rows("answers") if row["run_id"] == "run"]
    # Rows that ask the same share an answer.
    assert len(output) == 12
    assert len(found) == 10
    output_rows = {(row["key"], row["repetition"]): row for row in output}
    for row in found:
        written = output_rows[row["key"], row["repetition"]]
        same = ("answer", "status", "error", "seconds", "confidence_level", "confidence_score", "request_id")
        assert {name: row[name] for name in same} == {name: written[name] for name in same}
        assert (row["question"], row["asked_at"]) == (written["message"] or "", written["submitted_at"])
    assert {"complete", "not_submitted"} <= {row["status"] for row in found}
    assert {(row["kind"], row["name"], row["task_id"], row["site_id"]) for row in found} == {
        ("batch", "ask", "ask", "acme-docs")
    }
    request_ids = [row["request_id"] for row in rows("answers") if row["request_id"]]
    assert len(set(request_ids)) == len(request_ids)
    assert len(rows("answers")) == 15


def test_each_rating_finds_its_question_once(ask, rows, lake_root):
    ask(source=[*QUESTIONS[:2], QUESTIONS[5]], repeat=2)
    answered = [row for row in rows("answers") if row["status"] == "complete"]
    for row in answered:
        for rating in ("good", "bad", "good"):
            operator = AssistantFeedbackOperator(
                task_id="rate", session_id=row["session_id"], request_id=row["request_id"], feedback=rating
            )
            execute_operator(operator)
    execute_operator(AssistantFeedbackToParquetOperator(task_id="export", output_path=str(lake_root)))
    joined = duckdb.sql(
        f"""
        SELECT request_id, rating, question
        FROM read_parquet('{lake_root}/feedback/*/*.parquet')
        JOIN read_parquet('{lake_root}/answers/*/*.parquet') AS answers USING (service, request_id)
        ORDER BY sent_at
        """
    ).fetchall()
    assert len(joined) == len(rows("feedback"))
    # The rating that was sent last is the last one.
    last = {request_id: (rating, question) for request_id, rating, question in joined}
    assert last == {row["request_id"]: ("good", row["question"]) for row in answered}


def test_single_chats(service, connection, rows, lake_root):
    operator = AssistantChatOperator(task_id="sync", session_id="s", message="One?", lake_path=str(lake_root))
    result = execute_operator(operator)
    (row,) = rows("answers")
    assert (row["answer"], row["question"], row["status"]) == (result["text"], "One?", "complete")
    assert (row["request_id"], row["kind"], row["key"], row["name"]) == (result["request_id"], "chat", None, "sync")
    assert (row["seconds"], row["error"]) == (result["seconds"], None)


@pytest.mark.parametrize("findings_path", [None, "findings.parquet"])
def test_findings_of_a_load(findings_path, service, connection, rows, lake_root, tmp_path):
    def load(source, **options):
        if findings_path is not None:
            options["findings_path"] = str(tmp_path / findings_path)
        operator = AssistantLoadQAOperator(
            task_id="load", source=source, key_columns=["title"], lake_path=str(lake_root), **options
        )
        return execute_operator(operator)

    good = [{"title": f"T{number}", "question": "Q?", "answer": "A"} for number in range(3)]
    bad = {"title": 'Ü "1"\n', "question": "Q?", "answer": None}
    load([*good, bad], max_rejected=1)
    (row,) = rows("findings")
    assert (row["kind"], row["row"], row["document_ids"], row["source"]) == ("rejected", 4, "[]", "dag.load")
    assert (row["site_id"], row["endpoint"], row["task_id"]) == ("acme-docs", "documents/qa", "load")
    # Another try of the run without findings replaces them, also if it fails later.
    load(good)
    assert rows("findings") == [] or {found["kind"] for found in rows("findings")} == {"stale"}
    service.answer("status:500", path="documents/qa", times=None)
    with pytest.raises(AssistantIncompleteError):
        load([{"title": "New", "question": "Q?", "answer": "A"}, *good[:2]])
    found = {row["kind"]: row for row in rows("findings")}
    assert set(found) >= {"stale"}
    assert len(json.loads(found["stale"]["document_ids"])) == 1
