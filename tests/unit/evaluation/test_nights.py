"""Nights of the same golden set in one folder: the verdicts and the questions that they name."""

from __future__ import annotations

import json
from datetime import timedelta

import numpy as np
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.evaluation.failing import failing_lines
from airflow_provider_assistant.exceptions import AssistantInputError
from tests.unit.evaluation.conftest import NIGHT, row


def words(evaluation):
    return [rule.word for rule in evaluation.summary.gate.rules]


@pytest.mark.promise("evaluation", "Nights without a change are green; a loss is red until it is repaired.")
def test_nights_on_which_nothing_changes_are_green_and_a_loss_is_red_until_it_is_repaired(night):
    generator = np.random.default_rng(20261125)
    usual = generator.random(60) < 0.85
    gate = ["coverage >= 0.98", "mark drop <= 0.02"]

    def rows(lost=0):
        varying = generator.random(60) < 0.2
        right = np.where(varying, generator.random(60) < 0.85, usual)
        right[np.flatnonzero(usual)[:lost]] = False
        return [row(number, mark=float(mark)) for number, mark in enumerate(right.tolist())]

    before = [night(number, rows(), gate).summary for number in range(20)]
    assert sum(summary.gate.verdict == "failed" for summary in before) <= 2
    assert before[-1].earlier.runs >= 17
    lost = [night(number, rows(lost=8), gate).summary for number in range(20, 26)]
    assert sum(summary.gate.is_worse for summary in lost) >= 5
    # The runs that got worse are no baseline, so the loss does not become normal.
    assert lost[-1].earlier.runs <= 21
    assert lost[-1].gate.rules[1].word == "worse"
    assert lost[-1].gate.rules[1].questions
    repaired = [night(number, rows(), gate).summary for number in range(26, 29)]
    assert "passed" in [summary.gate.verdict for summary in repaired]


def test_since_when_the_gate_fails_is_known_although_runs_that_got_worse_are_not_compared(night):
    def evaluated(number, mark, **options):
        rows = [row(one, mark=mark, submitted_at=NIGHT + timedelta(days=number)) for one in range(40)]
        return night(number, rows, ["mark drop <= 0.02"], **options)

    runs = [evaluated(number, float(number < 3)) for number in range(9)]
    gates = [run.summary.gate for run in runs]
    assert [gate.failed_runs for gate in gates] == [0, 0, 0, 1, 2, 3, 4, 5, 6]
    assert [gate.since for gate in gates] == [None] * 3 + ["2026-11-04T00:00:00+00:00"] * 6
    # A run that is named need not be the one before.
    assert evaluated(9, 0.0, baseline=str(runs[0].job.folder.path)).summary.gate.failed_runs == 1


@pytest.mark.parametrize(
    ("gate", "named"),
    [
        ("coverage >= 1", ["q4"]),
        ("mark >= 0.99", ["q3", "q0"]),
        ("mark[billing] >= 0.99", ["q0"]),
        ("pass_rate >= 0.99", ["q0", "q3", "q1"]),
        ("pass_rate[billing] >= 0.99", ["q0"]),
        ("newly_failing <= 0", ["q0", "q3"]),
        ("pass_rate drop <= 0.01", ["q0", "q3"]),
        ("coverage drop <= 0.01", ["q4"]),
        ("mark drop <= 0.01", ["q3", "q0"]),
        ("latency p99 <= 1", ["q2"]),
    ],
)
@pytest.mark.promise("evaluation", "Every failed rule names its worst questions, wherever you look.")
def test_every_kind_of_rule_names_its_questions(night, gate, named):
    rows = [row(number, mark=1.0, seconds=0.5) for number in range(40)]
    rows[0]["tags"] = "billing"
    rows[1]["mark"] = 0.0
    pass_if = "mark >= 0.5"
    for number in range(4):
        night(number, rows, ["coverage >= 0.5"], pass_if=pass_if)
    now = [dict(one) for one in rows]
    now[0]["mark"] = 0.2
    now[1]["mark"] = 1.0 if gate.startswith("mark") else 0.0
    now[2]["seconds"] = 30.0
    now[3]["broken"] = True
    now[4]["answer"] = None
    rules = [gate] if gate.startswith("coverage") else [gate, "coverage >= 0.1"]
    evaluation = night(4, now, rules, pass_if=pass_if)
    verdict = evaluation.summary.gate.rules[0]
    assert verdict.verdict in {"failed", "not_proven"}
    assert [question.key for question in verdict.questions] == named
    assert verdict.deciding == len(named)
    if verdict.verdict == "failed":
        lines = "\n".join(failing_lines(evaluation))
        assert all(f"failing: {key} " in lines for key in named)
        page = evaluation.job.folder.report.read_text()
        assert all(f">{key}<" in page for key in named)


