"""Means, quantiles, histograms and confidence intervals."""

from __future__ import annotations

import hashlib
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.summary import HISTOGRAM_BINS, Distribution
from airflow_provider_assistant.quantiles import percentiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 2000
# Maximum of questions times resamples in memory, 16 bytes each.
CHUNK = 250_000


class Interval(NamedTuple):
    """
    A mean with its confidence interval.

    :param mean: None without values or if all weights are 0.
    :param low: Lower end. None for a single value, which has no interval.
    """

    mean: float | None
    low: float | None
    high: float | None


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """Return the weighted mean, or None without values or if all weights are 0."""
    import numpy as np

    if not values or not any(weights):
        return None
    return float(np.average(values, weights=weights))


def distribution(values: Sequence[float]) -> Distribution:
    """Return the quantiles, interpolated linearly. Without values, all of them are None."""
    if not values:
        return Distribution(count=0)
    p5, p25, p50, p75, p90, p95, p99 = percentiles(values, (5, 25, 50, 75, 90, 95, 99))
    return Distribution(
        count=len(values),
        minimum=min(values),
        p5=p5,
        p25=p25,
        p50=p50,
        p75=p75,
        p90=p90,
        p95=p95,
        p99=p99,
        maximum=max(values),
    )


def histogram(shares: Sequence[float]) -> list[int]:
    """Return the counts in ``HISTOGRAM_BINS`` equal bins from 0 to 1. The last bin includes 1."""
    import numpy as np

    counts, _ = np.histogram(np.clip(shares, 0, 1), bins=HISTOGRAM_BINS, range=(0, 1))
    return [int(count) for count in counts]


def interval(values: Sequence[float], weights: Sequence[float]) -> Interval:
    """
    Return the weighted mean with its bootstrap confidence interval. The same values give the same interval.

    This is the percentile interval, with percentiles moved outwards by the ratio of Student's t to the normal
    distribution. The plain percentile interval is too narrow for small samples (Hesterberg 2015, section 4.3).
    """
    import numpy as np

    mean = weighted_mean(values, weights)
    if mean is None or len(values) == 1:
        return Interval(mean, low=None, high=None)
    value_array = np.asarray(values, dtype=float)
    weight_array = np.asarray(weights, dtype=float)
    if np.ptp(value_array) == 0:
        # All values are equal, so all resamples would be too.
        return Interval(mean, low=mean, high=mean)
    # Kish's effective sample size: with unequal weights, the values say less than their number.
    effective_size = float(weight_array.sum() ** 2 / (weight_array**2).sum())
    tail = _tail(max(effective_size, 2.0))
    means = _resampled_means(value_array, weight_array)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(mean, low=float(low), high=float(high))


def _resampled_means(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    import numpy as np

    # The values are the seed, so the same values give the same resamples.
    seed = hashlib.sha256(values.tobytes() + weights.tobytes()).digest()
    generator = np.random.default_rng(np.frombuffer(seed, dtype=np.uint32))
    size = len(values)
    has_weights = bool(np.ptp(weights))
    weighted_values = values * weights
    overall_mean = weighted_values.sum() / weights.sum()
    means = np.empty(RESAMPLES)
    step = max(1, CHUNK // size)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        positions = generator.integers(0, size, size=(count, size))
        if not has_weights:
            means[start : start + count] = values.take(positions).mean(axis=1)
            continue
        totals = weights.take(positions).sum(axis=1)
        sums = weighted_values.take(positions).sum(axis=1)
        # A resample with a total weight of 0 has no mean: use the mean of all values.
        is_empty = totals <= 0
        totals[is_empty] = 1
        sums[is_empty] = overall_mean
        means[start : start + count] = sums / totals
    return means


def _tail(size: float) -> float:
    """
    Return the share of resamples to cut off at each end.

    :param size: Effective number of values.
    """
    normal = NormalDist()
    freedom = size - 1
    z = normal.inv_cdf((1 + CONFIDENCE) / 2)
    # Student's quantile by the Cornish-Fisher expansion; the error is below 1 % from six values on.
    first_term = (z**3 + z) / (4 * freedom)
    second_term = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    student = z + first_term + second_term
    return normal.cdf(-student * (size / freedom) ** 0.5)
