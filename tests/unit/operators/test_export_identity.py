"""Exports write each row of a day once, also after a rename or with another ledger."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow.dataset as ds
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import (
    AssistantInputError,
    AssistantLedgerError,
    AssistantStorageError,
)
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.transfers import base as transfers
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.ledgers import Filler
from tests.task_runs.context import task_context
from tests.task_runs.finals import is_final

EXPORTS = {
    "statistics": AssistantStatisticsToParquetOperator,
    "limits": AssistantLimitsToParquetOperator,
    "feedback": AssistantFeedbackToParquetOperator,
    "requests": AssistantRequestsToParquetOperator,
    "loads": AssistantLoadsToParquetOperator,
}


@pytest.fixture
def today(same_day, service, connection):
    """The day on which one entry of each kind was recorded in the ledger."""
    with Ledger.open() as ledger:
        fill = Filler(ledger.engine)
        details = {"session_id": "s", "mode": "async", "remote_id": "r"}
        fill.attempt("r", "created", kind="chat", hours=0, remote_id="r", details=details)
        fill.attempt("r", "created", kind="rating", hours=0, remote_id="r", details={**details, "rating": "good"})
        fill.load(hours=0)
    return datetime.now(UTC).date().isoformat()


@pytest.fixture
def export(today, tmp_path):
    def exported(dataset, task_id="export", dag_id="nightly", map_index=-1, **arguments):
        with DAG(dag_id, schedule=None):
            operator = EXPORTS[dataset](task_id=task_id, output_path=str(tmp_path), date=today, **arguments)
        return operator.execute(task_context(task_id, dag_id=dag_id, map_index=map_index))

    return exported


@pytest.fixture
def folder(today, tmp_path):
    """Return the folder of a dataset for the day."""
    return lambda dataset: tmp_path / dataset / f"date={today}"


@pytest.fixture
def files(folder):
    return lambda dataset: sorted(path.name for path in folder(dataset).iterdir())


@pytest.fixture
def rows(folder):
    return lambda dataset: ds.dataset(folder(dataset)).count_rows()


@pytest.mark.promise("lake and warehouse", "A day is in a dataset once, also after its task was renamed.")
@pytest.mark.parametrize("renamed", [{"task_id": "other"}, {"dag_id": "weekly"}], ids=["task", "dag"])
@pytest.mark.parametrize("dataset", EXPORTS)
def test_a_renamed_export_does_not_count_a_day_twice(dataset, renamed, export, files, rows):
    export(dataset)
    before = rows(dataset)
    assert before > 0
    with pytest.raises(AssistantInputError, match=r"file_name='nightly\.export'"):
        export(dataset, **renamed)
    assert rows(dataset) == before
    export(dataset, **renamed, file_name="nightly.export")
    assert files(dataset) == ["nightly.export.parquet"]
    assert rows(dataset) == before


@pytest.mark.parametrize("dataset", ["statistics", "feedback"])
def test_two_tasks_that_write_the_same_rows_at_once_do_not_both_stay(dataset, export, files, monkeypatch):
    written = transfers.publish

    def publish_after_another_task(task, context, table, *arguments, **options):
        if table.num_rows:
            monkeypatch.setattr(transfers, "publish", written)
            export(dataset, task_id="other")
        return written(task, context, table, *arguments, **options)

    # The other task writes after this one has looked, and before this one writes.
    monkeypatch.setattr(transfers, "publish", publish_after_another_task)
    with pytest.raises(AssistantStorageError, match="at the same moment"):
        export(dataset)
    assert files(dataset) == ["nightly.other.parquet"]
    with pytest.raises(AssistantInputError, match="already contains"):
        export(dataset)


def test_a_task_that_gets_the_site_of_another_one_is_noticed(export, rows):
    export("statistics", task_id="one", site_id="acme-docs")
    export("statistics", task_id="two", site_id="acme-shop")
    before = rows("statistics")
    with pytest.raises(AssistantInputError, match="already contains"):
        export("statistics", task_id="two", site_id="acme-docs")
    assert rows("statistics") == before


def test_mapped_parts_of_one_task_may_change_places(export, files):
    for sites in (["acme-docs", "acme-shop"], ["acme-shop", "acme-docs"]):
        for index, site_id in enumerate(sites):
            export("statistics", map_index=index, site_id=site_id)
    assert files("statistics") == ["nightly.export.0.parquet", "nightly.export.1.parquet"]


@pytest.mark.parametrize("dataset", ["feedback", "requests", "loads"])
def test_an_empty_ledger_of_another_machine_does_not_empty_a_day(dataset, export, rows, ledger_home, caplog):
    export(dataset)
    for file in ledger_home.glob("assistant_ledger.db*"):
        file.unlink()
    with pytest.raises(AssistantLedgerError, match="has 1 row,", check=is_final) as caught:
        export(dataset, days=1)
    assert str(ledger_home) in str(caught.value)
    assert rows(dataset) == 1
    assert "A new, empty ledger was created" in caplog.text


def test_a_day_that_lost_its_rows_in_the_same_ledger_is_replaced(export, rows):
    export("requests")
    with Ledger.open() as ledger, ledger.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE assistant_attempts SET state = 'failed'")
    assert export("requests", days=1)["rows"] == 0
    assert rows("requests") == 0
