"""``repeat`` of AssistantChatBatchOperator: every question several times, each time in a session of its own."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from tests.task_runs.context import execute_operator

QUESTIONS = [{"id": number, "message": f"Question {number}?"} for number in range(4)]
SUBMIT = r"chat/async$"
CHAT = r"chat$"


@pytest.fixture
def output(tmp_path):
    return tmp_path / "answers.parquet"


@pytest.fixture
def execute(connection, output):
    """Execute the operator without a DAG, like a new process."""

    def executed(source=QUESTIONS, **arguments):
        defaults = {"key_columns": ["id"], "poll_interval": 0.05, "timeout": 30, "output_path": str(output)}
        operator = AssistantChatBatchOperator(task_id="ask", source=source, **{**defaults, **arguments})
        return execute_operator(operator)

    return executed


def rows_of(output):
    return pq.read_table(output).to_pylist()


@pytest.mark.parametrize(("mode", "path"), [("async", SUBMIT), ("sync", CHAT)])
def test_every_repetition_is_asked_once_in_a_session_of_its_own(mode, path, execute, output, service):
    result = execute(repeat=3, mode=mode)
    assert (result["rows"], result["complete"], result["submitted"], result["sessions_closed"]) == (12, 12, 12, 12)
    rows = rows_of(output)
    assert [(row["key"], row["repetition"]) for row in rows] == [(str(n), r) for n in range(4) for r in (1, 2, 3)]
    assert len({row["session_id"] for row in rows}) == 12
    assert len(service.journal("POST", path)) == 12
    assert execute(repeat=3, mode=mode)["submitted"] == 0
    assert len(service.journal("POST", path)) == 12


def test_a_retry_with_more_repetitions_asks_only_the_new_ones(execute, output, service):
    execute()
    first = {row["key"]: row["request_id"] for row in rows_of(output)}
    assert execute(repeat=2)["submitted"] == 4
    assert {row["key"]: row["request_id"] for row in rows_of(output) if row["repetition"] == 1} == first
    assert execute()["submitted"] == 0
    assert len(service.journal("POST", SUBMIT)) == 8


def test_findings_name_the_row_of_the_source(execute, output):
    source = [*QUESTIONS, {"id": 4, "message": ""}]
    result = execute(source, repeat=2, max_failed=2)
    assert (result["rejected"], result["complete"]) == (2, 8)
    findings = pq.read_table(result["findings"]).to_pylist()
    assert [(one["row"], one["key"]) for one in findings] == [(5, "4"), (5, "4")]
    assert {row["repetition"] for row in rows_of(output) if row["status"] == "not_submitted"} == {1, 2}


@pytest.mark.parametrize("session", ["shared", "thread"])
def test_repetitions_never_share_a_session(session, execute, service):
    source = [{**row, "thread": "s"} for row in QUESTIONS]
    with pytest.raises(AssistantInputError, match="would share a session"):
        execute(source, repeat=2, session=session)
    assert not service.journal("POST")
    assert execute(source, repeat=2, session="per_row")["complete"] == 8


@pytest.mark.parametrize("repeat", [0, 1.5, "2"])
def test_repeat_is_a_count(repeat):
    with pytest.raises(AssistantInputError, match="repeat must be a whole number"):
        AssistantChatBatchOperator(task_id="ask", source=QUESTIONS, output_path="a", repeat=repeat)
