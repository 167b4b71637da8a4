"""Figures of repeated questions: the worst repetition, and how much the answers to one question differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.change import NO_CHANGE
from airflow_provider_assistant.evaluation.scored import Passed, Scored, by_question
from airflow_provider_assistant.evaluation.statistics import interval, weighted_mean
from airflow_provider_assistant.evaluation.summary import RepeatedScorer, Repetitions
from airflow_provider_assistant.evaluation.text import normalise


def repetitions_of(
    cases: Sequence[Case],
    by_scorer: Mapping[str, Sequence[Scored]],
    higher_is_better: Mapping[str, bool],
    passed: Passed,
) -> Repetitions | None:
    """Return the figures of the repetitions, or None if every question was asked once."""
    if all(case.repetition == 1 for case in cases):
        return None
    answers_by_key: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        if case.answer is not None:
            answers_by_key[case.key].append(case.answer)
    verdicts_by_key: dict[str, list[bool]] = defaultdict(list)
    for (key, _repetition), verdict in passed.items():
        if verdict is not None:
            verdicts_by_key[key].append(verdict)
    # One answer cannot differ from another, nor one verdict.
    repeated_answers = [answers for answers in answers_by_key.values() if len(answers) > 1]
    repeated_verdicts = [verdicts for verdicts in verdicts_by_key.values() if len(verdicts) > 1]
    scorers = {}
    for name, rows in by_scorer.items():
        scorers[name] = _scorer(rows, higher_is_better=higher_is_better[name])
    return Repetitions(
        most=max(case.repetition for case in cases),
        questions=len({case.key for case in cases}),
        repeated=len(repeated_answers),
        disagreement=_share_of_true([disagree(answers) for answers in repeated_answers]),
        unstable=_share_of_true([len(set(verdicts)) > 1 for verdicts in repeated_verdicts]),
        scorers=scorers,
    )


def disagree(answers: Iterable[str]) -> bool:
    """Return whether answers differ after normalisation."""
    return len({normalise(text) for text in answers}) > 1


def _scorer(rows: Sequence[Scored], *, higher_is_better: bool) -> RepeatedScorer:
    scores_by_key: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.score is not None:
            scores_by_key[row.key].append(row.score)
    worst_of = min if higher_is_better else max
    means: list[float] = []
    worst_scores: list[float] = []
    weights: list[float] = []
    for row in by_question(rows):
        if row.score is not None:
            means.append(row.score)
            worst_scores.append(worst_of(scores_by_key[row.key]))
            weights.append(row.weight)
    repeated_scores = [scores for scores in scores_by_key.values() if len(scores) > 1]
    are_varying = [max(scores) - min(scores) > NO_CHANGE for scores in repeated_scores]
    mean = interval(means, weights)
    return RepeatedScorer(
        mean=mean.mean,
        low=mean.low,
        high=mean.high,
        worst=weighted_mean(worst_scores, weights),
        varying=_share_of_true(are_varying),
    )


def _share_of_true(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
