"""Select the questions that changed most, with the answers of both evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.report import word_diff
from airflow_provider_assistant.evaluation.report.sections import Some
from airflow_provider_assistant.evaluation.rules import PAIRWISE

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import Change, Summary

MAX_PAIRS = 20


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """
    A question with the answers of both evaluations.

    :param changes: Its changed scores, by scorer.
    """

    case: Case
    changes: Mapping[str, Change]
    before: word_diff.Side
    after: word_diff.Side


def pairs(evaluation: Evaluation) -> Some[AnswerPair]:
    """
    Return the questions whose scores changed most, the greatest change first.

    A change is that of the scores from 0 to 1, and of the better answer. Of a repeated question, two different answers
    are shown, of the same repetition if possible.
    """
    changes = _changes(evaluation.summary)
    now = _answered(evaluation.cases)
    before = _answered(evaluation.baseline_cases)
    ranked = [key for key in changes if key in now and key in before]
    ranked.sort(key=lambda key: (-_size(changes[key].values()), key))
    shown = [_pair(now[key], before[key], changes[key]) for key in ranked[:MAX_PAIRS]]
    return Some(shown, len(ranked) - len(shown))


def _changes(summary: Summary) -> dict[str, dict[str, Change]]:
    """Return the changed scores by key and scorer."""
    changes: dict[str, dict[str, Change]] = {}
    compared = summary.comparison.scorers if summary.comparison else {}
    for name, difference in compared.items():
        scorer = summary.scorers.get(name)
        if name == PAIRWISE or (scorer and scorer.histogram):
            for change in (*difference.worst, *difference.best):
                changes.setdefault(change.key, {})[name] = change
    return changes


def _size(changes: Iterable[Change]) -> float:
    return sum(abs(change.after - change.before) for change in changes)


def _pair(now: Sequence[Case], before: Sequence[Case], changes: Mapping[str, Change]) -> AnswerPair:
    answers = list(product(now, before))
    # Different answers first, and among these, the same repetition.
    answers.sort(key=lambda pair: pair[0].repetition != pair[1].repetition)
    answers.sort(key=lambda pair: pair[0].answer == pair[1].answer)
    new, old = answers[0]
    was, now_is = word_diff.compare(old.answer or "", new.answer or "")
    return AnswerPair(new, changes, was, now_is)


def _answered(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Return the questions with an answer, by key."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.answer is not None:
            found.setdefault(case.key, []).append(case)
    return found
