"""Select the questions that changed most, with the answers of both evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.failing import Some
from airflow_provider_assistant.evaluation.report import word_diff
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
    changes_by_key = _changes_by_key(evaluation.summary)
    cases_now = _answered_cases_by_unit(evaluation.cases)
    cases_before = _answered_cases_by_unit(evaluation.baseline_cases)
    keys = [key for key in changes_by_key if key in cases_now and key in cases_before]
    # The greatest change first; equal changes by key.
    keys.sort()
    keys.sort(key=lambda key: _total_change(changes_by_key[key].values()), reverse=True)
    shown = keys[:MAX_PAIRS]
    rows = [_pair(cases_now[key], cases_before[key], changes_by_key[key]) for key in shown]
    return Some(rows, more=len(keys) - len(rows))


def _changes_by_key(summary: Summary) -> dict[str, dict[str, Change]]:
    """Return the changed scores by the key of the question, and by scorer."""
    changes_by_key: dict[str, dict[str, Change]] = {}
    if summary.comparison is None:
        return changes_by_key
    for name, difference in summary.comparison.scorers.items():
        scorer = summary.scorers.get(name)
        # Only scores from 0 to 1 have a histogram.
        has_histogram = scorer is not None and bool(scorer.histogram)
        if name != PAIRWISE and not has_histogram:
            continue
        for change in (*difference.worst, *difference.best):
            changes_by_key.setdefault(change.key, {})[name] = change
    return changes_by_key


def _total_change(changes: Iterable[Change]) -> float:
    return sum(abs(change.after - change.before) for change in changes)


def _pair(cases_now: Sequence[Case], cases_before: Sequence[Case], changes: Mapping[str, Change]) -> AnswerPair:
    """Return the pair to show of the repetitions of one question, or of the turns of a conversation."""
    candidates = list(product(cases_now, cases_before))
    new, old = min(candidates, key=_preference)
    before, after = word_diff.compare(old.answer or "", new.answer or "")
    return AnswerPair(case=new, changes=changes, before=before, after=after)


def _preference(candidate: tuple[Case, Case]) -> tuple[bool, bool, bool]:
    """Return the sort key of a pair: the same turn, then different answers, then those of the same repetition."""
    new, old = candidate
    return new.key != old.key, new.answer == old.answer, new.repetition != old.repetition


def _answered_cases_by_unit(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Return the repetitions and turns with an answer, by the key of the question or conversation."""
    cases_by_key: dict[str, list[Case]] = {}
    for case in cases:
        if case.answer is not None:
            cases_by_key.setdefault(case.unit, []).append(case)
    return cases_by_key
