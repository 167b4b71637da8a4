"""Simulate the gate: ``python -m tests.unit.evaluation.false_alarms`` prints the table of the docs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.unit.evaluation.nights import KINDS, NOISES, longest_run, nights, reds

SEED = 20261125
# Nights of a series before anything is counted.
BEFORE = 28
SIZES = {50: 0.1, 100: 0.1, 200: 0.05, 400: 0.05}


class Rates(NamedTuple):
    """
    What happened in the simulated series of nights.

    :param red: Share of red nights if nothing changes.
    :param longest: Share of the series of 200 nights with more than three red nights in a row.
    :param found: Share of the losses that were red within three nights.
    :param drift: Share of the drifts by 0.3 points a night that were red within 30 nights.
    :param green: Share of the repairs that were green within three nights.
    """

    red: float
    longest: float
    found: float
    drift: float
    green: float


def rates(kind: str, noise: str, questions: int, varying: float, *, series: int, losses: int) -> Rates:
    """Simulate a number of series of 200 nights in which nothing changes, and a number of losses."""
    generator = np.random.default_rng([SEED, KINDS.index(kind), NOISES.index(noise), questions, round(varying * 100)])

    def simulate(losses: list[float]) -> np.ndarray:
        scores = nights(generator, kind, noise, questions=questions, varying=varying, losses=[0.0] * BEFORE + losses)
        return reds(scores)[BEFORE:]

    unchanged = [simulate([0.0] * 200) for _ in range(series)]
    repaired = [simulate([SIZES[questions]] * 6 + [0.0] * 3) for _ in range(losses)]
    drifting = [simulate([0.003 * night for night in range(1, 31)]) for _ in range(losses)]
    return Rates(
        red=float(np.mean(unchanged)),
        longest=float(np.mean([longest_run(red) > 3 for red in unchanged])),
        found=float(np.mean([red[:3].any() for red in repaired])),
        drift=float(np.mean([red.any() for red in drifting])),
        green=float(np.mean([not red[6:].all() for red in repaired])),
    )


if __name__ == "__main__":
    for kind in KINDS:
        for noise in NOISES:
            for questions in SIZES:
                for varying in (0.1, 0.2, 0.4):
                    found = rates(kind, noise, questions, varying, series=20, losses=100)
                    print(kind, noise, questions, varying, *(f"{value:.3f}" for value in found), sep=" | ", flush=True)
