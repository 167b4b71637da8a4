"""Scorers see the earlier turns of a conversation."""

from __future__ import annotations

import pyarrow as pa

from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.scorers import scorers_of
from airflow_provider_assistant.evaluation.scoring import score_cases

TURNS = [
    {"key": "b", "session_id": "s", "turn": 2, "message": "And abroad?", "answer": "In ten days.", "expected": "Ten"},
    {"key": "a", "session_id": "s", "turn": 1, "message": "When are refunds paid?", "answer": "In five days."},
    {"key": "c", "session_id": "s", "turn": 3, "message": "Thanks!", "answer": None},
    {"key": "d", "session_id": "t", "turn": 1, "message": "Hello?", "answer": "Hello."},
    {"key": "e", "session_id": "u", "turn": None, "message": "Alone?", "answer": "Yes."},
]


def cases_of(rows):
    return {case.key: case for case in read_cases(pa.Table.from_pylist(rows))}


def repeats_itself(question, expected, answer, row):
    return all(one["answer"] != answer for one in row.get("transcript", []))


def test_each_turn_has_the_turns_before_it():
    cases = cases_of(TURNS)
    first = ("When are refunds paid?", "In five days.")
    assert cases["a"].transcript == cases["d"].transcript == cases["e"].transcript == ()
    assert cases["b"].transcript == (first,)
    assert cases["c"].transcript == (first, ("And abroad?", "In ten days."))
    assert "transcript" not in cases["a"].row
    assert cases["b"].row["transcript"] == [{"message": first[0], "answer": first[1]}]


def test_a_turn_is_another_question_if_an_earlier_message_is():
    changed = [{**row, "message": "When are fees paid?"} if row["key"] == "a" else row for row in TURNS]
    before, now = cases_of(TURNS), cases_of(changed)
    assert {key for key in before if before[key].digest != now[key].digest} == {"a", "b", "c"}
    answered = [{**row, "answer": "Soon."} if row["key"] == "a" else row for row in TURNS]
    assert cases_of(answered)["b"].digest == before["b"].digest


def test_scorers_see_the_transcript():
    rows = [{**row, "answer": "Yes."} for row in TURNS]
    scorer = scorers_of([f"{__name__}.repeats_itself"])
    scores = score_cases(read_cases(pa.Table.from_pylist(rows)), scorer).to_pylist()
    assert {row["key"]: row["score"] for row in scores} == {"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0, "e": 1.0}
