"""Means, quantiles, histograms, and the coverage of the confidence intervals."""

from __future__ import annotations

import numpy as np
import pytest

from airflow_provider_assistant.evaluation import statistics


def test_a_mean_is_weighted():
    assert statistics.weighted_mean([1.0, 0.0], [3.0, 1.0]) == 0.75
    assert statistics.weighted_mean([], []) is None
    assert statistics.weighted_mean([1.0], [0.0]) is None


def test_quantiles_are_those_of_numpy():
    values = list(np.random.default_rng(1).random(101))
    found = statistics.distribution(values)
    assert found.count == 101
    assert (found.minimum, found.maximum) == (min(values), max(values))
    for percent in (5, 25, 50, 75, 90, 95, 99):
        assert getattr(found, f"p{percent}") == pytest.approx(np.percentile(values, percent), abs=1e-12)


def test_nothing_has_no_quantiles():
    assert statistics.distribution([]).model_dump(exclude_none=True) == {"count": 0}


def test_a_histogram_counts_every_score_once():
    assert statistics.histogram([0.0, 0.049, 0.05, 0.999, 1.0]) == [2, 1, *[0] * 16, 0, 2]
    assert statistics.histogram([]) == [0] * 20


def scores(random: np.random.Generator, size: int, wrong: float) -> np.ndarray:
    """Realistic scores: 0, 1, or a value in between."""
    kind = random.choice(3, size=size, p=[wrong, 0.65 - wrong, 0.35])
    return np.select([kind == 0, kind == 1], [0.0, 1.0], random.beta(3, 2, size))


def differences(random: np.random.Generator, size: int) -> list[float]:
    """A version with new answers to 40 % of the questions, 5 % of them worse: a loss of 0.02."""
    before = scores(random, size, wrong=0.20)
    after = np.where(random.random(size) < 0.6, before, scores(random, size, wrong=0.25))
    return list(after - before)


@pytest.mark.parametrize(("size", "weights"), [(50, [1.0, 2.0, 5.0]), (300, [1.0])])
def test_the_interval_holds_the_truth_as_often_as_it_says(size, weights):
    random = np.random.default_rng(20261121)
    held = 0
    for _ in range(1000):
        found = statistics.interval(differences(random, size), list(random.choice(weights, size)))
        held += found.low <= -0.02 <= found.high
    assert 930 <= held <= 970


def test_where_nothing_varies_yet_the_interval_is_no_point():
    for size, width in ((5, 0.8), (50, 0.1), (1000, 0.01)):
        mean, low, high = statistics.interval([0.25] * size, [1.0] * size)
        assert mean == 0.25
        assert high - low > 0
        assert (high - low) / 2 < width


def test_one_value_has_no_interval():
    assert statistics.interval([0.25], [1.0]) == (0.25, None, None)


def test_nothing_has_no_interval():
    assert statistics.interval([], []) == (None, None, None)
