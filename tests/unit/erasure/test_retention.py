"""What is old goes, place by place, and baselines stay."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.asking.answers import SCOPE
from airflow_provider_assistant.asking.state import BatchState, End
from airflow_provider_assistant.erasure import retention
from airflow_provider_assistant.evaluation.runs import COMPARED_RUNS, RunFolder
from airflow_provider_assistant.evaluation.summary import QuestionCounts, Summary
from airflow_provider_assistant.lake.warehouse import duckdb_transaction
from airflow_provider_assistant.loading.findings import Finding, FindingsFile

DAY = date(2026, 3, 1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = pa.table({"a": ["1"]})
SUMMARY = Summary(
    name="nightly",
    questions=QuestionCounts(total=1, answered=1),
    scorers={},
    figures={},
)


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def age(path: Path, moment: datetime) -> None:
    os.utime(path, (moment.timestamp(), moment.timestamp()))


def both(function, *arguments, **options):
    """Run dry and then really; both must count the same."""
    trial = function(*arguments, dry_run=True, **options)
    assert function(*arguments, **options) == trial
    assert function(*arguments, **options) == 0
    return trial


def test_partitions_and_warehouse_rows_of_old_days(tmp_path):
    root = tmp_path / "lake"
    for dataset in ("feedback", "requests"):
        for number in range(-3, 3):
            lake.publish(TABLE, str(root), dataset, DAY + timedelta(days=number), "task")
    note = root / "feedback" / "date=2026-02-26" / "note.txt"
    note.write_text("of somebody else")
    assert both(retention.prune_lake, str(root), DAY, datasets=["feedback"]) == 3
    assert both(retention.prune_lake, str(root), DAY) == 3
    assert note.exists()
    assert len(names(root)) == 7
    assert both(retention.prune_lake, str(tmp_path / "none"), DAY) == 0
    with duckdb_transaction(str(tmp_path / "w.duckdb")) as store:
        store.run("CREATE SCHEMA assistant")
        for table in ("feedback", "mine"):
            days = "SELECT DATE '2026-03-01' + i::INTEGER AS date FROM range(-2, 2) t(i)"
            store.run(f"CREATE TABLE assistant.{table} AS {days}")
        assert both(retention.prune_warehouse, store, DAY) == 2
        assert store.run("SELECT count(*) FROM assistant.mine") == [(4,)]


def test_files_and_states_that_nobody_has_written_to(tmp_path):
    answers, findings = tmp_path / "a" / "answers.parquet", tmp_path / ".a.findings.parquet"
    lake.replace(TABLE.replace_schema_metadata({SCOPE: b"scope"}), ObjectStoragePath(str(answers)))
    with FindingsFile(findings) as file:
        file.add(Finding("rejected", "key", "reason"))
    others = [tmp_path / "other.parquet", tmp_path / "text.parquet"]
    lake.replace(TABLE, ObjectStoragePath(str(others[0])))
    others[1].write_text("no Parquet")
    for number in (1, 2):
        BatchState(str(tmp_path / f".{number}.parquet.00.chat-batch")).add([End("q", "lost", 1.0)])
    for file in tmp_path.rglob("*"):
        if file.is_file() and ".2." not in str(file):
            age(file, NOON - timedelta(days=1))
    assert both(retention.prune_files, str(tmp_path), NOON - timedelta(days=2)) == 0
    assert both(retention.prune_files, str(tmp_path), NOON) == 2
    assert both(retention.prune_batch_states, str(tmp_path), NOON) == 1
    left = [name.split("/")[0] for name in names(tmp_path)]
    assert left == [".2.parquet.00.chat-batch", "other.parquet", "text.parquet"]
    assert retention.prune_files(str(tmp_path / "none"), NOON) == 0


@pytest.mark.promise("erasure", "Old evaluations are deleted, but none that a later run compares with.")
def test_evaluations_that_are_no_baseline(tmp_path):
    """The runs that the next run compares with stay, at any age."""
    runs = []
    for number in range(COMPARED_RUNS + 12):
        moment = NOON + timedelta(days=number)
        directory = RunFolder.of(str(tmp_path), "nightly", moment, f"run {number}")
        runs.append(directory)
        lake.replace_bytes(SUMMARY.as_json(), directory.summary)
        lake.replace_bytes(b"page", directory.report)
    incomplete = RunFolder.of(str(tmp_path), "nightly", NOON, "killed")
    lake.replace_bytes(b"page", incomplete.report)
    far = NOON + timedelta(days=1000)
    # Day 0, and the incomplete run of that day.
    assert both(retention.prune_evaluations, str(tmp_path), NOON + timedelta(days=1)) == 2
    assert both(retention.prune_evaluations, str(tmp_path), far, keep=[str(runs[5].summary), str(runs[6].path)]) == 9
    left = [runs.index(run) for run in runs if run.path.is_dir()]
    assert left == [5, 6, *range(12, COMPARED_RUNS + 12)]
    assert both(retention.prune_evaluations, str(tmp_path / "none"), far) == 0
