"""Means, quantiles, histograms and confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.change import student_quantile
from airflow_provider_assistant.evaluation.summary import HISTOGRAM_BINS, Distribution
from airflow_provider_assistant.quantiles import percentiles

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95


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
    Return the weighted mean with its confidence interval by Student's distribution.

    If all values are equal, one value above and one below them by 1 are added: values that did not differ yet are not
    values that never differ.
    """
    import numpy as np

    mean = weighted_mean(values, weights)
    if mean is None or len(values) == 1:
        return Interval(mean, low=None, high=None)
    shares = np.asarray(weights) / np.sum(weights)
    # Kish's effective sample size: with unequal weights, the values say less than their number.
    effective_size = max(1 / float(shares @ shares), 2.0)
    variance = float(shares @ (np.asarray(values) - mean) ** 2) or 2 / (len(values) + 2)
    half_width = student_quantile((1 + CONFIDENCE) / 2, effective_size - 1) * (variance / (effective_size - 1)) ** 0.5
    return Interval(mean, low=mean - half_width, high=mean + half_width)
