"""Which earlier runs an evaluation reads and compares with."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_assistant.evaluation.runs import RunFolder, earlier_runs, kept_for_comparison
from airflow_provider_assistant.evaluation.summary import Gate, QuestionCounts, RuleVerdict, Summary
from airflow_provider_assistant.exceptions import AssistantInputError

NIGHT = datetime(2026, 11, 1, tzinfo=UTC)


def folder(root, number, name="golden"):
    return RunFolder.of(str(root), name, NIGHT + timedelta(days=number), f"run {number}")


def finish(place, *, is_worse=False, **run):
    """Write the summary of a run."""
    rule = RuleVerdict(rule="x drop <= 0", figure="x", verdict="failed", reason="", is_worse=is_worse)
    summary = Summary(
        name="golden",
        run=run,
        questions=QuestionCounts(total=1, answered=1),
        scorers={},
        figures={},
        gate=Gate(verdict="failed", rules=[rule]),
    )
    place.path.mkdir(parents=True, exist_ok=True)
    place.summary.write_bytes(summary.as_json())
    return place


@pytest.fixture
def reads(monkeypatch):
    """Count the summaries that are read, and how many at the same time."""
    lock, opened = threading.Lock(), []
    read = RunFolder.read_summary

    def read_summary(run):
        with lock:
            opened.append(run.path.name)
        return read(run)

    monkeypatch.setattr(RunFolder, "read_summary", read_summary)
    return opened


@pytest.mark.promise("evaluation", "An evaluation reads at most 28 earlier runs, and none of other evaluations.")
def test_at_most_28_runs_are_read_and_none_of_other_evaluations(tmp_path, reads):
    for number in range(60):
        finish(folder(tmp_path, number))
        finish(folder(tmp_path, number, name="other"))
    found = earlier_runs(folder(tmp_path, 60), "previous")
    assert [run.folder for run in found] == [folder(tmp_path, number) for number in range(59, 31, -1)]
    assert len(reads) == 28


@pytest.mark.promise("evaluation", "A night is compared with the last good nights before it of the same name.")
def test_runs_that_got_worse_are_left_out_but_the_last_two_are_known(tmp_path):
    worse = {50, 51, 58, 59}
    for number in range(60):
        finish(folder(tmp_path, number), is_worse=number in worse)
    found = earlier_runs(folder(tmp_path, 60), "previous")
    numbers = [int(run.summary.name == "golden") and int(run.folder.path.name.rpartition("_")[2]) for run in found]
    assert [number for number, run in zip(numbers, found, strict=True) if not run.is_compared] == [59, 58]
    compared = [number for number, run in zip(numbers, found, strict=True) if run.is_compared]
    assert compared == [number for number in range(57, 27, -1) if number not in worse]
    assert kept_for_comparison(folder(tmp_path, 0).path.parent) == [run.folder for run in found]


def test_only_complete_runs_before_this_one_count(tmp_path):
    chance = random.Random(3)
    complete = set(chance.sample(range(20), 12))
    for number in range(20):
        place = folder(tmp_path, number)
        place.path.mkdir(parents=True)
        if number in complete:
            finish(place)
    (tmp_path / "golden" / "notes").mkdir()
    found = earlier_runs(folder(tmp_path, 10), "previous")
    assert [run.folder for run in found] == [folder(tmp_path, n) for n in range(9, -1, -1) if n in complete]


def test_a_folder_belongs_to_one_task_instance(tmp_path):
    place = finish(folder(tmp_path, 1), dag_id="nightly", task_id="judge", run_id="r")
    place.check_owner({"dag_id": "nightly", "task_id": "judge", "run_id": "r", "logical_date": "another"})
    with pytest.raises(
        AssistantInputError, match=r"holds the evaluation of dag_id nightly.*another name or output_path"
    ):
        place.check_owner({"dag_id": "other", "task_id": "judge", "run_id": "r"})


@pytest.mark.parametrize("file", ["", "summary.json", "scores.parquet", "report.html"])
def test_a_baseline_is_the_folder_of_a_run_or_a_file_in_it(tmp_path, file):
    place = finish(folder(tmp_path, 1))
    (found,) = earlier_runs(folder(tmp_path, 9, name="elsewhere"), str(place.path / file if file else place.path))
    assert (found.folder, found.is_compared) == (place, True)


def test_a_baseline_that_is_none_is_refused(tmp_path):
    place = finish(folder(tmp_path, 1))
    with pytest.raises(AssistantInputError, match="the output folder of this run itself"):
        earlier_runs(place, str(place.path))
    with pytest.raises(AssistantInputError, match="it is not an evaluation, or an incomplete one"):
        earlier_runs(place, str(tmp_path))
    place.summary.write_text("{")
    with pytest.raises(AssistantInputError, match="is not a summary of an evaluation"):
        earlier_runs(folder(tmp_path, 2), "previous")


def test_names_and_runs_become_folders_below_the_output(tmp_path):
    for name in ("..", "a/b", "golden set", "/etc"):
        assert folder(tmp_path, 1, name=name).path.parent.parent.path == str(tmp_path)
    assert folder(tmp_path, 1).path.name == "2026-11-02T00-00-00.000000Z_run_1"
    assert folder(tmp_path, 1).time == NIGHT + timedelta(days=1)
