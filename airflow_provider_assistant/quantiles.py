"""Percentiles with linear interpolation, as in numpy, pandas and SQL's ``percentile_cont``."""

from __future__ import annotations

from collections.abc import Sequence


def percentiles(values: Sequence[float], percents: Sequence[float]) -> list[float]:
    """
    Return percentiles, interpolated linearly between the two nearest values.

    :param values: At least one number, in any order.
    :param percents: Percentages from 0 (the minimum) to 100 (the maximum).
    :return: One number per percentage, in the same order.
    """
    ordered = sorted(values)
    return [_at(ordered, percent / 100 * (len(ordered) - 1)) for percent in percents]


def _at(ordered: Sequence[float], position: float) -> float:
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (position - below))
