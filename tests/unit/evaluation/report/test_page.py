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
    order = ("", "coverage", "changes", "tags", "failing", "changed", "unanswered", "trend", "scores", "latency")
    assert tuple(night.sections) == order
    assert "Worse" in night.sections[""]


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        (gate("passed", "passed", "passed"), ["Passed", "succeeds"]),
        (gate("failed", "failed", "passed", "not_judged"), ["Failed", "1 failed, 1 passed, 1 not judged", "fails"]),
        (gate("passed", "not_proven", "too_few"), ["Not proven"]),
        (gate("passed", "too_few"), ["Too few questions"]),
        (gate("failed", "failed", on_fail="skip_downstream"), ["skipped"]),
        (gate("failed", "failed", on_fail="report"), ["Failed", "succeeds"]),
        (gate("none"), ["No gate"]),
    ],
)
def test_the_verdict_says_in_words_what_follows(gate: gate_parts.Gate, told: list[str]) -> None:
    cases = [case()]
    scores = scored(cases, token_f1=[1.0])
    header = page(summary_of(cases, scores, gate=gate), cases, scores).sections[""]
    for words in [*told, *(rule.rule for rule in gate.rules)]:
        assert words in header


def test_every_scorer_has_a_picture_or_at_least_its_figures() -> None:
    cases = [case(number) for number in range(3)]
    scores = scored(cases, token_f1=[0.2, 0.4, "broken <b>"], latency=[1.0, 2.0, 3.0])
    report = page(summary_of(cases, scores), cases, scores)
    told = report.sections["scores"]
    assert "token_f1 0.300" in told
    assert "lower is better 2.00" in told
    assert "faq-0002 token_f1 broken <b>" in told


def test_figures_and_counts_are_shown_with_their_percentiles(night: Page) -> None:
    questions = nightly()[0].summary.questions
    assert f"{questions.answered} of {questions.total}" in night.sections["coverage"]
    assert "token_f1 >= 0.55 and must_not_include >= 1" in night.sections["coverage"]
    for status, number in questions.unanswered.items():
        assert f"{number} {status.replace('_', ' ')}" in night.sections["coverage"]
    for part, labels in (("scores", ("p5", "p95")), ("trend", ("p95",)), ("latency", ("p50", "p90", "p99"))):
        assert all(label in night.sections[part] for label in labels)


def test_the_trend_is_of_the_last_runs_in_order_of_time_and_has_this_run_once() -> None:
    evaluation, trend = nightly(40)
    summary = evaluation.summary
    runs = sections.runs(summary, [*reversed(trend), summary])
    assert [run.asked_at for run in runs] == sorted(run.asked_at or "" for run in [*trend, summary])
    assert "2026-11-06 00:03 UTC" in Page(render(evaluation, trend)).sections["trend"]
    old = [trend[0].model_copy(update={"asked_at": f"2025-01-{day:02}T00:00:00Z"}) for day in range(1, 29)]
    runs = sections.runs(summary, [*old, *trend])
    assert (len(runs), runs[-1], runs[-2]) == (sections.MAX_RUNS, summary, trend[-1])


@pytest.mark.parametrize(
    ("cases", "score", "told"),
    [
        # A first run that is all right.
        (
            [case()],
            1.0,
            {"trend": "no earlier", "changes": "no baseline", "failing": "No question", "tags": None},
        ),
        # No answer at all.
        (
            [case(answer=None, seconds=None, status="lost")],
            None,
            {"coverage": "0 of 1", "latency": "No question was answered", "unanswered": "faq-0000"},
        ),
        ([case(answer="No.", seconds=None)], 0.0, {"latency": "No answer", "failing": "lowest"}),
        # No question at all.
        ([], None, {"coverage": "0 of 0"}),
    ],
)
def test_what_is_not_there_is_said(cases: list[Any], score: float | None, told: dict[str, str | None]) -> None:
    scores = scored(cases, token_f1=[score] * len(cases))
    found = page(summary_of(cases, scores), cases, scores).sections
    for part, words in told.items():
        assert (part in found) == (words is not None)
        assert (words or "") in found.get(part, "")


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
    checks = {"must_include": ("five",), "must_not_include": ("ten",), "expected_url": ("x.org",)}
    cases = [
        case(answer="Within ten working days.", **checks),
        case(1, expected=None, expect_no_answer=True, answer="Of course."),
    ]
    scores = scored(cases, token_f1=[0.8, 0.1])
    html = render(Evaluation(summary_of(cases, scores), cases, scores))
    told = Page(html).sections["failing"]
    for words in ("Of course.", "“five”", "“ten”", "“x.org”"):
        assert words in told
    assert "Within <del>five</del> working days." in html
    assert "Within <ins>ten</ins> working days." in html


