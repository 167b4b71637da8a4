"""The head of the report: worse or not, since when, and in which tags."""

# ruff: noqa: RUF001
from __future__ import annotations

import random
from typing import Any

import pytest

from airflow_provider_assistant.evaluation import summary as parts
from airflow_provider_assistant.evaluation.evaluate import Evaluation
from airflow_provider_assistant.evaluation.excerpts import told
from airflow_provider_assistant.evaluation.report import render, sections
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.evaluation.verdict import Gate, RuleVerdict
from tests.unit.evaluation.report.examples import case, scored, summary_of

CASES = [case(number, tags=(f"tag{number % 7}",)) for number in range(70)]
SCORES = scored(CASES, token_f1=[0.5] * 70, latency=[1.0] * 70)


def night(day: int, verdict: Any) -> Summary:
    rules = [RuleVerdict(rule="token_f1 >= 0.6", verdict=verdict, value=0.5, reason="why")]
    gate = Gate(verdict=verdict, on_fail="fail", rules=rules)
    return summary_of(CASES, SCORES, gate=gate, asked_at=f"2026-11-{day:02}T00:03:00+00:00", run={"run_id": str(day)})


def head(summary: Summary, trend: list[Summary]) -> str:
    page = render(Evaluation(summary, CASES, SCORES), trend)
    return page[page.index("<header") : page.index("<main>")]


@pytest.mark.parametrize(
    ("verdicts", "since"),
    [
        ("F", ["2026-11-01 00:03 UTC", "first"]),
        ("PF", ["2026-11-02 00:03 UTC", "this evaluation"]),
        ("FPFFF", ["2026-11-03 00:03 UTC", "3 evaluations in a row"]),
        ("FF", ["2026-11-01 00:03 UTC", "all 2"]),
        ("F" * 30, ["2026-11-01 00:03 UTC or before", "last 30"]),
        ("FFP", []),
    ],
)
def test_since_when_the_gate_fails(verdicts: str, since: list[str]) -> None:
    words = {"F": "failed", "P": "passed"}
    *trend, latest = [night(day, words[letter]) for day, letter in enumerate(verdicts, start=1)]
    random.Random(1).shuffle(trend)
    text = head(latest, trend)
    assert ("Failing since" in text) == bool(since)
    assert all(words in text for words in since)


def difference(mean: float, half: float = 0.01) -> parts.Difference:
    return parts.Difference(paired=10, mean=mean, low=mean - half, high=mean + half, worse=3, better=2)


def test_tags_that_lost_come_first_and_a_slower_answer_is_no_loss_of_quality() -> None:
    chance = random.Random(1)
    tags = [f"tag{number}" for number in range(7)]
    chance.shuffle(tags)
    # Three proven losses, a loss that chance explains, no change and two gains.
    changes = dict(zip(tags, (-0.3, -0.2, -0.1, -0.005, 0.0, 0.1, 0.4), strict=True))
    by_tag = {tag: {"latency": difference(9.0), "token_f1": difference(changes[tag])} for tag in sorted(tags)}
    counts = {"same": 70, "changed": 0, "added": 0, "removed": 0, "coverage_before": 1.0, "confidence": 0.95}
    scorers = {"token_f1": difference(-0.1)}
    comparison = parts.Comparison(baseline={"name": "before"}, scorers=scorers, tags=by_tag, **counts)
    summary = night(1, "failed").model_copy(update={"comparison": comparison})
    lost = sections.tag_losses(summary)
    assert [(loss.tag, loss.is_proven) for loss in lost] == list(zip(tags[:4], (True, True, True, False), strict=True))
    assert list(sections.tags(summary).rows)[:4] == tags[:4]
    text = head(summary, [])
    places = [text.index(f">{tag}</span>") for tag in tags[:4]]
    assert places == sorted(places)
    assert "may be chance" in text
    assert "−0.300" in text


def test_without_a_loss_the_tags_with_the_lowest_pass_rates_are_named() -> None:
    rates = {"tag3": 0.2, "tag1": 0.9, "tag0": 1.0, "tag6": None}
    summary = night(1, "failed")
    tags = {}
    for tag, figures in summary.tags.items():
        passes = parts.PassRate(condition="x >= 1", passed=1, failed=1, not_judged=0, rate=rates.get(tag, 1.0))
        tags[tag] = figures.model_copy(update={"passes": passes})
    text = head(summary.model_copy(update={"tags": tags}), [])
    assert text.index("tag3</span> 20.0") < text.index("tag1</span> 90.0")
    assert "tag0" not in text
    assert "tag6" not in text


@pytest.mark.parametrize(
    ("mean", "low", "high", "higher", "words"),
    [
        (0.029, 0.01, 0.05, True, "better"),
        (-0.029, -0.05, -0.01, True, "worse"),
        (0.5, 0.1, 0.9, False, "worse"),
        (-0.5, -0.9, -0.1, False, "better"),
        (0.029, -0.01, 0.07, True, "no change is proven"),
        (-0.029, -0.06, 0.0, True, "no change is proven"),
        (0.5, None, None, True, "too few questions to say"),
        (None, None, None, True, "too few questions to say"),
    ],
)
def test_a_difference_in_words(mean: Any, low: Any, high: Any, higher: bool, words: str) -> None:
    found = parts.Difference(paired=9, mean=mean, low=low, high=high, worse=1, better=1)
    assert told(found, higher_is_better=higher) == words
