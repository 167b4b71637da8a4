"""Nights of an assistant whose answers vary, and the verdicts of a gate on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_assistant.evaluation.baseline import compared_runs
from airflow_provider_assistant.evaluation.change import TOGETHER, mean_change
from airflow_provider_assistant.evaluation.gate import check_rules
from airflow_provider_assistant.evaluation.rules import parse_rule
from airflow_provider_assistant.evaluation.run_directory import COMPARED_RUNS
from tests.unit.evaluation.test_gate import comparison, difference, scorer, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Kinds of scores: a check passes or fails, a judge gives one of five grades, token_f1 any share.
KINDS = ("check", "judge", "token_f1")
# How the answers that vary are chosen: always the same questions, or others each night.
NOISES = ("the same questions", "any question")
# Level of the questions that do not vary.
_BETA = {"token_f1": (2, 1.2), "judge": (4, 1)}


def nights(
    generator: np.random.Generator,
    kind: str,
    noise: str,
    *,
    questions: int,
    varying: float,
    losses: Sequence[float],
) -> NDArray[np.float64]:
    """
    Return the scores, a row per night.

    :param varying: Share of the answers that vary from night to night.
    :param losses: By how much the mean is at least lower on each night: some questions always score 0 then.
    """
    shape = (len(losses), questions)
    if kind == "check":
        usual = (generator.random(questions) < 0.85).astype(float)
        # Answers that are right on half of the nights vary most.
        level = 0.5 if noise == "the same questions" else 0.85
        other = (generator.random(shape) < level).astype(float)
    else:
        usual = generator.beta(*_BETA[kind], questions)
        other = generator.beta(*_BETA[kind], shape)
    varies = generator.random(questions if noise == "the same questions" else shape) < varying
    scores = np.where(varies, other, usual)
    if kind == "judge":
        scores = np.round(scores * 4) / 4
    order = generator.permutation(questions)
    contributions = scores.mean(axis=0)[order] / questions
    lost_before = np.cumsum(contributions) - contributions
    for night, loss in enumerate(losses):
        scores[night, order[lost_before < loss]] = 0
    return scores


def reds(scores: NDArray[np.float64], rules: Sequence[str] = ("x drop <= 0.02",)) -> NDArray[np.bool_]:
    """Return which nights the gate fails. It compares with the nights before, as ``baseline="previous"`` does."""
    parsed = [parse_rule(rule) for rule in rules]
    red = np.zeros(len(scores), dtype=bool)
    for night in range(1, len(scores)):
        flags = list(compared_runs(red[:night][::-1].tolist()))
        compared = [night - 1 - position for position, flag in enumerate(flags) if flag][:COMPARED_RUNS]
        last = range(max(night - TOGETHER + 1, 0), night)
        older = [earlier for earlier in compared if earlier not in last]
        change = mean_change(
            scores[night], scores[compared], scores[list(last)], scores[older], np.ones(scores.shape[1])
        )
        summary = _summary(change, len(compared))
        red[night] = any(verdict.is_worse for verdict in check_rules(parsed, summary))
    return red


def longest_run(red: NDArray[np.bool_]) -> int:
    """Return the greatest number of red nights in a row."""
    text = "".join("r" if one else " " for one in red)
    return max(map(len, text.split()), default=0)


def _summary(change, runs):
    facts = {"freedom": change.freedom, "together": change.together, "together_error": change.together_error}
    found = difference(change.mean, change.error, change.compared, **facts)
    compared = comparison({"x": found}).model_copy(update={"runs": runs})
    return summary(scorers={"x": scorer(1)}, comparison=compared)
