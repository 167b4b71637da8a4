"""Stratified samples: sizes, proportions, and the same rows for the same seed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from airflow_provider_assistant.evaluation.sampling import stratified_sample


def test_each_group_has_its_share():
    strata = ["billing"] * 600 + ["shipping"] * 390 + ["rare"] * 10
    drawn = stratified_sample(strata, 100, seed=3)
    assert Counter(strata[row] for row in drawn) == {"billing": 60, "shipping": 39, "rare": 1}
    assert drawn == sorted(set(drawn)) == stratified_sample(strata, 100, seed=3)
    assert drawn != stratified_sample(strata, 100, seed=4)


@pytest.mark.parametrize("seed", range(10))
def test_any_strata(seed):
    chosen = random.Random(seed)
    groups = chosen.randint(1, 12)
    strata = [chosen.randrange(groups) ** chosen.randint(1, 3) for _ in range(chosen.randint(1, 80))]
    counts = Counter(strata)
    size = chosen.randint(len(counts), len(strata) + 5)
    drawn = stratified_sample(strata, size, seed=seed)
    assert len(drawn) == len(set(drawn)) == min(size, len(strata))
    shares = Counter(strata[row] for row in drawn)
    assert set(shares) == set(counts)
    for stratum, count in counts.items():
        # Groups that would have got none take at most one row each from the others.
        assert shares[stratum] <= len(drawn) * count / len(strata) + 1
        assert shares[stratum] >= max(1, int(len(drawn) * count / len(strata)) - len(counts))


def test_every_row_has_the_same_chance():
    hits = Counter(row for seed in range(3000) for row in stratified_sample(["a"] * 6 + ["b"] * 4, 5, seed=seed))
    assert all(1350 < hits[row] < 1650 for row in range(10))


def test_a_sample_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="a sample of 2 cannot represent 3 groups"):
        stratified_sample(["a", "b", "c"], 2)
