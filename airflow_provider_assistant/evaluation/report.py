"""The report of an evaluation: one HTML page that loads nothing and runs nothing."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.failing import FailingTurn, failing_questions
from airflow_provider_assistant.evaluation.rules import COVERAGE, LATENCY, PASS_RATE, QUANTILES
from airflow_provider_assistant.evaluation.text import UNSPACED
from airflow_provider_assistant.texts import counted, escaped, shortened

if TYPE_CHECKING:
    from jinja2 import Template

    from airflow_provider_assistant.evaluation.run import Evaluation
    from airflow_provider_assistant.evaluation.summary import Change, RuleVerdict, Summary

# Identifies the reports that this package wrote.
GENERATOR = '<meta name="generator" content="airflow-provider-assistant">'
# Most failing questions, unanswered questions and tags that the page shows.
CARDS, UNANSWERED, TAGS = 50, 20, 100
# Most runs of the trend.
RUNS = 30
# Size of the trend in the units of its picture.
WIDTH, HEIGHT = 640, 90
# Most characters of a text that is compared, and most pairs of equal tokens that are compared exactly.
LENGTH, PAIRS = 1500, 30_000
NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
EFFECTS = {
    "fail": "The task fails.",
    "skip_downstream": "The task succeeds, and the tasks after it are skipped.",
    "report": "The task succeeds, because the gate only reports.",
}
# Not characters: XML must not have them.
_NO_CHARACTER = re.compile("[\ufffe\uffff]")
# A character of a script without spaces, a word, space, or punctuation.
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\s!-/:-@\[-`{{-~{UNSPACED}]+|\s+|.", re.DOTALL)


class Piece(NamedTuple):
    """A piece of a text, and whether the other text differs there."""

    text: str
    differs: bool


class Point(NamedTuple):
    """A run in the trend, with its place in the picture."""

    x: float
    y: float
    value: float
    asked_at: str | None
    is_red: bool


def owner_tag(dag_id: str) -> str:
    """Return the tag that names the DAG whose task wrote a report; the name is empty if no task wrote it."""
    return f'<meta name="dag-id" content="{escape(dag_id)}">'


def render(evaluation: Evaluation, *, files: str | None = "the folder of this file") -> str:
    """
    Return the report. The same evaluation gives the same text, which can always be encoded.

    :param files: Folder of ``scores.parquet`` and ``summary.json``, in words; None if they are not written.
    """
    summary = evaluation.summary
    failing, more = failing_questions(evaluation, CARDS)
    unanswered = [case for case in evaluation.cases if case.answer is None]
    line = PASS_RATE if summary.value(PASS_RATE) is not None else next(iter(summary.scorers), COVERAGE)
    measures = [f"{LATENCY} {quantile}" for quantile in QUANTILES]
    return _template().render(
        owner=owner_tag(summary.run.get("dag_id") or ""),
        generator=GENERATOR,
        summary=summary,
        word=summary.gate.word.capitalize(),
        effect=_effect(summary),
        since=_since(summary),
        rules=sorted(summary.gate.rules, key=lambda rule: (rule.verdict != "failed", rule.verdict == "passed")),
        failing=failing,
        more_failing=more,
        anchors={question.key: f"q{number}" for number, question in enumerate(failing)},
        answers=_Answers(evaluation),
        figures=[name for name in (COVERAGE, PASS_RATE, *measures, *summary.scorers) if name in summary.figures],
        columns=[
            name
            for name in (PASS_RATE, *summary.scorers)
            if any(f"{name}[{tag}]" in summary.figures for tag in summary.tags)
        ],
        tags=sorted(summary.tags, key=lambda tag: _loss(summary, tag))[:TAGS],
        more_tags=max(0, len(summary.tags) - TAGS),
        unanswered=unanswered[:UNANSWERED],
        more_unanswered=max(0, len(unanswered) - UNANSWERED),
        trend_name=line,
        points=_points(evaluation, line),
        size=(WIDTH, HEIGHT),
        files=files,
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        finalize=lambda value: legible(value) if type(value) is str else value,
        loader=FileSystemLoader(Path(__file__).parent),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        shortened=shortened, counted=counted, number=number, change=change, moment=moment, of_figure=_value_of
    )
    return environment.get_template("report.html.j2")


def legible(text: str) -> str:
    """Return a text of which every character can be seen and encoded, so that it cannot look like another."""
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", escaped(text.replace("\r\n", "\n"), kept="\t\n"))


# -- numbers -------------------------------------------------------------------------------------------


def number(value: float | None, figure: str = "") -> str:
    """Return the value of a figure: shares of questions in percent, latencies in seconds, others with three digits."""
    if value is None:
        return NONE
    if figure.startswith(LATENCY):
        return f"{value:.3g}\u202fs"
    is_percent = figure.partition("[")[0] in {COVERAGE, PASS_RATE}
    text = f"{100 * value:.1f}" if is_percent else f"{value:.3f}"
    # What is not perfect never looks so.
    if value < 1 and float(text) == (100 if is_percent else 1):
        text = "99.9" if is_percent else "0.999"
    return f"{text}\u202f%" if is_percent else text.replace("-", MINUS)


def change(found: Change | None) -> str:
    """Return a change with its sign and its interval."""
    if found is None:
        return NONE
    text = _signed(found.mean)
    if found.low is not None and found.high is not None:
        text += f" [{_signed(found.low)}, {_signed(found.high)}]"
    return text


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", MINUS)


def _value_of(rule: RuleVerdict) -> str:
    return number(rule.value, "" if " drop" in rule.rule else rule.figure)


def moment(value: str | None) -> str:
    """Return a time, given in ISO 8601, in UTC; any other text as it is."""
    try:
        time = datetime.fromisoformat(value or "")
    except ValueError:
        return value or NONE
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return f"{time:%Y-%m-%d %H:%M} UTC"


# -- the head ------------------------------------------------------------------------------------------


def _effect(summary: Summary) -> str:
    """Return the number of rules by verdict, and what the verdict does."""
    gate = summary.gate
    if not gate.rules:
        return "There are no rules, so the figures are not judged."
    words = Counter(rule.word for rule in gate.rules)
    text = f"{counted(len(gate.rules), 'rule')}: {', '.join(f'{count} {word}' for word, count in words.most_common())}."
    # A command has no task.
    if not summary.run:
        return text
    return f"{text} {EFFECTS[gate.on_fail] if gate.verdict == 'failed' else 'The task succeeds.'}"


def _since(summary: Summary) -> str | None:
    """Return since when the gate fails; None if it does not."""
    gate = summary.gate
    if gate.verdict != "failed":
        return None
    return f"{moment(gate.since)}, {f'{gate.failed_runs} runs in a row' if gate.failed_runs > 1 else 'this run'}"


def _loss(summary: Summary, tag: str) -> float:
    """Return the largest change for the worse of a tag; those that lost most come first."""
    changes = [0.0]
    for name, scorer in ((PASS_RATE, None), *summary.scorers.items()):
        found = summary.figures.get(f"{name}[{tag}]")
        if found and found.change:
            is_higher_better = scorer is None or scorer.higher_is_better
            changes.append(found.change.mean if is_higher_better else -found.change.mean)
    return min(changes)


# -- failing questions ---------------------------------------------------------------------------------


class _Answers:
    """What the page shows of an answer."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def scores(self, turn: FailingTurn) -> list[tuple[str, str]]:
        """Return the scores of an answer, as text by scorer."""
        values = {name: float(column[turn.row]) for name, column in self._evaluation.scores.values.items()}
        return [(name, number(value, name)) for name, value in values.items() if not math.isnan(value)]

    def reasons(self, turn: FailingTurn) -> list[tuple[str, str]]:
        """Return what judges said about an answer, and the errors of scorers."""
        judgements = {name: column[turn.row].reason for name, column in self._evaluation.judgements.items()}
        said = [(name, reason) for name, reason in judgements.items() if reason]
        return [*said, *self._evaluation.scores.errors.get(turn.row, {}).items()]

    def sides(self, turn: FailingTurn) -> list[tuple[str, str, Sequence[Piece], int]]:
        """Return the expected answer and the answer: title, tag of the differences, pieces, characters left out."""
        expected, answer = turn.case.reference or "", turn.case.answer or ""
        if expected and answer:
            both = differences(expected, answer)
        else:
            if turn.case.expect_no_answer:
                expected = "No answer: the assistant should say that it does not know."
            both = (Piece(expected[:LENGTH], False),), (Piece(answer[:LENGTH], False),)
        titled = (("Expected", "del", expected, both[0]), ("Answer", "ins", answer, both[1]))
        return [(title, tag, pieces, max(0, len(text) - LENGTH)) for title, tag, text, pieces in titled if text]


