"""The package on every Airflow and every Python it supports: `make matrix`."""

from __future__ import annotations

from pathlib import Path

AIRFLOWS = ("3.1", "3.2", "3.3", "3.4")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Airflow 3.1 requires a Python below 3.14.
IMPOSSIBLE = {("3.1", "3.14")}
PAIRS = tuple((airflow, python) for airflow in AIRFLOWS for python in PYTHONS if (airflow, python) not in IMPOSSIBLE)
RESULTS = Path(__file__).parent / "results"


def result_file(airflow: str, python: str) -> Path:
    """Return where the result of one pair is kept."""
    return RESULTS / f"airflow-{airflow}-python-{python}.json"
