"""Exports of the ledger to Parquet: chat requests and loads."""

from __future__ import annotations

import json
from datetime import timedelta

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.lake.datasets import DATASETS, TRIES
from airflow_provider_assistant.ledger import Ledger, Site
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
    LedgerExportOperator,
)
from tests.ledgers import Filler
from tests.task_runs.context import execute_operator

TEXTS = [{"title": f"T{number}", "content": "Within 30 days.", "category": "policy"} for number in range(4)]
NEVER = 3600


def execute(kind, name="task", **arguments):
    operator = kind(task_id=name, **arguments)
    return execute_operator(operator)


@pytest.fixture
def export(tmp_path):
    """Export a dataset. Return its rows of all days."""

    def exported(kind, **arguments):
        result = execute(kind, output_path=str(tmp_path / "lake"), **arguments)
        tables = [pq.ParquetFile(path).read() for path in result["paths"]]
        assert result["rows"] == sum(table.num_rows for table in tables)
        return [row for table in tables for row in table.to_pylist()]

    return exported


@pytest.fixture
def fill(ledger_home):
    with Ledger.open() as ledger:
        yield Filler(ledger.engine)


@pytest.fixture
def ask(tmp_path):
    def asked(messages, output="answers.parquet", **arguments):
        rows = [{"message": message} for message in messages]
        arguments = {"poll_interval": 0.05, "timeout": 30, **arguments}
        return execute(AssistantChatBatchOperator, source=rows, output_path=str(tmp_path / output), **arguments)

    return asked


def submit():
    return execute(AssistantSubmitChatOperator, session_id="s", message="Anything?")


def test_requests_alone_and_in_a_batch(service, connection, ask, export, tmp_path):
    request_id = submit()["request_id"]
    alone = execute(AssistantChatRequestSensor, request_id=request_id, poke_interval=0.01)
    ask(["One?", "Two?"])
    rows = export(AssistantRequestsToParquetOperator)
    batched = {row["request_id"]: row for row in pq.read_table(tmp_path / "answers.parquet").to_pylist()}
    assert [row["request_id"] for row in rows if not row["is_batch"]] == [alone["request_id"]]
    assert {row["request_id"] for row in rows if row["is_batch"]} == set(batched)
    for row in rows:
        assert (row["state"], row["site_id"], row["dag_id"], row["task_id"]) == ("complete", "acme-docs", "dag", "task")
        if row["is_batch"]:
            answer = batched[row["request_id"]]
            assert (row["session_id"], row["completed_at"]) == (answer["session_id"], answer["completed_at"])
            assert row["seconds"] == pytest.approx(answer["seconds"], abs=1)
        else:
            assert row["seconds"] == pytest.approx(alone["seconds"], abs=1)
    assert rows == sorted(rows, key=lambda row: row["submitted_at"])


def test_a_rating_knows_how_long_its_answer_took(service, connection, ask, export):
    ask(["One?", "Two?"])
    taken = {row["request_id"]: row for row in export(AssistantRequestsToParquetOperator)}
    for request_id, row in taken.items():
        arguments = {"session_id": row["session_id"], "request_id": request_id, "feedback": "good"}
        execute(AssistantFeedbackOperator, **arguments)
    rated = export(AssistantFeedbackToParquetOperator)
    assert {row["request_id"]: row["answer_seconds"] for row in rated} == {
        request_id: row["seconds"] for request_id, row in taken.items()
    }
    assert all(row["answer_seconds"] >= 0 for row in rated)


def test_ends_of_a_batch(service, connection, ask, export):
    service.behave(fail_messages="Two")
    ask(["One?", "Two?"], max_failed=1)
    service.behave(processing_seconds=NEVER)
    ask(["Three?"], "late.parquet", max_failed=1, timeout=0)
    lost = submit()["request_id"]
    rows = export(AssistantRequestsToParquetOperator)
    # The two questions of the batch are submitted at the same time.
    assert sorted(row["state"] for row in rows[:2]) == ["complete", "failed"]
    assert [row["state"] for row in rows[2:]] == ["timed_out", "open"]
    assert [row["completed_at"] is None for row in rows] == [False, False, True, True]
    assert (rows[-1]["request_id"], rows[-1]["is_batch"]) == (lost, False)
    assert all(row["request_id"] for row in rows)