def differences(expected: str, answer: str) -> tuple[Sequence[Piece], ...]:
    """Return two texts in pieces: the words that only one of them has, and the others. Case makes no difference."""
    tokens = [_TOKEN.findall(legible(text[:LENGTH])) for text in (expected, answer)]
    words = [[token.casefold() for token in side] for side in tokens]
    counts = Counter(words[1])
    # With autojunk, difflib ignores the most frequent tokens: comparing them all takes quadratic time.
    is_expensive = sum(counts[word] for word in words[0]) > PAIRS
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    matcher = SequenceMatcher(None, words[0], words[1], autojunk=is_expensive)
    for kind, start, end, start_in_answer, end_in_answer in matcher.get_opcodes():
        pieces[0].append(Piece("".join(tokens[0][start:end]), kind != "equal"))
        pieces[1].append(Piece("".join(tokens[1][start_in_answer:end_in_answer]), kind != "equal"))
    return tuple([piece for piece in side if piece.text] for side in pieces)


# -- the trend -----------------------------------------------------------------------------------------


def _points(evaluation: Evaluation, figure: str) -> list[Point]:
    """Return the figure in the last runs; none if fewer than two have it."""
    runs = [*evaluation.trend, evaluation.summary]
    known = [(run, value) for run in runs if (value := run.value(figure)) is not None][-RUNS:]
    if len(known) < 2:
        return []
    low, high = min(value for _, value in known), max(value for _, value in known)
    points = []
    for place, (run, value) in enumerate(known):
        x = WIDTH * place / (len(known) - 1)
        y = HEIGHT * (1 - (value - low) / (high - low)) if high > low else HEIGHT / 2
        points.append(Point(round(x, 1), round(y, 1), value, run.asked_at, run.gate.verdict == "failed"))
    return points
