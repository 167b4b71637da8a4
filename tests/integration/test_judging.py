"""Evaluations whose scorers are judges, with a model's host on a real socket."""

from __future__ import annotations

import json
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import (
    AssistantIncompleteError,
    AssistantInputError,
)
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from tests.judge import Judge
from tests.live.process import wait_for
from tests.processes import preload, processes

preload(__name__, "jinja2", "numpy", "airflow_provider_assistant.evaluation.verdicts")

NIGHT = datetime(2026, 11, 21, tzinfo=UTC)
CONNECTION = "AIRFLOW_CONN_PYDANTICAI_DEFAULT"
AGREES = "judge.correctness agreement >= 0.6 on >= 20 labels"
RIGHT, WRONG = "Refunds are paid within 5 days.", "Refunds are paid within 9 days."


def answer(number, text=None, **more):
    """Every second answer is wrong, in a number."""
    text = text or (RIGHT if number % 2 else WRONG)
    message = f"Question {number}?"
    return {"key": f"q{number:04}", "message": message, "expected": RIGHT, "answer": text, **more}


def labelled(count=40, wrong=2):
    """Return labelled answers. People and the judge disagree on the first ones."""
    numbers = range(count)
    return [answer(number, human=str(bool(number % 2) != (number < wrong))) for number in numbers]


@pytest.fixture
def judge(monkeypatch):
    with Judge() as judge:
        monkeypatch.setenv(CONNECTION, judge.conn_json())
        yield judge


def judging(folder, answers, **arguments):
    arguments = {"scorers": ["token_f1", "judge.correctness"], "name": "golden", **arguments}
    return AssistantEvaluateOperator(task_id="judge", answers=answers, output_path=str(folder), **arguments)


def evaluate(operator, night=0):
    operator.render_template_fields({})
    moment = NIGHT + timedelta(days=night)
    run_id = f"scheduled__{moment.isoformat()}"
    task = {"dag_id": "nightly", "task_id": "judge", "run_id": run_id, "map_index": -1}
    ti = SimpleNamespace(**task, xcom_push=lambda key, value: None)
    run = SimpleNamespace(run_after=moment, logical_date=moment, run_id=run_id)
    return operator.execute({"ti": ti, "dag_run": run, "task": operator})


def summary_of(head):
    return json.loads(Path(head["summary_path"].removeprefix("file://")).read_text())


def files_below(folder):
    found = [path for path in sorted(folder.rglob("*.*")) if path.is_file()]
    return {path.name: path.read_bytes() for path in found}


def test_every_answer_has_a_verdict_with_its_reason_in_the_report(judge, tmp_path):
    rows = [answer(number) | {"repetition": repetition} for number in (0, 1) for repetition in (1, 2)]
    head = evaluate(judging(tmp_path, rows, pass_if="judge.correctness >= 0.5", on_fail="report"))
    scores = pq.read_table(head["scores_path"])
    assert scores["judge.correctness"].to_pylist() == [0.0, 0.0, 1.0, 1.0]
    # Equal answers to equal questions are judged once.
    assert len(judge.asked) == 2
    found = summary_of(head)["scorers"]["judge.correctness"]["judge"]
    assert found["model"] == "openai:word-overlap"
    assert head["judge_tokens"] == found["input_tokens"] + found["output_tokens"] > 0
    page = Path(head["report_path"].removeprefix("file://")).read_text()
    assert "openai:word-overlap" in page
    assert "Missing: 5" in page


@pytest.mark.promise("evaluation", "A mistake in the input is found before the judge costs anything.")
def test_input_and_earlier_files_are_checked_before_the_judge_is_asked(judge, tmp_path):
    damaged = tmp_path / "damaged/golden/2026-11-20T00-00-00.000000Z_scheduled/summary.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{}")
    for folder, rows, gate, reason in (
        (damaged.parents[2], [answer(0)], [], "is not a summary"),
        (tmp_path, [answer(0, must_includ="5 days")], [], "did you mean 'must_include'"),
        (tmp_path, [answer(0, weight="much")], [], "weight"),
        (tmp_path, labelled(10), [AGREES, "judge.correctness >= 0.6"], "needs 20 labels, and there are 10"),
    ):
        with pytest.raises(AssistantInputError, match=reason):
            evaluate(judging(folder, rows, gate=gate, baseline="previous"))
    assert judge.asked == []


def test_a_wrong_key_ends_the_task_and_is_not_in_the_message(judge, tmp_path, monkeypatch):
    monkeypatch.setenv(CONNECTION, judge.conn_json(password="canary-7f3a-secret-key"))
    with pytest.raises(AssistantInputError, match="refuses the key") as raised:
        evaluate(judging(tmp_path, [answer(0)]))
    assert "canary" not in str(raised.value)
    assert "summary.json" not in files_below(tmp_path)


def _evaluate_slowly(folder, connection):
    os.environ[CONNECTION] = connection
    evaluate(judging(folder, labelled(400), judge={"max_concurrency": 4}))


@pytest.mark.promise("evaluation", "An evaluation that is killed and retried pays for no verdict twice.")
def test_killed_half_way_and_retried_it_writes_the_same_bytes(judge, tmp_path):
    there, here = tmp_path / "killed", tmp_path / "whole"
    # The 250th request is held, and with it the process; it is killed there.
    judge.fault = lambda number, text: "hold" if number >= 250 else None
    process = processes.Process(target=_evaluate_slowly, args=(there, judge.conn_json()))
    process.start()

    def saved():
        return [pq.read_table(path).num_rows for path in there.rglob("verdicts.parquet")]

    wait_for("250 verdicts", lambda: saved() == [250], timeout=120)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    judge.release.set()
    judge.fault = lambda number, text: None
    judge.asked.clear()
    evaluate(judging(there, labelled(400)))
    assert len(judge.asked) == 150
    evaluate(judging(here, labelled(400)))
    retried = files_below(there)
    assert set(retried) == {"scores.parquet", "verdicts.parquet", "summary.json", "report.html"}
    assert retried == files_below(here)


def test_a_task_that_is_ended_keeps_its_verdicts(judge, tmp_path):
    judge.fault = lambda number, text: "hold" if number >= 50 else None
    rows = [answer(number) for number in range(100)]
    operator = judging(tmp_path, rows, judge={"max_concurrency": 2})

    def end():
        wait_for("two held requests", lambda: len(judge.asked) == 52, timeout=120)
        os.kill(os.getpid(), signal.SIGALRM)

    thread = threading.Thread(target=end)
    before = signal.signal(signal.SIGALRM, lambda *_: operator.on_kill())
    thread.start()
    try:
        with pytest.raises(AssistantIncompleteError, match="a retry judges the answers"):
            evaluate(operator)
    finally:
        thread.join()
        signal.signal(signal.SIGALRM, before)
    [saved] = tmp_path.rglob("verdicts.parquet")
    assert pq.read_table(saved).num_rows == 50