def test_questions_of_a_rule_are_named_however_many_fail_another(night):
    secret = {"must_not_include": "the password is"}
    rows = [row(number, "No.", **secret) for number in range(80)]
    rows += [row(number, "Well, the password is 42.", **secret) for number in range(80, 83)]
    rows += [row(number, expected=None, slow=60) for number in range(83, 163)]
    gate = ["must_not_include >= 1", "token_f1 >= 0.1", "column:slow <= 20"]
    scorers = ("must_not_include", "token_f1", "column:slow")
    evaluation = night(0, [{"slow": 0, **one} for one in rows], gate, scorers=scorers, baseline=None)
    leaked, lowest, slow = evaluation.summary.gate.rules
    assert [question.key for question in leaked.questions] == ["q80", "q81", "q82"]
    assert (lowest.deciding, len(lowest.questions)) == (83, 50)
    lines = failing_lines(evaluation)
    assert len(lines) == 21
    # Those of the last rule are others than those before.
    assert (slow.deciding, lines[-1]) == (80, "and 143 more")
    assert sum("must_not_include >= 1: 0" in line for line in lines) == 3


@pytest.mark.promise("evaluation", "What was not judged or not compared is never green.")
def test_what_was_not_judged_or_not_compared_is_not_green(night):
    rows = [row(number, mark=1.0) for number in range(100)]
    gate = ["coverage >= 0.98", "mark >= 0.97", "mark drop <= 0.02"]
    assert words(night(0, rows, gate)) == ["passed", "passed", "not judged"]
    # The scorer fails on eight answers: they count as wrong.
    broken = [{**one, "broken": number < 8} for number, one in enumerate(rows)]
    evaluation = night(1, broken, gate)
    assert words(evaluation) == ["passed", "failed", "worse"]
    assert evaluation.summary.means["mark"] == 0.92
    assert evaluation.summary.scorers["mark"].errors == 8
    # All but two expectations were edited; the next night compares with this one.
    edited = [{**one, "expected": "In a week."} if number > 1 else one for number, one in enumerate(rows)]
    evaluation = night(2, edited, gate)
    assert words(evaluation) == ["passed", "passed", "failed"]
    assert "only 2 of 100 questions can be compared" in evaluation.summary.gate.rules[2].reason
    assert (evaluation.summary.earlier.changed, evaluation.summary.earlier.added) == (98, 0)
    assert night(3, edited, gate).summary.gate.verdict == "passed"
    # Other questions, also in another run that is named, or only of a tag.
    others = [row(number, mark=1.0, tags=["new"] if number < 150 else []) for number in range(100, 200)]
    named = {"baseline": str(evaluation.job.folder.path)}
    for options in ({}, named):
        evaluation = night(4, others, ["mark drop <= 0.02", "newly_failing <= 0"], pass_if="mark >= 1", **options)
        assert words(evaluation) == ["failed", "failed"]
        assert all("share no question" in rule.reason for rule in evaluation.summary.gate.rules)
    (verdict,) = night(5, [*others, *edited], ["mark[new] drop <= 0.02"], **named).summary.gate.rules
    assert (verdict.verdict, "share no question" in verdict.reason) == ("failed", True)
    # Most rows were lost, most answers are missing, most latencies are not known.
    assert night(4, edited[:10], gate).summary.gate.verdict == "failed"
    silent = [{**one, "answer": None if number > 10 else "x"} for number, one in enumerate(rows)]
    for rule in ("mark >= 0.9", "coverage drop <= 0.02"):
        assert night(5, silent, [rule]).summary.gate.rules[1].rule == "coverage >= 0.9"
    # Of a tag that a rule names, too: the mean of one answer says nothing about the others.
    tagged = [
        {**one, "answer": None if number > 90 else "x", "tags": "b" if number >= 90 else ""}
        for number, one in enumerate(rows)
    ]
    verdicts = night(5, tagged, ["mark[b] >= 0.9", "coverage >= 0.8"]).summary.gate.rules
    assert [(rule.rule, rule.word) for rule in verdicts[2:]] == [("coverage[b] >= 0.8", "failed")]
    assert words(night(5, tagged, ["mark[b] >= 0.9", "coverage >= 0.8", "coverage[b] >= 0.1"])) == ["passed"] * 3
    timed = [{**one, "seconds": 1.0 if number < 50 else None} for number, one in enumerate(rows)]
    measured = {"scorers": ("mark", "latency"), "pass_if": "latency <= 2 and mark >= 1"}
    night(6, [{**one, "seconds": 1.0} for one in rows], **measured)
    for rule in ("latency p95 <= 2", "latency <= 2", "pass_rate >= 0.9", "newly_failing <= 2"):
        (verdict,) = night(7, timed, [rule], **measured).summary.gate.rules
        assert (verdict.verdict, "only 50 of 100 questions have a value" in verdict.reason) == ("failed", True)
    unknown = [{**one, "seconds": None} for one in rows]
    (verdict,) = night(7, unknown, ["newly_failing <= 2"], **measured).summary.gate.rules
    assert (verdict.verdict, "share no question that has a value" in verdict.reason) == ("failed", True)
    for rule in ("mark[nowhere] >= 0.1", "mark[nowhere] drop <= 0.1"):
        (verdict,) = night(7, rows, [rule]).summary.gate.rules
        assert (verdict.verdict, verdict.reason) == ("failed", "no data: no question has the tag 'nowhere'")


