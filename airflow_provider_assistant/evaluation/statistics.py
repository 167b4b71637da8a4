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
        return Interval(mean, None, None)
    value = np.asarray(values, dtype=float)
    weight = np.asarray(weights, dtype=float)
    if np.ptp(value) == 0:
        # All values are equal, so all resamples would be too.
        return Interval(mean, mean, mean)
    effective_size = float(weight.sum() ** 2 / (weight**2).sum())
    tail = _tail(max(effective_size, 2.0))
    low, high = np.quantile(_resampled_means(value, weight), [tail, 1 - tail])
    return Interval(mean, float(low), float(high))


def _resampled_means(value: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    seed = hashlib.sha256(value.tobytes() + weight.tobytes()).digest()
    random = np.random.default_rng(np.frombuffer(seed, dtype=np.uint32))
    size = len(value)
    is_weighted = bool(np.ptp(weight))
    weighted = value * weight
    mean = weighted.sum() / weight.sum()
    means = np.empty(RESAMPLES)
    step = max(1, CHUNK // size)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        drawn = random.integers(0, size, size=(count, size))
        if not is_weighted:
            means[start : start + count] = value.take(drawn).mean(axis=1)
            continue
        totals = weight.take(drawn).sum(axis=1)
        sums = weighted.take(drawn).sum(axis=1)
        # A resample with a total weight of 0 has no mean: use the mean of all values.
        is_empty = totals <= 0
        totals[is_empty] = 1
        sums[is_empty] = mean
        means[start : start + count] = sums / totals
    return means


def _tail(size: float) -> float:
    """Return the share of resamples to cut off at each end."""
    normal = NormalDist()
    freedom = size - 1
    z = normal.inv_cdf((1 + CONFIDENCE) / 2)
    # Student's quantile by the Cornish-Fisher expansion; the error is below 1 % from six values on.
    student = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return normal.cdf(-student * (size / freedom) ** 0.5)
