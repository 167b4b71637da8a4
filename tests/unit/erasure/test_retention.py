"""What is old goes, place by place, and baselines stay."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.erasure import retention
from airflow_provider_assistant.evaluation.runs import COMPARED_RUNS, RunFolder
from airflow_provider_assistant.evaluation.summary import QuestionCounts, Summary
from airflow_provider_assistant.ledger import Ledger, queries
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, findings_folder
from airflow_provider_assistant.operators.retention import AssistantRetentionOperator
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.storage.write import replace_bytes
from tests.ledgers import Filler
from tests.task_runs.context import execute_operator
from tests.unit.lake.nights import FIRST, origin, write_rows, write_statistics

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SUMMARY = Summary(name="nightly", questions=QuestionCounts(total=1, answered=1), scorers={}, figures={})


VALUE = {"metric": "chats", "value": 1.0, "text": "1", "type": "number"}


def write_foreign(path):
    """Write a Parquet file of another program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pq.write_table(pa.table({"x": [1]}), file)


def both(function, *arguments, **options):
    """Run dry and then really; both must count the same."""
    trial = function(*arguments, dry_run=True, **options)
    assert function(*arguments, **options) == trial
    assert function(*arguments, **options) == 0
    return trial


def test_old_days_of_datasets(tmp_path):
    for number in range(-3, 3):
        write_statistics(tmp_path, FIRST + timedelta(days=number), {"a": 1})
    note = tmp_path / "statistics" / f"date={FIRST - timedelta(days=3)}" / "note.txt"
    note.write_text("of somebody else")
    foreign = [note.with_name("damaged.parquet"), tmp_path / "answers" / "date=2025-01-01" / "foreign.parquet"]
    shutil.copy(note, foreign[0])
    write_foreign(foreign[1])
    # The dataset of a route without an operator.
    write_rows(tmp_path, "usage", FIRST - timedelta(days=3), [{**origin(), **VALUE}])
    assert both(retention.prune_lake, str(tmp_path), datetime.combine(FIRST, datetime.min.time(), UTC)) == 4
    assert [path.exists() for path in (note, *foreign)] == [True] * 3
    assert len(list(tmp_path.rglob("*.parquet"))) == 3 + len(foreign)
    assert both(retention.prune_lake, str(tmp_path / "none"), NOON) == 0


@pytest.mark.parametrize("root", ["", "memory://findings"])
def test_old_findings(root, ledger_home, monkeypatch):
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setenv("AIRFLOW__ASSISTANT__FINDINGS_FOLDER", root)
    attach("memory", fs=MemoryFileSystem())
    files = [object_storage_path(f"{findings_folder()}/dag/{name}.parquet") for name in ("old", "new", "foreign")]
    for file in files[:2]:
        with FindingsFile(file) as findings:
            findings.add(Finding("rejected", "key", "reason"))
    write_foreign(files[2])
    day = write_statistics(findings_folder() / "lake", FIRST, {"a": 1})
    files.append(object_storage_path(day.path))
    for file in (files[0], *files[2:]):
        if root:
            file.fs.store[file.path].modified = NOON
        else:
            os.utime(file.path, (NOON.timestamp(), NOON.timestamp()))
    assert both(retention.prune_findings, NOON + timedelta(days=1)) == 1
    assert [file.exists() for file in files] == [False, True, True, True]


@pytest.mark.promise("erasure", "Old evaluations are deleted, but none that a later run compares with.")
def test_evaluations_that_are_no_baseline(tmp_path, monkeypatch):
    """The runs that the next run compares with stay, at any age."""
    monkeypatch.chdir(tmp_path)
    runs = []
    for number in range(COMPARED_RUNS + 12):
        runs.append(RunFolder.of(str(tmp_path), "nightly", NOON + timedelta(days=number), f"run {number}"))
        replace_bytes(SUMMARY.as_json(), runs[-1].summary)
        replace_bytes(b"page", runs[-1].report)
    replace_bytes(b"page", RunFolder.of(str(tmp_path), "nightly", NOON, "killed").report)
    # Day 0, and the incomplete run of that day.
    assert both(retention.prune_evaluations, str(tmp_path), NOON + timedelta(days=1)) == 2
    keep = [str(runs[5].summary), f"file://{runs[6].path}", os.path.relpath(str(runs[7].path))]
    far = NOON + timedelta(days=1000)
    assert both(retention.prune_evaluations, str(tmp_path), far, keep=keep) == 8
    left = [runs.index(run) for run in runs if run.path.is_dir()]
    assert left == [5, 6, 7, *range(12, COMPARED_RUNS + 12)]


def test_the_operator_deletes_in_all_places(ledger_home, tmp_path):
    write_statistics(tmp_path / "lake", FIRST - timedelta(days=900), {"a": 1})
    with Ledger.open() as ledger:
        fill = Filler(ledger.engine)
        details = {"session_id": "s", "rating": "good"}
        key = fill.attempt("r", "created", kind="rating", hours=24 * 500, remote_id="r", details=details)
        fill.attempt("c", "created", kind="chat", hours=24 * 500, details={"mode": "async"})
        fill.attempt("d", "created", hours=24 * 500)
        file = findings_folder() / "old.parquet"
        with FindingsFile(file) as findings:
            findings.add(Finding("rejected", "key", "reason"))
        os.utime(file, (1, 1))
        operator = AssistantRetentionOperator(
            task_id="prune", output_path=str(tmp_path / "lake"), evaluations=[str(tmp_path / "evaluations")]
        )
        result = execute_operator(operator)
        assert result["ledger"]["chat"] == 1
        assert (result["findings_files"], result["days"], result["evaluations"]) == (1, 1, 0)
        recorded = ledger.read(queries.page_of_tries).rows[0]
        assert (recorded["outcome"], recorded["findings"], recorded["counts"]) == ("succeeded", None, result)
        with ledger.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT kind, session_id, remote_id FROM assistant_attempts").fetchall()
    # A rating keeps its key only, and documents stay.
    assert sorted(map(tuple, rows))[1] == ("rating", "", f"pruned-{key}")
    assert len(rows) == 2
