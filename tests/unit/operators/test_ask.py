"""The ask operator against the service: every question once, every answer in the file."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.asking.answers import COLUMNS
from airflow_provider_assistant.operators.ask import AssistantAskOperator

QUESTIONS = [{"id": number, "message": f"Question {number}?", "expected": f"Answer {number}"} for number in range(20)]
SUBMIT = r"chat/async$"
POLL = r"chat/requests/"


@pytest.fixture
def output(tmp_path):
    return tmp_path / "answers" / "today.parquet"


@pytest.fixture
def ask(run_operator, output):
    def asked(source=QUESTIONS, **arguments):
        arguments = {"key_columns": ["id"], "poll_interval": 0.05, "deadline": 30, **arguments}
        return run_operator(AssistantAskOperator, source=source, output_path=str(output), **arguments)

    return asked


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("deferrable", [False, True])
def test_every_question_gets_its_row(mode, deferrable, service, connection, ask, output):
    run = ask(mode=mode, deferrable=deferrable)

    assert run.state == "success"
    counts = run.xcom()
    assert counts["rows"] == counts["complete"] == counts["submitted"] == 20
    assert counts["sessions_closed"] == 20
    table = pq.read_table(output)
    assert table.column_names == [*COLUMNS, "id", "expected"]
    rows = table.to_pylist()
    assert [(row["id"], row["message"], row["expected"]) for row in rows] == [
        (question["id"], question["message"], question["expected"]) for question in QUESTIONS
    ]
    assert {row["status"] for row in rows} == {"complete"}
    assert all(row["answer"] and row["raw"] and row["submitted_at"] <= row["completed_at"] for row in rows)
    assert len({row["session_id"] for row in rows}) == 20
    assert len(service.rows("requests")) == 20
    assert list(output.parent.iterdir()) == [output]
