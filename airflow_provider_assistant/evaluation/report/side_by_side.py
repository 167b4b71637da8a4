"""Select the questions that changed most, with the answers of both evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.report import word_diff
from airflow_provider_assistant.evaluation.report.sections import Some
from airflow_provider_assistant.evaluation.rules import PAIRWISE

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.summary import Change, Summary

MAX_PAIRS = 20


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """
    A question with the answers of both evaluations.

    :param case: The question.
    :param changes: Its changed scores, by scorer.
    :param before: The answer of the baseline.
    :param after: The answer of this evaluation.
    """

    case: Case
    changes: Mapping[str, Change]
    before: word_diff.Side
    after: word_diff.Side


def pairs(summary: Summary, cases: Iterable[Case], baseline_cases: Sequence[Case]) -> Some[AnswerPair]:
    """
    Return the questions whose scores changed most, the greatest change first.

    A change is that of the scores from 0 to 1, and of the better answer. Of a repeated question, two different answers
    are shown, of the same repetition if possible.

    :param summary: The summary of the evaluation.
    :param cases: The questions.
    :param baseline_cases: The questions with the answers of the baseline; empty if they are not known.
    """
    if summary.comparison is None or not baseline_cases:
        return Some([], 0)
    changes: dict[str, dict[str, Change]] = {}
    for name, found in summary.comparison.scorers.items():
        if name == PAIRWISE or (name in summary.scorers and summary.scorers[name].histogram):
            for change in (*found.worst, *found.best):
                changes.setdefault(change.key, {})[name] = change
    now, before = _answered(cases), _answered(baseline_cases)
    ranked = sorted(
        (key for key in changes if key in now and key in before),
        key=lambda key: (-sum(abs(one.after - one.before) for one in changes[key].values()), key),
    )
    shown = [_pair(now[key], before[key], changes[key]) for key in ranked[:MAX_PAIRS]]
    return Some(shown, len(ranked) - len(shown))


def _pair(now: Sequence[Case], before: Sequence[Case], changes: Mapping[str, Change]) -> AnswerPair:
    pairs = sorted(
        ((old, new) for new in now for old in before), key=lambda pair: pair[0].repetition != pair[1].repetition
    )
    old, new = next(((old, new) for old, new in pairs if old.answer != new.answer), pairs[0])
    return AnswerPair(new, changes, *word_diff.compare(old.answer or "", new.answer or ""))


def _answered(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Return the questions with an answer, by key."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.answer is not None:
            found.setdefault(case.key, []).append(case)
    return found
