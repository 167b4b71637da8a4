"""Evaluations whose scorers are judges, through a real socket to the judge of the embedded service."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.judging.label_files import label_file, label_rows
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantIncompleteError,
    AssistantInputError,
)
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.sandbox import SandboxServer
from tests.live.process import wait_for
from tests.processes import preload, processes

preload(__name__, "jinja2", "numpy", "airflow_provider_assistant.evaluation.judging.judging")

NIGHT = datetime(2026, 11, 21, tzinfo=UTC)
AGREES = "judge.correctness agreement >= 0.6 on >= 20 labels"
RIGHT = "Refunds are paid within 5 days."


def answer(number: int, text: str | None = None, **more: Any) -> dict[str, Any]:
    """Every second answer is wrong, in a number."""
    text = text or (RIGHT if number % 2 else "Refunds are paid within 9 days.")
    message, expected = f"Question {number}?", RIGHT
    return {"key": f"q{number:04}", "message": message, "expected": expected, "answer": text, **more}


def labelled(count: int = 40, wrong: int = 2) -> list[dict[str, Any]]:
    """Return answers that people have labelled, of which they see some otherwise than the judge."""
    return [answer(number, human=str(bool(number % 2) != (number < wrong))) for number in range(count)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", running.judge_conn_json())
        yield running


def judging(folder: Path, answers: Any, **arguments: Any) -> AssistantEvaluateOperator:
    arguments = {"scorers": ["token_f1", "judge.correctness"], "name": "golden", **arguments}
    return AssistantEvaluateOperator(task_id="judge", answers=answers, output_path=str(folder), **arguments)


def evaluate(operator: AssistantEvaluateOperator, night: int = 0) -> dict[str, Any]:
    operator.render_template_fields({})
    moment = NIGHT + timedelta(days=night)
    run_id = f"scheduled__{moment.isoformat()}"
    ti = SimpleNamespace(
        dag_id="nightly", task_id="judge", run_id=run_id, map_index=-1, xcom_push=lambda key, value: None
    )
    run = SimpleNamespace(run_after=moment, logical_date=moment, run_id=run_id)
    return operator.execute({"ti": ti, "dag_run": run, "task": operator})  # type: ignore[arg-type]


def summary_of(head: dict[str, Any]) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(Path(head["summary_path"].removeprefix("file://")).read_text())
    return summary


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*")) if path.is_file()}


def asked(server: SandboxServer) -> int:
    return len(server.service.journal.entries(path="/chat/completions"))


def test_repetitions_and_other_answers_have_verdicts_of_their_own(server: SandboxServer, tmp_path: Path) -> None:
    """Two answers of each question, of which the second is wrong, compared with answers that are all right."""
    answers = [
        {**answer(number, text), "repetition": repetition}
        for number in (1, 3)
        for repetition, text in ((1, RIGHT), (2, "Refunds are paid within 9 days."))
    ]
    others = tmp_path / "others.parquet"
    pq.write_table(pa.Table.from_pylist([answer(1), answer(3)]), others)
    head = evaluate(
        judging(tmp_path, answers, scorers=["judge.correctness"], baseline={"answers": str(others)}, on_fail="report")
    )
    scores = pq.read_table(head["scores_path"]).to_pylist()
    assert [(row["key"], row["repetition"], row["score"] == 1) for row in scores] == [
        (f"q000{number}", repetition, repetition == 1) for number in (1, 3) for repetition in (1, 2)
    ]
    compared = summary_of(head)["comparison"]["scorers"]["judge.correctness"]
    assert (compared["paired"], compared["worse"]) == (2, 2)
    folder = Path(head["scores_path"].removeprefix("file://")).parent
    baseline_verdicts = pq.read_table(folder / "baseline_verdicts.parquet").to_pylist()
    assert len(baseline_verdicts) == 2
    # The verdicts on both sides are paid for.
    verdicts = {row["hash"]: row for row in pq.read_table(folder / "verdicts.parquet").to_pylist()}
    assert head["judge_tokens"] == sum(
        row["input_tokens"] + row["output_tokens"] for row in [*verdicts.values(), *baseline_verdicts]
    )


def test_input_and_earlier_files_are_checked_before_the_judge_is_asked(server: SandboxServer, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged" / "golden" / "2026-11-20T00-00-00.000000Z_scheduled" / "summary.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{}")
    for folder, question, reason in (
        (damaged.parents[2], answer(0), "is not a summary"),
        (tmp_path, answer(0, must_includ="5 days"), "did you mean 'must_include'"),
        (tmp_path, answer(0, weight="much"), "weight must be a number"),
    ):
        with pytest.raises(AssistantInputError, match=reason):
            evaluate(judging(folder, [answer(1), question]))
    assert asked(server) == 0


def test_verdicts_are_scores_and_figures(server, tmp_path):
    price = {"input": 2.0, "output": 10.0}
    head = evaluate(judging(tmp_path, [answer(0), answer(1)], judge={"price": price}))
    scores = pq.read_table(head["scores_path"]).to_pylist()
    assert [row["score"] for row in scores if row["scorer"] == "judge.correctness"] == [0.3, 1.0]
    judge = summary_of(head)["scorers"]["judge.correctness"]["judge"]
    assert judge["model"] == "word-overlap"
    assert judge["cost"] == pytest.approx((2 * judge["input_tokens"] + 10 * judge["output_tokens"]) / 1e6)
    assert judge["agreement"] is None
    assert head["judge_tokens"] == judge["input_tokens"] + judge["output_tokens"]
    assert head["judge_cost"] == judge["cost"]
    [wrong, right] = pq.read_table(Path(head["scores_path"]).with_name("verdicts.parquet")).to_pylist()
    assert (wrong["verdict"], right["verdict"]) == ("fail", "pass")
    assert '"Refunds are paid within 9 days."' in wrong["reason"]
    assert wrong["input_tokens"] + right["input_tokens"] == judge["input_tokens"]


def test_equal_answers_are_judged_once(server, tmp_path):
    same = [answer(0) | {"key": str(number)} for number in range(5)]
    head = evaluate(judging(tmp_path, same))
    assert asked(server) == 1
    assert summary_of(head)["scorers"]["judge.correctness"]["scored"] == 5


def test_rubrics_apply_where_their_reference_is(server, tmp_path):
    rows = [
        answer(0, passages=["Refunds are paid within 9 days, not earlier."]),
        answer(1, passages=None) | {"expected": None},
        {"key": "none", "message": "?", "answer": None, "expected": None, "passages": None},
    ]
    rubrics = {"policy": "No promises.", "brand": "Name the shop."}
    scorers = [f"judge.{name}" for name in ("correctness", "groundedness", "tone", "policy", "brand")]
    found = summary_of(evaluate(judging(tmp_path, rows, scorers=scorers, judge={"rubrics": rubrics})))["scorers"]
    assert [found[name]["scored"] for name in scorers] == [1, 1, 2, 2, 2]
    assert [found[name]["not_applicable"] for name in scorers] == [1, 1, 0, 0, 0]
    assert found["judge.groundedness"]["mean"] == 1.0
    assert found["judge.policy"]["judge"]["rubric"] == "No promises."


@pytest.mark.parametrize("action", ["drop", "status:503", "html:502", "retry-after:0"])
def test_a_request_that_fails_once_is_sent_again(server, tmp_path, action):
    server.service.faults.add(action, path="/chat/completions", times=1)
    found = summary_of(evaluate(judging(tmp_path, [answer(0), answer(1)])))["scorers"]["judge.correctness"]
    assert (found["scored"], found["errors"]) == (2, 0)


def test_a_wrong_key_ends_the_task_and_is_not_in_the_message(server, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_PYDANTICAI_DEFAULT", server.judge_conn_json(key="canary-7f3a-secret-key"))
    with pytest.raises(AssistantAuthenticationError) as raised:
        evaluate(judging(tmp_path, [answer(0)]))
    assert "canary" not in str(raised.value)
    assert "summary.json" not in {Path(name).name for name in files_below(tmp_path)}


def test_a_model_that_is_away_ends_the_task_and_a_retry_pays_for_nothing_twice(server, tmp_path):
    rows = [answer(number) for number in range(300)]
    operator = judging(tmp_path, rows, judge={"max_concurrency": 4})
    server.service.faults.add("status:404", path="/chat/completions", skip=120, times=None)
    with pytest.raises(Exception, match="404"):
        evaluate(operator)
    server.service.reset("faults")
    [saved] = tmp_path.rglob("verdicts.parquet")
    assert pq.read_table(saved).num_rows == 120
    before = asked(server)
    evaluate(operator)
    assert asked(server) - before == 180
    interrupted = files_below(tmp_path)
    evaluate(operator)
    assert asked(server) - before == 180
    assert files_below(tmp_path) == interrupted


def test_a_judge_decides_after_it_has_agreed_with_people(server, tmp_path):
    gate = [AGREES, "judge.correctness >= 0.6"]
    summary = summary_of(evaluate(judging(tmp_path, labelled(), gate=gate)))
    found = summary["scorers"]["judge.correctness"]["judge"]["agreement"]
    assert [found[name] for name in ("both_pass", "only_human", "only_judge", "both_fail")] == [19, 1, 1, 19]
    assert found["kappa"] == pytest.approx(0.9)
    assert found["low"] < 0.9 < found["high"]
    assert [rule["verdict"] for rule in summary["gate"]["rules"]] == ["passed", "passed"]


def test_too_few_labels_are_refused_before_a_request(server, tmp_path):
    with pytest.raises(AssistantInputError, match="needs 20 labels, and only 10 questions"):
        evaluate(judging(tmp_path, labelled(10), gate=[AGREES, "judge.correctness >= 0.6"]))
    assert asked(server) == 0
    assert files_below(tmp_path) == {}


def test_a_label_is_about_the_answer_that_the_person_has_seen(server, tmp_path):
    seen = [
        answer(number, "I like trains.", human=bool(number % 2), human_answer=answer(number)["answer"])
        for number in range(40)
    ]
    summary = summary_of(evaluate(judging(tmp_path, seen, gate=[AGREES])))
    found = summary["scorers"]["judge.correctness"]
    assert found["judge"]["agreement"]["kappa"] == 1.0
    assert found["mean"] == 0.0
    assert asked(server) == 80


def test_labels_may_come_from_files_of_several_people(server, tmp_path):
    """Three people label twelve answers; all of them are wrong about one, and one is always wrong."""
    content = label_file(label_rows(read_cases(pa.Table.from_pylist([answer(number) for number in range(12)]))))
    [header, *rows] = csv.reader(io.StringIO(content.decode("utf-8-sig")))
    column = header.index("label")
    for name in ("anna", "bert", "carl"):
        for number, row in enumerate(rows):
            passes = bool(number % 2) != (name == "carl" or number == 4)
            row[column] = "Pass" if passes else "fail"
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=";").writerows([header, *rows])
    rule = "judge.correctness agreement >= 0.6 on >= 12 labels"
    operator = judging(tmp_path / "out", [answer(99)], gate=[rule], judge={"labels": str(tmp_path / "*.csv")})
    head = evaluate(operator)
    found = summary_of(head)["scorers"]["judge.correctness"]["judge"]["agreement"]
    assert [found[name] for name in ("both_pass", "only_human", "only_judge", "both_fail", "ties")] == [6, 1, 0, 5, 0]
    assert head["verdict"] == "passed"
    assert summary_of(head)["questions"]["total"] == 1
    # Without the third person, a single disagreement of the two would be a tie. Here they agree.
    (tmp_path / "carl.csv").unlink()
    (tmp_path / "anna.csv").unlink()
    with pytest.raises(AssistantInputError, match="needs 13 labels, and only 12"):
        evaluate(judging(tmp_path / "few", [answer(99)], gate=[rule.replace("12", "13")],
                         judge={"labels": [str(tmp_path / "bert.csv")]}))  # fmt: skip


def test_a_baseline_judged_otherwise_is_not_compared(server, tmp_path):
    arguments = {"baseline": "previous", "gate": [AGREES, "judge.correctness drop <= 0.02", "token_f1 drop <= 0.02"]}
    evaluate(judging(tmp_path, labelled()))
    same = summary_of(evaluate(judging(tmp_path, labelled(), **arguments), 1))
    assert [rule["verdict"] for rule in same["gate"]["rules"]] == ["passed", "passed", "passed"]
    assert set(same["comparison"]["scorers"]) == {"token_f1", "judge.correctness"}
    for night, judge in enumerate([{"model": "openai:newer"}, {"rubrics": {"correctness": "Be strict."}}], start=2):
        other = summary_of(evaluate(judging(tmp_path, labelled(), judge=judge, **arguments), night))
        assert [rule["verdict"] for rule in other["gate"]["rules"]] == ["passed", "not_judged", "passed"]
        assert other["comparison"]["changed_judges"] == ["judge.correctness"]
        assert set(other["comparison"]["scorers"]) == {"token_f1"}


def test_the_report_shows_judge_agreement_and_reasons(server, tmp_path):
    head = evaluate(judging(tmp_path, labelled(), judge={"price": {"input": 1, "output": 1}}))
    page = Path(head["report_path"]).read_text()
    for text in ("word-overlap", "Cohen", "0.90", "states the same facts", "5 is in only one of the two texts"):
        assert text in page


def _evaluate_slowly(folder: Path, connection: str) -> None:
    os.environ["AIRFLOW_CONN_PYDANTICAI_DEFAULT"] = connection
    evaluate(judging(folder, labelled(400), judge={"max_concurrency": 4}))


def test_killed_half_way_and_retried_it_writes_the_same_bytes(server, tmp_path):
    there, here = tmp_path / "killed", tmp_path / "whole"
    # The 250th request is held, and with it the process; it is killed there.
    server.service.faults.add("hold", path="/chat/completions", skip=250, times=None)
    process = processes.Process(target=_evaluate_slowly, args=(there, server.judge_conn_json()))
    process.start()
    while asked(server) < 254 and process.is_alive():
        process.join(0.02)
    assert process.is_alive()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    server.service.reset("faults", "journal")
    [saved] = there.rglob("verdicts.parquet")
    known = pq.read_table(saved).num_rows
    assert 100 <= known <= 250
    evaluate(judging(there, labelled(400)))
    assert asked(server) == 400 - known
    evaluate(judging(here, labelled(400)))
    names = {"answers.parquet", "scores.parquet", "verdicts.parquet", "summary.json", "report.html"}
    retried = {Path(name).name: content for name, content in files_below(there).items()}
    assert set(retried) == names
    assert retried == {Path(name).name: content for name, content in files_below(here).items()}


def test_a_task_that_is_ended_keeps_its_verdicts(server, tmp_path):
    server.service.faults.add("hold", path="/chat/completions", skip=50, times=None)
    operator = judging(tmp_path, [answer(number) for number in range(100)], judge={"max_concurrency": 2})

    def end() -> None:
        wait_for("two held requests", lambda: asked(server) == 52, timeout=120)
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
