"""The report: one page that loads nothing, says why the gate failed, and shows what the answers lack."""

# ruff: noqa: RUF001 (the report writes numbers with minus signs and dashes)

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from airflow_provider_assistant.evaluation.report import (
    LENGTH,
    RUNS,
    change,
    differences,
    legible,
    moment,
    number,
    render,
)
from airflow_provider_assistant.evaluation.summary import Change, Gate, QuestionCounts
from tests.unit.evaluation.report.examples import (
    case,
    evaluation_of,
    hostile,
    nightly,
    scores_of,
    summary_of,
)


class Page(HTMLParser):
    """The tags of a page, and its text by section; that of the head is under an empty name."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.sections, self._section, self._hidden = [], {"": ""}, "", 0
        self.feed(html)
        self.sections = {name: " ".join(text.split()) for name, text in self.sections.items()}

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._hidden += tag in {"style", "title"}
        if tag == "section":
            self._section = dict(attributes)["aria-labelledby"]
            self.sections[self._section] = ""

    def handle_endtag(self, tag):
        self._hidden -= tag in {"style", "title"}

    def handle_data(self, data):
        if not self._hidden:
            self.sections[self._section] += f"{data} "


@pytest.fixture(scope="module")
def html():
    return render(nightly())


@pytest.fixture(scope="module")
def night(html):
    return Page(html)


@pytest.mark.promise("evaluation", "The report is one file that loads nothing and runs nothing.")
def test_the_page_needs_nothing_and_runs_nothing(night, html):
    names = {name for _, attributes in night.tags for name in attributes}
    refused = {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not {tag for tag, _ in night.tags} & refused
    assert not names & {"src", "action"}
    assert not [name for name in names if name.startswith("on")]
    ids = [attributes["id"] for _, attributes in night.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"] for tag, attributes in night.tags if tag == "a"}
    assert links
    assert links <= {f"#{identifier}" for identifier in ids}
    assert html == render(nightly())


def test_the_head_says_what_failed_since_when_and_by_how_much(night):
    head = night.sections[""]
    for words in (
        "✗ Worse: nightly golden set",
        "3 rules: 1 passed, 1 worse, 1 not proven. The task fails.",
        "Failing since 2026-11-21 02:00 UTC, this run",
        "Passed before, fail now 1",
        "Pass rate 50.0 %",
        "7 runs, the last scheduled__2026-11-20",
        "token_f1 drop <= 0.02 Worse 0.120 −0.120 [−0.190, −0.050] it fell from 0.92 to 0.80",
        "1 question: q1",
        "judge.correctness >= 0.9 Not proven 0.880 +0.010 [−0.030, +0.050]",
    ):
        assert words in head.replace("\u202f", " "), words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gate": Gate(verdict="none")}, ["Not judged:", "There are no rules"]),
        ({"verdict": "passed"}, ["✓ Passed:", "2 passed", "The task succeeds."]),
        ({"verdict": "passed", "run": {}}, ["2 passed, 1 not proven."]),
        ({"gate": summary_of().gate.model_copy(update={"on_fail": "skip_downstream"})}, ["the tasks after it are"]),
    ],
)
def test_the_verdict_says_in_words_what_follows(changes, words):
    cases = [case()]
    head = Page(render(evaluation_of(cases, scores_of(cases, token_f1=[1.0]), summary_of(**changes)))).sections[""]
    assert all(word in head for word in words), head
    assert ("task" in head) == ("run" not in changes and changes.get("gate") != Gate(verdict="none"))


def test_since_when_a_gate_fails_is_counted_over_the_runs():
    gate = summary_of().gate.model_copy(update={"failed_runs": 3, "since": "2026-11-19T02:00:00+00:00"})
    cases = [case()]
    head = Page(render(evaluation_of(cases, scores_of(cases, token_f1=[0.1]), summary_of(gate=gate)))).sections[""]
    assert "Failing since 2026-11-19 02:00 UTC, 3 runs in a row" in head


def test_a_bad_answer_stands_beside_what_was_expected(html, night):
    told = night.sections["failing"]
    for words in (
        "Passed before, fails now token_f1 drop <= 0.02: 0.9 → 0.1",
        "Key q1 Tags shipping token_f1 0.100 judge.correctness 0.000 Request r-1",
        "judge.correctness : It names no place.",
        "Conversation of 2 turns",
    ):
        assert words in told, (words, told)
    assert "<del>under</del> <del>orders</del>" in html
    checks = {"must_include": ("five",), "must_not_include": ("ten",), "expected_url": ("x.org",)}
    cases = [
        case(answer="Refunds are paid within 9 days.", **checks),
        case(1, expected=(), expect_no_answer=True, answer="Of course."),
    ]
    scores = scores_of(cases, token_f1=[0.1, 0.1])
    html = render(evaluation_of(cases, scores, summary_of()))
    assert "Refunds are paid within <del>5</del> days." in html
    assert "Refunds are paid within <ins>9</ins> days." in html
    told = Page(html).sections["failing"]
    for words in ("Of course.", "No answer: the assistant should say", "“five”", "“ten”", "“x.org”"):
        assert words in told


def test_words_that_differ_are_marked_and_nothing_is_lost():
    rng = random.Random(59)
    words = ["refunds", "Refunds", "9", "5,5", "days.", "é\u0301", "返金", "は", "\n", "ไทย", "(a)"]
    for _ in range(200):
        texts = [" ".join(rng.choices(words, k=rng.randint(0, 12))) for _ in range(2)]
        both = differences(*texts)
        for text, pieces in zip(texts, both, strict=True):
            assert "".join(piece.text for piece in pieces) == text
        same = ["".join(piece.text for piece in pieces if not piece.differs).split() for pieces in both]
        assert [word.casefold() for word in same[0]] == [word.casefold() for word in same[1]]
        if texts[0].casefold() == texts[1].casefold():
            assert not any(piece.differs for pieces in both for piece in pieces)
    marked = [[piece.text for piece in pieces if piece.differs] for pieces in differences("返金は5日", "返金は9日")]
    assert marked == [["5"], ["9"]]


def test_a_long_answer_is_cut_and_the_page_says_so():
    cases = [case(answer="word " * 1000)]
    evaluation = evaluation_of(cases, scores_of(cases, token_f1=[0.1]), summary_of())
    assert f"{5000 - LENGTH:,} more characters not shown" in Page(render(evaluation)).sections["failing"]


def test_figures_tags_and_judges_are_listed(night):
    told = night.sections["scores"].replace("\u202f", " ")
    assert "token_f1 0.800 −0.120 [−0.190, −0.050] 40 0" in told
    assert "latency p95 12.3 s" in told
    assert "openai:gpt-5, agreement with people 0.810 [0.680, 0.900] over 60 labels" in told
    tags = night.sections["tags"]
    assert tags.index("billing") < tags.index("shipping")
    assert "−0.300" in tags


def test_less_latency_is_better():
    changed = {"token_f1": {"mean": -1}, "latency": {"mean": -1}}
    figures = {
        name: summary_of()
        .figures["token_f1"]
        .model_copy(update={"change": Change(mean=-1, low=-1.5, high=-0.5, questions=1, comparable=1, runs=1)})
        for name in changed
    }
    cases = [case()]
    html = render(evaluation_of(cases, scores_of(cases, token_f1=[1.0]), summary_of(figures=figures)))
    assert html.count('<span class="better">−1.000') == 1


def test_the_trend_is_one_line_of_the_last_runs(night):
    assert "pass_rate of the last 13 runs, from 2026-11-08 02:00 UTC" in night.sections["trend"]
    assert f"of the last {RUNS} runs" in Page(render(nightly(40))).sections["trend"]
    first = Page(render(nightly(0)))
    assert "trend" not in first.sections
    assert "svg" not in {tag for tag, _ in first.tags}


def test_what_is_not_there_is_said():
    cases = [case(answer=None, status="timed_out", error="no answer within 60 s")]
    summary = summary_of(questions=QuestionCounts(total=1, answered=0), tags={})
    page = Page(render(evaluation_of(cases, scores_of(cases, token_f1=[float("nan")]), summary)))
    assert "Answered 0 of 1" in page.sections[""]
    assert "q0 How long do refunds take? timed out no answer within 60 s" in page.sections["unanswered"]
    assert "tags" not in page.sections
    right = [case()]
    summary = summary_of(verdict="passed", gate=Gate(verdict="passed"))
    page = Page(render(evaluation_of(right, scores_of(right, token_f1=[1.0]), summary)))
    assert "No question fails." in page.sections["failing"]
    assert "unanswered" not in page.sections
    assert Page(render(evaluation_of([], scores_of([], token_f1=[]), summary))).sections["failing"]


def test_lists_end_with_the_number_of_what_is_left_out():
    unanswered = {"answer": None, "status": "failed"}
    cases = [case(row, key=f"q{row}", **({} if row % 2 else unanswered)) for row in range(200)]
    scores = scores_of(cases, token_f1=[0.1 if row % 2 else float("nan") for row in range(200)])
    summary = summary_of()
    page = render(evaluation_of(cases, scores, summary))
    assert "And 50 more, see" in Page(page).sections["failing"]
    assert "And 80 more, see" in Page(page).sections["unanswered"]
    assert "--save" in render(evaluation_of(cases, scores, summary), files=None)
    assert len(page.encode()) < 300_000


@pytest.mark.promise("pages", "Hostile answers stay text in the report.")
def test_hostile_texts_stay_texts():
    html = render(hostile())
    assert len(html.encode("utf-8")) < 1_000_000
    tags = {tag for tag, _ in Page(html).tags}
    assert not tags & {"script", "img", "iframe", "base", "link"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)


def test_headings_and_tables_can_be_read_aloud(night):
    levels = [int(tag[1]) for tag, _ in night.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in night.tags if tag == "th")
    pictures = [attributes for tag, attributes in night.tags if tag == "svg"]
    assert [picture["role"] for picture in pictures] == ["img"]
    assert pictures[0]["aria-label"]


@pytest.mark.parametrize(
    ("value", "figure", "text"),
    [
        (None, "token_f1", "–"),
        (0.5, "token_f1", "0.500"),
        (0.9999, "token_f1", "0.999"),
        (1, "coverage", "100.0 %"),
        (0.99999, "pass_rate[billing]", "99.9 %"),
        (12.345, "latency p95", "12.3 s"),
        (-0.25, "column:x", "−0.250"),
    ],
)
def test_numbers_are_those_of_people(value, figure, text):
    assert number(value, figure).replace("\u202f", " ") == text


def test_changes_and_times_are_those_of_people():
    assert change(None) == "–"
    counts = {"questions": 1, "comparable": 1, "runs": 1}
    assert change(Change(mean=-0.00001, **counts)) == "0.000"
    assert change(Change(mean=0.1, low=-0.1, high=0.3, **counts)) == "+0.100 [−0.100, +0.300]"
    assert moment("2026-11-21T04:00:00+02:00") == "2026-11-21 02:00 UTC"
    assert moment("2026-11-21T02:00:00") == "2026-11-21 02:00 UTC"
    assert (moment("soon"), moment(None)) == ("soon", "–")
    assert legible("a\r\nb\x00\u202e\ud800") == "a\nb\\x00\\u202e\\ud800"
