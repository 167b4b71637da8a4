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

    :param mean: The weighted mean.
    :param low: Lower end. None for a single value, which has no interval.
    :param high: Upper end. None for a single value.
    """

    mean: float
    low: float | None
    high: float | None


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """
    Return the weighted mean, or None without values or if all weights are 0.

    :param values: The values.
    :param weights: One weight per value.
    """
    import numpy as np

    return float(np.average(values, weights=weights)) if values and any(weights) else None


def distribution(values: Sequence[float]) -> Distribution:
    """
    Return the quantiles, interpolated linearly.

    :param values: The values. Without values, all quantiles are None.
    """
    if not values:
        return Distribution(count=0)
    names = {"minimum": 0, "p5": 5, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "maximum": 100}
    found = percentiles(values, list(names.values()))
    return Distribution(count=len(values), **dict(zip(names, found, strict=True)))


def histogram(shares: Sequence[float]) -> list[int]:
    """
    Return the counts in ``HISTOGRAM_BINS`` equal bins from 0 to 1. The last bin includes 1.

    :param shares: Values from 0 to 1.
    """
    import numpy as np

    counts, _ = np.histogram(np.clip(shares, 0, 1), bins=HISTOGRAM_BINS, range=(0, 1))
    return [int(count) for count in counts]


def interval(values: Sequence[float], weights: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """
    Return the weighted mean with its bootstrap confidence interval. The same values give the same interval.

    This is the percentile interval, with percentiles moved outwards by the ratio of Student's t to the normal
    distribution. The plain percentile interval is too narrow for small samples (Hesterberg 2015, section 4.3).

    :param values: One value per question.
    :param weights: One weight per value.
    :param confidence: Confidence level. Default: 0.95.
    :return: Mean, low and high end; None without values or if all weights are 0.
    """
    import numpy as np

    if not values or not any(weights):
        return None
    value, weight = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    mean = float(np.average(value, weights=weight))
    if np.ptp(value) == 0:
        # All values are equal, so all resamples would be too.
        return Interval(mean, *((mean, mean) if len(values) > 1 else (None, None)))
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    tail = _tail(confidence, max(effective, 2.0))
    low, high = np.quantile(_resampled_means(value, weight), [tail, 1 - tail])
    return Interval(mean, float(low), float(high))


def _resampled_means(value: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    seed = hashlib.sha256(value.tobytes() + weight.tobytes()).digest()
    random = np.random.default_rng(np.frombuffer(seed, dtype=np.uint32))
    size, is_weighted = len(value), bool(np.ptp(weight))
    weighted = value * weight if is_weighted else value
    means = np.empty(RESAMPLES)
    step = max(1, CHUNK // size)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        drawn = random.integers(0, size, size=(count, size))
        if is_weighted:
            totals = weight.take(drawn).sum(axis=1)
            # A resample with a total weight of 0 has no mean: use the mean of all values.
            safe = np.where(totals > 0, totals, 1)
            fallback = weighted.sum() / weight.sum()
            means[start : start + count] = np.where(totals > 0, weighted.take(drawn).sum(axis=1) / safe, fallback)
        else:
            means[start : start + count] = weighted.take(drawn).mean(axis=1)
    return means


def _tail(confidence: float, size: float) -> float:
    """Return the share of resamples to cut off at each end."""
    normal, freedom = NormalDist(), size - 1
    z = normal.inv_cdf((1 + confidence) / 2)
    # Student's quantile by the Cornish-Fisher expansion; the error is below 1 % from six values on.
    student = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return normal.cdf(-student * (size / freedom) ** 0.5)
