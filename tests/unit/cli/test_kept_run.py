"""Folders of unfinished runs."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.cli.kept_run import kept_run
from airflow_provider_assistant.exceptions import AssistantInputError

ARGUMENTS = {"sites": ["a", "b"], "--mode": "async"}


def begin(base, *, resume=False, **arguments):
    return kept_run(base, ARGUMENTS | arguments, resume=resume)


def keep(run):
    (run.folder / "verdicts.parquet").touch()


def test_several_runs_of_one_evaluation(tmp_path):
    base = tmp_path / "home" / "runs"
    with begin(base) as first:
        keep(first)
        with pytest.raises(AssistantInputError, match="another process is running"), begin(base, resume=True):
            pass
        # A second one that does not resume has a folder of its own, and does not delete that of a running one.
        with begin(base) as second:
            second.is_evaluated = second.is_finished = True
        assert second.id != first.id
        assert [path.name for path in base.iterdir()] == [first.folder.name]
    with begin(base):
        pass
    with begin(base) as third:
        keep(third)
    with begin(base, resume=True) as resumed:
        assert (resumed.id, resumed.folder, any(resumed.kept())) == (third.id, third.folder, True)
        resumed.is_evaluated = resumed.is_finished = True
    # The first is of no use any more, because a later one is finished.
    assert not base.exists()


def test_a_few_runs_are_kept_until_one_is_evaluated(tmp_path):
    ids = []
    for number in range(9):
        with begin(tmp_path) as run:
            keep(run)
            ids.append(run.folder.name)
        assert sorted(path.name for path in tmp_path.iterdir()) == ids[-5:], number
    with begin(tmp_path) as run:
        keep(run)
        # Some questions have no answer, so that this one can still be resumed.
        run.is_evaluated = True
    assert [path.name for path in tmp_path.iterdir()] == [run.folder.name]


def test_a_run_without_answers_is_not_kept(tmp_path):
    with pytest.raises(ZeroDivisionError), begin(tmp_path / "runs") as run, run.ledger():
        raise ZeroDivisionError
    assert not (tmp_path / "runs").exists()
