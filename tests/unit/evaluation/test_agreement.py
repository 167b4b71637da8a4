"""Cohen's kappa, its interval and the rates, against published examples and its definition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.agreement import _kappas, agreement, share_interval

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


def pairs(both_pass, only_human, only_judge, both_fail):
    return [
        *[(True, True)] * both_pass,
        *[(True, False)] * only_human,
        *[(False, True)] * only_judge,
        *[(False, False)] * both_fail,
    ]


@pytest.mark.promise("evaluation", "The agreement with people is Cohen's kappa.")
@pytest.mark.parametrize(
    ("cells", "kappa"),
    [
        # The example of Wikipedia, "Cohen's kappa": 50 grant proposals.
        ((20, 5, 10, 15), 0.4),
        # The pair of tables there with the same observed agreement and different margins.
        ((45, 15, 25, 15), 0.1304),
        ((25, 35, 5, 35), 0.2593),
        # Feinstein and Cicchetti 1990, tables 1 and 2: the first paradox, high agreement and low kappa.
        ((40, 9, 6, 45), 0.70),
        ((80, 10, 5, 5), 0.32),
    ],
)
def test_published_examples(cells, kappa):
    assert agreement(pairs(*cells)).kappa == pytest.approx(kappa, abs=0.005)


@given(PAIRS)
@settings(max_examples=100, deadline=None)
def test_kappa_is_the_agreement_beyond_chance_in_any_order(found):
    one = agreement(found)
    assert one == agreement(reversed(found))
    assert one.both_pass + one.only_human + one.only_judge + one.both_fail == one.labels == len(found)
    agreed = Fraction(sum(human == judge for human, judge in found), len(found))
    human_passes, judge_passes = (Fraction(sum(verdicts), len(found)) for verdicts in zip(*found, strict=True))
    by_chance = human_passes * judge_passes + (1 - human_passes) * (1 - judge_passes)
    if by_chance == 1:
        assert (one.kappa, one.low, one.high) == (None, None, None)
    else:
        assert one.kappa == pytest.approx(float((agreed - by_chance) / (1 - by_chance)), abs=1e-12)
        assert -1 <= one.low <= one.high <= 1


def test_rates_are_shares_of_what_people_passed_and_failed():
    found = agreement(pairs(30, 10, 5, 15))
    assert (found.true_pass_rate, found.true_fail_rate) == (0.75, 0.75)
    assert agreement(pairs(3, 1, 0, 0)).true_fail_rate is None
    nothing = agreement([])
    assert (nothing.true_pass_rate, nothing.kappa, nothing.low, nothing.high) == (None,) * 4


# The share of labels that pass, and how often the judge is right about what passes and what fails.
WORLDS = [
    (0.5, 1.0, 1.0),
    (0.5, 0.99, 0.99),
    (0.75, 0.97, 0.97),
    (0.5, 0.95, 0.95),
    (0.5, 0.9, 0.9),
    (0.75, 1.0, 0.8),
    (0.75, 0.7, 0.7),
]


def covers(low, truth, high):
    """Return whether an interval holds the truth. A figure that is not defined claims nothing."""
    return low is None or low <= truth <= high


@pytest.mark.parametrize("size", [20, pytest.param(50, marks=pytest.mark.nightly)])
def test_the_intervals_cover_the_truth_in_93_of_100_cases(size):
    """In every world, also where most samples have no disagreement. 3 % is the noise of 150."""
    rng = np.random.default_rng(20261125)
    for share, right_if_pass, right_if_fail in WORLDS:
        shares = [share * right_if_pass, share * (1 - right_if_pass)]
        shares += [(1 - share) * (1 - right_if_fail), (1 - share) * right_if_fail]
        true_kappa = float(_kappas(np.array([shares]))[0])
        cells, times = np.unique(rng.multinomial(size, shares, size=150), axis=0, return_counts=True)
        covered = np.zeros(3)
        for counts, number in zip(cells.tolist(), times, strict=True):
            found = agreement(pairs(*counts))
            covered += number * np.array([
                covers(found.low, true_kappa, found.high),
                covers(found.true_pass_low, right_if_pass, found.true_pass_high),
                covers(found.true_fail_low, right_if_fail, found.true_fail_high),
            ])  # fmt: skip
        assert min(covered) / 150 >= 0.93 - 0.03, (share, right_if_pass, right_if_fail, covered / 150)


def test_the_interval_of_a_share_is_as_published():
    # Clopper and Pearson; the figures are those of R's binom.test.
    assert share_interval(10, 10) == pytest.approx((0.6915029, 1), abs=1e-6)
    assert share_interval(1, 20) == pytest.approx((0.0012651, 0.2487328), abs=1e-6)
    assert share_interval(82, 100) == pytest.approx((0.7305229, 0.8896888), abs=1e-6)
