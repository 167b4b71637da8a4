"""Joining answers and expectations into cases, and the errors of invalid tables."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.exceptions import AssistantInputError

ANSWER = {
    "key": "q1",
    "message": "Refund?",
    "answer": "Yes.",
    "status": "complete",
    "error": None,
    "request_id": "r1",
    "session_id": "s1",
    "seconds": 1.5,
}


def table(*rows):
    return pa.Table.from_pylist(list(rows))


def answered(*keys, **columns):
    return table(*({**ANSWER, "key": key, **columns} for key in keys))


def case(**cells):
    """Return the case of one answer with these columns."""
    return read_cases(table({**ANSWER, **cells}))[0]


def test_a_case_is_its_answer_and_what_is_expected():
    wanted = table(
        {
            "key": "q1",
            "expected": "Yes, in 30 days.",
            "must_include": ["30 days", "yes"],
            "must_not_include": ["no refund"],
            "expect_no_answer": False,
            "weight": 2.0,
            "tags": ["billing", "en"],
            "note": "from the handbook",
        }
    )
    [found] = read_cases(answered("q1"), wanted)

    assert (found.key, found.message, found.answer, found.status) == ("q1", "Refund?", "Yes.", "complete")
    assert (found.error, found.seconds, found.session_id, found.request_id) == (None, 1.5, "s1", "r1")
    assert (found.expected, found.must_include, found.must_not_include) == (
        "Yes, in 30 days.",
        ("30 days", "yes"),
        ("no refund",),
    )
    assert (found.expect_no_answer, found.weight, found.tags) == (False, 2.0, ("billing", "en"))
    assert found.row["note"] == "from the handbook"
    assert found.row["request_id"] == "r1"


def test_a_table_of_expectations_wins_over_columns_that_were_carried_along():
    [found] = read_cases(answered("q1", expected="old", tags="kept"), table({"key": "q1", "expected": "new"}))
    assert (found.expected, found.tags) == ("new", ("kept",))
    assert found.row["expected"] == "new"


def test_an_answer_without_expectations_is_a_case_that_expects_nothing():
    first, second = read_cases(answered("q1", "q2"), table({"key": "q1", "expected": "Yes."}))
    assert (second.key, second.expected, second.must_include, second.expect_no_answer) == ("q2", None, (), None)
    assert (second.weight, second.tags, second.seconds) == (1.0, (), 1.5)
    assert first.expected == "Yes."


def test_what_was_not_asked_is_a_case_too():
    wanted = [{"key": key, "message": text, "expected": "x"} for key, text in (("q0", "Zero?"), ("q1", "Refund?"))]
    asked, missing = read_cases(answered("q1"), table(*wanted))
    assert asked.key == "q1"
    assert (missing.key, missing.message, missing.answer, missing.status) == ("q0", "Zero?", None, "not_asked")
    assert missing.error
    assert missing.seconds is None


@pytest.mark.parametrize(
    ("cell", "phrases"),
    [
        ("30 days|yes", ("30 days", "yes")),
        (" 30 days | yes | ", ("30 days", "yes")),
        ("one", ("one",)),
        ("a|a", ("a",)),
        ("", ()),
        (" ", ()),
        (None, ()),
        (["a|b", None, " "], ("a|b",)),
        ([], ()),
        (14, ("14",)),
        (14.0, ("14",)),
        (math.nan, ()),
    ],
)
@pytest.mark.parametrize("column", ["must_include", "must_not_include", "tags"])
def test_several_phrases_in_one_cell(column, cell, phrases):
    assert getattr(case(**{column: cell}), column) == phrases


LISTS = ("expected", "must_include", "must_not_include", "tags", "expected_url")
TEXTS = [["x.org/a"], ["x.org/a", "y.org, z"], ["x.org/“é”", "b.c|d"], ["x.org/'1'", "y.org", "z.org"]]


NESTED = ([["a", "b"]], [[], ["a"]], '["a", ["b"]]')


def given(column, cell):
    """Return the texts that a case has of a cell."""
    found = case(**{column: cell})
    return found.accepted if column == "expected" else getattr(found, column)


@pytest.mark.parametrize("column", LISTS)
def test_a_list_is_the_same_in_parquet_and_as_json_in_csv(column):
    addresses = [[text.replace(" ", "").replace("|", "/") for text in texts] for texts in TEXTS]
    for texts in addresses if column == "expected_url" else TEXTS:
        for cell in (texts, json.dumps(texts), f" {json.dumps(texts, ensure_ascii=False, indent=1)}\n"):
            assert given(column, cell) == tuple(texts), cell
        assert given(column, json.dumps([None, *texts, " ", texts[0]])) == tuple(texts)


@pytest.mark.parametrize("column", LISTS)
def test_a_list_that_became_text_in_python_is_refused(column):
    broken = [repr(texts) for texts in TEXTS if '"' not in repr(texts)] + [
        "['x.org' 'y.org']",
        "['a', None]",
        "[nan, 'a']",
    ]
    for cell in broken:
        with pytest.raises(
            AssistantInputError, match=rf"'q1': {column} must be a list, or a JSON list such as"
        ) as caught:
            case(**{column: cell})
        assert caught.value.field == column
    for cell in NESTED if column in {"expected", "tags", "expected_url"} else ():
        with pytest.raises(AssistantInputError, match=rf"'q1': {column} must be a list of texts"):
            case(**{column: cell})


def test_text_in_brackets_is_one_expected_answer():
    for cell in (
        "[1, 2, 3]",
        "[see the page]",
        "[a](b)",
        "a|b",
        "['a'] and [0]",
        "[",
        '{"a": 1}',
        "[]]",
        "a || b",
        "[[1]]",
    ):
        assert case(expected=cell).accepted == (cell,)
    assert case(expected="[\"['a']\"]").accepted == ("['a']",)


def test_alternatives_are_the_same_in_every_format():
    wanted = ("30 days || one month", "receipt")
    cells = (
        "30 days || one month|receipt",
        " 30 days || one month | receipt |",
        ["30 days || one month", "receipt"],
        [["30 days", "one month"], ["receipt"]],
        '[["30 days", "one month"], "receipt"]',
        '["30 days || one month", "receipt", []]',
    )
    digests = set()
    for cell in cells:
        found = case(must_include=cell, must_not_include=cell)
        assert found.must_include == found.must_not_include == wanted, cell
        digests.add(found.digest)
    assert len(digests) == 1
    assert [case(must_include=cell).must_include for cell in ("||", [["", None]], ["||"])] == [(), (), ()]


@pytest.mark.parametrize("column", ["must_include", "must_not_include"])
def test_a_regular_expression_is_checked_before_anything_is_asked(column):
    for cell in ("regex:a|b", "Regex: \\d+ (days|weeks)", ["a", "regex:^[^x]*$"], '["regex:\\\\bno\\\\b", "x"]'):
        assert getattr(case(**{column: cell}), column)
    for cell, reason in (
        ("regex:(", "is invalid for RE2.*missing"),
        ("regex:(?=a)b", "is invalid for RE2, which knows no look-around"),
        (["a", "regex:[z-a]"], "is invalid"),
        ("regex:", "matches every text"),
        ("regex:a*", "matches every text"),
        ("regex:yes|", "matches every text"),
        ("regex:a||b", "matches every text"),
        (["a || regex:b"], "regex: must be at the beginning"),
        ("a|regex:b", "must be a JSON list such as .* if only a part of it is a regular expression"),
    ):
        with pytest.raises(AssistantInputError, match=f"'q1': {column}.*{reason}"):
            case(**{column: cell})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"weight": 0}, "'q1': weight must be more than 0; remove the row"),
        ({"weight": -1.0}, "weight must be more than 0"),
        ({"weight": math.inf}, "weight must be a finite number"),
        ({"weight": "heavy"}, "weight must be a number, not 'heavy'"),
        ({"seconds": "soon"}, "seconds must be a number, not 'soon'"),
        ({"expect_no_answer": "maybe"}, "expect_no_answer must be true, false or empty, not 'maybe'"),
        ({"expect_no_answer": 2}, "expect_no_answer must be true, false or empty, not 2"),
        ({"expected_url": "the office page"}, "expected_url must be an address, or several with"),
        ({"expected_url": ["https://x.org/a", "office"]}, "expected_url must be an address"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(cells, message):
    with pytest.raises(AssistantInputError, match=message) as caught:
        case(**cells)
    assert caught.value.field == next(iter(cells))


def test_keys_of_other_types_meet():
    wanted = pa.table({"id": pa.array([1.0, None, 3.0]).fill_null(2.0), "expected": ["a", "b", "c"]})
    found = read_cases(pa.table({"id": [1, 2, 3], "answer": ["a", "b", "c"]}), wanted, key_columns="id")
    assert [(each.key, each.expected) for each in found] == [("1", "a"), ("2", "b"), ("3", "c")]


def test_several_columns_are_one_key():
    answers = pa.table({"page": [1, 1], "line": ["a", "b"], "answer": ["x", "y"]})
    wanted = pa.table({"line": ["b", "a"], "page": ["1", "1"], "expected": ["y", "x"]})
    found = read_cases(answers, wanted, key_columns=["page", "line"])
    assert [(each.key, each.expected) for each in found] == [("page=1, line=a", "x"), ("page=1, line=b", "y")]


@pytest.mark.parametrize(
    ("answers", "wanted", "key", "message"),
    [
        (answered("q1", "q1"), None, "key", r"answers: 1 duplicate key, such as 'q1'"),
        (
            answered("q1"),
            table(*[{"key": "q1", "expected": "x"}] * 2),
            "key",
            r"expectations: 1 duplicate key\b",
        ),
        (answered("q1", None), None, "key", r"answers: 'key' is empty in 1 row, such as number 2"),
        (answered("q1", " "), None, "key", r"answers: 'key' is empty in 1 row"),
        (answered("q1"), None, "id", r"answers have no column 'id', only 'key'"),
        (answered("q1"), table({"id": "q1", "expected": "x"}), "key", r"expectations have no column 'key', only 'id'"),
        (answered("q1"), None, [], r"key_columns must name at least one column"),
        (table({"key": "q1", "text": "x"}), None, "key", r"answers have no column 'answer', only 'key', 'text'"),
        (
            answered("q1"),
            table({"key": "q1", "wanted": "x"}),
            "key",
            r"none of the columns 'expected', .* only 'key', 'wanted'",
        ),
        (
            answered("q1"),
            table({"key": "Q1", "expected": "x"}),
            "key",
            r"no key in common: 'q1' in the answers, 'Q1' in the",
        ),
        (
            answered("q1"),
            table({"key": "q1", "message": "Return?", "expected": "x"}),
            "key",
            r"1 question with a different text in the expectations, such as 'q1'",
        ),
        (answered("q1"), table({"key": "q1", "Expected": "x"}), "key", "'Expected': did you mean 'expected'"),
    ],
)
def test_tables_that_do_not_fit_are_refused(answers, wanted, key, message):
    with pytest.raises(AssistantInputError, match=message):
        read_cases(answers, wanted, key_columns=key)


def test_a_message_may_be_spaced_otherwise():
    wanted = table({"key": "q1", "message": " Refund?\n", "expected": "x"})
    assert read_cases(answered("q1"), wanted)[0].message == "Refund?"


def test_empty_tables_are_no_cases():
    assert read_cases(answered("q1").slice(0, 0)) == []


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        ({"weight": None}, {"weight": 1.0}),
        ({"weight": "0.5"}, {"weight": 0.5}),
        ({"weight": math.nan}, {"weight": 1.0}),
        ({"expected": " "}, {"expected": None}),
        ({"expected": math.nan}, {"expected": None}),
        ({"expected": 42.0}, {"expected": "42"}),
        ({"expected": 4.5}, {"expected": "4.5"}),
        ({"expected_url": "https://x.org/a|x.org/b "}, {"expected_url": ("https://x.org/a", "x.org/b")}),
        ({"expect_no_answer": " Yes "}, {"expect_no_answer": True}),
        ({"expect_no_answer": 1.0}, {"expect_no_answer": True}),
        ({"expect_no_answer": "False"}, {"expect_no_answer": False}),
        ({"expect_no_answer": "0"}, {"expect_no_answer": False}),
        ({"expect_no_answer": math.nan}, {"expect_no_answer": None}),
        # Only a complete question has an answer; complete without text is an empty one.
        ({"answer": None}, {"answer": "", "status": "complete"}),
        ({"status": "lost", "answer": "half an ans", "error": "e"}, {"answer": None, "error": "e"}),
        # Without a status, the answer shows it.
        ({"status": None}, {"answer": "Yes.", "status": "complete"}),
        ({"status": None, "answer": None}, {"answer": None, "status": "failed"}),
    ],
)
def test_a_cell_is_read(cells, read):
    given = {name: cell for name, cell in {**ANSWER, **cells}.items() if name != "status" or cell}
    [found] = read_cases(table(given))
    assert {name: getattr(found, name) for name in read} == read


def test_the_digest_changes_with_the_question_and_what_is_expected_and_with_nothing_else():
    same = [{"answer": "x"}, {"seconds": 9.0}, {"weight": 9}, {"tags": "x"}, {"status": "lost"}, {"key": "q2"}]
    texts = ("message", "expected", "must_include", "must_not_include", "expected_url")
    other = [{"expected": ["x", "y"]}, {"expect_no_answer": True}, *({name: "x.org"} for name in texts)]
    assert {case(**cells).digest for cells in same} == {case().digest}
    assert len({case(**cells).digest for cells in [{}, *other]}) == len(other) + 1
    assert case(must_include=["a", "b"]).digest == case(must_include="a|b").digest
