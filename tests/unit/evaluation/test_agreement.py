"""Cohen's kappa, its interval and the rates, against published examples and scikit-learn."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.agreement import agreement

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


def pairs(both_pass, only_human, only_judge, both_fail):
    return [
        *[(True, True)] * both_pass,
        *[(True, False)] * only_human,
        *[(False, True)] * only_judge,
        *[(False, False)] * both_fail,
    ]


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


@pytest.mark.slow  # its import takes seconds
@given(PAIRS)
@settings(max_examples=100, deadline=None)
def test_scikit_learn_finds_the_same_kappa(found):
    metrics = pytest.importorskip("sklearn.metrics")
    own = agreement(found).kappa
    if own is None:
        assert len({verdict for pair in found for verdict in pair}) == 1
    else:
        assert own == pytest.approx(metrics.cohen_kappa_score(*zip(*found, strict=True)), abs=1e-12)


@given(PAIRS)
@settings(max_examples=100, deadline=None)
def test_counts_add_up_and_the_order_does_not_matter(found):
    one = agreement(found)
    assert one == agreement(reversed(found))
    assert one.both_pass + one.only_human + one.only_judge + one.both_fail == one.labels == len(found)
    if one.kappa is not None:
        assert one.low is not None
        assert one.high is not None
        assert -1 <= one.low <= one.high <= 1


def test_rates_are_shares_of_what_people_passed_and_failed():
    found = agreement(pairs(30, 10, 5, 15))
    assert (found.true_pass_rate, found.true_fail_rate) == (0.75, 0.75)
    assert agreement(pairs(3, 1, 0, 0)).true_fail_rate is None
    assert agreement([]).true_pass_rate is None


@pytest.mark.parametrize("cells", [(0, 0, 0, 0), (7, 0, 0, 0), (0, 0, 0, 7)])
def test_kappa_is_not_defined_if_there_is_only_one_verdict(cells):
    found = agreement(pairs(*cells))
    assert (found.kappa, found.low, found.high) == (None, None, None)


@pytest.mark.parametrize(("size", "accuracy"), [(50, 0.85), (200, 0.8), (50, 0.7)])
def test_the_interval_covers_the_true_kappa_in_90_to_98_of_100_cases(size, accuracy):
    """Half of the answers pass, and the judge is right with the same probability for both halves."""
    rng = random.Random(20261122)
    true = 2 * accuracy - 1
    covered = 0
    for _ in range(300):
        labels = [rng.random() < 0.5 for _ in range(size)]
        found = agreement((label, label == (rng.random() < accuracy)) for label in labels)
        covered += found.low <= true <= found.high
    assert 0.90 <= covered / 300 <= 0.98


def test_the_interval_is_that_of_resampled_answers():
    found = agreement(pairs(40, 9, 6, 45))
    rng = np.random.default_rng(1)
    whole = np.array(pairs(40, 9, 6, 45))
    kappas = [agreement(map(tuple, whole[rng.integers(0, 100, 100)].tolist())).kappa for _ in range(300)]
    assert np.quantile(kappas, [0.025, 0.975]) == pytest.approx([found.low, found.high], abs=0.04)
