"""Agreement of a judge with people: Cohen's kappa and the confusion table, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import lgamma, log
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.judge_summary import Agreement
from airflow_provider_assistant.evaluation.statistics import CONFIDENCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TAIL = (1 - CONFIDENCE) / 2
# What is added to the counts of both cells on one side, agreements or disagreements, and of those on the other.
ADDED, HARDLY_ADDED = 0.5, 0.1
# Halvings of an interval of length 1, after which it is shorter than any figure that is shown.
HALVINGS = 30
# Number of draws from a distribution of kappa.
DRAWS = 2000


def agreement(pairs: Iterable[tuple[bool, bool]], *, ties: int = 0) -> Agreement:
    """
    Compare the verdicts of people and of a judge on the same answers.

    The same verdicts give the same intervals, in any order.

    :param pairs: For each answer, whether it passes by the label of a person, and by the judge.
    :param ties: Number of answers on which people disagree, which are not among them.
    """
    counts = Counter(pairs)
    # The first of a pair is the verdict of the person, the second that of the judge.
    both_pass = counts[True, True]
    only_human = counts[True, False]
    only_judge = counts[False, True]
    both_fail = counts[False, False]
    kappa, low, high = _kappa_interval([both_pass, only_human, only_judge, both_fail])
    pass_low, pass_high = share_interval(both_pass, both_pass + only_human)
    fail_low, fail_high = share_interval(both_fail, both_fail + only_judge)
    return Agreement(
        labels=counts.total(),
        ties=ties,
        both_pass=both_pass,
        only_human=only_human,
        only_judge=only_judge,
        both_fail=both_fail,
        kappa=kappa,
        low=low,
        high=high,
        true_pass_rate=_share(both_pass, both_pass + only_human),
        true_pass_low=pass_low,
        true_pass_high=pass_high,
        true_fail_rate=_share(both_fail, both_fail + only_judge),
        true_fail_low=fail_low,
        true_fail_high=fail_high,
    )


def share_interval(part: int, total: int) -> tuple[float | None, float | None]:
    """
    Return the ends of the exact (Clopper-Pearson) interval of a share; None if the total is 0.

    It contains the true share in at least 95 of 100 cases, also if the share found is 0 or 1.
    """
    if total == 0:
        return None, None
    return _lower_end(part, total), 1 - _lower_end(total - part, total)


def _lower_end(part: int, total: int) -> float:
    """Return the share of which a part of this size or a larger one is found in only 2.5 % of the cases."""
    import numpy as np

    if part == 0:
        return 0.0
    numbers = np.arange(part, total + 1)
    ways = [lgamma(total + 1) - lgamma(number + 1) - lgamma(total - number + 1) for number in numbers]
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        # Binomial probabilities, as logarithms.
        chances = ways + numbers * log(middle) + (total - numbers) * log(1 - middle)
        if np.exp(chances).sum() < TAIL:
            low = middle
        else:
            high = middle
    return low


def _kappa_interval(counts: Sequence[int]) -> tuple[float | None, float | None, float | None]:
    """
    Return Cohen's kappa with the ends of its interval; None if there is only one verdict.

    A bootstrap of twenty labels without a disagreement never draws one, so its interval is a point. So this draws the
    true shares of the four cells instead, from Dirichlet distributions: for the lower end of one with more
    disagreements than were found, for the upper end of one with more agreements. That is how the exact interval of a
    share is made of two beta distributions.

    :param counts: ``both_pass``, ``only_human``, ``only_judge`` and ``both_fail``.
    """
    import numpy as np

    cells = np.array(counts, dtype=float)
    kappas = _kappas(cells[np.newaxis])
    if not kappas.size:
        return None, None, None
    kappa = float(kappas[0])
    # The counts are the seed, so the same counts give the same interval.
    generator = np.random.default_rng(counts)
    more_disagreements = np.array([HARDLY_ADDED, ADDED, ADDED, HARDLY_ADDED])
    more_agreements = np.array([ADDED, HARDLY_ADDED, HARDLY_ADDED, ADDED])
    pessimistic = _kappas(generator.dirichlet(cells + more_disagreements, size=DRAWS))
    optimistic = _kappas(generator.dirichlet(cells + more_agreements, size=DRAWS))
    low = min(float(np.quantile(pessimistic, TAIL)), kappa)
    high = max(float(np.quantile(optimistic, 1 - TAIL)), kappa)
    is_perfect = counts[1] == counts[2] == 0
    return kappa, low, 1.0 if is_perfect else high


def _kappas(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """
    Return the kappa of each row: the agreement beyond chance, as a share of the largest possible one.

    Rows for which it is not defined are left out.

    :param counts: The four counts of :func:`_kappa_interval`, or their shares, in each row.
    """
    import numpy as np

    both_pass, only_human, only_judge, both_fail = counts.T
    total = counts.sum(axis=1)
    # All terms are multiplied by the square of the total, which keeps those of counts exact.
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
