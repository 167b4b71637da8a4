"""Ratings by rule: the first rule that holds determines the rating."""

from __future__ import annotations

import pyarrow as pa
import pytest
from airflow_provider_assistant.evaluation.cases import read_cases

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.feedback.rules import rate

RULES = {"good": "token_f1 >= 0.8", "bad": "token_f1 < 0.3"}


def answers(*keys, **columns):
    rows = [
        {
            "key": key,
            "message": f"{key}?",
            "answer": "Because.",
            "status": "complete",
            "session_id": f"s-{key}",
            "request_id": f"r-{key}",
            "seconds": 1.5,
        }
        for key in keys
    ]
    table = pa.Table.from_pylist(rows)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return read_cases(table)


def scores(*rows):
    columns = ("key", "scorer", "score", "outcome", "status", "seconds")
    full = [(*row, *("token_f1", None, "scored", "complete", 1.5)[len(row) - 1 :]) for row in rows]
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in full])


def words(rated):
    return {rating.key: rating.word for rating in rated.ratings}


@pytest.mark.promise("ratings", "The first rule that holds gives an answer its rating.")
def test_an_answer_gets_the_word_of_the_first_rule_that_holds():
    rated = rate(
        answers("a", "b", "c"), scores(("a", "token_f1", 0.9), ("b", "token_f1", 0.1), ("c", "token_f1", 0.5)), RULES
    )
    assert words(rated) == {"a": "good", "b": "bad"}
    assert (rated.ratings[0].session_id, rated.ratings[0].request_id) == ("s-a", "r-a")
    assert (rated.total, rated.not_rated, rated.not_answered) == (3, 1, 0)
    both = {"fine": "token_f1 >= 0.4", **RULES}
    assert words(rate(answers("a"), scores(("a", "token_f1", 0.9)), both)) == {"a": "fine"}


@pytest.mark.parametrize("outcome", ["error", "not_applicable"])
def test_what_has_no_score_is_not_rated(outcome):
    table = scores(("a", "token_f1", None, outcome), ("a", "refusal", 1.0))
    rated = rate(answers("a"), table, RULES)
    assert (rated.ratings, rated.not_rated) == ([], 1)


def test_questions_without_an_answer_are_counted_and_not_rated():
    cases = answers("a", "b", answer=["Yes.", None], status=["complete", "failed"])
    table = scores(
        ("a", "token_f1", 0.9),
        ("b", "token_f1", None, "unanswered", "failed"),
        ("c", "token_f1", None, "unanswered", "not_asked", None),
    )
    rated = rate(cases, table, RULES)
    assert (words(rated), rated.not_answered, rated.total) == ({"a": "good"}, 2, 3)


def test_an_answer_whose_request_the_service_did_not_show_is_not_rated():
    cases = answers("a", "b", request_id=[None, "r-b"])
    rated = rate(cases, scores(("a", "token_f1", 0.9), ("b", "token_f1", 0.9)), RULES)
    assert (words(rated), rated.not_rated) == ({"b": "good"}, 1)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, "rules must map each rating to a condition"),
        ("token_f1 >= 0.8", "rules must map each rating to a condition"),
        ({" ": "token_f1 >= 0.8"}, "non-empty word"),
        ({"good": "token_f1 => 0.8"}, r"rules\['good'\].*not 'scorer >= number'"),
        ({"good": "bleu >= 0.8"}, r"rules\['good'\].*no scorer 'bleu', only token_f1"),
        ({"good": "__import__('os')"}, r"rules\['good'\]"),
    ],
)
def test_rules_that_cannot_be_used_are_named(rules, message):
    with pytest.raises(AssistantInputError, match=message) as raised:
        rate(answers("a"), scores(("a", "token_f1", 0.9)), rules)
    assert raised.value.field == "rules"


@pytest.mark.promise("ratings", "Scores of other answers rate nothing.")
@pytest.mark.parametrize(
    "row",
    [("a", "token_f1", 0.9, "scored", "complete", 1.6), ("a", "token_f1", None, "unanswered", "failed")],
    ids=["it took another time", "it failed"],
)
def test_scores_of_other_answers_are_refused(row):
    with pytest.raises(AssistantInputError, match="1 question with another answer, such as 'a'"):
        rate(answers("a", "b"), scores(row, ("b", "token_f1", 0.9)), RULES)


def test_scores_of_other_questions_are_refused():
    with pytest.raises(AssistantInputError, match="such as 'x'"):
        rate(answers("a"), scores(("x", "token_f1", 0.9), ("a", "token_f1", 0.9)), RULES)
    with pytest.raises(AssistantInputError, match="scores lack the columns"):
        rate(answers("a"), pa.table({"key": ["a"]}), RULES)
    with pytest.raises(AssistantInputError, match="the same key"):
        rate(answers("a"), scores(("x", "token_f1", None, "unanswered", "not_asked", None)), RULES)
