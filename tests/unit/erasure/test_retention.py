"""What is old goes, place by place, and baselines stay."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_assistant.erasure import retention
from airflow_provider_assistant.evaluation.runs import COMPARED_RUNS, RunFolder
from airflow_provider_assistant.evaluation.summary import QuestionCounts, Summary
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, findings_folder
from airflow_provider_assistant.operators.retention import AssistantRetentionOperator
from airflow_provider_assistant.storage.write import replace_bytes
from tests.ledgers import Filler
from tests.task_runs.context import execute_operator
from tests.unit.lake.nights import FIRST, write_statistics

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SUMMARY = Summary(name="nightly", questions=QuestionCounts(total=1, answered=1), scorers={}, figures={})


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
    assert both(retention.prune_lake, str(tmp_path), datetime.combine(FIRST, datetime.min.time(), UTC)) == 3
    assert note.exists()
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    assert both(retention.prune_lake, str(tmp_path / "none"), NOON) == 0


def test_old_findings(ledger_home):
    files = [findings_folder() / "dag" / f"{name}.parquet" for name in ("old", "new")]
    for file in files:
        with FindingsFile(file) as findings:
            findings.add(Finding("rejected", "key", "reason"))
    os.utime(files[0], (NOON.timestamp(), NOON.timestamp()))
    assert both(retention.prune_findings, NOON + timedelta(days=1)) == 1
    assert [file.exists() for file in files] == [False, True]


@pytest.mark.promise("erasure", "Old evaluations are deleted, but none that a later run compares with.")
def test_evaluations_that_are_no_baseline(tmp_path):
    """The runs that the next run compares with stay, at any age."""
    runs = []
    for number in range(COMPARED_RUNS + 12):
        runs.append(RunFolder.of(str(tmp_path), "nightly", NOON + timedelta(days=number), f"run {number}"))
        replace_bytes(SUMMARY.as_json(), runs[-1].summary)
        replace_bytes(b"page", runs[-1].report)
    replace_bytes(b"page", RunFolder.of(str(tmp_path), "nightly", NOON, "killed").report)
    # Day 0, and the incomplete run of that day.
    assert both(retention.prune_evaluations, str(tmp_path), NOON + timedelta(days=1)) == 2
    far, keep = NOON + timedelta(days=1000), [str(runs[5].summary), str(runs[6].path)]
    assert both(retention.prune_evaluations, str(tmp_path), far, keep=keep) == 9
    left = [runs.index(run) for run in runs if run.path.is_dir()]
    assert left == [5, 6, *range(12, COMPARED_RUNS + 12)]


def test_the_operator_deletes_in_all_places(ledger_home, tmp_path):
    write_statistics(tmp_path / "lake", FIRST - timedelta(days=900), {"a": 1})
    with Ledger.open() as ledger:
        fill = Filler(ledger.engine)
        details = {"session_id": "s", "rating": "good"}
        key = fill.attempt("r", "created", kind="rating", hours=24 * 500, remote_id="r", details=details)
        fill.attempt("c", "created", kind="chat", hours=24 * 500, details={"mode": "async"})
        fill.attempt("d", "created", hours=24 * 500)
        operator = AssistantRetentionOperator(
            task_id="prune", output_path=str(tmp_path / "lake"), evaluations=[str(tmp_path / "evaluations")]
        )
        result = execute_operator(operator)
        assert result["ledger"]["chat"] == 1
        assert (result["findings"], result["days"], result["evaluations"]) == (0, 1, 0)
        with ledger.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT kind, session_id, remote_id FROM assistant_attempts").fetchall()
    # A rating keeps its key only, and documents stay.
    assert sorted(map(tuple, rows))[1] == ("rating", "", f"pruned-{key}")
    assert len(rows) == 2
