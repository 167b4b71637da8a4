"""The package on every Airflow and every Python it supports: `make matrix`."""

from __future__ import annotations

from pathlib import Path

AIRFLOWS = ("3.1", "3.2", "3.3")
PYTHONS = ("3.11", "3.12", "3.13")
RESULTS = Path(__file__).parent / "results"


def result_file(airflow: str, python: str) -> Path:
    """Return where the result of one pair is kept."""
    return RESULTS / f"airflow-{airflow}-python-{python}.json"
