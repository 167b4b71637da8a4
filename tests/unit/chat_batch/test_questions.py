"""Read questions from a source: column mapping, sessions, and inputs that are rejected before any request."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from airflow_provider_assistant.chat_batch.answers import COLUMNS
from airflow_provider_assistant.chat_batch.question_reading import read_questions
from airflow_provider_assistant.exceptions import AssistantInputError

ROWS = [{"id": number, "message": f"Question {number}?", "expected": f"Answer {number}"} for number in range(5)]
BATCH = 1000


def questions(source, **options):
    arguments = {
        "columns": None,
        "constants": None,
        "key_columns": ("id",),
        "session": None,
        "scope": "dag/run/batch/-1",
    }
    return read_questions(source, **arguments | options)


def messages(read):
    """Return the body of each valid row, or the problem of an invalid one."""
    texts = [read.text(position) for position in range(len(read))]
    return [text.problem or json.loads(text.payload) for text in texts]


def sessions(read):
    return [message["session_id"] for message in messages(read)]


def write_lines(rows, path):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_files_of_different_columns_are_filled_up(tmp_path):
    write_lines([{"id": 1, "message": "One?", "a": 1}], tmp_path / "1.jsonl")
    write_lines([{"id": 2, "message": "Two?", "b": 2}], tmp_path / "2.jsonl")
    assert questions(str(tmp_path)).passthrough_columns == {"id": [1, 2], "a": [1, None], "b": [None, 2]}


def test_a_column_that_comes_late_is_filled_up():
    rows = [{"id": number, "message": f"{number}?"} for number in range(2 * BATCH)] + [
        {"id": -1, "message": "last", "late": True}
    ]
    passthrough = questions(rows).passthrough_columns
    assert passthrough["late"] == [None] * (2 * BATCH) + [True]
    assert len(passthrough["id"]) == 2 * BATCH + 1


def test_optional_fields_are_sent_where_there_are_columns_and_passed_through():
    rows = [
        {"id": 1, "message": "One?", "email": "a@example.com", "response_language": None},
        {"id": 2, "message": "Two?", "email": "", "response_language": "de"},
    ]
    read = questions(rows, constants={"session_id": "s"})
    assert messages(read) == [
        {"session_id": "s", "message": "One?", "email": "a@example.com"},
        {"session_id": "s", "message": "Two?", "response_language": "de"},
    ]
    assert read.passthrough_columns["email"] == ["a@example.com", ""]


def test_each_row_has_its_own_stable_session():
    first, again = sessions(questions(ROWS)), sessions(questions(list(reversed(ROWS))))
    assert len(set(first)) == 5
    assert again == list(reversed(first))
    assert not set(first) & set(sessions(questions(ROWS, scope="dag/other/batch/-1")))
    assert sessions(questions(ROWS, session="per_row")) == first
    (shared,) = set(sessions(questions(ROWS, session="shared")))
    assert {shared} == set(sessions(questions(list(reversed(ROWS)), session="shared")))
    assert {shared}.isdisjoint(sessions(questions(ROWS, session="shared", scope="dag/other/batch/-1")))


def test_without_key_columns_the_message_is_the_key():
    rows = [{"a": 1, "b": "x", "message": "?"}, {"a": None, "b": "y", "message": "?"}]
    assert questions(rows, key_columns=["a", "b"]).display_keys == ["a=1, b=x", "a=, b=y"]
    read = questions([{"key": 7, "message": "?"}], key_columns=["key"])
    assert (read.display_keys, read.passthrough_columns) == (["7"], {})
    assert questions([{"message": "half \ud83d"}], key_columns=()).display_keys == ["half \\ud83d"]
    read = questions([{"message": "One?"}, {"message": "Two?"}, {"message": "One?"}], key_columns=())
    one, two, again = read.question_ids
    assert one == again != two
    first, second, third = sessions(read)
    assert first == third != second
    assert read.display_keys == ["One?", "Two?", "One?"]


@pytest.mark.parametrize("options", [{}, {"session": "thread"}, {"columns": {"session_id": "thread"}}])
def test_sessions_of_a_column(options):
    name = "thread" if options else "session_id"
    rows = [{**row, name: f"s{row['id'] % 2}"} for row in ROWS]
    read = questions(rows, **options)
    assert sessions(read) == ["s0", "s1", "s0", "s1", "s0"]
    assert read.field("session_id") == sessions(read)
    assert set(read.passthrough_columns) == {"id", "expected"}


@pytest.mark.promise("chat", "An invalid question does not affect the others.")
@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"message": " "}, "column 'message' is empty"),
        ({"message": None}, "column 'message' is empty"),
        ({"message": 7}, "column 'message' must be text, not a number"),
        ({"email": "nobody"}, "column 'email' must be one e-mail address"),
        ({"response_language": "as you like"}, "column 'response_language' must be a language code"),
        ({"session_id": ""}, "column 'session_id' is empty"),
        ({"session_id": 7}, "column 'session_id' must be text, not a number"),
        ({"id": None}, "key column 'id' is empty"),
    ],
)
def test_an_invalid_row_does_not_affect_the_others(row, problem):
    good = {"id": 1, "message": "?", "session_id": "s", "email": "a@example.com", "response_language": "de"}
    bad, fine = messages(questions([{**good, "id": 2, **row}, good]))
    assert problem in bad
    assert fine["message"] == "?"


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
        (reserved("session_id"), {"session": "shared"}, "column session_id"),
        ([{"key": 1, "b": 2, "message": "?"}], {"key_columns": ["key", "b"]}, "column key"),
    ],
)
def test_invalid_questions_are_named(source, options, part):
    with pytest.raises(AssistantInputError, match=part):
        questions(source, **options)


def test_another_message_under_the_same_key_is_another_question():
    one, other = (questions([{"id": 1, "message": text}]) for text in ("One?", "Other?"))
    threads = questions([{"message": "And then?", "session_id": name} for name in "ab"], key_columns=())
    assert len(set(threads.keys)) == len(set(threads.question_ids)) == 2
    assert one.keys == other.keys
    assert one.question_ids != other.question_ids
    assert one.question_ids == questions([{"id": 1, "message": "One?", "more": 1}]).question_ids


@pytest.mark.parametrize("dtype", ["float64", "Int64", "string", "object"])
def test_a_question_is_the_same_whatever_type_its_key_has(dtype):
    rows = [{"id": number, "message": f"{number}?"} for number in (1, 2)]
    frame = pd.DataFrame(rows).astype({"id": dtype})
    assert questions(frame).keys == questions(rows).keys
    assert questions(frame).question_ids == questions(rows).question_ids
    assert questions(frame).display_keys == ["1", "2"]
    assert [one["session_id"] for one in messages(questions(frame))] == [
        one["session_id"] for one in messages(questions(rows))
    ]


def test_an_unreadable_line_is_one_invalid_question(tmp_path):
    (tmp_path / "questions.csv").write_text("id,message\n1,a?\n2,b?,c?\n3,d?\n")
    first, second, third = messages(questions(str(tmp_path / "questions.csv")))
    assert (first["message"], third["message"]) == ("a?", "d?")
    assert "questions.csv, line 3: has 3 cells" in second
