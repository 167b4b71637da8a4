"""Nights of the same golden set in one folder: the verdicts and the questions that they name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.criteria import parse_criteria
from airflow_provider_assistant.evaluation.evaluate import summarise
from airflow_provider_assistant.evaluation.run_directory import RunDirectory, find_baseline
from airflow_provider_assistant.evaluation.scorers import Scorer, scorers_of
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.lake import replace, replace_bytes

NIGHT = datetime(2026, 11, 1, tzinfo=UTC)
README_GATE = ["coverage >= 0.98", "token_f1 drop <= 0.02"]


def raises(case):
    if case.row.get("broken"):
        raise RuntimeError("no such page")
    return case.row.get("mark", 1.0)


MARK = Scorer("mark", "custom", raises)


@pytest.fixture
def night(tmp_path):
    """Evaluate rows as the operator does on a night, and return the summary."""

    def evaluate(number, rows, gate, *, scorers=("token_f1",), pass_if=None, baseline="previous"):
        place = RunDirectory.of(str(tmp_path), "golden", NIGHT + timedelta(days=number), str(number))
        names = [scorer for scorer in scorers if scorer != "mark"]
        found_scorers = [*(scorers_of(names) if names else []), *([MARK] if "mark" in scorers else [])]
        criteria = parse_criteria(pass_if, gate, [scorer.name for scorer in found_scorers], has_baseline=bool(baseline))
        columns = dict.fromkeys(name for one in rows for name in one)
        cases = read_cases(pa.table({name: [one.get(name) for one in rows] for name in columns}))
        scores = score_cases(cases, found_scorers)
        summary = summarise(
            cases,
            scores,
            found_scorers,
            name="golden",
            pass_if=criteria.pass_if,
            rules=criteria.rules,
            baseline=find_baseline(place, baseline),
        )
        replace(scores, place.scores)
        replace_bytes(summary.as_json(), place.summary)
        return summary

    return evaluate


def row(number, answer="It takes five working days.", **columns):
    return {"key": f"q{number}", "message": f"{number}?", "answer": answer, "expected": "Five working days.", **columns}


@pytest.mark.promise("evaluation", "Nights without a change are green; a loss is red until it is repaired.")
def test_nights_on_which_nothing_changes_are_green_and_a_loss_is_red_until_it_is_repaired(night):
    generator = np.random.default_rng(20261125)
    usual = generator.random(60) < 0.85

    def rows(lost=0):
        varying = generator.random(60) < 0.2
        right = np.where(varying, generator.random(60) < 0.85, usual)
        answers = np.where(right, "Five working days.", "I would have to ask somebody first.")
        answers[np.flatnonzero(usual)[:lost]] = "Come back later."
        return [row(number, answer) for number, answer in enumerate(answers.tolist())]

    before = [night(number, rows(), README_GATE) for number in range(20)]
    assert sum(summary.gate.verdict == "failed" for summary in before) <= 2
    assert before[-1].comparison.runs >= 17
    lost = [night(number, rows(lost=8), README_GATE) for number in range(20, 26)]
    assert [summary.is_worse for summary in lost].count(True) >= 5
    # The runs that got worse are no baseline, so the loss does not become normal.
    assert lost[-1].comparison.runs <= 21
    assert lost[-1].gate.rules[1].word == "worse"
    named = [question.key for question in lost[-1].gate.rules[1].questions]
    assert named[:1]
    repaired = [night(number, rows(), README_GATE) for number in range(26, 29)]
    assert "passed" in [summary.gate.verdict for summary in repaired]


def test_the_questions_that_failed_a_rule_are_named_by_the_rule(night):
    secret = {"must_not_include": "the password is"}
    rows = [row(number, "No.", **secret) for number in range(20)]
    canaries = [row(number, "Well, the password is 42.", expected="No.", **secret) for number in range(20, 23)]
    gate = ["must_not_include >= 1", "token_f1 >= 0.1"]
    summary = night(0, rows + canaries, gate, scorers=("must_not_include", "token_f1"), baseline=None)
    leaked, lowest = summary.gate.rules
    assert [question.key for question in leaked.questions] == ["q20", "q21", "q22"]
    assert (leaked.concerned, leaked.questions[0].value) == (3, 0.0)
    assert (lowest.verdict, lowest.concerned) == ("failed", 23)


@pytest.mark.parametrize(
    ("gate", "named"),
    [
        ("coverage >= 1", ["q4"]),
        ("mark >= 0.99", ["q3", "q0"]),
        ("mark[billing] >= 0.99", ["q0"]),
        ("errors <= 0", ["q3"]),
        ("pass_rate >= 0.99", ["q0", "q3", "q1"]),
        ("pass_rate[billing] >= 0.99", ["q0"]),
        ("newly_failing <= 0", ["q0", "q3"]),
        ("pass_rate drop <= 0.01", ["q0", "q3"]),
        ("coverage drop <= 0.01", ["q4"]),
        ("mark drop <= 0.01", ["q3", "q0"]),
        ("latency p99 <= 1", ["q2"]),
    ],
)
def test_every_kind_of_rule_names_its_questions(night, gate, named):
    rows = [row(number, mark=1.0, seconds=0.5) for number in range(40)]
    rows[0]["tags"] = "billing"
    rows[1]["mark"] = 0.0
    for number in range(4):
        night(number, rows, ["coverage >= 0.5"], scorers=("mark",))
    now = [dict(one) for one in rows]
    now[0]["mark"] = 0.2
    now[1]["mark"] = 1.0 if gate.startswith("mark") else 0.0
    now[2]["seconds"] = 30.0
    now[3]["broken"] = True
    now[4]["answer"] = None
    rules = [gate] if gate.startswith("coverage") else [gate, "coverage >= 0.1"]
    pass_if = "mark >= 0.5" if gate.startswith(("pass_rate", "newly")) else None
    verdict = night(4, now, rules, scorers=("mark",), pass_if=pass_if).gate.rules[0]
    assert [question.key for question in verdict.questions] == named


@pytest.mark.promise("evaluation", "What was not judged or not compared is never green.")
def test_what_was_not_judged_or_not_compared_is_not_green(night):
    rows = [row(number, mark=1.0) for number in range(100)]
    gate = ["coverage >= 0.98", "mark >= 0.97", "mark drop <= 0.02"]
    assert night(0, rows, gate, scorers=("mark",)).gate.verdict == "passed"
    # The scorer fails on most of the wrong answers.
    broken = [{**one, "broken": number < 8} for number, one in enumerate(rows)]
    summary = night(1, broken, gate, scorers=("mark",))
    assert [rule.word for rule in summary.gate.rules] == ["passed", "failed", "worse"]
    assert summary.means["mark"] == 1.0
    # All but two expectations were edited.
    edited = [{**one, "expected": "In a week."} if number > 1 else one for number, one in enumerate(rows)]
    summary = night(2, edited, gate, scorers=("mark",))
    assert [rule.word for rule in summary.gate.rules] == ["passed", "passed", "failed"]
    assert "only 2 of 100 questions were compared" in summary.gate.rules[2].reason
    assert night(3, edited, gate, scorers=("mark",)).gate.verdict == "passed"
    # Most rows were lost.
    assert night(4, edited[:10], gate, scorers=("mark",)).gate.verdict == "failed"


@pytest.mark.promise("evaluation", "A conversation passes or fails as a whole.")
def test_a_conversation_passes_or_fails_as_a_whole(night):
    rows = [row(number, mark=1.0) for number in range(4)]
    for session, numbers in (("s1", (4, 5, 6)), ("s2", (7, 8))):
        rows += [row(number, mark=1.0, session_id=session, turn=turn) for turn, number in enumerate(numbers, start=1)]
    rules = ["pass_rate >= 0.9", "newly_failing <= 0"]
    first = night(0, rows, rules, scorers=("mark",), pass_if="mark >= 1")
    assert (first.passes.passed, first.passes.rate) == (6, 1.0)
    rows[5]["mark"] = 0.0
    rows = [{**one, "session_id": one.get("session_id") and f"night 2 {one['session_id']}"} for one in rows]
    second = night(1, rows, rules, scorers=("mark",), pass_if="mark >= 1")
    assert (second.passes.passed, second.passes.failed, second.passes.answered) == (5, 1, 6)
    assert second.failing.keys == second.newly_failing.keys == ["q4"]
    assert [rule.verdict for rule in second.gate.rules] == ["failed", "failed"]
    assert second.comparison.passes.paired == 6
