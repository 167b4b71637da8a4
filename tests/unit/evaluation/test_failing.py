"""The questions that failed: in the terminal, the log, JUnit and the result of a task."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from junitparser import Failure, JUnitXml, Skipped

from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.evaluate import Evaluation
from airflow_provider_assistant.evaluation.excerpts import task_result
from airflow_provider_assistant.evaluation.failing import LINE_LENGTH, LINES, failing_lines, failing_questions
from airflow_provider_assistant.evaluation.junit import junit_xml
from airflow_provider_assistant.evaluation.report import render
from airflow_provider_assistant.evaluation.rules import parse_condition
from airflow_provider_assistant.evaluation.run_directory import RunDirectory
from airflow_provider_assistant.evaluation.verdict import Gate, NamedQuestions, RuleQuestion, RuleVerdict
from tests.unit.evaluation.report.examples import case, scored, summary_of
from tests.unit.evaluation.report.hostile import HOSTILE


def rule(text: str, *keys: str, verdict: Any = "failed", value: float = 0.0, **fields: Any) -> RuleVerdict:
    questions = [RuleQuestion(key=key, value=value, before=fields.get("before")) for key in keys]
    return RuleVerdict(
        rule=text,
        verdict=verdict,
        value=0.5,
        reason="why",
        questions=questions[:50],
        concerned=len(questions),
        is_worse="drop" in text and verdict == "failed",
    )


def evaluation(cases: list[Any], scores: Any, *rules: RuleVerdict, new: Any = None, pass_if: str = "") -> Evaluation:
    condition = parse_condition(pass_if) if pass_if else None
    verdict: Any = "failed" if any(one.verdict == "failed" for one in rules) else "passed"
    gate = Gate(verdict=verdict, on_fail="fail", rules=list(rules))
    plain = Evaluation(summary_of(cases, scores, gate=gate), cases, scores, condition)
    failing = None
    if condition:
        rows = scores.to_pylist()
        failing = [row["key"] for row in rows if condition.holds({row["scorer"]: row["score"]}) is False]
    named = {
        "failing": NamedQuestions.of(failing) if failing is not None else None,
        "newly_failing": NamedQuestions.of(new) if new is not None else None,
    }
    return replace(plain, summary=plain.summary.model_copy(update=named))


@pytest.mark.promise("evaluation", "Every failed rule names its worst questions, wherever you look.")
def test_every_failed_rule_names_its_worst_question_however_many_fail_another() -> None:
    chance = random.Random(1)
    number = chance.randint(120, 200)
    keys = [f"{chance.choice(('faq', 'بطاقة', '鍵', 'key with spaces'))}-{place}" for place in range(number)]
    chance.shuffle(keys)
    cases = [case(key=key, message=f"Question {key}?") for key in keys]
    scores = scored(cases, token_f1=[0.2] * 100 + [0.9] * (number - 100))
    canaries, new = keys[110:113], keys[50:100]
    rules = [rule("token_f1 drop <= 0.01", *keys[:100]), rule("must_not_include >= 1", *canaries)]
    chance.shuffle(rules)
    found = evaluation(cases, scores, *rules, rule("x >= 1", keys[115], verdict="passed"), new=new)
    shown = failing_questions(found, LINES)
    shown_keys = [question.first.case.key for question in shown.rows]
    assert set(canaries) < set(shown_keys)
    assert keys[0] in shown_keys
    assert keys[115] not in shown_keys
    are_new = [question.is_new for question in shown.rows]
    assert are_new == sorted(are_new, reverse=True)
    assert 1 <= sum(are_new) < LINES
    lines = failing_lines(found)
    assert len(lines) == LINES + 1
    assert lines[-1] == f"and {103 - LINES} more"
    canary = canaries[0]
    assert f"failing: {canary} — Question {canary}? — must_not_include >= 1: 0" in lines
    # The page has a card for each of these, and the head links to it.
    page = render(found)
    head = page[: page.index("<main>")]
    for key in canaries:
        assert re.search(rf'<a href="#q\d+"><span class="code" dir="auto">{key}</span></a>', head)
    # A few kilobytes for XCom, with the worst questions of each failed rule.
    result = task_result(found.summary, RunDirectory.of("/tmp", "n", datetime(2026, 11, 20, tzinfo=UTC), "r"), None)
    rules_by_name = {failed["rule"]: failed["questions"] for failed in result.failed_rules}
    assert rules_by_name == {"token_f1 drop <= 0.01": keys[:10], "must_not_include >= 1": canaries}
    assert result.newly_failing == new[:10]
    assert len(json.dumps(result.failed_rules)) < 4000


def test_reasons_name_the_condition_the_score_and_what_it_was() -> None:
    cases = [
        case(0),
        case(1, answer=None, status="timed_out", error="no answer in 60 s"),
        case(2, repetition=1),
        case(2, repetition=2),
    ]
    scores = scored(cases, token_f1=[0.25, None, 0.9, 0.1])
    rules = [rule("token_f1 drop <= 0.02", "faq-0000", value=0.25, before=0.75), rule("coverage >= 1", "faq-0001")]
    found = evaluation(cases, scores, *rules, new=["faq-0000"], pass_if="token_f1 >= 0.5")
    assert failing_lines(found) == [
        "newly failing: faq-0000 — When are refunds paid? — token_f1 drop <= 0.02: 0.75 → 0.25; token_f1 >= 0.5: 0.25",
        "failing: faq-0001 — When are refunds paid? — no answer: timed out: no answer in 60 s",
        "failing: faq-0002 — When are refunds paid? — token_f1 >= 0.5: 0.1",
    ]


def test_a_conversation_is_one_test_case_with_all_its_turns() -> None:
    rows = [
        {"key": f"c.{turn}", "turn": turn, "session_id": "s", "message": f"Turn {turn}?", "answer": f"Answer {turn}."}
        for turn in (3, 1, 2)
    ]
    turns = read_cases(pa.Table.from_pylist(rows))
    scores = scored(turns, token_f1=[1.0, 1.0, 0.0])
    # Rules name a conversation by its first turn.
    found = evaluation(turns, scores, rule("pass_rate >= 1", "c.1"), pass_if="token_f1 >= 0.5")
    (question,) = failing_questions(found, 10).rows
    assert [turn.case.key for turn in question.turns] == ["c.1", "c.2", "c.3"]
    reasons = [list(turn.reasons) for turn in question.turns]
    assert reasons == [[], ["token_f1 >= 0.5: 0"], []]
    (question,) = failing_questions(evaluation(turns, scores, rule("token_f1 >= 1", "c.1")), 10).rows
    assert [bool(turn.reasons) for turn in question.turns] == [False, True, False]
    suite = ElementTree.fromstring(junit_xml(found))
    (failure,) = suite.findall("testsuite/testcase[@classname='support_quality.evaluate.questions']/failure")
    text = failure.text or ""
    assert text.splitlines()[2:4] == ["Question (fails): Turn 2?", "Answer: Answer 2."]
    assert "it passed in the baseline" not in failure.attrib["message"]
    (line,) = failing_lines(found)
    assert line.startswith("failing: c.1 (turn 2) — Turn 2? — ")
    page = render(found)
    assert page.count('<li class="failed">') == 1
    assert page.index("Turn 1?") < page.index("Turn 2?") < page.index("Turn 3?")


@pytest.mark.parametrize("has_failed", [True, False])
def test_junit_has_a_failure_exactly_if_the_gate_failed(has_failed: bool) -> None:
    cases = [case(key=f"{number} {text[:300]}", message=text, answer=text) for number, text in enumerate(HOSTILE)]
    cases = [one for one in cases if "\ud800" not in one.key]
    scores = scored(cases, token_f1=[0.1] * len(cases))
    keys = [one.key for one in cases]
    rules = [
        rule("pass_rate >= 0.9", *keys, verdict="failed" if has_failed else "passed"),
        rule("token_f1 drop <= 0.1", verdict="not_proven"),
        rule("errors drop <= 0.1", verdict="too_few"),
        rule("coverage drop <= 0.1", verdict="not_judged"),
    ]
    found = evaluation(cases, scores, *rules, new=keys[:2], pass_if="token_f1 >= 0.5")
    (suite,) = JUnitXml.fromstring(junit_xml(found).encode())
    kinds = [[type(one) for one in test_case.result] for test_case in suite]
    first = [[Failure] if has_failed else []]
    assert kinds == [*first, *[[Skipped]] * 3, *[[Failure if has_failed else Skipped]] * len(cases)]
    assert suite.tests == len(rules) + len(cases)
    assert suite.failures == (1 + len(cases) if has_failed else 0)
    messages = [test_case.result[0].message for test_case in list(suite)[4:]]
    assert all("token_f1 >= 0.5: 0.1" in message for message in messages)
    assert sum("it passed in the baseline" in message for message in messages) == 2
    assert all(len(line) <= LINE_LENGTH and "\n" not in line for line in failing_lines(found))
