"""The table of scores: one row per question and scorer; an error is neither 0 nor NaN."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from airflow_provider_assistant.evaluation.scorers import SCORERS, Scorer, scorers_of
from airflow_provider_assistant.evaluation.scoring import score_cases, scores_schema
from tests.unit.evaluation.test_scorers import make_case


def scored(value, **options):
    """Return the row of a scorer that returns or raises the given value."""

    def score(_):
        if isinstance(value, BaseException):
            raise value
        return value

    return score_cases([make_case()], [Scorer("own", "custom", score, **options)]).to_pylist()[0]


def test_a_row_for_every_question_and_scorer_in_their_order():
    cases = [
        make_case("Yes.", key="q1", expected="yes", weight=2.0, tags=("billing", "en")),
        make_case(None, key="q2", expected="no", status="timed_out", seconds=None),
        make_case("Who knows", key="q3", seconds=None, confidence_level="low", confidence_score=0.2),
    ]
    cases[0] = replace(cases[0], seconds_source="measured", seconds_error=0.5)
    table = score_cases(cases, scorers_of(["exact_match", "latency", "confidence_score"]))

    assert table.schema == scores_schema()
    assert table.to_pylist() == [
        {
            "key": case.key,
            "repetition": 1,
            "case": case.digest,
            "scorer": scorer,
            "score": score,
            "outcome": outcome,
            "error": None,
            "weight": case.weight,
            "tags": list(case.tags),
            "seconds": case.seconds,
            "status": case.status,
            "seconds_source": case.seconds_source,
            "seconds_error": case.seconds_error,
            "confidence_level": case.confidence_level,
            "confidence_score": case.confidence_score,
            "passed": None,
        }
        for case, scorer, score, outcome in [
            (cases[0], "exact_match", 1.0, "scored"),
            (cases[0], "latency", 1.5, "scored"),
            (cases[0], "confidence_score", None, "not_judged"),
            (cases[1], "exact_match", None, "unanswered"),
            (cases[1], "latency", None, "unanswered"),
            (cases[1], "confidence_score", None, "unanswered"),
            (cases[2], "exact_match", None, "not_applicable"),
            (cases[2], "latency", None, "not_judged"),
            (cases[2], "confidence_score", 0.2, "scored"),
        ]
    ]


def test_no_scorer_sees_a_question_without_an_answer():
    def fail(_):
        raise AssertionError

    table = score_cases([make_case(None, status="lost")], [Scorer("own", "custom", fail)])
    assert table["outcome"].to_pylist() == ["unanswered"]


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (True, 1.0),
        (False, 0.0),
        (1, 1.0),
        (0.25, 0.25),
        (np.float32(0.5), 0.5),
        (np.int64(1), 1.0),
    ],
)
def test_truths_and_numbers_are_scores(value, score):
    row = scored(value)
    assert (row["outcome"], row["score"], row["error"]) == ("scored", score, None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "it returned nan; return None if the scorer is not applicable"),
        (1.01, "it returned 1.01, which is not from 0 to 1"),
        (-0.1, "it returned -0.1, which is not from 0 to 1"),
        (10**400, "which is not from 0 to 1"),
        ("0.5", "it returned '0.5', not a number, a bool or None"),
        ([1], r"it returned [1], not a number"),
        (np.array([0.5]), "not a number"),
        (ValueError("no digits"), "ValueError: no digits"),
        (ValueError("\ud800"), "ValueError: ?"),
    ],
)
def test_what_is_no_score_is_an_error_with_its_reason(value, reason):
    row = scored(value)
    assert (row["outcome"], row["score"]) == ("error", None)
    assert reason in row["error"]
    assert len(row["error"]) <= 500


def test_an_error_does_not_stop_the_others():
    def odd(case):
        return 1 / len(case.answer)

    cases = [make_case(answer, key=answer, expected="a") for answer in ("a", "", "b")]
    table = score_cases(cases, [Scorer("own", "custom", odd), *scorers_of(["token_f1"])])
    assert table["outcome"].to_pylist() == ["scored", "scored", "error", "scored", "scored", "scored"]
    assert table["score"].to_pylist() == [1.0, 1.0, None, 0.0, 1.0, 0.0]


def test_what_stops_the_task_is_no_error_of_a_scorer():
    with pytest.raises(KeyboardInterrupt):
        scored(KeyboardInterrupt())


def test_the_outcomes_of_each_scorer_add_up():
    cases = [
        make_case(
            "a", key=str(number), expected=(None, "a")[number % 2], expect_no_answer=(None, True)[number % 3 == 0]
        )
        for number in range(20)
    ] + [make_case(None, key="lost", status="lost")]
    table = score_cases(cases, list(SCORERS.values()))
    assert table.num_rows == len(cases) * len(SCORERS)
    assert Counter(table["scorer"].to_pylist()) == dict.fromkeys(SCORERS, len(cases))
    assert set(table["outcome"].to_pylist()) == {"scored", "unanswered", "not_applicable", "not_judged"}


def test_no_cases_are_an_empty_table():
    assert score_cases([], list(SCORERS.values())).schema == scores_schema()
