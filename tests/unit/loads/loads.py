"""Rows of loads, and what a load did."""

from __future__ import annotations

import contextlib
import json
import os

import pyarrow.parquet as pq

from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from tests.task_runs.context import task_context

ROWS = [
    {"title": "Opening hours", "question": "When are you open?", "answer": "From 9 to 17.", "category": "faq"},
    {
        "title": "Öffnungszeiten",
        "question": "Wann offen?",
        "answer": "Von 9 bis 17 Uhr, täglich 🕘",
        "category": "faq",
    },
]
ENDS = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")
KEYED = {"key_columns": ["title"]}


def many(count, **changes):
    return [dict(ROWS[0], title=f"T{number}") | changes for number in range(count)]


def render(operator):
    operator.render_template_fields({})
    return operator


@contextlib.contextmanager
def in_flight(most):
    """Let the connection allow this many requests at a time; None for its default."""
    name = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
    before = os.environ[name]
    connection = json.loads(before)
    if most is not None:
        connection["extra"]["max_concurrency"] = most
    os.environ[name] = json.dumps(connection)
    try:
        yield
    finally:
        os.environ[name] = before


def load(
    source, kind=AssistantLoadQAOperator, *, run_id="run", map_index=-1, task_id="load", max_concurrency=None, **options
):
    """Execute an operator without a DAG, and check that the counts add up."""
    name = "files" if kind is AssistantUploadFilesOperator else "source"
    operator = render(kind(task_id=task_id, **{name: source}, **options))
    with in_flight(max_concurrency):
        result = operator.execute(task_context(task_id, run_id=run_id, map_index=map_index))
    assert result["rows"] == sum(result[end] for end in ENDS)
    return result


def counts(result):
    return {end: result[end] for end in ENDS if result[end]}


def listed(home, run_id="run", task_id="load"):
    table = pq.read_table(home / "assistant_loads" / "dag" / task_id / f"{run_id}.parquet")
    return [(row["kind"], row["row"], row["key"]) for row in table.to_pylist()]


def loaded(service):
    rows = [{name: row[name] for name in ("title", "question", "category")} | {"answer": row["content"]}
            for row in service.documents()]  # fmt: skip
    return sorted(rows, key=lambda row: row["title"])


def loaded_titles(service):
    return sorted(row["title"] for row in service.documents())
