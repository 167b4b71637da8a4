"""Every benchmark runs to its end with few rows. Its figures mean nothing then, so they are not checked."""

from __future__ import annotations

import pytest

from tests.benchmarks.cases import CASES
from tests.benchmarks.measure import QUICK
from tests.benchmarks.service import served


@pytest.fixture(scope="module")
def service():
    with served() as running:
        yield running


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_a_benchmark_runs(name, service):
    figures = CASES[name](service, QUICK)

    assert figures
    assert all(figure.as_dict() and str(figure) for figure in figures)
