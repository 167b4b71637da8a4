"""One definition of a percentile, wherever one is shown."""

from __future__ import annotations

import numpy as np
import pytest

from airflow_provider_assistant.quantiles import percentiles

PERCENTS = [0, 5, 25, 50, 75, 90, 95, 99, 100]


@pytest.mark.parametrize("count", [1, 2, 3, 20, 101])
def test_percentiles_are_those_of_numpy(count):
    for seed in range(4):
        values = list(map(float, np.random.default_rng(seed).lognormal(sigma=2, size=count).round(seed % 4)))
        assert percentiles(values, PERCENTS) == pytest.approx(list(np.percentile(values, PERCENTS)), rel=1e-12)


def test_whole_numbers_give_floats():
    assert percentiles([3, 1, 2], [0, 50, 75, 100]) == [1.0, 2.0, 2.5, 3.0]
    assert all(isinstance(value, float) for value in percentiles([3, 1, 2], [0, 50, 100]))