def test_a_column_that_a_rule_needs_and_the_golden_set_does_not_have_is_named(night):
    rows = [row(number, must_contain="days") for number in range(3)]
    for arguments in ({"gate": ["must_include >= 1"]}, {"gate": ["pass_rate >= 1"], "pass_if": "must_include >= 1"}):
        with pytest.raises(AssistantInputError, match=r"no column 'must_include', but 'must_contain'"):
            night(0, rows, scorers=("must_include",), **arguments)


@pytest.mark.promise("evaluation", "A conversation passes or fails as a whole.")
def test_a_conversation_passes_or_fails_as_a_whole(night):
    rows = [row(number, mark=1.0) for number in range(4)]
    for session, numbers in (("s1", (4, 5, 6)), ("s2", (7, 8))):
        rows += [row(number, mark=1.0, session_id=session, turn=turn) for turn, number in enumerate(numbers, start=1)]
    # Nothing is expected of the answers to the greetings that begin a conversation.
    rows[4]["mark"] = rows[7]["mark"] = None
    rules = ["pass_rate >= 0.9", "newly_failing <= 0"]
    first = night(0, rows, rules, pass_if="mark >= 1").summary.figures["pass_rate"]
    assert (first.value, first.count) == (1.0, 6)
    rows[5]["mark"] = 0.0
    rows = [{**one, "session_id": one.get("session_id") and f"night 2 {one['session_id']}"} for one in rows]
    second = night(1, rows, rules, pass_if="mark >= 1")
    found = second.summary.figures["pass_rate"]
    assert (found.value, found.count, found.change.questions) == (pytest.approx(5 / 6), 6, 6)
    assert second.summary.failing.keys == second.summary.newly_failing.keys == ["q4"]
    assert words(second) == ["failed", "failed"]
    assert failing_lines(second) == ["newly failing: q4 (turn 2) — 5? — mark >= 1: 0"]
    # With another turn it is another conversation.
    rows.append(row(9, mark=0.0, session_id=rows[8]["session_id"], turn=3))
    third = night(2, rows, rules, pass_if="mark >= 1").summary
    assert (third.failing.keys, third.newly_failing.keys) == (["q4", "q7"], [])
    assert (third.earlier.changed, third.earlier.added) == (0, 1)


