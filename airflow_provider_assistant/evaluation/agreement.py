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
    # The first of a pair is the verdict of the person, the second that of the judge.
    both_pass = counts[True, True]
    only_human = counts[True, False]
    only_judge = counts[False, True]
    both_fail = counts[False, False]
    kappa, low, high = _kappa_interval([both_pass, only_human, only_judge, both_fail])
    return Agreement(
        labels=counts.total(),
        both_pass=both_pass,
        only_human=only_human,
        only_judge=only_judge,
        both_fail=both_fail,
        kappa=kappa,
        low=low,
        high=high,
        true_pass_rate=_share(both_pass, both_pass + only_human),
        true_fail_rate=_share(both_fail, both_fail + only_judge),
    )


def _kappa_interval(counts: list[int]) -> tuple[float | None, float | None, float | None]:
    """
    Return Cohen's kappa with the ends of its interval; None if there is only one verdict.

    :param counts: ``both_pass``, ``only_human``, ``only_judge`` and ``both_fail``.
    """
    import numpy as np

    kappas = _kappas(np.array([counts], dtype=float))
    if not kappas.size:
        return None, None, None
    # The four counts determine a resample of the pairs, so draw the counts: the multinomial
    # distribution. The counts are also the seed, so the same counts give the same interval.
    generator = np.random.default_rng(counts)
    total = sum(counts)
    shares = np.array(counts) / total
    resampled_counts = generator.multinomial(total, shares, size=RESAMPLES).astype(float)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(_kappas(resampled_counts), [tail, 1 - tail])
    return float(kappas[0]), float(low), float(high)


def _kappas(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """
    Return the kappa of each row: the agreement beyond chance, as a share of the largest possible one.

    Rows for which it is not defined are left out.

    :param counts: The four counts of :func:`_kappa_interval` in each row.
    """
    import numpy as np

    both_pass, only_human, only_judge, both_fail = counts.T
    total = counts.sum(axis=1)
    # All terms are multiplied by the square of the total, which keeps them exact.
    agreed = (both_pass + both_fail) * total
    agreed_by_chance = (both_pass + only_human) * (both_pass + only_judge)
    agreed_by_chance += (both_fail + only_judge) * (both_fail + only_human)
    possible = total**2
    is_defined = agreed_by_chance < possible
    beyond_chance = (agreed - agreed_by_chance)[is_defined]
    possible_beyond_chance = (possible - agreed_by_chance)[is_defined]
    return np.asarray(beyond_chance / possible_beyond_chance, dtype=float)


def _share(part: int, total: int) -> float | None:
    return part / total if total else None
