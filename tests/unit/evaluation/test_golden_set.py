"""Checks of a golden set."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation import golden_set
from airflow_provider_assistant.evaluation.golden_set import check_golden_set, golden_cases, losses_of
from airflow_provider_assistant.evaluation.rules import parse_rule
from airflow_provider_assistant.exceptions import AssistantInputError

GOOD = [
    {"key": "a", "message": "When are refunds paid?", "expected": "In five days.", "tags": "billing"},
    {"key": "b", "message": "Who won the chess tournament?", "expect_no_answer": "true", "tags": "other"},
    {"key": "c", "message": "Do you ship to Peru?", "must_include": "Peru", "tags": None},
]


def found(rows, **options):
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    arguments = {"key_columns": ["key"], **options}
    return [(one.finding, one.keys, one.rows) for one in check_golden_set(table, **arguments)]


def test_a_good_set_has_no_findings():
    assert found(GOOD, rules=[parse_rule("coverage[billing] >= 0.5")], documents=["When are refunds due?"]) == []


def test_keys():
    rows = [{**GOOD[0], "key": 7}, {**GOOD[1], "key": None}, {**GOOD[2], "key": 8}]
    assert found(rows) == [("no_key", ("",), (2,))]
    rows = [{**GOOD[0], "key": "7"}, {**GOOD[1], "key": "7.0"}, GOOD[2]]
    assert found(rows) == [("duplicate_key", ("7", "7"), (1, 2))]


def test_the_message_is_the_key_if_there_is_no_other():
    assert found([*GOOD, GOOD[0]], key_columns=[]) == [
        ("duplicate_key", ("When are refunds paid?",) * 2, (1, 4)),
        ("duplicate", ("When are refunds paid?",) * 2, (1, 4)),
    ]


def test_questions_that_differ_only_in_punctuation_are_duplicates():
    rows = [*GOOD, {**GOOD[0], "key": "d", "message": "when are the refunds paid"}]
    assert found(rows) == [("duplicate", ("a", "d"), (1, 4))]


@pytest.mark.parametrize("chunk", [1, 500])
def test_near_duplicates_are_pairs(chunk, monkeypatch):
    monkeypatch.setattr(golden_set, "CHUNK", chunk)
    long = "What is the longest time that a refund of an order from another country takes"
    rows = [*GOOD, *({**GOOD[0], "key": f"n{number}", "message": f"{long} {number}?"} for number in range(3))]
    assert found(rows) == [
        ("near_duplicate", ("n0", "n1"), (4, 5)),
        ("near_duplicate", ("n0", "n2"), (4, 6)),
        ("near_duplicate", ("n1", "n2"), (5, 6)),
    ]


def test_a_question_needs_an_expectation():
    rows = [{**GOOD[0], "expected": " "}, GOOD[1], {**GOOD[2], "must_include": "|"}]
    assert found(rows) == [("no_expectation", ("a",), (1,)), ("no_expectation", ("c",), (3,))]


def test_expectations_that_contradict_each_other():
    sound = (
        {"expected": "In 5 days.", "must_include": "five || 5", "must_not_include": "50|fife"},
        {"expected": ["€1,000", "1000 EUR"], "must_include": "1.000 €", "must_not_include": "regex:^no"},
        {"expected": "환불은 30일 이내", "must_include": ["환불", r"regex:\d+일"]},
        {"must_include": "can", "must_not_include": "can't"},
        {"must_include": ["regex:.no"], "must_not_include": "no"},
    )
    unsound = (
        ({"expected": "In 5 days.", "must_include": "five || 6"}, "'In 5 days.' lacks 'five || 6' of must_include"),
        ({"expected": ["5 €", "6 €"], "must_include": "5 EUR"}, "'6 €' lacks '5 EUR' of must_include"),
        (
            {"expected": "No refund", "must_not_include": "yes|refund"},
            "'No refund' is expected and has 'refund' of must_not",
        ),
        ({"must_include": "30 days|x", "must_not_include": "days"}, "'30 days' is expected and has 'days'"),
        ({"expected": "word " * 50, "must_include": "x"}, r"word…' lacks 'x'"),
    )
    assert [found([{"key": "a", "message": "?", **row}]) for row in sound] == [[]] * len(sound)
    for row, reason in unsound:
        table = pa.Table.from_pylist([{"key": "a", "message": "?", **row}])
        [finding] = check_golden_set(table, key_columns=["key"])
        assert (finding.finding, finding.keys, finding.rows) == ("contradiction", ("a",), (1,))
        assert reason in finding.reason


def test_tags_that_no_question_has():
    rules = [parse_rule(f"token_f1[{tag}] >= 0.5") for tag in ("billing", "biling", "biling")]
    (finding,) = found(GOOD, rules=rules)
    assert finding == ("tag_without_questions", (), ())


def test_a_rule_that_limits_a_loss_needs_enough_questions():
    rows = []
    for number in range(60):
        row = {
            "key": str(number),
            "message": hashlib.sha256(str(number).encode()).hexdigest(),
            "expected": "yes",
            "must_include": "yes",
        }
        rows.append(row if number < 20 else {**row, "must_include": None})
    rules = [parse_rule(f"{name} drop <= {limit}") for name, limit in (("token_f1", 0.02), ("must_include", 0.02))]
    golden = pa.Table.from_pylist(rows)
    (finding,) = check_golden_set(golden, key_columns=["key"], rules=rules)
    assert finding.finding == "too_few_questions"
    assert finding.reason.startswith("must_include drop <= 0.02 compares 20 questions, and ")
    (whole, part) = losses_of(golden_cases(golden), rules)
    assert (whole.questions, part.questions, whole.limit) == (60, 20, 0.1)
    assert whole.noticed < 0.1 < part.noticed
    assert 20 < part.needed <= 60
    # A rule that allows more needs fewer, and one alone as well.
    assert check_golden_set(golden, key_columns=["key"], rules=[parse_rule("must_include drop <= 0.2")]) == []


def test_questions_that_are_loaded_word_by_word_are_leaked():
    documents = ["WHEN are refunds paid??", "Do you ship to Peru or to Chile?"]
    assert found(GOOD, documents=documents) == [("leaked", ("a",), (1,))]


def test_a_cell_that_cannot_be_read_is_an_error():
    with pytest.raises(AssistantInputError, match="weight must be a number"):
        found([{**GOOD[0], "weight": "heavy"}])
    with pytest.raises(AssistantInputError, match="no column message"):
        found([{"key": "a"}])
