"""Generated evaluations for tests of the report, reproducible by a seed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from airflow_provider_assistant.evaluation import summary as parts
from airflow_provider_assistant.evaluation import verdict as gate_parts
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.evaluate import Evaluation
from airflow_provider_assistant.evaluation.scorers import scorers_of
from airflow_provider_assistant.evaluation.scoring import score_cases, scores_schema
from airflow_provider_assistant.evaluation.summary import HISTOGRAM_BINS, Distribution, Summary

QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}
SUBJECTS = {
    "billing": ("refund", "invoice", "credit note", "direct debit"),
    "delivery": ("parcel", "return label", "express shipment", "pick-up"),
    "account": ("password", "second factor", "user invitation", "export of personal data"),
}
EXPECTED = [
    "Your {subject} is processed within {days} working days after we have received the request.",
    "You find the {subject} in the customer portal under Documents; it stays there for {days} months.",
    "Write to the support team and name the number of the {subject}. They answer within {days} hours.",
    "There is no fee for your {subject}. Orders of more than {days} items need a confirmation by e-mail.",
]
QUESTIONS = [
    "What do I have to know about my {subject}, and how long does it take?",
    "Where do I find my {subject}?",
    "Who helps me with my {subject}?",
    "What does my {subject} cost?",
]
ADDED = [
    "Please note that this depends on your plan.",
    "Is there anything else I can help you with?",
    "Weekends and public holidays are not counted.",
]
STATUS_ERRORS = {"failed": "The service ended the request: model overloaded", "timed_out": None, "lost": None}


def case(number: int = 0, **values: Any) -> Case:
    """Return a correctly answered question with the given fields replaced."""
    defaults: dict[str, Any] = {
        "key": f"faq-{number:04d}",
        "message": "When are refunds paid?",
        "answer": "Within five working days.",
        "status": "complete",
        "error": None,
        "seconds": 2.5,
        "session_id": "session",
        "request_id": f"req-{number:06d}",
        "expected": "Within five working days.",
        "must_include": (),
        "must_not_include": (),
        "expect_no_answer": None,
        "weight": 1.0,
        "tags": (),
        "row": {},
    }
    return Case(**{**defaults, **values})


def scored(cases: list[Case], **scores: Any) -> pa.Table:
    """Return a table of scores from a list of scores per scorer."""
    rows = [
        {
            "key": one.key,
            "repetition": one.repetition,
            "case": one.key,
            "scorer": scorer,
            "score": value if isinstance(value, int | float) else None,
            "outcome": "unanswered" if one.answer is None else "error" if isinstance(value, str) else "scored",
            "error": value if isinstance(value, str) else None,
            "weight": one.weight,
            "tags": one.tags,
            "seconds": one.seconds,
            "status": one.status,
        }
        for place, one in enumerate(cases)
        for scorer, values in scores.items()
        for value in (values[place] if one.answer is not None else None,)
    ]
    return pa.Table.from_pylist(rows, schema=scores_schema())


def distribution(values: list[float]) -> Distribution:
    if not values:
        return Distribution(count=0)
    ordered = sorted(values)
    quantiles = {name: ordered[int(share * (len(ordered) - 1))] for name, share in QUANTILES.items()}
    return Distribution(count=len(ordered), minimum=ordered[0], maximum=ordered[-1], **quantiles)


def summary_of(cases: list[Case], scores: pa.Table, **values: Any) -> Summary:
    """Build a summary, roughly like the evaluation."""
    total, answered = len(cases), sum(one.answer is not None for one in cases)
    unanswered: dict[str, int] = {}
    for one in cases:
        if one.answer is None:
            unanswered[one.status] = unanswered.get(one.status, 0) + 1
    by_scorer: dict[str, list[tuple[float | None, str]]] = {}
    by_tag: dict[str, dict[str, list[float]]] = {}
    for scorer, score, outcome, tags in zip(
        *(scores.column(name).to_pylist() for name in ("scorer", "score", "outcome", "tags")), strict=True
    ):
        by_scorer.setdefault(scorer, []).append((score, outcome))
        for tag in tags:
            found = by_tag.setdefault(tag, {}).setdefault(scorer, [])
            if score is not None:
                found.append(score)
    defaults: dict[str, Any] = {
        "name": "support_quality.evaluate",
        "run": {"run_id": "scheduled__2026-11-20T00:00:00+00:00"},
        "asked_at": "2026-11-20T00:03:12+00:00",
        "questions": parts.Questions(
            total=total, answered=answered, unanswered=unanswered, coverage=answered / total if total else 0.0
        ),
        "scorers": {name: scorer_summary(name, found) for name, found in by_scorer.items()},
        "latency": distribution([one.seconds for one in cases if one.answer is not None and one.seconds is not None]),
        "tags": {
            tag: parts.TagSummary(
                questions=sum(tag in one.tags for one in cases),
                answered=sum(tag in one.tags and one.answer is not None for one in cases),
                means={name: sum(found) / len(found) if found else None for name, found in by_tag[tag].items()},
            )
            for tag in sorted(by_tag)
        },
        "gate": gate_parts.Gate(verdict="none", on_fail="fail", rules=[]),
    }
    return Summary(**{**defaults, **values})


def scorer_summary(name: str, found: list[tuple[float | None, str]]) -> parts.ScorerSummary:
    known = [score for score, _ in found if score is not None]
    histogram = [0] * HISTOGRAM_BINS
    for score in known if name != "latency" else []:
        histogram[min(int(score * HISTOGRAM_BINS), HISTOGRAM_BINS - 1)] += 1
    kind = {"latency": "latency", "must_include": "check", "refusal": "check"}.get(name, "lexical similarity")
    return parts.ScorerSummary(
        kind=kind,
        higher_is_better=name != "latency",
        scored=len(known),
        unanswered=sum(outcome == "unanswered" for _, outcome in found),
        not_applicable=sum(outcome == "not_applicable" for _, outcome in found),
        errors=sum(outcome == "error" for _, outcome in found),
        mean=sum(known) / len(known) if known else None,
        spread=distribution(known),
        histogram=histogram if name != "latency" else [],
    )


def questions(number: int, seed: int = 1) -> list[Case]:
    """Return questions of realistic length, with some wrong and some missing answers."""
    chance = random.Random(seed)
    cases = []
    for place in range(number):
        tag = chance.choice(list(SUBJECTS))
        subject = chance.choice(SUBJECTS[tag])
        sentences = [
            sentence.format(subject=subject, days=chance.randint(2, 30)) for sentence in chance.sample(EXPECTED, 3)
        ]
        status = chance.choices(["complete", *STATUS_ERRORS], [97.2, 1.4, 1, 0.4])[0]
        cases.append(
            case(
                place,
                message=chance.choice(QUESTIONS).format(subject=subject),
                expected=" ".join(sentences),
                answer=_answer(sentences, chance) if status == "complete" else None,
                status=status,
                error=STATUS_ERRORS.get(status),
                seconds=round(chance.lognormvariate(1.2, 0.5), 3) if status == "complete" else None,
                must_include=(subject,) if chance.random() < 0.3 else (),
                tags=(tag,),
            )
        )
    return cases


def _answer(sentences: list[str], chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.0025:
        return "I am sorry, I have found nothing about that in the documents I know."
    kept = list(sentences) if kind < 0.6 else chance.sample(sentences, 2 if kind < 0.97 else 1)
    if chance.random() < 0.5:
        kept = [sentence.replace("within", "in about").replace("You find", "You will find") for sentence in kept]
    return " ".join([*kept, *chance.sample(ADDED, chance.randint(0, 2))])


def nightly(number: int = 400) -> tuple[Evaluation, list[Summary]]:
    """Return a typical nightly evaluation with a baseline, a failed gate, tags and a trend."""
    cases = questions(number)
    scores = score_cases(cases, scorers_of(["token_f1", "chrf", "must_include", "latency"]))
    plain = summary_of(cases, scores)
    similar = token_f1(scores)
    passed = sum(score >= 0.7 for score in similar.values())
    passes = parts.PassRate(
        condition="token_f1 >= 0.7",
        passed=passed,
        failed=plain.questions.answered - passed,
        not_judged=number - plain.questions.answered,
        rate=passed / plain.questions.answered,
    )
    f1 = plain.scorers["token_f1"].mean or 0.0
    comparison = _comparison(cases, scores)
    difference = comparison.scorers["token_f1"]
    mean, low, high = (value or 0.0 for value in (difference.mean, difference.low, difference.high))
    summary = plain.model_copy(
        update={
            "passes": passes,
            "tag": "model-2026-11",
            "tags": {
                name: found.model_copy(update={"pass_rate": (found.means["token_f1"] or 0) - 0.02})
                for name, found in plain.tags.items()
            },
            "comparison": comparison,
            "gate": gate_parts.Gate(
                verdict="failed",
                on_fail="fail",
                rules=[
                    gate_parts.RuleVerdict(
                        rule="coverage >= 0.95",
                        verdict="passed",
                        value=plain.questions.coverage,
                        reason=f"coverage is {plain.questions.coverage:.4f}",
                    ),
                    gate_parts.RuleVerdict(
                        rule="token_f1 >= 0.6", verdict="passed", value=f1, reason=f"token_f1 is {f1:.4f}"
                    ),
                    gate_parts.RuleVerdict(
                        rule="token_f1 drop <= 0.01",
                        verdict="failed",
                        value=-low,
                        reason=f"token_f1 changed by {mean:+.4f} (95 %: {low:+.4f} to {high:+.4f}) over "
                        f"{difference.paired} questions; at worst it lost {-low:.4f}",
                    ),
                    gate_parts.RuleVerdict(
                        rule="refusal drop <= 0.05",
                        verdict="not_judged",
                        value=None,
                        reason="not judged: the baseline was not scored with refusal",
                    ),
                ],
            ),
        }
    )
    return Evaluation(summary, cases, scores), _trend(summary)


def token_f1(scores: pa.Table) -> dict[str, float]:
    """Return the similarity of every answered question."""
    columns = (scores.column(name).to_pylist() for name in ("key", "scorer", "score"))
    return {
        key: score for key, scorer, score in zip(*columns, strict=True) if scorer == "token_f1" and score is not None
    }


def _comparison(cases: list[Case], scores: pa.Table) -> parts.Comparison:
    chance = random.Random(2)
    similar = token_f1(scores)
    answered = list(similar)
    changes = [
        parts.Change(
            key=key, before=sorted((0.0, similar[key] + chance.uniform(-0.25, 0.4), 1.0))[1], after=similar[key]
        )
        for key in chance.sample(answered, min(60, len(answered)))
    ]
    changes.sort(key=lambda one: one.after - one.before)
    worse = [one for one in changes if one.after < one.before]
    better = [one for one in reversed(changes) if one.after > one.before]
    mean = sum(one.after - one.before for one in changes) / len(answered)

    def difference(scale: float) -> parts.Difference:
        return parts.Difference(
            paired=len(answered),
            mean=scale * mean,
            low=scale * mean - 0.0085,
            high=scale * mean + 0.0085,
            worse=len(worse),
            better=len(better),
            worst=worse[:50] if scale == 1 else [],
            best=better[:50] if scale == 1 else [],
        )

    return parts.Comparison(
        baseline={"name": "support_quality.evaluate", "path": "s3://lake/ev", "asked_at": "2026-11-19T00:03:05+00:00"},
        confidence=0.95,
        same=len(cases) - 12,
        changed=4,
        added=8,
        removed=3,
        coverage_before=0.981,
        scorers={"token_f1": difference(1), "chrf": difference(0.6)},
        tags={tag: {"token_f1": difference(chance.uniform(-0.5, 2))} for tag in SUBJECTS},
    )


def _trend(summary: Summary) -> list[Summary]:
    chance = random.Random(3)
    runs = []
    assert summary.passes is not None
    for age in range(14, 0, -1):
        shift = 0.03 + chance.gauss(0, 0.006)
        scorers = {
            name: found.model_copy(
                update={"mean": min(1.0, (found.mean or 0) + shift) if found.histogram else found.mean}
            )
            for name, found in summary.scorers.items()
        }
        coverage = min(1.0, summary.questions.coverage + chance.uniform(-0.004, 0.02))
        runs.append(
            summary.model_copy(
                update={
                    "asked_at": (datetime(2026, 11, 20, 0, 3, tzinfo=UTC) - timedelta(days=age)).isoformat(),
                    "questions": summary.questions.model_copy(update={"coverage": coverage}),
                    "passes": summary.passes.model_copy(update={"rate": (summary.passes.rate or 0) + 1.5 * shift}),
                    "scorers": scorers,
                    "latency": summary.latency.model_copy(
                        update={"p95": (summary.latency.p95 or 0) + chance.uniform(-0.8, 0.3)}
                    ),
                    "gate": summary.gate.model_copy(update={"verdict": "passed"}),
                }
            )
        )
    return runs
