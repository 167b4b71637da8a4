"""The events of an evaluation: their attributes, their ids, and how many there are."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.evaluate import Evaluation, summarise
from airflow_provider_assistant.evaluation.events import events_of, send_scores
from airflow_provider_assistant.evaluation.rules import parse_condition
from airflow_provider_assistant.evaluation.scorers import Scorer
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.evaluation.summary import Summary

RUN = {"dag_id": "nightly", "run_id": "r1", "task_id": "judge", "map_index": None, "run_after": "2026-11-23"}


def fails(case):
    raise ValueError(f"cannot read {case.answer}")


SCORERS = [
    Scorer("mark", "custom", lambda case: case.row["mark"], is_share=False),
    Scorer("broken", "custom", fails),
]
ROW = {"key": "q1", "message": "When?", "answer": "secret text", "status": "complete", "mark": 0.5, "seconds": 2.5}


def evaluated(rows, pass_if=None, run=RUN):
    cases = read_cases(pa.Table.from_pylist([{"request_id": None, **row} for row in rows]))
    scores = score_cases(cases, SCORERS)
    condition = parse_condition(pass_if) if pass_if else None
    summary = summarise(cases, scores, SCORERS, name="golden", run=run, pass_if=condition)
    return Evaluation(summary, cases, scores, condition)


def ids(events):
    return [event["assistant.event.id"] for event in events]


def test_attributes_of_a_score_and_of_an_error():
    score, error = events_of(evaluated([{**ROW, "request_id": "req_1"}], pass_if="mark >= 0.5 and broken >= 1"))
    assert score.pop("assistant.event.id") != error.pop("assistant.event.id")
    both = {
        "gen_ai.response.id": "req_1",
        "airflow.dag_id": "nightly",
        "airflow.dag_run.run_id": "r1",
        "airflow.task_id": "judge",
        "airflow.task_instance.map_index": -1,
        "assistant.evaluation.name": "golden",
        "assistant.question.key": "q1",
        "assistant.question.repetition": 1,
        "assistant.answer.seconds": 2.5,
    }
    scored = {"gen_ai.evaluation.score.value": 0.5, "gen_ai.evaluation.score.label": "pass"}
    assert score == {**both, **scored, "gen_ai.evaluation.name": "mark"}
    assert error == {**both, "gen_ai.evaluation.name": "broken", "error.type": "ValueError"}, "without its text"


def test_what_is_not_known_is_left_out():
    (score, _) = events_of(evaluated([{**ROW, "seconds": None}]))
    assert not score.keys() & {"gen_ai.response.id", "gen_ai.evaluation.score.label", "assistant.answer.seconds"}


@pytest.mark.parametrize(
    ("pass_if", "label"), [("mark >= 0.5", "pass"), ("mark > 0.2 and mark < 0.5", "fail"), ("broken >= 1", None)]
)
def test_label_says_whether_the_score_fulfils_pass_if(pass_if, label):
    (score, _) = events_of(evaluated([ROW], pass_if=pass_if))
    assert score.get("gen_ai.evaluation.score.label") == label


def test_a_reason_is_the_explanation_and_changes_no_id():
    evaluation = evaluated([ROW])
    (plain, _) = events_of(evaluation)
    (explained, _) = events_of(replace(evaluation, reasons={("q1", 1, "mark"): "It is late."}))
    assert explained == {**plain, "gen_ai.evaluation.explanation": "It is late."}


def test_a_mapped_task_in_a_loop_is_named():
    (score, _) = events_of(evaluated([ROW], run={**RUN, "map_index": "0", "region": "4f"}))
    assert (score["airflow.task_instance.map_index"], score["assistant.region"]) == (0, "4f")


def test_ids_are_the_same_only_for_the_same_scores_of_the_same_run():
    first = ids(events_of(evaluated([ROW])))
    assert ids(events_of(evaluated([ROW]))) == first
    other_score = ids(events_of(evaluated([{**ROW, "mark": 0.6}])))
    other_run = ids(events_of(evaluated([ROW], run={**RUN, "run_id": "r2"})))
    assert (other_score[0] != first[0], other_score[1]) == (True, first[1])
    assert not set(other_run) & set(first)


def test_every_score_and_error_has_one_event_however_many_there_are():
    chance = random.Random(7)
    rows = [
        {
            "key": f"q{number // 2}",
            "repetition": number % 2 + 1,
            "answer": "A.",
            "status": chance.choice(["complete", "complete", "failed"]),
            "mark": chance.choice([None, 0.0, 0.25]),
        }
        for number in range(3000)
    ]
    evaluation = evaluated(rows)
    scorers = evaluation.summary.scorers.values()
    events = list(events_of(evaluation))
    assert len(set(ids(events))) == len(events) == sum(scorer.scored + scorer.errors for scorer in scorers)
    assert all(scorer.unanswered for scorer in scorers)
    assert evaluation.summary.scorers["mark"].not_applicable
    assert {type(value) for event in events for value in event.values()} <= {str, int, float}


@pytest.mark.parametrize("mode", ["", "off", "on"])
def test_nothing_is_sent_unless_it_is_switched_on(mode, monkeypatch, caplog):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__EVALUATION_EVENTS", mode)
    send_scores(Evaluation(Summary.model_construct(), [], None))
    assert ("evaluation_events is 'on', not one of off, scores, explanations" in caplog.text) == (mode == "on")
