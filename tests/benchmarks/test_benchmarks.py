"""Each benchmark runs. Its figures are not checked here."""

from __future__ import annotations

import pytest

from tests.benchmarks import ledger_costs, loads
from tests.benchmarks.cases import CASES
from tests.benchmarks.measure import Figure, Size, alternated, percentile, ratio
from tests.benchmarks.service import Chats, served

TINY = Size(rounds=1, share=0.002, seconds=0.2)


@pytest.fixture(scope="module")
def service():
    with served() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_runs(name, service):
    figures = CASES[name](service, TINY)

    assert figures
    assert all(figure.value >= 0 or figure.unit == "%" for figure in figures)
    assert all(figure.as_dict() and str(figure) for figure in figures)


@pytest.mark.slow
def test_costs_of_the_ledger_are_measured(service, tmp_path):
    with loads.sqlite_ledger(tmp_path) as ledger:
        found = ledger_costs.costs(ledger, service, tmp_path, sites=2, rows=60, seconds=0.2)

    assert found["new"]["client_cpu_us"] > found["unchanged"]["client_cpu_us"] > 0
    assert found["size"]["table_bytes"] > found["size"]["index_bytes"] > 0


def test_a_goal_is_a_least_or_a_most():
    assert Figure("a", 1.0, 0.5).is_reached is True
    assert Figure("a", 1.0, 0.5, at_most=True).is_reached is False
    assert Figure("a", 1.0).is_reached is None


def test_ratios_are_taken_within_a_round():
    rates = alternated({"one": iter([10.0, 1.0, 4.0]).__next__, "other": iter([5.0, 1.0, 1.0]).__next__}, 3)

    assert rates == {"one": [10.0, 1.0, 4.0], "other": [5.0, 1.0, 1.0]}
    assert ratio(rates, "one", "other") == 2.0


def test_a_percentile_is_one_of_the_values():
    assert [percentile([3.0, 1.0, 2.0, 4.0], percent) for percent in (0, 50, 99, 100)] == [1.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("messages", "noticed"),
    [(["a", "b"], [2.0, None]), (["a"], [2.0]), (["a", "a"], [2.0, 2.0]), (["a", "b", "c"], [2.0, 2.0, 2.0])],
)
def test_there_is_no_figure_unless_every_question_was_asked_once_and_answered(messages, noticed):
    count = len(messages)
    chats = Chats(messages, [1.0] * count, [1] * count, noticed, closed=0, connections=1)

    with pytest.raises(RuntimeError, match="of 2 questions"):
        chats.delays(2)


def test_a_delay_is_from_the_answer_until_it_was_noticed():
    chats = Chats(["a", "b"], [1.0, 4.0], [1, 2], [2.5, 4.0], closed=0, connections=1)

    assert chats.delays(2) == [1.5, 0.0]
    assert chats.polls_each == 1.5
