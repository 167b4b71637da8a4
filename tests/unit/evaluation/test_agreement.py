"""Cohen's kappa and its interval, against published examples and its definition."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from airflow_provider_assistant.evaluation.agreement import agreement, lower
from airflow_provider_assistant.evaluation.summary import Agreement


def pairs(both_pass, only_human, only_judge, both_fail):
    return [
        *[(True, 1.0)] * both_pass,
        *[(True, 0.0)] * only_human,
        *[(False, 1.0)] * only_judge,
        *[(False, 0.0)] * both_fail,
    ]


@pytest.mark.promise("evaluation", "The agreement with people is Cohen's kappa.")
@pytest.mark.parametrize(
    ("cells", "kappa"),
    [
        # The example of Wikipedia, "Cohen's kappa": 50 grant proposals.
        ((20, 5, 10, 15), 0.4),
        # The pair of tables there with the same observed agreement and different margins.
        ((45, 15, 25, 15), 0.1304),
        ((25, 35, 5, 35), 0.2593),
        # Feinstein and Cicchetti 1990, tables 1 and 2: the first paradox, high agreement and low kappa.
        ((40, 9, 6, 45), 0.70),
        ((80, 10, 5, 5), 0.32),
    ],
)
def test_published_examples(cells, kappa):
    assert agreement(pairs(*cells)).kappa == pytest.approx(kappa, abs=0.005)


def test_kappa_is_the_agreement_beyond_chance_in_any_order():
    rng = random.Random(59)
    for _ in range(100):
        found = [(rng.random() < 0.7, rng.choice([0, 0.25, 0.5, 1])) for _ in range(rng.randint(1, 40))]
        one = agreement(found)
        assert one == agreement(reversed(found))
        distances = [abs(label - Fraction(score)) for label, score in found]
        crossed = [abs(label - Fraction(score)) for label, _ in found for _, score in found]
        by_chance = sum(crossed) / len(crossed)
        if by_chance == 0:
            assert one == Agreement(labels=len(found))
        else:
            assert one.kappa == pytest.approx(float(1 - sum(distances) / len(found) / by_chance), abs=1e-9)
            assert -1 <= one.low <= one.kappa <= one.high <= 1
    assert agreement([]) == Agreement(labels=0)


def test_the_lowest_interval_counts_where_a_judge_decides_in_two_ways():
    undefined = Agreement(labels=3)
    low = Agreement(labels=3, kappa=0.9, low=0.1, high=1.0)
    high = Agreement(labels=3, kappa=0.5, low=0.4, high=0.6)
    assert lower([high, low]) == low
    assert lower([high, low, undefined]) == undefined


# The share of labels that pass, and how often the judge is right about what passes and what fails.
WORLDS = [(0.5, 1.0, 1.0), (0.5, 0.99, 0.99), (0.75, 0.97, 0.97), (0.5, 0.9, 0.9), (0.75, 1.0, 0.8), (0.75, 0.7, 0.7)]


@pytest.mark.promise("evaluation", "The interval of the agreement holds also for few labels without a disagreement.")
@pytest.mark.parametrize("size", [20, pytest.param(50, marks=pytest.mark.nightly)])
def test_the_interval_covers_the_truth_in_93_of_100_cases(size):
    """In every world, also where most samples have no disagreement. 3 % is the noise of 150."""
    rng = np.random.default_rng(20261125)
    for share, right_if_pass, right_if_fail in WORLDS:
        shares = [share * right_if_pass, share * (1 - right_if_pass)]
        shares += [(1 - share) * (1 - right_if_fail), (1 - share) * right_if_fail]
        counts = [round(part * 10_000) for part in shares]
        truth = agreement(pairs(*counts)).kappa
        cells, times = np.unique(rng.multinomial(size, shares, size=150), axis=0, return_counts=True)
        covered = 0
        for counts, number in zip(cells.tolist(), times, strict=True):
            found = agreement(pairs(*counts))
            covered += number * (found.low is None or found.low <= truth <= found.high)
        assert covered / 150 >= 0.93 - 0.03, (share, right_if_pass, right_if_fail, covered / 150)
