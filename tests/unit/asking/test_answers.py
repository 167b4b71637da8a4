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
)
from airflow_provider_assistant.asking.questions import Question, Questions, typed
from airflow_provider_assistant.asking.state import Answer

ENDS = ("complete", "failed", "lost", "not_submitted", "open", "unknown")


def question(number, **changes):
    values = ("q", f"k{number}", f"key {number}", 1, number + 1, None, f"c{number}", {"message": f"{number}?"})
    return Question(*values)._replace(question_id=f"q{number}", **changes)


def answers_of(states):
    """Return the answers of questions in these states."""
    answers = {}
    for number, state in enumerate(states):
        answer = Answer(f"q{number}", state, f"r{number}", f"s{number}", 100.0, attempts=1)
        if state == "not_submitted":
            answer = Answer(f"q{number}", state, ended_at=104.0, error="rejected: empty")
        elif state != "open":
            answer = answer._replace(ended_at=104.0, seconds=4.0, polls=2, error=f"it {state}")
        if state == "complete":
            answer = answer._replace(answer="\ud83d", raw="{}", confidence_level="low", error=None)
        if state != "unknown":
            answers[f"q{number}"] = answer
    return answers


def table_of(states, others=None):
    others = pa.table({}) if others is None else others
    questions = Questions([question(number) for number in range(len(states))], others)
    return output_table(questions, answers_of(states))


@pytest.mark.promise("chat", "Every question has its row in the answers, whatever happened to it.")
@pytest.mark.parametrize("seed", range(5))
def test_every_question_has_its_row_in_order(seed):
    rng = random.Random(seed)
    states = rng.choices(ENDS, k=rng.randrange(0, 40))
    table = table_of(states, pa.table({"id": list(range(len(states)))}))
    assert table.column_names == [*COLUMNS, "id"]
    rows = table.to_pylist()
    assert [row["key"] for row in rows] == [f"key {number}" for number in range(len(states))]
    wanted = {"open": "timed_out", "unknown": "not_submitted"}
    assert [row["status"] for row in rows] == [wanted.get(state, state) for state in states]
    assert all((row["error"] is None) == (row["status"] == "complete") for row in rows)
    submitted = sum(state not in {"not_submitted", "unknown"} for state in states)
    result = counts(table, answers_of(states), {"q1"})
    assert sum(result[status] for status in STATUSES) == result["rows"] == len(states)
    assert (result["submitted"], result["possibly_duplicated"]) == (submitted, 1)
    assert result["rejected"] == states.count("not_submitted")
    assert result["low_confidence"] == (states.count("complete") or None)
    # The types do not depend on what is in the columns.
    assert table.schema.equals(table_of([], pa.table({"id": pa.array([], pa.int64())})).schema)


def test_a_turn_after_one_without_an_answer_says_so_and_stays_in_its_session():
    questions = Questions([question(number, turn=number + 1, conversation="c") for number in range(3)], pa.table({}))
    answers = {"q0": Answer("q0", "failed", "r", "s", ended_at=1.0, error="no")}
    table = output_table(questions, answers)
    assert table["session_id"].to_pylist() == ["s"] * 3
    assert table["error"].to_pylist() == [
        "no",
        "not sent: turn 1 of its session has no answer (failed)",
        "not sent: turn 2 of its session has no answer (not_submitted)",
    ]


def test_answers_are_found_again_by_the_same_task_only(tmp_path):
    states = ["complete", "failed", "complete", "open"]
    table, answers = table_of(states), answers_of(states)
    path = ObjectStoragePath(str(tmp_path / "answers.parquet"))
    assert published(path, "dag/run") == {}
    pq.write_table(table.replace_schema_metadata({SCOPE: b"dag/run"}), str(path))
    assert published(path, "dag/other") == {}
    found = published(path, "dag/run")
    assert found == {name: answers[name]._replace(answer="\\ud83d") for name in ("q0", "q2")}
    (tmp_path / "answers.parquet").write_bytes(b"PAR1 no table")
    assert published(path, "dag/run") == {}


def test_equal_rows_are_one_row_of_the_dataset():
    twice = Questions([question(number) for number in (0, 1, 0, 1)], pa.table({}))
    rows = list(rows_of_dataset(output_table(twice, answers_of(["complete", "failed"]))))
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
