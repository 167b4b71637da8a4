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
    """
    counts = Counter(pairs)
    both_pass, only_human = counts[True, True], counts[True, False]
    only_judge, both_fail = counts[False, True], counts[False, False]
    kappa, low, high = _kappa([both_pass, only_human, only_judge, both_fail])
    return Agreement(
        labels=counts.total(),
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


def _kappa(cells: list[int]) -> tuple[float | None, float | None, float | None]:
    """Return Cohen's kappa with the ends of its interval; None if there is only one verdict."""
    import numpy as np

    kappa = _kappas(np.array([cells], dtype=float))
    if not kappa.size:
        return None, None, None
    # The four counts determine a resample of the pairs, so draw the counts: the multinomial distribution.
    random = np.random.default_rng(cells)
    total = sum(cells)
    drawn = random.multinomial(total, np.array(cells) / total, size=RESAMPLES).astype(float)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(_kappas(drawn), [tail, 1 - tail])
    return float(kappa[0]), float(low), float(high)


def _kappas(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """
    Return the kappa of each row: the agreement beyond chance, as a share of the largest possible one.

    Rows for which it is not defined are left out.
    """
    import numpy as np

    both_pass, only_human, only_judge, both_fail = cells.T
    total = cells.sum(axis=1)
    # All terms are multiplied by the square of the total, which keeps them exact.
    agreed = (both_pass + both_fail) * total
    chance = (both_pass + only_human) * (both_pass + only_judge)
    chance += (both_fail + only_judge) * (both_fail + only_human)
    is_defined = chance < total**2
    beyond = (agreed - chance)[is_defined] / (total**2 - chance)[is_defined]
    return np.asarray(beyond, dtype=float)


def _share(part: int, rest: int) -> float | None:
    return part / (part + rest) if part + rest else None