def test_lists_end_with_the_number_of_what_is_left_out() -> None:
    unanswered = {"answer": None, "status": "failed"}
    cases = [case(number, **({"answer": "No."} if number % 2 else unanswered)) for number in range(200)]
    scores = scored(cases, token_f1=[0.1] * 200, custom=["broken"] * 200)
    told = page(summary_of(cases, scores), cases, scores).sections
    for part, number in (("failing", 90), ("scores", 80), ("unanswered", 50)):
        assert f"And {number} more" in told[part]


def test_of_too_many_tags_the_common_ones_are_shown() -> None:
    cases = [case(number, tags=("common", f"tag{number:03}")) for number in range(120)]
    scores = scored(cases, token_f1=[0.5] * 120)
    some = sections.tags(summary_of(cases, scores))
    assert len(some.rows) == sections.MAX_TAGS
    assert "common" in some.rows
    assert some.more == 21


def test_changes_are_named_and_the_changed_set_is_told(night: Page) -> None:
    evaluation, _ = nightly()
    comparison = evaluation.summary.comparison
    assert comparison is not None
    worst = comparison.scorers["token_f1"].worst[0]
    assert f"{worst.before:.3f} {worst.after:.3f} −{worst.before - worst.after:.3f}" in night.sections["changed"]
    changed = comparison.model_copy(update={"same": 388, "changed": 4, "added": 8, "removed": 3})
    summary = evaluation.summary.model_copy(update={"comparison": changed})
    told = Page(render(replace(evaluation, summary=summary))).sections["changes"]
    assert all(words in told for words in ("388 questions", "4 changed", "8 new", "3 removed"))


def test_less_latency_is_better() -> None:
    cases = [case()]
    scores = scored(cases, latency=[1.0])
    faster = parts.Difference(paired=1, mean=-1.0, low=-1.5, high=-0.5, worse=0, better=1)
    counts = {"same": 1, "changed": 0, "added": 0, "removed": 0, "coverage_before": 1.0, "confidence": 0.95}
    comparison = parts.Comparison(baseline={"name": "before"}, scorers={"latency": faster}, **counts)
    summary = summary_of(cases, scores, comparison=comparison)
    assert '<span class="better">−1.000</span>' in render(Evaluation(summary, cases, scores))


@pytest.mark.promise("evaluation", "The report is one file that loads nothing and runs nothing.")
def test_the_page_needs_nothing_and_runs_nothing(night: Page) -> None:
    names = {name for _, attributes in night.tags for name in attributes}
    refused = {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not {tag for tag, _ in night.tags} & refused
    assert not names & {"src", "action"}
    links = {attributes["href"] for tag, attributes in night.tags if tag == "a"}
    ids = {attributes.get("id") for _, attributes in night.tags}
    assert all(link and link.startswith("#") and link[1:] in ids for link in links)
    assert not [name for name in names if name.startswith("on")]
    # Ids are unique, but for shapes that are the same.
    seen: dict[str, dict[str, str | None]] = {}
    for _, attributes in night.tags:
        if identifier := attributes.get("id"):
            assert seen.setdefault(identifier, attributes) == attributes
    assert render(*nightly(40)) == render(*nightly(40))


def test_headings_and_tables_can_be_read_aloud(night: Page) -> None:
    levels = [int(tag[1]) for tag, _ in night.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in night.tags if tag == "th")
    pictures = [attributes for _, attributes in night.tags if attributes.get("role") == "img"]
    assert len(pictures) == sum(tag == "svg" for tag, _ in night.tags) > 0
    assert all(one["aria-label"] for one in pictures)


@pytest.mark.promise("pages", "Hostile answers stay text in the report.")
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


@pytest.mark.nightly
def test_the_page_of_five_thousand_questions_is_small() -> None:
    assert len(render(*nightly(5000)).encode()) <= 300_000


def test_repetitions_have_a_section_of_their_own() -> None:
    cases = [case(0), case(0, repetition=2, answer="In <b>ten</b> days."), case(1), case(1, repetition=2)]
    scorers = scorers_of(["token_f1"])
    scores = score_cases(cases, scorers)
    summary = summarise(cases, scores, scorers, name="n", pass_if=parse_condition("token_f1 >= 0.9"))
    text = page(summary, cases, scores).sections["repetitions"]
    for words in ("2 times", "disagree 50.0 %", "Unstable 50.0 %", "In <b>ten</b> days."):
        assert words in text
    assert "faq-0001" not in text
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
    for text in ("8 pairs", "3 of 9 pairs", "1 identical", "1 pair could not", "62.5 %", "the first is <i>better</i>."):
        assert text in told.replace("\u202f", " "), text
    assert "judges" in report.sections
