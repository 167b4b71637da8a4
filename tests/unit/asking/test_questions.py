"""Read questions from a source: columns, sessions, identity, and what is refused before any request."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from airflow_provider_assistant.asking.answers import COLUMNS
from airflow_provider_assistant.asking.questions import read_questions
from airflow_provider_assistant.exceptions import AssistantInputError

ROWS = [{"id": number, "message": f"Question {number}?", "expected": f"Answer {number}"} for number in range(5)]
BATCH = 1000


def questions(source, **options):
    return read_questions(source, **{"key_columns": ("id",), **options})


def ids(source, **options):
    return [question.question_id for question in questions(source, **options).rows]


def sessions(source, scope="dag/run/batch/-1", number=1, **options):
    return [question.session(scope, number) for question in questions(source, **options).rows]


def sent(source, **options):
    return [question.fields for question in questions(source, **options).rows]


def test_files_of_different_columns_are_filled_up(tmp_path):
    for number, row in enumerate([{"id": 1, "message": "One?", "a": 1}, {"id": 2, "message": "Two?", "b": 2}]):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row))
    assert questions(str(tmp_path)).others.to_pydict() == {"id": [1, 2], "a": [1, None], "b": [None, 2]}


def test_a_column_that_comes_late_is_filled_up():
    rows = [{"id": number, "message": f"{number}?"} for number in range(2 * BATCH)]
    others = questions([*rows, {"id": -1, "message": "last", "late": True}]).others.to_pydict()
    assert others["late"] == [None] * (2 * BATCH) + [True]
    assert len(others["id"]) == 2 * BATCH + 1


def test_optional_fields_are_sent_where_there_are_columns_and_passed_through():
    rows = [
        {"id": 1, "message": "One?", "email": "a@example.com", "response_language": None},
        {"id": 2, "message": "Two?", "email": "", "response_language": "de"},
    ]
    assert sent(rows, constants={"session_id": "s"}) == [
        {"session_id": "s", "message": "One?", "email": "a@example.com"},
        {"session_id": "s", "message": "Two?", "response_language": "de"},
    ]
    assert questions(rows).others["email"].to_pylist() == ["a@example.com", ""]


def test_each_row_has_its_own_stable_session_for_each_sending():
    first = sessions(ROWS)
    assert len(set(first)) == 5
    assert sessions(ROWS[::-1]) == first[::-1]
    assert not set(first) & set(sessions(ROWS, scope="dag/other/batch/-1"))
    assert not set(first) & set(sessions(ROWS, number=2))


def test_without_key_columns_everything_that_is_sent_is_the_key():
    rows = [{"a": 1, "b": "x", "message": "?"}, {"a": None, "b": "y", "message": "?"}]
    assert [one.label for one in questions(rows, key_columns=["a", "b"]).rows] == ["a=1, b=x", "a=, b=y"]
    read = questions([{"key": 7, "message": "?"}], key_columns=["key"])
    assert (read.rows[0].label, read.others.column_names) == ("7", [])
    assert questions([{"message": "half \ud83d"}], key_columns=()).rows[0].label == "half \\ud83d"
    one, two, again = ids([{"message": "One?"}, {"message": "Two?"}, {"message": "One?"}], key_columns=())
    assert one == again != two


@pytest.mark.parametrize("options", [{}, {"session": "thread"}, {"columns": {"session_id": "thread"}}])
def test_sessions_of_a_column(options):
    name = "thread" if options else "session_id"
    rows = [{**row, name: f"s{row['id'] % 2}"} for row in ROWS]
    assert sessions(rows, **options) == sessions(rows, number=2, **options) == ["s0", "s1", "s0", "s1", "s0"]
    assert set(questions(rows, **options).others.column_names) == {"id", "expected"}


@pytest.mark.promise("chat", "An invalid question does not affect the others.")
@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"message": " "}, "column 'message' is empty"),
        ({"message": None}, "column 'message' is"),
        ({"message": 7}, "column 'message' must be text, not a number"),
        ({"email": "nobody"}, "column 'email' must be one e-mail address"),
        ({"response_language": "as you like"}, "column 'response_language' must be a language code"),
        ({"session_id": 7}, "column 'session_id' must be text, not a number"),
        ({"id": None}, "key column 'id' is empty"),
    ],
)
def test_an_invalid_row_does_not_affect_the_others(row, problem):
    good = {"id": 1, "message": "?", "session_id": "s", "email": "a@example.com", "response_language": "de"}
    bad, fine = questions([{**good, "id": 2, **row}, good]).rows
    assert problem in bad.problem
    assert (fine.problem, fine.fields["message"]) == (None, "?")


def reserved(name):
    return [{"id": 1, "message": "?", name: "x"}]


@pytest.mark.parametrize(
    ("source", "options", "part"),
    [
        ([], {}, "no rows"),
        ([{"id": 1, "text": "?"}], {}, "no column message"),
        ([{"message": "?"}], {}, "no column id"),
        (ROWS, {"columns": {"message": "question"}}, "no column question"),
        (ROWS, {"session": "thread"}, "no column thread"),
        (ROWS, {"columns": {"title": "id"}}, "title"),
        (ROWS, {"constants": {"message": "?"}}, "message must be a column"),
        (ROWS, {"constants": {"email": " "}}, "email must be a non-empty string"),
        (pd.DataFrame({"id": [1], "message": [7]}), {}, "message is of type int64"),
        ("nowhere.parquet", {}, "does not exist"),
        ([{"id": 1, "message": "?", 3: "x"}], {}, "not text"),
        *((reserved(name), {}, f"column {name}") for name in COLUMNS if name not in {"message", "session_id"}),
        ([{"key": 1, "b": 2, "message": "?"}], {"key_columns": ["key", "b"]}, "column key"),
        ([*ROWS, {"id": 1, "message": "Another?"}], {}, "'1' in rows 2 and 6"),
    ],
)
def test_invalid_questions_are_named(source, options, part):
    with pytest.raises(AssistantInputError, match=part):
        questions(source, **options)


@pytest.mark.parametrize("field", ["message", "email", "response_language", "session_id"])
def test_whatever_is_sent_is_part_of_the_identity(field):
    row = {"id": 1, "message": "One?", "email": "a@example.com", "response_language": "de", "session_id": "s"}
    other = {**row, field: {"email": "b@example.com", "response_language": "en"}.get(field, "other")}
    one, another = (questions([each]).rows[0] for each in (row, other))
    assert one.key == another.key
    assert one.question_id != another.question_id
    assert ids([row]) == ids([{**row, "more": 1}])
    # Without key columns, twins are two questions.
    assert len(set(ids([row, other], key_columns=()))) == 2


@pytest.mark.parametrize("dtype", ["float64", "Int64", "string", "object"])
def test_a_question_is_the_same_whatever_type_its_key_has(dtype):
    rows = [{"id": number, "message": f"{number}?"} for number in (1, 2)]
    frame = questions(pd.DataFrame(rows).astype({"id": dtype}))
    assert frame.rows == questions(rows).rows
    assert [question.label for question in frame.rows] == ["1", "2"]


def test_an_unreadable_line_is_one_invalid_question(tmp_path):
    (tmp_path / "questions.csv").write_text("id,message\n1,a?\n2,b?,c?\n3,d?\n")
    first, second, third = questions(str(tmp_path / "questions.csv")).rows
    assert (first.fields["message"], third.fields["message"]) == ("a?", "d?")
    assert "questions.csv, line 3: has 3 cells" in second.problem
