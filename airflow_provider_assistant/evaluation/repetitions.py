"""Figures of repeated questions: the worst repetition, and how much the answers to one question differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from airflow_provider_assistant.evaluation.case import Case, Identity
from airflow_provider_assistant.evaluation.comparison import NO_CHANGE, Scored, by_question
from airflow_provider_assistant.evaluation.statistics import interval, weighted_mean
from airflow_provider_assistant.evaluation.summary import RepeatedScorer, Repetitions
from airflow_provider_assistant.evaluation.text import normalise

# Whether each answer passes; None if it was not judged. Empty without a condition.
Passed: TypeAlias = Mapping[Identity, bool | None]


def repetitions_of(
    cases: Sequence[Case],
    by_scorer: Mapping[str, Sequence[Scored]],
    higher_is_better: Mapping[str, bool],
    passed: Passed,
) -> Repetitions | None:
    """Return the figures of the repetitions, or None if every question was asked once."""
    if all(case.repetition == 1 for case in cases):
        return None
    answers: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        if case.answer is not None:
            answers[case.key].append(case.answer)
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for (key, _), verdict in passed.items():
        if verdict is not None:
            verdicts[key].append(verdict)
    repeated = [texts for texts in answers.values() if len(texts) > 1]
    judged = [found for found in verdicts.values() if len(found) > 1]
    scorers = {}
    for name, rows in by_scorer.items():
        scorers[name] = _scorer(rows, higher_is_better=higher_is_better[name])
    return Repetitions(
        most=max(case.repetition for case in cases),
        questions=len({case.key for case in cases}),
        repeated=len(repeated),
        disagreement=_share([disagree(texts) for texts in repeated]),
        unstable=_share([len(set(found)) > 1 for found in judged]),
        scorers=scorers,
    )


def disagree(answers: Iterable[str]) -> bool:
    """Return whether answers differ after normalisation."""
    return len({normalise(text) for text in answers}) > 1


def _scorer(rows: Sequence[Scored], *, higher_is_better: bool) -> RepeatedScorer:
    means: list[float] = []
    weights: dict[str, float] = {}
    for row in by_question(rows):
        if row.score is not None:
            means.append(row.score)
            weights[row.key] = row.weight
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.score is not None:
            scores[row.key].append(row.score)
    worst_of = min if higher_is_better else max
    worst = [worst_of(scores[key]) for key in weights]
    repeated = [found for found in scores.values() if len(found) > 1]
    mean = interval(means, list(weights.values()))
    return RepeatedScorer(
        mean=mean.mean,
        low=mean.low,
        high=mean.high,
        worst=weighted_mean(worst, list(weights.values())),
        varying=_share([max(found) - min(found) > NO_CHANGE for found in repeated]),
    )


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None
