"""Agreement of a judge with people: Cohen's kappa with a bootstrap interval, and the confusion table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.statistics import CONFIDENCE, RESAMPLES
from airflow_provider_assistant.evaluation.summary import Agreement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def agreement(pairs: Iterable[tuple[bool, bool]]) -> Agreement:
    """
    Compare the verdicts of people and of a judge on the same answers.

    The interval is a percentile bootstrap over the answers. The same verdicts give the same interval, in any order.

    :param pairs: For each answer, whether it passes by the label of a person, and by the judge.
    :return: Counts, kappa with its interval, and both rates.
    """
    counts = Counter(pairs)
    cells = [counts[True, True], counts[True, False], counts[False, True], counts[False, False]]
    both_pass, only_human, only_judge, both_fail = cells
    kappa = _kappa(*cells)
    low, high = (None, None) if kappa is None else _interval(cells)
    return Agreement(
        labels=sum(cells),
        both_pass=both_pass,
        only_human=only_human,
        only_judge=only_judge,
        both_fail=both_fail,
        kappa=kappa,
        low=low,
        high=high,
        true_pass_rate=_share(both_pass, only_human),
        true_fail_rate=_share(both_fail, only_judge),
    )


def _kappa(both_pass: int, only_human: int, only_judge: int, both_fail: int) -> float | None:
    """Return Cohen's kappa: the agreement beyond chance, as a share of the largest possible one."""
    total = both_pass + only_human + only_judge + both_fail
    # Both factors are multiplied by the square of the total, which keeps them exact.
    chance = (both_pass + only_human) * (both_pass + only_judge) + (both_fail + only_judge) * (both_fail + only_human)
    if chance == total**2:
        return None
    return ((both_pass + both_fail) * total - chance) / (total**2 - chance)


def _interval(cells: list[int]) -> tuple[float, float]:
    import numpy as np

    # The four counts determine a resample of the pairs, so draw the counts: the multinomial distribution.
    random = np.random.default_rng(cells)
    total = sum(cells)
    drawn = random.multinomial(total, np.array(cells) / total, size=RESAMPLES).astype(float)
    found = _kappas(drawn)
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _kappas(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the kappa of each row, without the rows for which it is not defined."""
    import numpy as np

    both_pass, only_human, only_judge, both_fail = cells.T
    total = cells.sum(axis=1)
    chance = (both_pass + only_human) * (both_pass + only_judge) + (both_fail + only_judge) * (both_fail + only_human)
    is_defined = chance < total**2
    return np.asarray(
        ((both_pass + both_fail) * total - chance)[is_defined] / (total**2 - chance)[is_defined], dtype=float
    )


def _share(part: int, rest: int) -> float | None:
    return part / (part + rest) if part + rest else None
