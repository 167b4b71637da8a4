# ruff: noqa: RUF001
from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_assistant.evaluation import judge_summary as judge_parts
from airflow_provider_assistant.evaluation import summary as parts
from airflow_provider_assistant.evaluation import verdict as gate_parts
from airflow_provider_assistant.evaluation.baseline import Baseline, EarlierRun
from airflow_provider_assistant.evaluation.comparison import compare
from airflow_provider_assistant.evaluation.evaluate import Evaluation, summarise
from airflow_provider_assistant.evaluation.report import render, sections
from airflow_provider_assistant.evaluation.report.cards import cards
from airflow_provider_assistant.evaluation.rules import parse_condition
from airflow_provider_assistant.evaluation.scorers import scorers_of
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.evaluation.units import units_of
from tests.unit.evaluation.report.examples import case, nightly, scored, summary_of
from tests.unit.evaluation.report.hostile import HOSTILE, hostile

VOID = {"meta", "br"}
INLINE = {"code", "del", "ins"}


class Page(HTMLParser):
    """Parse a page: check that elements are closed in order, and collect the text of each section."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, str] = {"": ""}
        self._open: list[str] = []
        self._section = ""
        self.feed(html)
        self.close()
        assert self._open == []
        self.sections = {name: " ".join(text.split()) for name, text in self.sections.items()}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "h2":
            self._section = dict(attrs)["id"] or ""
            self.sections[self._section] = ""
        self._part(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._part(tag)

    def _part(self, tag: str) -> None:
        if tag not in INLINE:
            self.sections[self._section] += " "

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.sections[self._section] += data


def page(summary: Summary, cases: list[Any], scores: Any, trend: list[Summary] | None = None) -> Page:
    return Page(render(Evaluation(summary, cases, scores), trend or []))


@pytest.fixture(scope="module")
def night() -> Page:
    return Page(render(*nightly()))


def gate(verdict: Any, *verdicts: Any, on_fail: Any = "fail") -> gate_parts.Gate:
    rules = [
        gate_parts.RuleVerdict(rule=f"r{n} >= 1", verdict=one, value=None, reason="why")
        for n, one in enumerate(verdicts)
    ]
    return gate_parts.Gate(verdict=verdict, on_fail=on_fail, rules=rules)


def test_the_order_is_from_the_verdict_to_the_details(night: Page) -> None:
    assert list(night.sections) == [
        "",
        "coverage",
        "changes",
        "tags",
        "failing",
        "changed",
        "unanswered",
        "trend",
        "scores",
        "latency",
    ]
    assert night.sections[""].startswith("Worse: support_quality.evaluate ✗ Worse: support_quality.evaluate")


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        (gate("passed", "passed", "passed"), ["✓ Passed:", "2 rules: 2 passed. The task succeeds."]),
        (
            gate("failed", "failed", "passed", "not_judged"),
            ["✗ Failed:", "3 rules: 1 failed, 1 passed, 1 not judged. The task fails.", "1 rule passed"],
        ),
        (
            gate("passed", "not_proven", "too_few"),
            ["Not proven:", "2 rules: 1 not proven, 1 too few questions to say."],
        ),
        (gate("passed", "too_few"), ["Too few questions to say:"]),
        (
            gate("failed", "failed", on_fail="skip_downstream"),
            ["The task succeeds, and the tasks after it are skipped."],
        ),
        (
            gate("failed", "failed", on_fail="report"),
            ["✗ Failed:", "The task succeeds, because the gate only reports."],
        ),
        (gate("none"), ["No gate:", "There are no rules, so the figures are not judged."]),
    ],
)
def test_the_verdict_says_in_words_what_follows(gate: gate_parts.Gate, told: list[str]) -> None:
    cases = [case()]
    scores = scored(cases, token_f1=[1.0])
    header = page(summary_of(cases, scores, gate=gate), cases, scores).sections[""]
    for words in told:
        assert words in header
    for rule in gate.rules:
        sign = {"passed": "✓", "failed": "✗"}.get(rule.verdict, "?")
        assert f"{rule.rule} {sign} {rule.word.capitalize()} – why" in header


def test_coverage_and_counts(night: Page) -> None:
    summary = nightly()[0].summary
    told = night.sections["coverage"]
    assert f"{summary.questions.answered} of {summary.questions.total} questions answered" in told
    assert "A question passes if token_f1 >= 0.55 and must_not_include >= 1" in told
    for status, number in summary.questions.unanswered.items():
        assert f"{number} {status.replace('_', ' ')}" in told


def test_every_scorer_has_a_picture_or_at_least_its_figures() -> None:
    cases = [case(number) for number in range(3)]
    scores = scored(cases, token_f1=[0.2, 0.4, "broken <b>"], latency=[1.0, 2.0, 3.0])
    report = page(summary_of(cases, scores), cases, scores)
    told = report.sections["scores"]
    assert "token_f1 0.300 0.200" in told
    assert "latency lower is better 2.00\u202fs".replace("\u202f", " ") in told
    assert "faq-0002 token_f1 broken <b>" in told


def test_figures_are_labelled_with_percentiles(night: Page) -> None:
    assert "Latency p50" in night.sections["coverage"]
    assert "Scorer Mean p5 p25 Median p75 p95 Scored" in night.sections["scores"]
    assert "Latency p95" in night.sections["trend"]
    latency = night.sections["latency"]
    for label in ("p50 (median)", "p75", "p90", "p95", "p99", "Maximum", "Number of answers by latency (s)"):
        assert label in latency


def test_the_trend_is_in_order_of_time_and_has_this_run_once() -> None:
    evaluation, trend = nightly(40)
    summary = evaluation.summary
    runs = sections.runs(summary, [*reversed(trend), summary])
    assert [run.asked_at for run in runs] == sorted(run.asked_at or "" for run in [*trend, summary])
    told = Page(render(evaluation, trend)).sections["trend"]
    assert "The last 15 evaluations, from 2026-11-06 00:03 UTC to 2026-11-20 00:03 UTC." in told


def test_the_trend_is_of_the_last_runs() -> None:
    evaluation, trend = nightly(40)
    summary = evaluation.summary
    old = [
        run.model_copy(update={"asked_at": f"2025-01-{day:02}T00:00:00Z"}) for day in range(1, 29) for run in trend[:1]
    ]
    runs = sections.runs(summary, [*old, *trend])
    assert len(runs) == sections.MAX_RUNS
    assert runs[-1] is summary
    assert runs[-2] is trend[-1]


def test_a_first_run_has_no_trend_and_no_baseline() -> None:
    cases = [case()]
    scores = scored(cases, token_f1=[1.0])
    told = page(summary_of(cases, scores), cases, scores).sections
    assert "There are no earlier evaluations to show." in told["trend"]
    assert "There is no baseline to compare with." in told["changes"]
    assert "No question fails, and no answered question scored less than 1." in told["failing"]
    assert "Every question has an answer." in told["unanswered"]


def test_an_evaluation_without_an_answer_is_reported_too() -> None:
    cases = [case(answer=None, seconds=None, status="lost")]
    scores = scored(cases, token_f1=[None])
    told = page(summary_of(cases, scores), cases, scores).sections
    assert "0.0 % 0 of 1 question answered" in told["coverage"]
    assert "No question was answered, so there is no latency." in told["latency"]
    assert "faq-0000 When are refunds paid? lost –" in told["unanswered"]


def test_answers_without_durations_have_no_latency() -> None:
    cases = [case(answer="No.", seconds=None)]
    scores = scored(cases, token_f1=[0.0])
    told = page(summary_of(cases, scores), cases, scores).sections
    assert "No answer has a duration." in told["latency"]
    assert "no answer has a duration" in told["coverage"]
    assert "No question fails. These have the lowest mean" in told["failing"]


def test_an_empty_evaluation_is_reported_too() -> None:
    scores = scored([])
    assert "0 of 0 questions answered" in page(summary_of([], scores), [], scores).sections["coverage"]


def test_without_failing_questions_those_with_the_lowest_scores_are_shown() -> None:
    cases = [case(number) for number in range(5)]
    scores = scored(
        cases,
        token_f1=[0.9, 0.5, 0.6, 1.0, 0.7],
        must_include=[1.0, 1.0, 0.0, 1.0, None],
        latency=[9.0, 0.1, 0.1, 0.1, 0.1],
    )
    lowest = cards(Evaluation(summary_of(cases, scores), cases, scores))
    assert not lowest.are_failing
    assert [card.turns[0].case.key for card in lowest.rows] == ["faq-0002", "faq-0004", "faq-0001", "faq-0000"]


def test_a_bad_answer_stands_beside_what_was_expected() -> None:
    cases = [
        case(
            answer="Within ten working days.",
            must_include=("five",),
            must_not_include=("ten",),
            expected_url=("x.org",),
        ),
        case(1, expected=None, expect_no_answer=True, answer="Of course."),
    ]
    scores = scored(cases, token_f1=[0.8, 0.1])
    report = page(summary_of(cases, scores), cases, scores)
    told = report.sections["failing"]
    assert "Expected No answer: the assistant should say that it does not know. Answer Of course." in told
    assert "Must include: “five”" in told
    assert "Must not include: “ten”" in told
    assert "Must cite: “x.org”" in told
    html = render(Evaluation(summary_of(cases, scores), cases, scores))
    assert "Within <del>five</del> working days." in html
    assert "Within <ins>ten</ins> working days." in html


def test_lists_end_with_the_number_of_what_is_left_out() -> None:
    cases = [
        case(number, answer="No." if number % 2 else None, status="complete" if number % 2 else "failed")
        for number in range(200)
    ]
    scores = scored(cases, token_f1=[0.1] * 200, custom=["broken"] * 200)
    told = page(summary_of(cases, scores), cases, scores).sections
    assert "And 90 more, see scores.parquet." in told["failing"]
    assert "And 80 more, see scores.parquet." in told["scores"]
    assert "And 50 more, see scores.parquet." in told["unanswered"]
    alone = Page(render(Evaluation(summary_of(cases, scores), cases, scores), files=None)).sections["failing"]
    assert "And 90 more. The option --save writes all of them to scores.parquet." in alone


def test_of_too_many_tags_the_common_ones_are_shown() -> None:
    cases = [case(number, tags=("common", f"tag{number:03}")) for number in range(120)]
    scores = scored(cases, token_f1=[0.5] * 120)
    some = sections.tags(summary_of(cases, scores))
    assert len(some.rows) == sections.MAX_TAGS
    assert "common" in some.rows
    assert some.more == 21


def test_changes_are_named_and_the_changed_set_is_told(night: Page) -> None:
    evaluation, _ = nightly()
    cases, comparison = evaluation.cases, evaluation.summary.comparison
    assert comparison is not None
    worst = comparison.scorers["token_f1"].worst[0]
    [message] = [one.message for one in cases if one.key == worst.key]
    told = night.sections["changed"]
    assert f"{worst.key} {message} {worst.before:.3f} {worst.after:.3f} −{worst.before - worst.after:.3f}" in told
    assert f"And {comparison.scorers['token_f1'].worse - sections.MAX_CHANGES} more" in told
    changed = comparison.model_copy(update={"same": 388, "changed": 4, "added": 8, "removed": 3})
    summary = evaluation.summary.model_copy(update={"comparison": changed})
    told = Page(render(replace(evaluation, summary=summary))).sections["changes"]
    assert "Compared: 388 questions" in told
    assert "The set of questions has changed. Not compared: 4 changed questions, 8 new, 3 removed." in told


def test_less_latency_is_better() -> None:
    cases = [case()]
    scores = scored(cases, latency=[1.0])
    faster = parts.Difference(paired=1, mean=-1.0, low=-1.5, high=-0.5, worse=0, better=1)
    comparison = parts.Comparison(
        baseline={"name": "before"},
        confidence=0.95,
        same=1,
        changed=0,
        added=0,
        removed=0,
        coverage_before=1.0,
        scorers={"latency": faster},
    )
    summary = summary_of(cases, scores, comparison=comparison)
    assert '<span class="better">−1.000</span>' in render(Evaluation(summary, cases, scores))
    assert "The set of questions has not changed." in page(summary, cases, scores).sections["changes"]


def test_the_page_needs_nothing_and_runs_nothing(night: Page) -> None:
    names = {name for _, attributes in night.tags for name in attributes}
    assert not {tag for tag, _ in night.tags} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    }
    assert not names & {"src", "action"}
    links = {attributes["href"] for tag, attributes in night.tags if tag == "a"}
    ids = {attributes.get("id") for _, attributes in night.tags}
    assert all(link and link.startswith("#") and link[1:] in ids for link in links)
    assert not [name for name in names if name.startswith("on")]


def test_ids_are_unique_but_for_shapes_that_are_the_same(night: Page) -> None:
    seen: dict[str, dict[str, str | None]] = {}
    for _, attributes in night.tags:
        if identifier := attributes.get("id"):
            assert seen.setdefault(identifier, attributes) == attributes


def test_headings_and_tables_can_be_read_aloud(night: Page) -> None:
    levels = [int(tag[1]) for tag, _ in night.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in night.tags if tag == "th")
    pictures = [attributes for _, attributes in night.tags if attributes.get("role") == "img"]
    assert len(pictures) == sum(tag == "svg" for tag, _ in night.tags) > 0
    assert all(one["aria-label"] for one in pictures)


def test_the_same_evaluation_gives_the_same_bytes() -> None:
    assert render(*nightly(40)) == render(*nightly(40))


def test_hostile_texts_stay_texts() -> None:
    html = render(*hostile())
    assert len(html.encode("utf-8")) < 1_000_000
    report = Page(html)
    assert not {tag for tag, _ in report.tags} & {"script", "img", "iframe", "base", "link", "b"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:20]) for text in HOSTILE])
def test_each_hostile_answer_is_shown_as_what_it_is(text: str) -> None:
    cases = [case(answer=text)]
    scores = scored(cases, token_f1=[0.0])
    report = page(summary_of(cases, scores), cases, scores)
    start = " ".join(text.split())[:12]
    assert not start.isprintable() or start in report.sections["failing"]
    assert ("&lt;" in report.sections["failing"]) == ("&lt;" in text)


@pytest.mark.slow
def test_the_page_of_five_thousand_questions_is_small() -> None:
    assert len(render(*nightly(5000)).encode()) <= 300_000


def test_repetitions_have_a_section_of_their_own() -> None:
    cases = [case(0), case(0, repetition=2, answer="In <b>ten</b> days."), case(1), case(1, repetition=2)]
    scores = score_cases(cases, scorers_of(["token_f1"]))
    summary = summarise(cases, scores, scorers_of(["token_f1"]), name="n", pass_if=parse_condition("token_f1 >= 0.9"))
    text = page(summary, cases, scores).sections["repetitions"]
    assert "up to 2 times" in text
    assert "Answers disagree 50.0 %" in text
    assert "Unstable 50.0 %" in text
    assert "1×: Within five working days. 1×: In <b>ten</b> days." in text
    assert "faq-0001" not in text
    assert "Repetition 2" in page(summary, cases, scores).sections["failing"]
    assert "repetitions" not in Page(render(*nightly())).sections


def test_pairs_have_their_figures_and_the_reasons_of_the_greatest_changes() -> None:
    now, before = [case(0), case(1)], [case(0, answer="No <b>idea</b>."), case(1)]
    scores, old = (scored(now, **{"judge.pairwise": values}) for values in ([1.0, 0.0], [0.0, 0.0]))
    plain = summary_of(now, scores)
    counts = judge_parts.PairCounts(
        pairs=9, wins=3, losses=1, ties=1, order_changed=2, identical=1, errors=1, first_preferred=0.625
    )
    judge = judge_parts.JudgeSummary(
        model="m", rubric="Better.", prompt_version=1, input_tokens=1, output_tokens=1, pairs=counts
    )
    scorer = plain.scorers["judge.pairwise"].model_copy(update={"judge": judge, "histogram": []})
    baseline = Baseline([EarlierRun(old)], {"name": "before"})
    compared = compare(EarlierRun(scores), units_of(now), baseline, scorers_of(["judge.pairwise"]))
    comparison = compared.comparison
    summary = summary_of(now, scores, scorers={"judge.pairwise": scorer}, comparison=comparison)
    reasons = {("faq-0000", 1, "judge.pairwise"): "This answer first: the first is <i>better</i>."}
    evaluation = Evaluation(summary, now, scores, reasons=reasons, baseline_cases=before)
    report = Page(render(evaluation))
    told = report.sections["changes"] + report.sections["changed"]
    for text in (
        "The judge read 8 pairs of answers in both orders.",
        "Better 3 of 9 pairs",
        "Equal 4 1 by both verdicts, 1 identical, 2 because the order changed the verdict",
        "Worse 1 the answer of the baseline is better; 1 pair could not be judged",
        "First answer preferred 62.5 %",
        "judge.pairwise : This answer first: the first is <i>better</i>.",
    ):
        assert text in told.replace("\u202f", " "), text
    assert "People do not label pairs of answers" in report.sections["judges"]
    assert "3 better, 4 equal, 1 worse" in [found.get("aria-label") for _, found in report.tags]
