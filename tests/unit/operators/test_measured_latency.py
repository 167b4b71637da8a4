"""A service whose replies have no times: the batch measures how long it took, and the gate judges it."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from airflow_provider_assistant.chat_batch import schedule
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.evaluate import summarise
from airflow_provider_assistant.evaluation.scoring import score_cases

from airflow_provider_assistant.evaluation.rules import parse_rule
from airflow_provider_assistant.evaluation.scorers import scorers_of
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

TOOK = 0.6
QUESTIONS = [{"id": number, "message": f"Question {number}?"} for number in range(8)]


@pytest.fixture
def ask(service, connection, run_operator, tmp_path):
    """Ask the questions, and return the result and the rows."""

    def asked(**arguments):
        path = str(tmp_path / "answers.parquet")
        run = run_operator(
            AssistantChatBatchOperator,
            source=QUESTIONS, key_columns=["id"], output_path=path, timeout=30, **arguments,
        )  # fmt: skip
        assert run.state == "success", run.errors
        return run.xcom(), pq.read_table(path)

    return asked


def verdict(table, rule):
    scorers = scorers_of(["latency"])
    cases = read_cases(table)
    summary = summarise(cases, score_cases(cases, scorers), scorers, name="n", rules=[parse_rule(rule)])
    return summary.gate.rules[0]


@pytest.mark.parametrize(("deferrable", "interval"), [(True, 0.1), (False, 0.4)])
def test_the_polls_measure_the_latency(interval, deferrable, service, ask):
    service.behave(processing_seconds=TOOK)
    result, table = ask(poll_interval=interval, deferrable=deferrable)
    assert (result["seconds_measured"], result["seconds_unknown"]) == (8, 0)
    for row in table.to_pylist():
        assert "_at" not in " ".join(json.loads(row["raw"]))
        assert row["seconds_source"] == "measured"
        # The request began before the service accepted it.
        assert row["seconds"] - row["seconds_error"] - 0.5 <= TOOK <= row["seconds"] + 0.5
        assert row["seconds"] == row["noticed_after"]
    judged = verdict(table, "latency p95 <= 20")
    assert judged.verdict == "passed"
    assert "; measured for 8 answers, at most " in judged.reason
    assert verdict(table, "latency p95 <= 0.01").verdict == "failed"


def test_the_round_trip_of_a_sync_question_is_its_latency(service, ask):
    result, table = ask(mode="sync")
    assert (result["seconds_measured"], result["seconds_unknown"]) == (8, 0)
    assert table["seconds_source"].unique().to_pylist() == ["measured"]
    assert table["seconds_error"].unique().to_pylist() == [0.0]
    assert verdict(table, "latency p95 <= 20").verdict == "passed"


def test_with_times_in_the_replies_nothing_is_measured(service, ask):
    times = {"created_at": "2026-11-25T10:00:00.000Z", "completed_at": "2026-11-25T10:00:00.001Z"}
    reply = {"status": "completed", "answer": "Yes.", **times}
    service.answer("status:200", path="chat/requests/", times=None, reply=reply)
    result, table = ask(poll_interval=0.2)
    assert (result["seconds_measured"], result["seconds_unknown"]) == (0, 0)
    assert table["seconds"].unique().to_pylist() == [0.001]
    assert table["seconds_source"].unique().to_pylist() == ["service"]
    assert "measured" not in verdict(table, "latency p95 <= 20").reason


def test_a_wait_that_was_interrupted_has_no_latency_and_its_rule_fails(service, ask, monkeypatch):
    """As after the restart of a triggerer: the end was noticed long after the last poll."""
    monkeypatch.setattr(schedule, "UNKNOWN_SECONDS", 0.0)
    monkeypatch.setattr(schedule, "UNKNOWN_INTERVALS", 0.0)
    service.behave(processing_seconds=0.05)
    result, table = ask(poll_interval=0.2)
    assert (result["seconds_measured"], result["seconds_unknown"], result["complete"]) == (0, 8, 8)
    assert result["seconds_p95"] is None
    assert table["noticed_after"].null_count == 0
    judged = verdict(table, "latency p95 <= 0.001")
    assert judged.verdict == "failed"
    assert "judged: only 0 of 8 answers" in judged.reason
    assert verdict(table, "latency p95 <= 60").verdict == "passed", "the polls noticed all answers within a minute"
    assert verdict(table, "latency <= 60").verdict == "failed"
