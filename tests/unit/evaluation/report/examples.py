"""Evaluations of the report's tests."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.evaluation import summary as parts
from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.rules import Condition, Criteria, Term
from airflow_provider_assistant.evaluation.run import Evaluation, EvaluationJob
from airflow_provider_assistant.evaluation.runs import RunFolder
from airflow_provider_assistant.evaluation.scorers import Scorer
from airflow_provider_assistant.evaluation.scores import Questions, Scores
from airflow_provider_assistant.evaluation.verdicts import Judgement

PASSES = Condition("token_f1 >= 0.5", (Term("token_f1", ">=", 0.5),))
ASKED = "2026-11-21T02:00:00+00:00"
QUESTIONS = (
    ("How long do refunds take?", "Refunds are paid within 5 days.", "Refunds are paid within 9 working days.", 0.62),
    ("Where is my invoice?", "In the account, under orders.", "I do not know where it is.", 0.1),
    ("Do you ship to Norway?", "Yes, within two weeks.", "Yes, within two weeks.", 1.0),
    ("Wie lange dauert die Lieferung?", "Zwei bis drei Werktage.", "Zwei bis drei Wochen.", 0.75),
)


def case(number=0, **changes):
    message, expected, answer, _ = QUESTIONS[number % 4]
    tags = ("billing" if number % 2 == 0 else "shipping",)
    plain = Case(f"q{number}", message, answer, expected=(expected,), tags=tags, request_id=f"r-{number}")
    return replace(plain, **changes)


def scores_of(cases, errors=None, **columns):
    """Return the matrix of scores."""
    questions = Questions.of(cases)
    numbers = {key: number for number, key in enumerate(questions.keys)}
    return Scores(
        questions=questions,
        question_of=np.array([numbers[one.key] for one in cases], dtype=int),
        repetitions=np.array([one.repetition for one in cases]),
        is_answered=np.array([one.answer is not None for one in cases]),
        values={name: np.array(column, dtype=float) for name, column in columns.items()},
        seconds=np.full(len(cases), math.nan),
        measured=frozenset(),
        errors=errors or {},
    )


def figure(value, **change):
    change = parts.Change(questions=40, comparable=40, runs=7, **change) if change else None
    return parts.Figure(value=value, count=40, expected=40, change=change)


def summary_of(name="nightly golden set", rate=0.5, verdict="failed", **changes):
    scorer = parts.ScorerSummary(higher_is_better=True, is_share=True, scored=40, errors=0)
    judge = parts.JudgeFacts(model="openai:gpt-5", fingerprint="1", rubric="The same facts.", input_tokens=9000)
    agreed = parts.Agreement(labels=60, kappa=0.81, low=0.68, high=0.9)
    rules = [
        parts.RuleVerdict(
            rule="coverage >= 0.98", figure="coverage", verdict="passed", value=1.0, reason="40 of 40 are answered"
        ),
        parts.RuleVerdict(
            rule="token_f1 drop <= 0.02", figure="token_f1", verdict=verdict, value=0.12, is_worse=verdict == "failed",
            reason="it fell from 0.92 to 0.80 over 40 questions",
            questions=[parts.Deciding(key="q1", value=0.1, before=0.9)], deciding=1,
        ),
        parts.RuleVerdict(
            rule="judge.correctness >= 0.9", figure="judge.correctness", verdict="not_proven", value=0.88,
            reason="it is below the limit, but chance explains that",
        ),
    ]  # fmt: skip
    fields = {
        "name": name,
        "run": {"dag_id": "nightly", "run_id": "scheduled__2026-11-21", "task_id": "evaluate"},
        "site": "help.example.com",
        "asked_at": ASKED,
        "pass_if": PASSES.text,
        "questions": parts.QuestionCounts(total=4, answered=4),
        "scorers": {
            "token_f1": scorer,
            "judge.correctness": scorer.model_copy(update={"judge": judge, "agreement": agreed}),
            "latency": parts.ScorerSummary(higher_is_better=False, is_share=False, scored=40, errors=0),
        },
        "tags": {"billing": 2, "shipping": 2},
        "figures": {
            "coverage": figure(1.0),
            "pass_rate": figure(rate, mean=-0.12, low=-0.2, high=-0.04),
            "latency p50": figure(1.2),
            "latency p95": figure(12.3),
            "token_f1": figure(0.8, mean=-0.12, low=-0.19, high=-0.05),
            "judge.correctness": figure(0.88, mean=0.01, low=-0.03, high=0.05),
            "token_f1[billing]": figure(0.6, mean=-0.3, low=-0.4, high=-0.2),
            "token_f1[shipping]": figure(0.95, mean=0.01, low=-0.1, high=0.1),
            "pass_rate[billing]": figure(0.5),
            "pass_rate[shipping]": figure(1.0),
        },
        "failing": parts.Keys.of(["q1"]),
        "newly_failing": parts.Keys.of(["q1"]),
        "earlier": parts.EarlierRuns(path="runs/1", name="nightly", run_id="scheduled__2026-11-20", runs=7),
        "gate": parts.Gate(verdict=verdict, on_fail="fail", failed_runs=1, since=ASKED, rules=rules),
    }
    return parts.Summary(**{**fields, **changes})


def evaluation_of(cases, scores, summary, trend=(), judgements=None):
    """Return an evaluation whose questions fail if their first score is below 0.5."""
    scorers = [Scorer(name, lambda case: 1.0) for name in scores.values]
    folder = RunFolder(ObjectStoragePath("file:///runs/golden/1"))
    criteria = Criteria(PASSES)
    job = EvaluationJob(name=summary.name, cases=cases, folder=folder, scorers=scorers, criteria=criteria)
    first = next(iter(scores.values.values()))
    failing = dict.fromkeys(one.unit for one, score in zip(cases, first, strict=True) if score < 0.5)
    rules = [
        rule.model_copy(update={"questions": [one for one in rule.questions if one.key in failing]})
        for rule in summary.gate.rules
    ]
    gate = summary.gate.model_copy(update={"rules": rules})
    summary = summary.model_copy(update={"gate": gate})
    newly_failing = [key for key in failing if key == "q1"]
    return Evaluation(job, summary, scores, judgements or {}, list(failing), newly_failing, trend)


def nightly(runs=12):
    """Return an evaluation in which a question fails that passed before, after some good nights."""
    cases = [case(number) for number in range(4)]
    conversation = {"conversation": "c1", "tags": ()}
    cases += [
        case(
            0, key="c1", message="Hello, I have a question.", answer="Hello! What is it?", expected=(), **conversation
        ),
        case(1, key="c2", transcript=(("Hello, I have a question.", "Hello! What is it?"),), **conversation),
    ]
    values = [question[3] for question in QUESTIONS] + [math.nan, 0.1]
    reasons = {0: "It says 9 instead of 5.", 1: "It names no place."}
    judged = [Judgement(float(row > 1), reasons.get(row, "The same facts.")) for row in range(4)] + [Judgement()] * 2
    scores = scores_of(cases, token_f1=values, **{"judge.correctness": [0, 0, 1, 1, math.nan, math.nan]})
    trend = [
        summary_of(rate=0.6 + 0.02 * (night % 5), verdict="passed", asked_at=f"2026-11-{night + 8:02}T02:00:00+00:00")
        for night in range(runs)
    ]
    return evaluation_of(cases, scores, summary_of(), trend, {"judge.correctness": judged})


CANARY = "sung"
HOSTILE = [
    f"<script>window.{CANARY}=1</script>",
    f"</script><script>{CANARY}=1</script>",
    f"</style><script>{CANARY}=1</script><style>",
    f"</title><script>{CANARY}=1</script>",
    f"--><script>{CANARY}=1</script><!--",
    f'"><img src=x onerror="{CANARY}=1">',
    f"' onmouseover='{CANARY}=1' style='position:fixed;inset:0' x='",
    f"<svg onload={CANARY}=1><a xlink:href=javascript:{CANARY}=1>x</a></svg>",
    f'[x](javascript:{CANARY}=1) <a href="javascript:{CANARY}=1">x</a>',
    '<iframe srcdoc="&lt;script&gt;parent.sung=1&lt;/script&gt;"></iframe><base href="https://evil.invalid/">',
    '<meta http-equiv="refresh" content="0;url=https://evil.invalid/"><link rel="stylesheet" href="//evil.invalid/x">',
    "&lt;script&gt; &#60;b&#62; &amp;amp;",
    "{{ 7 * 7 }} {% raw %} {{ config }} ${7*7} $\\frac{1}{2}$",
    "\N{RIGHT-TO-LEFT OVERRIDE}reversed \N{LEFT-TO-RIGHT ISOLATE}left open \N{RIGHT-TO-LEFT EMBEDDING}",
    "nul \x00, bell \x07, escape \x1b[31m, delete \x7f, next line \x85, carriage \r return, form \x0c feed",
    "lone \ud800 surrogates \udfff, no characters \ufffe \uffff",
    "W" * 10_000,
    "a\u0301\u0335" * 500 + "\N{COMBINING ACUTE ACCENT}" * 5_000,
    "<b>" * 1_000,
    "x y " * 250_000,
    "\u3042" * 5_000,
    "\n" * 5_000,
    "",
]


def hostile():
    """Return an evaluation with these texts as names, messages, answers, tags, scorers and reasons."""
    cases = []
    for number, text in enumerate(HOSTILE):
        tag = re.sub(r"[\[\]|]", "", text[:2000])
        phrase = f"{text.replace('|', '')}x"
        marks = {
            "key": f"{number} {text[:2000]}",
            "message": text.strip() or "?",
            "tags": (tag,),
            "request_id": text[:200],
        }
        cases.append(case(expected=(text[::-1],), answer=text, must_include=(phrase,) * 12, **marks))
        unanswered = {**marks, "key": f"u{number} {text}"}
        cases.append(case(expected=(), answer=None, status=text.strip() or "failed", error=text, **unanswered))
    errors = {row: {"custom": one.message} for row, one in enumerate(cases)}
    scores = scores_of(cases, errors, token_f1=[0.01 * row for row in range(len(cases))])
    plain = summary_of()
    scorer = plain.scorers["judge.correctness"]
    rule = plain.gate.rules[1]
    rules = [rule.model_copy(update={"rule": text, "reason": text, "figure": text}) for text in HOSTILE]
    summary = plain.model_copy(
        update={
            "name": HOSTILE[3],
            "run": {"run_id": HOSTILE[16], "dag_id": HOSTILE[5]},
            "asked_at": HOSTILE[0],
            "pass_if": HOSTILE[0],
            "scorers": {text[:500]: scorer for text in HOSTILE} | plain.scorers,
            "tags": {text[:2000]: 1 for text in HOSTILE},
            "figures": {text[:500]: figure(0.5, mean=-0.1, low=-0.2, high=0.0) for text in HOSTILE} | plain.figures,
            "earlier": parts.EarlierRuns(path=HOSTILE[2], name=HOSTILE[1], run_id=HOSTILE[4], asked_at=HOSTILE[5]),
            "gate": parts.Gate(verdict="failed", on_fail="report", failed_runs=1, since=HOSTILE[0], rules=rules),
        }
    )
    judgements = {HOSTILE[0]: [Judgement(0.0, one.message) for one in cases]}
    return evaluation_of(cases, scores, summary, [summary, plain], judgements)
