"""How much a mean changed: the paired t-test with one earlier run, and its extension to several."""

from __future__ import annotations

import numpy as np
import pytest

from airflow_provider_assistant.evaluation.change import MeanChange, mean_change, student_quantile


def change(now, earlier, last=None, older=None, weights=None, largest=1.0):
    size = len(now)
    empty = np.empty((0, size))
    return mean_change(
        np.array(now, float),
        np.array(earlier, float),
        np.array(last, float) if last is not None else empty,
        np.array(older, float) if older is not None else empty,
        np.ones(size) if weights is None else np.array(weights, float),
        largest=largest,
    )


def test_with_one_earlier_run_it_is_the_paired_t_test():
    generator = np.random.default_rng(20261125)
    for size in (30, 100, 400):
        before, now = generator.random(size), generator.random(size)
        found = change(now, [before])
        differences = now - before
        assert found.mean == pytest.approx(differences.mean())
        # Two changes of ordinary size are added, so the error is not quite the same.
        assert found.error == pytest.approx(differences.std(ddof=1) / size**0.5, rel=3 / size)
        assert found.freedom == size - 1


@pytest.mark.parametrize(("size", "changed"), [(50, 0.02), (100, 0.02), (400, 0.02), (50, 0.1), (200, 0.005)])
def test_the_interval_contains_the_true_mean_also_if_changes_are_rare(size, changed):
    generator = np.random.default_rng([7, size, round(changed * 1000)])
    held = 0
    for _ in range(600):
        flips = generator.choice([-1.0, 0.0, 1.0], size, p=[changed * 0.75, 1 - changed, changed * 0.25])
        before = np.where(flips < 0, 1.0, 0.0)
        found = change(before + flips, [before])
        half_width = student_quantile(0.975, found.freedom) * found.error
        held += abs(found.mean + changed * 0.5) <= half_width
    assert held / 600 >= 0.93


def test_nothing_that_changed_is_not_certain_for_ever():
    stable = [[1.0] * 50]
    once = change([1.0] * 50, stable)
    often = change([1.0] * 50, stable * 20)
    assert once.mean == often.mean == 0
    assert 0.02 < once.error < 0.04
    assert 0 < often.error < once.error / 3
    assert change([1.0] * 50, stable, largest=0.0).error == 0


def test_more_runs_make_the_error_smaller_and_not_known_values_greater():
    generator = np.random.default_rng(3)
    runs = generator.random((29, 100))
    errors = [change(runs[0], runs[1 : 1 + count]).error for count in (1, 4, 28)]
    assert errors == sorted(errors, reverse=True)
    gaps = runs.copy()
    gaps[1:, :60] = np.where(generator.random((28, 60)) < 0.7, np.nan, gaps[1:, :60])
    holes = change(gaps[0], gaps[1:])
    assert holes.compared == 100
    assert holes.error > errors[-1]


def test_whole_runs_that_differ_make_the_error_greater():
    generator = np.random.default_rng(5)
    runs = generator.random((20, 200))
    together = runs + generator.normal(0, 0.1, (20, 1))
    assert change(together[0], together[1:]).error > 2 * change(runs[0], runs[1:]).error


def test_what_cannot_be_compared_is_counted_and_not_computed():
    nan = np.nan
    assert change([nan, 1.0], [[1.0, nan]]) == MeanChange(0)
    assert change([0.5, 1.0], [[1.0, nan]]) == MeanChange(1, -0.5)


def test_weights_count():
    assert change([1.0, 0.0], [[0.0, 0.0]], weights=[3, 1]).mean == 0.75
    even, uneven = (change([0.2, 0.4, 0.9], [[0.1, 0.6, 0.2]], weights=weights) for weights in ([1, 1, 1], [9, 1, 1]))
    assert uneven.error > even.error


def test_the_last_three_runs_are_compared_with_the_runs_before_them():
    older = [[1.0] * 40] * 5
    lost = [0.0] * 4 + [1.0] * 36
    found = change(lost, older, last=[lost, lost], older=older)
    assert (found.mean, found.together) == (pytest.approx(-0.1), pytest.approx(-0.1))
    assert found.together_error < found.error
    assert change(lost, older, last=[lost], older=older).together is None
    assert change(lost, older, last=[lost, lost], older=older[:2]).together is None
