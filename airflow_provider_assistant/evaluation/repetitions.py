"""Figures of repeated questions: the worst repetition, and how much the answers to one question differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_assistant.evaluation.comparison import NO_CHANGE, Scored, by_question
from airflow_provider_assistant.evaluation.statistics import interval, weighted_mean
from airflow_provider_assistant.evaluation.summary import RepeatedScorer, Repetitions
from airflow_provider_assistant.evaluation.text import normalise

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.cases import Case

Value = TypeVar("Value")


def repetitions_of(
    cases: Sequence[Case],
    by_scorer: Mapping[str, Sequence[Scored]],
    higher_is_better: Mapping[str, bool],
    passed: Mapping[tuple[str, int], bool | None],
) -> Repetitions | None:
    """
    Return the figures of the repetitions, or None if every question was asked once.

    :param cases: The questions.
    :param by_scorer: The rows of the table of scores by scorer.
    :param higher_is_better: Whether a higher score is better, by scorer.
    :param passed: Whether a repetition passes, by key and repetition; None if it was not judged. Empty without a
        condition.
    """
    if all(case.repetition == 1 for case in cases):
        return None
    answers = _grouped((case.key, case.answer) for case in cases)
    repeated = [texts for texts in answers.values() if len(texts) > 1]
    judged = [found for found in _grouped((key, one) for (key, _), one in passed.items()).values() if len(found) > 1]
    return Repetitions(
        most=max(case.repetition for case in cases),
        questions=len({case.key for case in cases}),
        repeated=len(repeated),
        disagreement=_share([disagree(texts) for texts in repeated]),
        unstable=_share([True in found and False in found for found in judged]),
        scorers={name: _scorer(rows, higher_is_better=higher_is_better[name]) for name, rows in by_scorer.items()},
    )


def disagree(answers: Iterable[str]) -> bool:
    """
    Return whether answers differ after normalisation.

    :param answers: The answers to one question.
    """
    return len({normalise(text) for text in answers}) > 1


def _scorer(rows: Sequence[Scored], *, higher_is_better: bool) -> RepeatedScorer:
    questions = [row for row in by_question(rows) if row.score is not None]
    weights = {row.key: row.weight for row in questions}
    scores = _grouped((row.key, row.score) for row in rows)
    worst = [(min if higher_is_better else max)(found) for found in scores.values()]
    found = interval([row.score for row in questions if row.score is not None], list(weights.values()))
    return RepeatedScorer(
        mean=found.mean if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        worst=weighted_mean(worst, [weights[key] for key in scores]),
        varying=_share([max(found) - min(found) > NO_CHANGE for found in scores.values() if len(found) > 1]),
    )


def _grouped(values: Iterable[tuple[str, Value | None]]) -> dict[str, list[Value]]:
    """Return the values by key, without None."""
    groups: dict[str, list[Value]] = {}
    for key, value in values:
        if value is not None:
            groups.setdefault(key, []).append(value)
    return groups


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None
