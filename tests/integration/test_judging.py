"""Evaluations whose scorers are judges, with a model's host on a real socket."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.judging.label_files import label_file, label_rows

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantJudgeLimitError,
)
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from tests.judge import Judge
from tests.live.process import wait_for
from tests.processes import preload, processes

preload(__name__, "jinja2", "numpy", "airflow_provider_assistant.evaluation.judging.judging")

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


def compared_with(folder, now, before, **arguments):
    """Evaluate answers; the baseline are other answers to the same questions."""
    others = folder / "others.parquet"
    pq.write_table(pa.Table.from_pylist(before), others)
    return evaluate(judging(folder, now, baseline={"answers": str(others)}, **arguments))


def summary_of(head):
    return json.loads(Path(head["summary_path"].removeprefix("file://")).read_text())


def files_below(folder):
    found = [path for path in sorted(folder.rglob("*.*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_every_answer_and_every_answer_of_the_baseline_has_a_verdict(judge, tmp_path):
    """Two answers to each question, the second of which is wrong. The baseline has right answers."""
    both = ((1, RIGHT), (2, WRONG))
    now = [{**answer(n, text), "repetition": place} for n in (1, 3) for place, text in both]
    price = {"input": 2.0, "output": 10.0}
    head = compared_with(
        tmp_path, now, [answer(1), answer(3)], scorers=["judge.correctness"],
        judge={"price": price}, on_fail="report",
    )  # fmt: skip
    scores = pq.read_table(head["scores_path"]).to_pylist()
    assert [row["score"] for row in scores] == [1.0, 0.3, 1.0, 0.3]
    compared = summary_of(head)["comparison"]["scorers"]["judge.correctness"]
    assert (compared["paired"], compared["worse"]) == (2, 2)
    found = summary_of(head)["scorers"]["judge.correctness"]["judge"]
    assert found["model"] == "word-overlap"
    assert found["cost"] == pytest.approx((2 * found["input_tokens"] + 10 * found["output_tokens"]) / 1e6)
    folder = Path(head["scores_path"].removeprefix("file://")).parent
    before = pq.read_table(folder / "baseline_verdicts.parquet").to_pylist()
    assert len(before) == 2
    # The verdicts on both sides are paid for, each once.
    verdicts = [*pq.read_table(folder / "verdicts.parquet").to_pylist(), *before]
    paid = {row["hash"]: row["input_tokens"] + row["output_tokens"] for row in verdicts[:-2]}
    assert head["judge_tokens"] == sum(paid.values()) + sum(
        row["input_tokens"] + row["output_tokens"] for row in before
    )
    page = Path(head["report_path"]).read_text()
    assert "word-overlap" in page
    assert "Missing: 5" in page


@pytest.mark.promise("evaluation", "A mistake in the input is found before the judge costs anything.")
def test_input_and_earlier_files_are_checked_before_the_judge_is_asked(judge, tmp_path):
    damaged = tmp_path / "damaged/golden/2026-11-20T00-00-00.000000Z_scheduled/summary.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{}")
    for folder, rows, gate, reason in (
        (damaged.parents[2], [answer(0)], [], "is not a summary"),
        (tmp_path, [answer(0, must_includ="5 days")], [], "did you mean 'must_include'"),
        (tmp_path, [answer(0, weight="much")], [], "weight must be a number"),
        (tmp_path, labelled(10), [AGREES, "judge.correctness >= 0.6"], "needs 20 labels, and only 10"),
    ):
        with pytest.raises(AssistantInputError, match=reason):
            evaluate(judging(folder, rows, gate=gate))
    with pytest.raises(AssistantInputError, match="needs 20 labels, and only 0"):
        compared_with(
            tmp_path, [answer(0)], [answer(1)], scorers=["judge.correctness", "judge.pairwise"],
            gate=[AGREES],
        )  # fmt: skip
    assert judge.asked == []


def test_rubrics_apply_where_their_reference_is(judge, tmp_path):
    rows = [
        answer(0, passages=["Refunds are paid within 9 days, not earlier."]),
        answer(1, passages=None) | {"expected": None},
        {"key": "none", "message": "?", "answer": None, "expected": None, "passages": None},
    ]
    rubrics = {"policy": "No promises.", "brand": "Name the shop."}
    names = ("correctness", "groundedness", "tone", "policy", "brand")
    scorers = [f"judge.{name}" for name in names]
    head = evaluate(judging(tmp_path, rows, scorers=scorers, judge={"rubrics": rubrics}))
    found = summary_of(head)["scorers"]
    assert [found[name]["scored"] for name in scorers] == [1, 1, 2, 2, 2]
    assert [found[name]["not_applicable"] for name in scorers] == [1, 1, 0, 0, 0]
    assert found["judge.policy"]["judge"]["rubric"] == "No promises."


def test_equal_answers_are_judged_once(judge, tmp_path):
    same = [answer(0) | {"key": str(number)} for number in range(5)]
    head = evaluate(judging(tmp_path, same))
    assert len(judge.asked) == 1
    assert summary_of(head)["scorers"]["judge.correctness"]["scored"] == 5


@pytest.mark.parametrize("fault", ["drop", 503])
def test_a_request_that_fails_once_is_sent_again(judge, tmp_path, fault):
    judge.fault = lambda number, text: fault if number == 0 else None
    head = evaluate(judging(tmp_path, [answer(0), answer(1)]))
    found = summary_of(head)["scorers"]["judge.correctness"]
    assert (found["scored"], found["errors"]) == (2, 0)


def test_a_wrong_key_ends_the_task_and_is_not_in_the_message(judge, tmp_path, monkeypatch):
    monkeypatch.setenv(CONNECTION, judge.conn_json(password="canary-7f3a-secret-key"))
    with pytest.raises(AssistantAuthenticationError) as raised:
        evaluate(judging(tmp_path, [answer(0)]))
    assert "canary" not in str(raised.value)
    assert "summary.json" not in {Path(name).name for name in files_below(tmp_path)}


@pytest.mark.promise("evaluation", "A judge decides only where it agrees with people, over enough labels.")
def test_a_judge_decides_after_it_has_agreed_with_people(judge, tmp_path):
    gate = [AGREES, "judge.correctness >= 0.6"]
    summary = summary_of(evaluate(judging(tmp_path, labelled(), gate=gate)))
    found = summary["scorers"]["judge.correctness"]["judge"]["agreement"]
    cells = ("both_pass", "only_human", "only_judge", "both_fail")
    assert [found[name] for name in cells] == [19, 1, 1, 19]
    assert found["kappa"] == pytest.approx(0.9)
    assert found["low"] < 0.9 < found["high"]
    assert [rule["verdict"] for rule in summary["gate"]["rules"]] == ["passed", "passed"]


def test_a_label_is_about_the_answer_that_the_person_has_seen(judge, tmp_path):
    seen = [answer(n, "I like trains.", human=bool(n % 2), human_answer=answer(n)["answer"]) for n in range(40)]
    summary = summary_of(evaluate(judging(tmp_path, seen, gate=[AGREES])))
    found = summary["scorers"]["judge.correctness"]
    assert (found["judge"]["agreement"]["kappa"], found["mean"]) == (1.0, 0.0)
    assert len(judge.asked) == 80


def test_labels_may_come_from_files_of_several_people(judge, tmp_path):
    """Three people label twelve answers. All are wrong about one, and one is always wrong."""
    answers = pa.Table.from_pylist([answer(number) for number in range(12)])
    content = label_file(label_rows(read_cases(answers))).decode("utf-8-sig")
    [header, *rows] = csv.reader(io.StringIO(content))
    for name in ("anna", "bert", "carl"):
        for number, row in enumerate(rows):
            passes = bool(number % 2) != (name == "carl" or number == 4)
            row[header.index("label")] = "Pass" if passes else "fail"
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=";").writerows([header, *rows])
    rule = "judge.correctness agreement >= 0.6 on >= 12 labels"
    labels = {"labels": str(tmp_path / "*.csv")}
    head = evaluate(judging(tmp_path / "out", [answer(99)], gate=[rule], judge=labels))
    found = summary_of(head)["scorers"]["judge.correctness"]["judge"]["agreement"]
    cells = ("both_pass", "only_human", "only_judge", "both_fail", "ties")
    assert [found[name] for name in cells] == [6, 1, 0, 5, 0]
    assert head["verdict"] == "passed"
    assert summary_of(head)["questions"]["total"] == 1


def test_a_baseline_judged_otherwise_is_not_compared(judge, tmp_path):
    gate = [AGREES, "judge.correctness drop <= 0.02", "token_f1 drop <= 0.02"]
    evaluate(judging(tmp_path, labelled()))
    for night, changed, verdict in (
        (1, {}, "passed"),
        (2, {"model": "openai:newer"}, "not_judged"),
        (3, {"rubrics": {"correctness": "Be strict."}}, "not_judged"),
    ):
        operator = judging(tmp_path, labelled(), judge=changed, baseline="previous", gate=gate)
        summary = summary_of(evaluate(operator, night))
        verdicts = [rule["verdict"] for rule in summary["gate"]["rules"]]
        assert verdicts == ["passed", verdict, "passed"]
        assert ("judge.correctness" in summary["comparison"]["scorers"]) == (verdict == "passed")


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
    while len(judge.asked) < 254 and process.is_alive():
        process.join(0.02)
    assert process.is_alive()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    judge.release.set()
    judge.fault = lambda number, text: None
    judge.asked.clear()
    [saved] = there.rglob("verdicts.parquet")
    known = pq.read_table(saved).num_rows
    assert 100 <= known <= 250
    evaluate(judging(there, labelled(400)))
    assert len(judge.asked) == 400 - known
    evaluate(judging(here, labelled(400)))
    names = {"answers.parquet", "scores.parquet", "verdicts.parquet", "summary.json", "report.html"}
    retried = {Path(name).name: content for name, content in files_below(there).items()}
    assert set(retried) == names
    assert retried == {Path(name).name: content for name, content in files_below(here).items()}


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


# Which of two answers is better.

PAIRWISE = "judge.pairwise"
PARTLY = "Refunds take 5 days."
# The answer of this evaluation, and that of the baseline: two wins, a loss, a tie, and equal answers.
PAIRS = [
    (RIGHT, WRONG),
    (PARTLY, WRONG),
    (WRONG, RIGHT),
    (WRONG, "Refunds are paid within 8 days."),
    (RIGHT, RIGHT),
]


def pairs_in(folder, pairs=PAIRS, **arguments):
    now, before = ([answer(n, pair[side]) for n, pair in enumerate(pairs)] for side in (0, 1))
    folder.mkdir(exist_ok=True)
    return compared_with(folder, now, before, **{"scorers": [PAIRWISE], **arguments})


def test_wins_ties_and_losses_are_counted_and_compared(judge, tmp_path):
    head = pairs_in(tmp_path)
    # Four pairs in two orders; nobody is asked about identical answers.
    assert len(judge.asked) == 8
    summary = summary_of(head)
    assert summary["scorers"][PAIRWISE]["judge"]["pairs"] == {
        "pairs": 5, "wins": 2, "losses": 1, "ties": 1, "order_changed": 0, "identical": 1, "errors": 0,
        "first_preferred": 0.5,
    }  # fmt: skip
    assert pq.read_table(head["scores_path"])["score"].to_pylist() == [1, 1, -1, 0, 0]
    compared = summary["comparison"]["scorers"][PAIRWISE]
    assert [compared[name] for name in ("paired", "better", "unchanged", "worse")] == [5, 2, 2, 1]
    assert compared["low"] < 0.2 < compared["high"]
    assert [change["key"] for change in compared["worst"]] == ["q0002"]


def test_a_pair_with_one_verdict_is_an_error_and_a_retry_asks_only_for_the_other(judge, tmp_path):
    failed = []

    def fail_once(number, text):
        if "Question 3" in text and not failed:
            failed.append(number)
            return 400
        return None

    judge.fault = fail_once
    head = pairs_in(tmp_path / "retried")
    summary = summary_of(head)
    counts = summary["scorers"][PAIRWISE]["judge"]["pairs"]
    assert (counts["pairs"], counts["ties"], counts["errors"]) == (5, 0, 1)
    assert summary["comparison"]["scorers"][PAIRWISE]["paired"] == 4
    before = len(judge.asked)
    again = pairs_in(tmp_path / "retried")
    assert len(judge.asked) - before == 1
    whole = pairs_in(tmp_path / "whole")
    for name in ("scores.parquet", "verdicts.parquet"):
        files = [Path(one["scores_path"]).with_name(name).read_bytes() for one in (again, whole)]
        assert files[0] == files[1]


def test_max_judge_tokens_counts_pairs_and_single_answers_together(judge, tmp_path):
    many = [(f"Refunds take {number} days.", WRONG) for number in range(20)]
    limit = {"max_concurrency": 2, "max_judge_tokens": 12_000}
    scorers = ["judge.tone", PAIRWISE]
    with pytest.raises(AssistantJudgeLimitError, match="of 60 verdicts"):
        pairs_in(tmp_path, many, scorers=scorers, judge=limit)
    assert 20 < len(judge.asked) < 60
    pairs_in(tmp_path, many, scorers=scorers)
    # 40 requests about pairs, and one for each answer of both sides.
    assert len(judge.asked) == 40 + 20 + 20


def test_repetitions_are_pairs_and_a_question_counts_once(judge, tmp_path):
    def repeated(*texts):
        return [{**answer(0, text), "repetition": n} for n, text in enumerate(texts, start=1)]

    now, before = repeated(RIGHT, WRONG, RIGHT), repeated(WRONG, WRONG)
    summary = summary_of(compared_with(tmp_path, now, before, scorers=[PAIRWISE]))
    counts = summary["scorers"][PAIRWISE]["judge"]["pairs"]
    assert (counts["pairs"], counts["wins"], counts["identical"]) == (2, 1, 1)
    assert summary["scorers"][PAIRWISE]["not_applicable"] == 1
    compared = summary["comparison"]["scorers"][PAIRWISE]
    assert (compared["paired"], compared["mean"]) == (1, 0.5)
