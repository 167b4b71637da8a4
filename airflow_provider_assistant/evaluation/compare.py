"""
Compare a figure with the earlier runs, and tell a loss from chance.

Answers vary from run to run. How much they vary is measured on the questions themselves: by how much each one deviates
from its own mean over the runs. A night fails if its loss, or that of the last three nights together, is larger than
chance explains. ``tests/unit/evaluation/false_alarms.py`` simulates how often both go wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

from airflow_provider_assistant.evaluation.arrays import Floats, np
from airflow_provider_assistant.evaluation.runs import TOGETHER
from airflow_provider_assistant.evaluation.summary import Change, Deciding

# Share of the nights without a change that may fail; all rules on a drop share it. A part of it is for one night, the
# rest for the last three together.
FALSE_ALARMS = 0.06
SHARE_FOR_ONE_NIGHT = 0.4
# The last three nights fail this one only if it is this many standard errors worse itself: a repaired assistant passes.
ITSELF_WORSE = 1.2
# A question that passed in this share of the earlier runs usually passes.
USUALLY = 0.9
# Smaller changes are rounding errors.
NO_CHANGE = 1e-9
_HALF_WIDTH = NormalDist().inv_cdf(0.975)


def change(
    now: Floats,
    earlier: Floats,
    is_compared: Sequence[bool],
    weights: Floats,
    *,
    is_share: bool = True,
    removed: int = 0,
) -> Change | None:
    """
    Compare the values of the questions with those of the earlier runs; NaN is not known. None without any in common.

    :param now: Values of this run, one per question or conversation.
    :param earlier: The same for each earlier run, latest first.
    :param is_compared: Whether to compare with each of them; the last two nights count together with this one anyway.
    :param removed: Number of questions that only the latest earlier run has.
    """
    chosen = np.array(is_compared, dtype=bool)
    known = ~np.isnan(earlier[chosen])
    is_paired = ~np.isnan(now) & known.any(axis=0)
    if not is_paired.any():
        return None
    comparable = int((~np.isnan(now) | known[0]).sum()) + removed
    now, earlier, weights = now[is_paired], earlier[:, is_paired], weights[is_paired]
    base = earlier[chosen]
    shares = weights / weights.sum()
    mean = float(np.average(now - np.nanmean(base, axis=0), weights=weights))
    found = Change(mean=mean, questions=len(now), comparable=comparable, runs=len(base))
    if len(now) == 1:
        return found
    # Variance of the mean of one night, and of the mean of the earlier ones.
    variance = _variance(np.vstack([base, now]), largest=1.0 if is_share else 0.0)
    night = variance * float(shares @ shares)
    before = variance * float(shares @ (shares / (~np.isnan(base)).sum(axis=0)))
    error = (night + before) ** 0.5
    low, high = mean - _HALF_WIDTH * error, mean + _HALF_WIDTH * error
    if is_share:
        low, high = max(low, -1.0), min(high, 1.0)
    found = found.model_copy(update={"standard_error": error, "low": low, "high": high})
    last = TOGETHER - 1
    older = earlier[last:][chosen[last:]]
    difference = _means(np.vstack([now, earlier[:last]])) - _means(older)
    is_known = ~np.isnan(difference)
    if len(older) < TOGETHER or not is_known.any():
        return found
    together = float(np.average(difference[is_known], weights=weights[is_known]))
    together_error = (night * (1 / TOGETHER + 1 / len(older))) ** 0.5
    return found.model_copy(update={"three_nights": together, "three_nights_error": together_error})


def by_chance(standard_error: float, *, drops: int, is_one_night: bool) -> float:
    """
    Return the largest loss that chance explains.

    :param drops: Number of rules in the gate that limit a loss, which share the false alarms.
    """
    share = SHARE_FOR_ONE_NIGHT if is_one_night else 1 - SHARE_FOR_ONE_NIGHT
    return NormalDist().inv_cdf(1 - share * FALSE_ALARMS / drops) * standard_error


def worse_questions(keys: Sequence[str], now: Floats, earlier: Floats, *, higher_is_better: bool) -> list[Deciding]:
    """Return the questions that are worse than in every earlier run, those that lost most first."""
    sign = 1 if higher_is_better else -1
    is_worse = sign * now < np.fmin.reduce(sign * earlier, axis=0) - NO_CHANGE
    before = _means(earlier)
    order = np.argsort(-abs(now - before), kind="stable")
    positions = [position for position in order.tolist() if is_worse[position]]
    return [Deciding(key=keys[one], value=float(now[one]), before=float(before[one])) for one in positions]


def newly_failing(keys: Sequence[str], now: Floats, earlier: Floats) -> list[str]:
    """Return the questions that usually passed, and do not pass now."""
    known = (~np.isnan(earlier)).sum(axis=0)
    passed = (earlier == 1).sum(axis=0)
    is_new = (known > 0) & (passed >= USUALLY * known) & (now < 1)
    return [key for key, is_one in zip(keys, is_new.tolist(), strict=True) if is_one]


def _variance(values: Floats, largest: float) -> float:
    """
    Return the variance of a question between runs, pooled over the questions.

    Two changes of ordinary size, one up and one down, are added: questions that did not change yet are not questions
    that never change (Bonett and Price 2012).

    :param largest: Size of a change if no question ever changed.
    """
    deviations = values - np.nanmean(values, axis=0)
    deviations -= _means(deviations.T)[:, None]
    runs, questions = values.shape
    freedom = max(np.isfinite(values).sum() - questions - (runs - 1), 1)
    changes = np.abs(np.diff(values, axis=0))
    changes = changes[changes > NO_CHANGE]
    size = float(np.sqrt(np.mean(changes**2))) if changes.size else largest
    return float((np.nansum(deviations**2) + size**2) / (freedom + 2 * (runs - 1)))


def _means(values: Floats) -> Floats:
    """Return the mean of the known values of each column; NaN without any."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=0) / (~np.isnan(values)).sum(axis=0))
