"""
How much a figure changed between earlier runs and this one, and how much of that chance explains.

The answers of an assistant vary from run to run. How much they vary is measured: by how much the questions deviate from
their own mean over the runs, after the mean of each run is taken out. With one earlier run, this is the paired t-test.
``tests/unit/evaluation/test_false_alarms.py`` simulates the rates of false and of missed alarms.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Number of the last runs, this one included, that are also compared together.
TOGETHER = 3
# Fewer runs say too little about the spread of whole runs.
ENOUGH_RUNS = 3
# Standard deviations by which the spread of whole runs must exceed what single questions explain.
NOTABLE_SPREAD = 1.3
# Smaller changes are rounding errors.
NO_CHANGE = 1e-9


class MeanChange(NamedTuple):
    """
    The change of a mean between earlier runs and this one.

    :param compared: Number of questions that have a value in this run and in an earlier one. The fields below are None
        with fewer than two, and ``mean`` without any.
    :param mean: Weighted mean over these questions of the value now minus their mean in the earlier runs.
    :param error: Standard error of ``mean``.
    :param freedom: Degrees of freedom of ``error``.
    :param together: The same change for the last three runs together; None with fewer than three runs before them.
    :param together_error: Standard error of ``together``.
    """

    compared: int
    mean: float | None = None
    error: float | None = None
    freedom: float | None = None
    together: float | None = None
    together_error: float | None = None


def mean_change(
    now: NDArray[np.float64],
    earlier: NDArray[np.float64],
    last: NDArray[np.float64],
    older: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    largest: float = 1.0,
) -> MeanChange:
    """
    Compare a run with earlier ones. A value that is not known is NaN.

    :param now: Values of this run, one per question.
    :param earlier: Values of the earlier runs to compare with, a row per run.
    :param last: Values of the last two runs before this one, whether to compare with or not.
    :param older: The rows of ``earlier`` from before these two runs.
    :param weights: Weights of the questions.
    :param largest: Size of a change if no question ever changed. 1 for values from 0 to 1.
    """
    import numpy as np

    is_compared = ~np.isnan(now) & (~np.isnan(earlier)).any(axis=0)
    compared = int(is_compared.sum())
    if compared == 0:
        return MeanChange(0)
    now, earlier, last, older = now[is_compared], earlier[:, is_compared], last[:, is_compared], older[:, is_compared]
    weights = weights[is_compared]
    mean = float(np.average(now - np.nanmean(earlier, axis=0), weights=weights))
    if compared == 1:
        return MeanChange(1, mean)
    shares = weights / weights.sum()
    variance, freedom = _variance(np.vstack([earlier, now]), largest)
    # Variance of the mean of one run.
    run_variance = variance * float(shares @ shares)
    rows_per_question = (~np.isnan(earlier)).sum(axis=0)
    earlier_variance = variance * float(shares @ (shares / rows_per_question))
    spread = _spread_of_runs(earlier, shares)
    rows = len(earlier)
    if spread is not None and spread > run_variance * (1 + NOTABLE_SPREAD * (2 / (rows - 1)) ** 0.5):
        # Whole runs differ by more than their questions do, such as on a day with another model.
        earlier_variance *= spread / run_variance
        run_variance, freedom = spread, rows - 1
    change = MeanChange(compared, mean, (run_variance + earlier_variance) ** 0.5, freedom)
    if len(last) < TOGETHER - 1 or len(older) < TOGETHER:
        return change
    difference = means_of_known(np.vstack([last, now])) - means_of_known(older)
    is_known = ~np.isnan(difference)
    if not is_known.any():
        return change
    together = float(np.average(difference[is_known], weights=weights[is_known]))
    together_error = (run_variance * (1 / TOGETHER + 1 / len(older))) ** 0.5
    return change._replace(together=together, together_error=together_error)


def student_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's distribution, by the Cornish-Fisher expansion."""
    z = NormalDist().inv_cdf(share)
    first_term = (z**3 + z) / (4 * freedom)
    second_term = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return z + first_term + second_term


def _variance(values: NDArray[np.float64], largest: float) -> tuple[float, float]:
    """
    Return the variance of a question between runs, and its degrees of freedom.

    Two changes of ordinary size, one up and one down, are added. Without them, questions that did not change yet would
    count as questions that never change (Bonett and Price 2012).
    """
    import numpy as np

    deviations = values - np.nanmean(values, axis=0)
    deviations -= np.nanmean(deviations, axis=1, keepdims=True)
    runs, questions = values.shape
    freedom = max(np.isfinite(values).sum() - questions - (runs - 1), 1)
    changes = np.abs(np.diff(values, axis=0))
    changes = changes[changes > NO_CHANGE]
    size = float(np.sqrt(np.mean(changes**2))) if changes.size else largest
    variance = (np.nansum(deviations**2) + size**2) / (freedom + 2 * (runs - 1))
    return float(variance), float(freedom)


def _spread_of_runs(earlier: NDArray[np.float64], shares: NDArray[np.float64]) -> float | None:
    """Return the variance of the means of the earlier runs; None with too few runs."""
    import numpy as np

    if len(earlier) < ENOUGH_RUNS:
        return None
    deviations = earlier - np.nanmean(earlier, axis=0)
    known_shares = np.where(np.isnan(deviations), 0, shares)
    totals = known_shares.sum(axis=1)
    # The mean of a run that has few of the questions varies for that reason.
    is_whole = totals >= 0.5
    if is_whole.sum() < ENOUGH_RUNS:
        return None
    means = np.nansum(deviations * known_shares, axis=1)[is_whole] / totals[is_whole]
    return float(means.var(ddof=1))


def means_of_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the known values of each column, NaN without any."""
    import numpy as np

    counts = (~np.isnan(values)).sum(axis=0)
    sums = np.nansum(values, axis=0)
    means: NDArray[np.float64] = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means
