"""Mistakes of newcomers: each message says what is wrong, where, and what to do, before anything is sent."""

from __future__ import annotations

import re

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.task_runs.context import execute_operator

ROWS = [{"id": 1, "title": "T", "question": "Q?", "answer": "A", "message": "M?"}]
BATCH = {"source": ROWS, "key_columns": "id"}
EVALUATION = {"answers": [{"key": "1", "answer": "A", "expected": "A"}], "output_path": "evaluations"}
MISTAKES = [
    (AssistantLoadQAOperator, {"source": None}, "source is empty (None); if it is the result of a task, that task has"),
    (AssistantLoadQAOperator, {"source": ROWS, "columns": {"headline": "title"}}, "set columns={'title': 'headline'}"),
    (AssistantLoadQAOperator, {"source": ROWS, "site_id": ["a", "b"]}, "not a list; map the task over a list with"),
    (AssistantLoadQAOperator, {"source": ROWS, "group_columns": "page"}, "or group_columns (--group) to it"),
    (
        AssistantLoadQAOperator,
        {"source": ROWS, "findings_path": "f.csv"},
        "'f.csv' must not end in .csv: the file is a",
    ),
    (AssistantLoadQAOperator, {"source": "https://example.com/a.csv"}, "let a callable read it"),
    (AssistantLoadQAOperator, {"source": "login.csv"}, "'login.csv' is a web page"),
    (AssistantLoadQAOperator, {"source": "login.csv", "csv_options": {"sep": ";"}}, "there is no option 'sep'. "),
    (AssistantChatBatchOperator, {**BATCH, "output_path": "a.CSV"}, "Let it end in .parquet"),
    (
        AssistantEvaluateOperator,
        {**EVALUATION, "scorers": "token_f1"},
        "scorers must be a list of texts, not 'token_f1'",
    ),
    (
        AssistantEvaluateOperator,
        {**EVALUATION, "baseline": "yesterday"},
        "Set baseline to 'previous', or to the folder",
    ),
    (AssistantChatRequestSensor, {"request_id": {"request_id": "r"}}, "take one of its values ('request_id', …)"),
]


@pytest.mark.parametrize(("kind", "arguments", "message"), MISTAKES)
def test_the_message_says_what_to_do(kind, arguments, message, service, connection, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "login.csv").write_text("<!DOCTYPE html><title>Sign in</title>")
    with pytest.raises(AssistantInputError, match=re.escape(message)):
        execute_operator(kind(task_id="task", **arguments))
    assert service.journal() == []
