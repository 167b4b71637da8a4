"""The rates of false and of missed alarms that the page docs/internals/figures.md states, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from airflow_provider_assistant.evaluation.runs import compared_runs
from tests.unit.evaluation.false_alarms import rates


@pytest.mark.promise("evaluation", "Chance fails at most 5 % of nights, and losses are found.")
def test_chance_seldom_fails_the_gate_and_losses_do():
    settings = [
        ("check", "the same questions", 50, 0.2),
        ("check", "any question", 200, 0.4),
        ("judge", "any question", 50, 0.4),
        ("token_f1", "the same questions", 100, 0.1),
    ]
    found = [rates(*setting, series=2, losses=8) for setting in settings]
    assert np.mean([one.red for one in found]) <= 0.05
    assert np.mean([one.found for one in found]) >= 0.95
    for one in found:
        assert one.longest == 0
        assert min(one.drift, one.green) >= 0.9


@pytest.mark.parametrize(
    ("worse", "compared"),
    [
        ("", ""),
        ("....", "cccc"),
        # The last run is worse: it is not known yet whether that was chance.
        ("w...", " ccc"),
        # The runs beside it were not worse: it was chance.
        (".w..", "cccc"),
        (".ww.", "c  c"),
        ("www.", "   c"),
        ("w.w.", " ccc"),
        (".w", "cc"),
    ],
)
def test_runs_that_got_worse_are_left_out_unless_it_was_chance(worse, compared):
    flags = compared_runs(letter == "w" for letter in worse)
    assert "".join("c" if flag else " " for flag in flags) == compared
