"""Cells, rows and keys of answers and golden sets."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.cells import EXPECTATIONS, check_column_names
from airflow_provider_assistant.evaluation.golden import read_cases
from airflow_provider_assistant.exceptions import AssistantInputError

WRONG_CELLS = [
    ("must_include", "refund|voucher", "write a phrase per line, and alternatives as 'a || b'"),
    ("must_include", "['refund', 'voucher']", "a JSON list such as"),
    ("must_include", [["refund"], ["voucher"]], "write alternatives as 'a || b'"),
    ("must_include", "regex:(?=refund)", "is invalid for RE2, which knows no look-around"),
    ("must_not_include", "regex:.*", "matches every text"),
    ("must_not_include", "a || regex:b", "must be at the beginning"),
    ("must_include", "a ||", "there is no text before or after ||"),
    ("expected", "['refund', 'voucher']", "a JSON list such as"),
    ("expected_url", "the refund page", "is not an address"),
    ("expect_no_answer", "perhaps", "valid boolean"),
    ("weight", "heavy", "valid number"),
    ("weight", 0, "greater than 0"),
    ("weight", "inf", "finite number"),
    ("tags", "billing|orders", "one tag per line"),
    ("repetition", 0, "greater than or equal to 1"),
    ("repetition", "two", "valid integer"),
    ("repetition", 2_000_000, "repetition is 2,000,000, of 1 answer in all"),
    ("seconds", -1.0, "greater than or equal to 0"),
]


def one(**cells):
    return read_cases(pa.Table.from_pylist([{"key": "q1", "answer": "Yes.", **cells}]))[0]


@pytest.mark.parametrize(("column", "cell", "says"), WRONG_CELLS)
@pytest.mark.promise("evaluation", "A cell that cannot be read is named with its question, column and way out.")
def test_a_cell_that_cannot_be_read_is_named(column, cell, says):
    with pytest.raises(AssistantInputError) as raised:
        one(**{column: cell})
    assert says in str(raised.value)
    assert "'q1'" in str(raised.value)
    assert raised.value.field == column


@pytest.mark.parametrize(
    ("cell", "phrases"),
    [
        ("refund\n 30 days \n\nrefund", ("refund", "30 days")),
        ('["refund", "30 days"]', ("refund", "30 days")),
        (["refund", None, "30 days", " "], ("refund", "30 days")),
        ("refund || voucher", ("refund || voucher",)),
        ("regex: ^a|b$", ("regex: ^a|b$",)),
        ("  ", ()),
        (None, ()),
        (30, ("30",)),
        (30.0, ("30",)),
    ],
)
def test_phrases_are_a_list_a_json_list_or_lines(cell, phrases):
    assert one(must_include=cell).must_include == phrases


@pytest.mark.parametrize(
    ("cell", "answers"),
    [
        ("Within\nfive days.", ("Within\nfive days.",)),
        ('["Five days.", "A week."]', ("Five days.", "A week.")),
        (["Five days.", "A week."], ("Five days.", "A week.")),
        ("[1] See the terms.", ("[1] See the terms.",)),
        (5.0, ("5",)),
        ("", ()),
    ],
)
def test_accepted_answers_are_a_list_a_json_list_or_one_text(cell, answers):
    assert one(expected=cell).expected == answers


def test_blank_cells_are_missing_and_words_are_truths():
    case = one(expect_no_answer=" ", weight=float("nan"), tags="", seconds=None, confidence_score="high")
    assert (case.expect_no_answer, case.weight, case.tags, case.seconds) == (None, 1.0, (), None)
    assert case.confidence_score is None
    assert [one(expect_no_answer=word).expect_no_answer for word in ("true", "Yes", 1, "0", "no")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_answers_and_golden_set_are_joined_on_their_keys():
    chance = random.Random(59)
    numbers = list(range(50))
    chance.shuffle(numbers)
    answers = [
        {"id": number, "message": f"{number}?", "answer": f"It is {number}.", "tags": "old"} for number in numbers
    ]
    golden = [{"id": f"{number}", "expected": f"It is {number}.", "tags": "new"} for number in range(60)]
    chance.shuffle(golden)
    cases = read_cases(pa.Table.from_pylist(answers), pa.Table.from_pylist(golden), key_columns="id")
    assert [case.key for case in cases[:50]] == [str(number) for number in numbers]
    assert all(case.expected == (case.answer,) and case.tags == ("new",) for case in cases[:50])
    assert {(case.status, case.answer) for case in cases[50:]} == {("not_asked", None)}
    assert sorted(int(case.key) for case in cases[50:]) == list(range(50, 60))


@pytest.mark.parametrize(
    ("answers", "golden", "says"),
    [
        ({"key": ["a"], "text": ["x"]}, None, "answers have no column 'answer'"),
        ({"id": ["a"], "answer": ["x"]}, None, "answers have no column 'key', only 'id', 'answer'"),
        ({"key": ["a", " "], "answer": ["x", "y"]}, None, "'key' is empty in 1 row, such as number 2"),
        ({"key": ["a", "a"], "answer": ["x", "y"]}, None, "1 duplicate key, such as 'a'"),
        ({"key": ["a"], "answer": ["x"]}, {"key": ["a"], "note": ["x"]}, "expectations have none of the columns"),
        ({"key": ["a"], "answer": ["x"]}, {"key": ["b"], "tags": ["x"]}, "have no key in common"),
        ({"key": ["a"], "answer": ["x"]}, {"key": ["a", "a"], "tags": ["x", "y"]}, "expectations: 1 duplicate key"),
        (
            {"key": ["a"], "answer": ["x"], "message": ["One?"]},
            {"key": ["a"], "tags": ["x"], "message": ["Two?"]},
            "1 question with a different text in the expectations",
        ),
    ],
)
def test_tables_that_do_not_belong_together_are_refused(answers, golden, says):
    with pytest.raises(AssistantInputError, match=says):
        read_cases(pa.table(answers), golden and pa.table(golden))


def test_turns_of_a_session_are_a_conversation_with_the_turns_before():
    rows = [
        {"key": f"{session}{turn}", "session_id": session, "turn": turn, "message": f"{turn}?", "answer": f"{turn}!"}
        for turn in (3, 1, 2)
        for session in "ab"
    ]
    rows.append({"key": "alone", "session_id": "c", "turn": 1, "message": "x", "answer": "y"})
    cases = {case.key: case for case in read_cases(pa.Table.from_pylist(rows))}
    assert cases["b3"].transcript == (("1?", "1!"), ("2?", "2!"))
    assert cases["b3"].row["transcript"] == [{"message": "1?", "answer": "1!"}, {"message": "2?", "answer": "2!"}]
    assert {case.unit for case in cases.values()} == {"a1", "b1", "alone"}
    assert cases["alone"].conversation is None


@pytest.mark.promise("evaluation", "A misspelt column of the golden set is named with the right one.")
def test_misspelt_columns_are_named_and_other_names_left_alone():
    misspelt = {
        "tag": "tags",
        "weights": "weight",
        "must-not.include": "must_not_include",
        "mustInclude": "must_include",
    }
    misspelt |= {" EXPECTED": "expected", "exppected": "expected", "wegiht": "weight", "Human": "human"}
    for written, meant in misspelt.items():
        with pytest.raises(AssistantInputError, match=f"did you mean '{meant}'"):
            check_column_names(["key", written])
    others = ["key", "category", "expected_de", "expected_source", "expert", "weight_kg", "stage", "flags", "note"]
    check_column_names([*others, *EXPECTATIONS, "tag", "weights"])
    check_column_names(["Tags"], key_columns=["Tags"])
