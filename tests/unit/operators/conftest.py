"""Fixtures of several files."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.asking.answers import STATUSES
from tests.task_runs.context import task_context
from tests.unit.operators.batches import batch_of


@pytest.fixture
def output(tmp_path):
    """The file that a chat batch writes."""
    return tmp_path / "answers" / "today.parquet"


@pytest.fixture
def execute(output):
    """Execute a chat batch like a new process, without a DAG, and check that the counts add up."""

    def executed(source, *, run_id="run", max_tries=0, map_index=-1, **arguments):
        context = task_context("ask", run_id=run_id, max_tries=max_tries, map_index=map_index)
        result = batch_of(source, arguments.pop("output_path", output), **arguments).execute(context)
        assert result["rows"] == sum(result[status] for status in STATUSES)
        return result

    return executed
