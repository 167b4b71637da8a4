"""The output of a batch: a row for each question, whatever happened to it, and counts that add up."""

from __future__ import annotations

import random
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.asking.answers import (
    COLUMNS,
    SCOPE,
    STATUSES,
    counts,
    output_table,
    published,
    rows_of_dataset,
    typed,
)
from airflow_provider_assistant.asking.questions import Question, Questions
from airflow_provider_assistant.asking.state import End, Request

ENDS = ("complete", "failed", "lost", "not_submitted", "open", "unknown")


def question(number, **changes):
    values = ("q", f"k{number}", f"key {number}", 1, number + 1, None, f"c{number}", {"message": f"{number}?"})
    return Question(*values)._replace(question_id=f"q{number}", **changes)


def batch(states):
    """Return questions in these states, with their requests and ends."""
    requests, ends = {}, {}
    for number, state in enumerate(states):
        if state not in {"not_submitted", "unknown"}:
            requests[f"q{number}"] = Request(f"q{number}", f"r{number}", f"s{number}", 100.0, 1)
        if state not in {"open", "unknown"}:
            end = End(f"q{number}", state, 104.0, error=None if state == "complete" else f"rejected: {state}")
            if state != "not_submitted":
                end = end._replace(
                    request_id=f"r{number}",
                    session_id=f"s{number}",
                    submitted_at=100.0,
                    seconds=4.0,
                    attempts=1,
                    polls=2,
                )
            if state == "complete":
                end = end._replace(answer="\ud83d", raw="{}", confidence_level="low")
            ends[f"q{number}"] = end
    return Questions([question(number) for number in range(len(states))]), requests, ends


def table_of(states, others=None):
    questions, requests, ends = batch(states)
    others = pa.table({}) if others is None else others
    return output_table(questions, others, requests, ends), requests, ends


@pytest.mark.promise("chat", "Every question has its row in the answers, whatever happened to it.")
@pytest.mark.parametrize("seed", range(5))
def test_every_question_has_its_row_in_order(seed):
    rng = random.Random(seed)
    states = rng.choices(ENDS, k=rng.randrange(0, 40))
    table, requests, _ = table_of(states, pa.table({"id": list(range(len(states)))}))
    assert table.column_names == [*COLUMNS, "id"]
    rows = table.to_pylist()
    assert [row["key"] for row in rows] == [f"key {number}" for number in range(len(states))]
    wanted = {"open": "timed_out", "unknown": "not_submitted"}
    assert [row["status"] for row in rows] == [wanted.get(state, state) for state in states]
    assert all((row["error"] is None) == (row["status"] == "complete") for row in rows)
    result = counts(table, requests.values(), {"q1"})
    assert sum(result[status] for status in STATUSES) == result["rows"] == len(states)
    assert (result["submitted"], result["possibly_duplicated"]) == (len(requests), 1)
    assert result["rejected"] == states.count("not_submitted")
    assert result["low_confidence"] == (states.count("complete") or None)
    # The types do not depend on what is in the columns.
    assert table.schema.equals(table_of([], pa.table({"id": pa.array([], pa.int64())}))[0].schema)


def test_a_turn_after_one_without_an_answer_says_so():
    questions = Questions([question(number, turn=number + 1, conversation="c") for number in range(3)])
    ends = {"q0": End("q0", "failed", 1.0, "r", error="no")}
    errors = output_table(questions, pa.table({}), {}, ends)["error"].to_pylist()
    assert errors == [
        "no",
        "not sent: turn 1 of its session has no answer (failed)",
        "not sent: turn 2 of its session has no answer (not_submitted)",
    ]


def test_answers_are_found_again_by_the_same_task_only(tmp_path):
    table, _, ends = table_of(["complete", "failed", "complete", "open"])
    path = ObjectStoragePath(str(tmp_path / "answers.parquet"))
    assert published(path, "dag/run") == {}
    pq.write_table(table.replace_schema_metadata({SCOPE: b"dag/run"}), str(path))
    assert published(path, "dag/other") == {}
    found = published(path, "dag/run")
    assert found == {name: ends[name]._replace(answer="\\ud83d") for name in ("q0", "q2")}
    (tmp_path / "answers.parquet").write_bytes(b"PAR1 no table")
    assert published(path, "dag/run") == {}


def test_equal_rows_are_one_row_of_the_dataset():
    questions, requests, ends = batch(["complete", "failed"])
    twice = Questions([*questions.rows, *questions.rows])
    rows = list(rows_of_dataset(output_table(twice, pa.table({}), requests, ends)))
    assert [row["request_id"] for row in rows] == ["r0", "r1"]


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([1, None], [1, None]),
        ([date(2026, 1, 2)], [date(2026, 1, 2)]),
        ([["a"], []], [["a"], []]),
        ([{}, {}], ["{}", "{}"]),
        ([1, "two", None], ["1", "two", None]),
        ([10**30, 1.5], [str(10**30), "1.5"]),
    ],
)
def test_other_columns_keep_their_type_or_become_text(values, read):
    assert typed(values).to_pylist() == read
