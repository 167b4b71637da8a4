"""Folders of evaluations, their order, and the choice of the baseline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_provider_assistant.evaluation.run_directory import RunDirectory
from airflow_provider_assistant.exceptions import AssistantInputError

NIGHT = datetime(2026, 11, 21, tzinfo=UTC)


def place(root, *, moment=NIGHT, name="golden", run_id="r"):
    return RunDirectory.of(str(root), name, moment, run_id)


def test_names_are_safe_and_begin_with_the_moment_in_utc(tmp_path):
    found = place(tmp_path, moment=datetime(2026, 11, 21, 1, tzinfo=timezone(timedelta(hours=1))), run_id="r/1:é")
    assert found.folder.name == "2026-11-21T00-00-00.000000Z_r_1__"


def test_names_have_their_own_folders_in_the_folder(tmp_path):
    names = ("golden", "Golden_2", "a/../b", "a/.._b", ".", "..", "ночь", "день", "my set", "my_set")
    folders = [place(tmp_path, name=name).folder.parent for name in names]
    assert {folder.parent.path for folder in folders} == {str(tmp_path)}
    assert len({folder.name for folder in folders}) == len(names)
    assert [folder.name for folder in folders[:2]] == ["golden", "Golden_2"]


def test_there_is_no_history_before_there_is_a_folder(tmp_path):
    assert list(place(tmp_path / "none").earlier()) == []


def test_other_things_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "0-notes").mkdir()
    (tmp_path / "golden" / "0000.txt").write_text("?")
    assert list(place(tmp_path).earlier()) == []


def test_a_summary_that_is_none_is_named(tmp_path):
    broken = place(tmp_path, moment=NIGHT - timedelta(days=1))
    broken.folder.mkdir(parents=True)
    broken.summary.write_text("{}")
    with pytest.raises(AssistantInputError, match=r"2026-11-20.*summary\.json' is not a summary of an evaluation"):
        list(place(tmp_path).earlier())
