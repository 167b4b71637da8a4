"""The UI's Rendered Templates page shows a short description of a source, not its rows."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.tables.untemplated import without_templating
from tests.versions import DagSerialization, read_back, rendered_fields

SECRET = "a customer's question"
TEXTS = [{"title": f"T{number}", "content": SECRET, "category": "faq"} for number in range(1200)]


def faq_in_chunks():
    yield pd.DataFrame(TEXTS)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (TEXTS, "list, 1,200 rows"),
        (tuple(TEXTS[:1]), "tuple, 1 row"),
        ([{"a": 1}, {"b": 2}, "no row"], "list, 3 rows"),
        (pd.DataFrame(TEXTS), "DataFrame, 1,200 rows"),
        (pd.DataFrame({"column_names": [1], 5: [2]}), "DataFrame, 1 row"),
        (pl.DataFrame(TEXTS), "DataFrame, 1,200 rows"),
        (pa.Table.from_pylist(TEXTS), "Table, 1,200 rows"),
        (duckdb.sql("SELECT 1 AS title"), "DuckDBPyRelation"),
        (faq_in_chunks, "faq_in_chunks()"),
        (faq_in_chunks(), "generator"),
    ],
)
def test_a_source_in_a_few_words(source, expected):
    assert without_templating(source).serialize() == expected


@pytest.mark.parametrize("source", ["faq.csv", ["a.csv", "b.csv"], None, []])
def test_paths_are_shown_as_they_are(source):
    assert without_templating(source) is source


def fields_of(run, task_id="task"):
    found = rendered_fields(run.dag_id, run.run_id)
    return {map_index: fields for (task, map_index), fields in found.items() if task == task_id}


def test_mapped_rows(service, connection, run_operator):
    def build():
        AssistantLoadTextOperator.partial(task_id="task").expand(source=[TEXTS[:1], TEXTS[1:3]])

    run = run_operator(build, stored=True)
    assert run.state == "success"
    assert {index: fields["source"] for index, fields in fields_of(run).items()} == {
        0: "list, 1 row",
        1: "list, 2 rows",
    }


def test_questions_answers_and_expectations_are_shown_alike(tmp_path):
    with DAG("shown", schedule=None) as dag:
        AssistantChatBatchOperator(task_id="ask", source=[{"message": SECRET}], output_path=str(tmp_path / "a.parquet"))
        AssistantEvaluateOperator(
            task_id="judge",
            answers=faq_in_chunks,
            expectations=pd.DataFrame({"key": ["a"], "expected": [SECRET]}),
            output_path=str(tmp_path),
        )
    read = read_back(dag)
    assert read.get_task("ask").source == "list, 1 row"
    assert read.get_task("judge").answers == "faq_in_chunks()"
    assert read.get_task("judge").expectations == "DataFrame, 1 row"
    assert SECRET not in str(DagSerialization.to_dict(dag))