@pytest.mark.promise("evaluation", "A question counts once, however often it was asked.")
def test_a_question_counts_once_however_many_of_its_repetitions_have_an_answer(night):
    def asked(key, *marks):
        rows = [{"key": key, "repetition": number, "mark": mark} for number, mark in enumerate(marks, start=1)]
        return [{**one, "answer": None if one["mark"] is None else "x", "message": key, "tags": [key]} for one in rows]

    rows = [*asked("a", 1.0, 0.5, 0.0), *asked("b", 1.0, None, None), *asked("c", 0.0, 0.0)]
    evaluation = night(0, rows, ["mark >= 0.5", "pass_rate >= 0.9", "coverage >= 0.5"], pass_if="mark >= 0.5")
    summary = evaluation.summary
    assert summary.questions.model_dump() == {"total": 8, "answered": 6, "unanswered": {"failed": 2}}
    assert summary.value("mark") == pytest.approx((0.5 + 1.0 + 0.0) / 3)
    assert summary.value("pass_rate") == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert summary.value("coverage") == pytest.approx((1 + 1 / 3 + 1) / 3)
    assert summary.value("mark", "a") == 0.5
    # The repetition that failed most is shown.
    assert failing_lines(evaluation) == ["failing: c — c — mark >= 0.5: 0", "failing: a — a — mark >= 0.5: 0"]
    table = pq.read_table(evaluation.job.folder.scores.path)
    assert table["passed"].to_pylist() == [True, True, False, True, None, None, False, False]


def test_weights_weigh_means_and_losses_and_a_tag_of_one_turn_leaves_the_others_out(night):
    def rows(mark):
        turns = [row(10, mark=mark, session_id="s", turn=1, tags="a"), row(11, mark=0.5, session_id="s", turn=2)]
        return [row(0, mark=mark, weight=3), *(row(number, mark=1.0) for number in range(1, 9)), *turns]

    night(0, rows(1.0))
    figures = night(1, rows(0.0), ["mark[a] drop <= 1"]).summary.figures
    assert figures["mark"].value == pytest.approx(8.5 / 13)
    assert figures["mark"].change.mean == pytest.approx(-4 / 13)
    assert (figures["mark[a]"].value, figures["mark[a]"].change.mean) == (0, -1)


def test_a_lower_latency_is_better(night):
    def rows(seconds):
        return [row(number, seconds=seconds + number % 3 * 0.1) for number in range(30)]

    for number in range(5):
        night(number, rows(1.0), scorers=("latency",))
    slower = night(5, rows(3.0), ["latency drop <= 0.5"], scorers=("latency",))
    assert words(slower) == ["worse"]
    assert slower.summary.gate.rules[0].value == pytest.approx(2.0)
    assert words(night(6, rows(0.2), ["latency drop <= 0.5"], scorers=("latency",))) == ["passed"]


def test_the_same_answers_give_the_same_bytes_and_a_summary_of_numbers(night):
    rows = [row(number, mark=number / 40, seconds=float(number), tags=["a", "b"][: number % 3]) for number in range(40)]
    night(0, rows)
    folder = night(1, rows, ["mark drop <= 0.1"], pass_if="mark >= 0.5").job.folder
    first = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    assert sorted(first) == ["report.html", "scores.parquet", "summary.json"]
    night(1, rows, ["mark drop <= 0.1"], pass_if="mark >= 0.5")
    assert first == {path.name: path.read_bytes() for path in folder.path.iterdir()}
    figures = json.loads(first["summary.json"])["figures"]
    assert figures["latency p95"]["value"] == pytest.approx(37.05)
    assert figures["mark[b]"]["count"] == 13
