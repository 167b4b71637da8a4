"""Lineage of the operators, and the URLs of their links."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import AssistantRequestFailedError
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.links import AssistantDataLink, AssistantRequestLink
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
)
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.versions import read_back

TEXTS = [{"title": f"T{number}", "content": "C", "category": "faq"} for number in range(3)]
FAQ = [{"title": "Refunds", "question": "When are refunds paid?", "answer": "In five days.", "category": "faq"}]
QUESTIONS = [{"id": number, "message": f"Question {number}?"} for number in range(3)]


@pytest.fixture
def ran(ran, connection):
    """Run an operator against the embedded service."""
    return ran


def site(service, kind, site_id="acme-docs"):
    return f"assistant://{urlsplit(service.url).netloc}/{site_id}/{kind}"


def columns(schema):
    return {field.name: str(field.type) for field in schema}


@pytest.mark.promise("Airflow", "OpenLineage gets what a task read and wrote, with columns and numbers of rows.")
def test_a_load_of_rows_writes_documents_to_the_site(ran, service):
    _, load = ran(AssistantLoadQAOperator, source=FAQ)
    fields = dict.fromkeys(("title", "question", "answer", "category"), "string")
    assert load.lineage_outputs == (LineageDataset(site(service, "documents"), fields, rows=1),)
    assert load.lineage_inputs() == []


def test_a_load_of_files_reads_them_and_counts_what_it_created(ran, service, tmp_path):
    pq.write_table(pa.Table.from_pylist(TEXTS), tmp_path / "texts.parquet")
    arguments = {"source": str(tmp_path / "*.parquet"), "site_id": "acme-shop", "source_name": "texts"}
    _, load = ran(AssistantLoadTextOperator, **arguments)
    assert load.lineage_inputs() == [LineageDataset(str(tmp_path))]
    assert [(data.uri, data.rows) for data in load.lineage_outputs] == [(site(service, "documents", "acme-shop"), 3)]
    _, again = ran(AssistantLoadTextOperator, **arguments)
    assert [data.rows for data in again.lineage_outputs] == [0]


def test_an_upload_reads_files(ran, service, tmp_path):
    (tmp_path / "a.txt").write_text("Refunds are paid in five days.")
    _, upload = ran(AssistantUploadFilesOperator, files=[str(tmp_path / "a.txt")])
    assert upload.lineage_inputs() == [LineageDataset(str(tmp_path / "a.txt"))]
    assert upload.lineage_outputs == (LineageDataset(site(service, "documents"), {}, 1),)


def test_statistics_come_from_the_site_and_go_to_two_datasets(ran, service, tmp_path):
    run, export = ran(AssistantStatisticsToParquetOperator, output_path=str(tmp_path))
    assert export.lineage_inputs() == [LineageDataset(site(service, "statistics"))]
    raw, statistics = export.lineage_outputs
    assert statistics.uri.endswith(f"{tmp_path}/statistics")
    assert statistics.columns == columns(datasets.STATISTICS.schema())
    assert (statistics.rows, raw.rows) == (run.xcom()["rows"], 1)


@pytest.mark.parametrize(
    ("kind", "dataset"),
    [(AssistantFeedbackToParquetOperator, "feedback"), (AssistantLoadsToParquetOperator, "tries")],
)
def test_an_export_of_the_ledger_writes_days_of_one_dataset(kind, dataset, ran, tmp_path):
    _, export = ran(kind, output_path=str(tmp_path))
    assert export.lineage_inputs() == ()
    assert {Path(data.uri).name for data in export.lineage_outputs} == {dataset}
    assert len(export.lineage_outputs) == 2


def test_a_batch_of_questions_reads_the_chat_and_writes_a_file(ran, service, tmp_path):
    output = str(tmp_path / "answers.parquet")
    _, ask = ran(AssistantChatBatchOperator, source=QUESTIONS, output_path=output, poll_interval=0.05)
    assert ask.lineage_inputs() == [LineageDataset(site(service, "chat"))]
    assert ask.lineage_outputs == (LineageDataset(output, columns(pq.read_schema(output)), 3),)


def test_an_evaluation_reads_answers_and_writes_scores(ran, tmp_path):
    answers = tmp_path / "answers.parquet"
    rows = [{"key": "a", "message": "A?", "answer": "Yes", "expected": "Yes", "status": "complete"}]
    pq.write_table(pa.Table.from_pylist(rows), answers)
    run, judge = ran(
        AssistantEvaluateOperator,
        answers=str(answers),
        output_path=str(tmp_path / "evaluations"),
        lake_path=str(tmp_path / "lake"),
        scorers=["exact_match"],
    )
    assert judge.lineage_inputs() == [LineageDataset(str(answers))]
    assert [data.uri for data in judge.lineage_outputs] == [
        run.xcom()["scores_path"],
        f"{tmp_path}/lake/evaluations",
    ]
    assert [data.rows for data in judge.lineage_outputs] == [1, 1]


def test_a_warehouse_reads_datasets_and_writes_tables(ran, connection, tmp_path):
    lake_, database = str(tmp_path / "lake"), tmp_path / "night.duckdb"
    ran(AssistantStatisticsToParquetOperator, output_path=lake_)
    run, load = ran(AssistantParquetToWarehouseOperator, output_path=lake_, database=str(database))
    assert [Path(data.uri).name for data in load.lineage_inputs()] == ["statistics", "statistics_raw"]
    assert all(urlsplit(data.uri).path.startswith(lake_) for data in load.lineage_inputs())
    assert {data.uri: data.rows for data in load.lineage_outputs} == {
        f"duckdb://{database}/night.assistant.{dataset}": rows for dataset, rows in run.xcom()["datasets"].items()
    }
    with duckdb.connect(database, read_only=True) as opened:
        found = opened.execute("DESCRIBE assistant.statistics").fetchall()
    assert {"date", *load.lineage_outputs[0].columns} == {name for name, *_ in found}


def test_a_task_that_wrote_nothing_leaves_it_to_inlets_and_outlets():
    load = AssistantLoadQAOperator(task_id="load", source="faq.csv")
    lineage = load.get_openlineage_facets_on_complete(None)
    assert (lineage.inputs, lineage.outputs) == ([], [])


# -- links -----------------------------------------------------------------------------------------


def test_a_batch_links_to_its_file_even_if_it_fails(service, connection, run_operator, tmp_path):
    service.behave(fail_messages="Question")
    output = tmp_path / "answers.parquet"
    run = run_operator(AssistantChatBatchOperator, source=QUESTIONS, output_path=str(output), poll_interval=0.05)
    assert isinstance(run.error, AssistantRequestFailedError)
    assert run.xcom(key="_link_AssistantDataLink") == output.as_uri()


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("s3://bucket/lake/a b", "https://console.aws.amazon.com/s3/buckets/bucket?prefix=lake/a%20b"),
        ("gs://conn@bucket/lake", "https://console.cloud.google.com/storage/browser/bucket/lake"),
        ("/data/lake", "file:///data/lake"),
    ],
)
def test_data_is_linked_where_a_browser_shows_it(uri, address):
    task = SimpleNamespace(lineage_outputs=(LineageDataset(uri),))
    assert AssistantDataLink().get_link(task, ti_key=None) == address
    assert AssistantDataLink().get_link(SimpleNamespace(lineage_outputs=()), ti_key=None) == ""


def test_a_submitted_chat_links_to_its_request(service, connection, run_operator):
    run = run_operator(AssistantSubmitChatOperator, session_id="s", message="Who?")
    (row,) = service.chats()
    request = f"/m2m/sites/acme-docs/chat/requests/{row['id']}"
    assert run.xcom(key="_link_AssistantRequestLink") == f"{service.url}{request}"


def test_links_survive_serialization_and_are_known_to_airflow(tmp_path):
    from airflow.providers_manager import ProvidersManager

    with DAG("linked", schedule=None) as dag:
        AssistantLimitsToParquetOperator(task_id="export", output_path=str(tmp_path))
        AssistantSubmitChatOperator(task_id="submit", session_id="s", message="Who?")
    read = read_back(dag)
    for task_id, link in (("export", AssistantDataLink), ("submit", AssistantRequestLink)):
        assert read.get_task(task_id).operator_extra_link_dict[link().name].xcom_key == link().xcom_key
        assert f"{link.__module__}.{link.__name__}" in ProvidersManager().extra_links_class_names