def test_the_rows_of_all_services_and_sites(fill, export):
    sites = [Site(service, site_id) for service in ("127.0.0.1", "other.example") for site_id in ("docs", "shop")]
    for site in sites:
        fill.attempt(site.site_id, "created", kind="chat", site=site, hours=0, details={"mode": "async"})
        fill.load(hours=0, site=site)
    for kind in (AssistantRequestsToParquetOperator, AssistantLoadsToParquetOperator):
        found = {(row["service"], row["site_id"]) for row in export(kind)}
        # The try of an export has no site.
        assert found - {("", "")} == {(site.service, site.site_id) for site in sites}


def test_a_ledger_replaces_its_own_rows_only(fill, export, ledger_home, tmp_path):
    fill.attempt("one", "created", kind="chat", hours=0, details={"mode": "async"})
    for task_id in ("task", "renamed"):
        execute(AssistantRequestsToParquetOperator, output_path=str(tmp_path / "lake"), name=task_id)
    folder = tmp_path / "lake" / "requests"
    assert ds.dataset(folder).count_rows() == 1
    # The entry is gone: the day is replaced.
    with Ledger.open() as ledger, ledger.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE assistant_attempts SET state = 'failed'")
    assert export(AssistantRequestsToParquetOperator) == []
    assert ds.dataset(folder).count_rows() == 0
    fill.attempt("two", "created", kind="chat", hours=0, details={"mode": "async"})
    export(AssistantRequestsToParquetOperator)
    # A new ledger, as on another machine, has another file.
    for file in ledger_home.glob("assistant_ledger.db*"):
        file.unlink()
    export(AssistantRequestsToParquetOperator)
    assert ds.dataset(folder).count_rows() == 1


def test_a_load_is_a_row(service, connection, export):
    result = execute(AssistantLoadTextOperator, source=TEXTS, source_name="faq")
    row, export_itself = export(AssistantLoadsToParquetOperator)
    assert (export_itself["task_kind"], export_itself["site_id"]) == ("export", "")
    columns = set(TRIES.columns) & result.keys()
    assert {"created", "stale", "throttled", "seconds"} <= columns
    assert {name: row[name] for name in columns} == {name: result[name] for name in columns}
    assert (row["outcome"], row["task_kind"], row["kind"], row["source"]) == ("succeeded", "load", "text", "faq")
    assert (row["error"], row["documents"], json.loads(row["counts"])["rows"]) == (None, 4, 4)
    assert (row["dag_id"], row["run_id"], row["task_id"], row["map_index"]) == ("dag", "run", "task", -1)
    assert timedelta() < row["ended_at"] - row["started_at"] < timedelta(minutes=1)


def test_loads_say_how_they_ended(fill, export):
    fill.load(hours=0.3, outcome="failed", error="1 row was rejected")
    fill.load(hours=0.2, outcome="succeeded with findings", ambiguous=2)
    fill.load(hours=0.1, outcome=None)
    failed, with_findings, killed, _ = export(AssistantLoadsToParquetOperator)
    assert (failed["outcome"], failed["error"]) == ("failed", "1 row was rejected")
    assert (with_findings["outcome"], with_findings["ambiguous"]) == ("succeeded with findings", 2)
    assert (killed["outcome"], killed["ended_at"], killed["rows"]) == ("unfinished", None, None)


EXPORTS = {
    "feedback": AssistantFeedbackToParquetOperator,
    "requests": AssistantRequestsToParquetOperator,
    "tries": AssistantLoadsToParquetOperator,
}


@pytest.mark.parametrize("dataset", EXPORTS)
def test_exports_of_the_ledger_differ_in_their_rows_only(dataset, connection, run_operator, tmp_path):
    kind = EXPORTS[dataset]
    assert issubclass(kind, LedgerExportOperator)
    run = run_operator(kind, output_path=str(tmp_path), date="2026-11-21")
    result = run.xcom()
    assert [path.removeprefix(f"{tmp_path}/")[: len(dataset) + 16] for path in result["paths"]] == [
        f"{dataset}/date=2026-11-{day}" for day in (20, 21)
    ]
    assert (result["rows"], result["date"], result["path"]) == (0, "2026-11-21", result["paths"][-1])
    assert pq.ParquetFile(result["path"]).read().schema.equals(DATASETS[dataset].schema())
