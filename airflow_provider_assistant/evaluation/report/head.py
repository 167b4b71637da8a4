"""The head of the report: worse or not, since when, in which tags, and which questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.excerpts import verdict_word
from airflow_provider_assistant.evaluation.failing import Some
from airflow_provider_assistant.evaluation.report import formats
from airflow_provider_assistant.evaluation.report.sections import MAX_RUNS, TagLoss, tag_losses
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.report.cards import Cards
    from airflow_provider_assistant.evaluation.summary import Summary
    from airflow_provider_assistant.evaluation.verdict import RuleVerdict

MAX_NAMED = 8
MAX_TAGS = 5
_SIGNS = {"passed": "✓", "failed": "✗"}
_EFFECTS = {
    "fail": "The task fails.",
    "skip_downstream": "The task succeeds, and the tasks after it are skipped.",
    "report": "The task succeeds, because the gate only reports.",
}


@dataclass(frozen=True, slots=True)
class Named:
    """
    A question by its key.

    :param anchor: Id of its card in the page, or None if it has none.
    """

    key: str
    anchor: str | None


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule of the gate, with the questions that failed it."""

    verdict: RuleVerdict
    sign: str
    questions: Some[Named]


@dataclass(frozen=True, slots=True)
class Head:
    """
    What the first screen of the report says.

    :param word: The verdict, such as ``worse``.
    :param effect: The number of rules by verdict, and what the verdict does.
    :param since: Since when the gate fails; None if it does not.
    :param losses: Tags that lost against the baseline.
    :param lowest: Tags with the lowest pass rate, if no tag lost.
    :param newly_failing: Questions that passed in the baseline; None without a baseline.
    :param rules: The rules that did not pass, failed ones first.
    :param passed: The rules that passed.
    """

    word: str
    sign: str
    effect: str
    since: str | None
    losses: Some[TagLoss]
    lowest: Some[str]
    newly_failing: Some[Named] | None
    rules: Sequence[RuleRow]
    passed: Sequence[RuleRow]


def head_of(summary: Summary, runs: Sequence[Summary], cards: Cards) -> Head:
    """
    Return the head of the report.

    :param runs: The last evaluations, oldest first, ending with the current one.
    """
    anchors = cards.anchors
    losses = tag_losses(summary)
    lowest = [] if losses else _lowest(summary)
    newly_failing = None
    if summary.newly_failing:
        keys = summary.newly_failing.keys
        newly_failing = _named(keys, summary.newly_failing.count, anchors)
    rules = [_row(rule, anchors) for rule in summary.gate.rules]
    not_passed = [row for row in rules if row.verdict.verdict != "passed"]
    not_passed.sort(key=lambda row: row.verdict.verdict != "failed")
    return Head(
        word=verdict_word(summary.gate).capitalize(),
        sign=_SIGNS.get(summary.gate.verdict, ""),
        effect=_effect(summary),
        since=_since(runs),
        losses=Some.first(losses, MAX_TAGS),
        lowest=Some.first(lowest, MAX_TAGS),
        newly_failing=newly_failing,
        rules=not_passed,
        passed=[row for row in rules if row.verdict.verdict == "passed"],
    )


def _effect(summary: Summary) -> str:
    gate = summary.gate
    if gate.verdict == "none":
        return "There are no rules, so the figures are not judged."
    words = Counter(rule.word for rule in gate.rules)
    counts = ", ".join(f"{number} {word}" for word, number in words.most_common())
    text = f"{counted(len(gate.rules), 'rule')}: {counts}."
    # A command has no task.
    if summary.run:
        text += " " + (_EFFECTS[gate.on_fail] if gate.verdict == "failed" else "The task succeeds.")
    return text


def _since(runs: Sequence[Summary]) -> str | None:
    """Return since when the gate fails."""
    if runs[-1].gate.verdict != "failed":
        return None
    red = 0
    for run in reversed(runs):
        if run.gate.verdict != "failed":
            break
        red += 1
    first = formats.moment(runs[-red].asked_at)
    if red == len(runs) == 1:
        return f"{first}, the first evaluation."
    if red == len(runs) == MAX_RUNS:
        return f"{first} or before: the last {red} evaluations failed."
    if red == len(runs):
        return f"{first}: all {red} evaluations failed."
    green = formats.moment(runs[-red - 1].asked_at)
    if red == 1:
        return f"{first}, this evaluation. The one before, of {green}, did not fail."
    return f"{first}: {red} evaluations in a row. The one before, of {green}, did not fail."


def _lowest(summary: Summary) -> list[str]:
    """Return the tags in which questions failed, those with the lowest pass rate first."""
    rates = {tag: figures.pass_rate for tag, figures in summary.tags.items()}
    failing = {tag: rate for tag, rate in rates.items() if rate is not None and rate < 1}
    return sorted(failing, key=lambda tag: (failing[tag], tag))


def _row(rule: RuleVerdict, anchors: Mapping[str, str]) -> RuleRow:
    keys = [question.key for question in rule.questions]
    # Only a rule that did not pass names its questions.
    if rule.verdict == "passed":
        keys = []
    return RuleRow(rule, _SIGNS.get(rule.verdict, "?"), _named(keys, rule.concerned if keys else 0, anchors))


def _named(keys: Sequence[str], count: int, anchors: Mapping[str, str]) -> Some[Named]:
    rows = [Named(key, anchors.get(key)) for key in keys[:MAX_NAMED]]
    return Some(rows, more=max(0, max(count, len(keys)) - len(rows)))
