"""Nights of an assistant whose answers vary, and the verdicts of a gate on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_assistant.evaluation.compare import change
from airflow_provider_assistant.evaluation.gate import verdict_on_loss
from airflow_provider_assistant.evaluation.rules import parse_rule
from airflow_provider_assistant.evaluation.runs import COMPARED_RUNS, compared_runs

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


def reds(scores: NDArray[np.float64], rule: str = "x drop <= 0.02") -> NDArray[np.bool_]:
    """Return which nights the gate fails. It compares with the nights before, as ``baseline="previous"`` does."""
    parsed = parse_rule(rule)
    red = np.zeros(len(scores), dtype=bool)
    weights = np.ones(scores.shape[1])
    for night in range(1, len(scores)):
        flags = list(compared_runs(red[:night][::-1].tolist()))
        # As many runs as the evaluation reads: the last 28 to compare with.
        read = int(np.searchsorted(np.cumsum(flags), COMPARED_RUNS)) + 1
        earlier = scores[:night][::-1][:read]
        found = change(scores[night], earlier, flags[:read], weights)
        red[night] = verdict_on_loss(parsed, found).is_worse
    return red


def longest_run(red: NDArray[np.bool_]) -> int:
    """Return the greatest number of red nights in a row."""
    text = "".join("r" if one else " " for one in red)
    return max(map(len, text.split()), default=0)
