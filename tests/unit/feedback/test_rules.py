"""Ratings by rule: each answer gets the rating of the first rule that holds for its own scores."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.feedback.rules import rate

RULES = {"good": "token_f1 >= 0.8 and must_include >= 1", "bad": "token_f1 < 0.3"}
SCHEMA = pa.schema(
    {
        "key": pa.string(), "repetition": pa.int64(), "request_id": pa.string(), "status": pa.string(),
        "passed": pa.bool_(), "token_f1": pa.float64(), "must_include": pa.float64(), "errors": pa.string(),
    }
)  # fmt: skip


def scores(*rows):
    """Return the table of scores; a row is a mapping of the columns that differ from the usual ones."""
    usual = {"repetition": 1, "status": "complete", "passed": None, "must_include": None, "errors": None}
    full = [{**usual, "key": f"q{number}", "request_id": f"r{number}", **row} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(full, schema=SCHEMA)


def answers(table, **sessions):
    ids = table["request_id"].to_pylist()
    return pa.table({"request_id": ids, "session_id": [sessions.get(str(one), f"s-{one}") for one in ids]})


def rated(*rows, rules=RULES, **sessions):
    table = scores(*rows)
    found = rate(answers(table, **sessions), table, rules)
    assert len(found.ratings) + found.counts.outcomes.total() == len(rows)
    return found


@pytest.mark.promise("ratings", "Each repetition is rated by its own scores, with the first rule that holds.")
@pytest.mark.parametrize("seed", range(3))
def test_an_answer_gets_the_word_of_the_first_rule_that_holds(seed):
    random = Random(seed)
    rows = [
        {
            "key": f"q{number // 3}",
            "repetition": number % 3 + 1,
            "token_f1": random.choice([None, 0.0, 0.29, 0.3, 0.8, 1.0]),
            "must_include": random.choice([None, 0.0, 1.0]),
            "status": random.choice(["complete", "complete", "complete", "failed", "lost", "not_asked"]),
        }
        for number in range(60)
    ]
    random.shuffle(rows)
    found = rated(*rows)
    expected = {}
    for number, row in enumerate(rows):
        score, includes = row["token_f1"], row["must_include"]
        if row["status"] != "complete":
            continue
        # A scorer that does not apply to a question is ignored.
        if (score, includes) != (None, None) and score in {None, 0.8, 1.0} and includes != 0.0:
            expected[f"r{number}"] = "good"
        elif score is not None and score < 0.3:
            expected[f"r{number}"] = "bad"
    assert {rating.request_id: rating.word for rating in found.ratings} == expected
    assert all(rating.session_id == f"s-{rating.request_id}" for rating in found.ratings)
    assert found.counts.outcomes["not_answered"] == sum(row["status"] != "complete" for row in rows)
    assert {rating.key for rating in found.ratings} <= {
        f"q{number}{repetition}" for number in range(20) for repetition in ("", " (repetition 2)", " (repetition 3)")
    }


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"request_id": None}, "its request or its session is not known"),
        ({"request_id": "r-lost"}, "its request or its session is not known"),
        ({"errors": "token_f1: no expected answer\nother: x"}, "token_f1: no expected answer"),
        ({"request_id": "r0"}, "another question has the same request"),
    ],
)
def test_an_answer_that_cannot_be_rated_is_listed_with_the_reason(row, reason):
    found = rated({"token_f1": 0.0}, {"token_f1": 0.0, **row}, **{"r-lost": None})
    assert [rating.key for rating in found.ratings] == ["q0"]
    assert (found.counts.outcomes["not_rated"], found.left_out) == (1, [("q1", reason)])


@pytest.mark.parametrize(("seconds", "words"), [(1.0, ["good"]), (9.0, []), (None, [])])
def test_no_rule_holds_whose_measured_value_is_missing_or_wrong(seconds, words):
    table = scores({"token_f1": 1.0}).append_column("latency", pa.array([seconds], pa.float64()))
    found = rate(answers(table), table, {"good": "token_f1 >= 0.8 and latency <= 2"})
    assert [rating.word for rating in found.ratings] == words


def test_the_error_of_a_scorer_that_no_rule_names_does_not_matter():
    assert len(rated({"token_f1": 0.0, "errors": "judge.tone: no reply"}).ratings) == 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"good": "token_f1 => 0.8"}, r"rules\['good'\]"),
        ({"good": "bleu >= 0.8"}, r"rules\['good'\].*'bleu'"),
        ({"good": "__import__('os')"}, r"rules\['good'\]"),
    ],
)
def test_rules_that_cannot_be_used_are_named(rules, message):
    with pytest.raises(AssistantInputError, match=message) as raised:
        rated({"token_f1": 0.9}, rules=rules)
    assert raised.value.field == "rules"


@pytest.mark.promise("ratings", "Scores of other answers rate nothing.")
@pytest.mark.parametrize("change", ["asked again", "more answers", "fewer answers"])
def test_scores_of_other_answers_are_refused(change):
    table = scores({"token_f1": 0.9}, {"token_f1": 0.9})
    given = {
        "asked again": pa.table({"request_id": ["r0", "new"], "session_id": ["s", "s"]}),
        "more answers": pa.table({"request_id": ["r0", "r1", "r2"], "session_id": ["s"] * 3}),
        "fewer answers": pa.table({"request_id": ["r0"], "session_id": ["s"]}),
    }
    with pytest.raises(AssistantInputError, match=r"scores belong to other answers: [12] request") as raised:
        rate(given[change], table, RULES)
    assert raised.value.field == "scores"


def test_files_of_another_kind_are_refused():
    table = scores({"token_f1": 0.9})
    with pytest.raises(AssistantInputError, match="scores lack the columns request_id, status"):
        rate(answers(table), pa.table({"key": ["a"]}), RULES)
    with pytest.raises(AssistantInputError, match="answers lack the columns session_id"):
        rate(pa.table({"request_id": ["a"]}), table, RULES)
