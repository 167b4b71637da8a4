"""What a DAG file costs every few seconds: the modules that this package imports on top of Airflow."""

from __future__ import annotations

import pytest

from tests.imports import added_modules, public_modules

HEAVY = (
    "aiohttp",
    "duckdb",
    "fastapi",
    "httpx_aiohttp",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "uvicorn",
)
# Today 110 of the package, 111 with Airflow 3.1, and 10 of Airflow that a DAG file need not import otherwise. What
# they cost in milliseconds is measured by `make bench imports`.
MOST_OF_OURS, MOST_OF_OTHERS = 115, 30


@pytest.fixture(scope="module")
def added():
    return added_modules()


def test_few_modules_are_imported(added):
    ours = {name for name in added if name.startswith("airflow_provider_assistant")}
    assert set(public_modules()) <= ours
    assert len(ours) <= MOST_OF_OURS
    assert len(added - ours) <= MOST_OF_OTHERS, sorted(added - ours)


@pytest.mark.parametrize("library", HEAVY)
def test_nothing_heavy_is_imported(added, library):
    assert library not in {name.partition(".")[0] for name in added}
