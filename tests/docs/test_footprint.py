"""Check the installation size that README states."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import codes, section, table
from tests.footprint import MEGA, footprint, requirements

# Share by which a size may differ: minor versions of dependencies change it.
TOLERANCE = 0.3
NOT_COUNTED = {"pandas", "pyarrow"}


def test_few_dependencies_are_new_to_airflow() -> None:
    assert len(set(footprint().direct) - NOT_COUNTED) <= 3


def test_readme_says_what_an_installation_grows_by() -> None:
    found, rows = footprint(), table(section("README.md", "What it adds to Airflow"))
    said = {name: row for row in rows for name in codes(row["Package"])}
    assert set(said) == {*found.sizes, "airflow-provider-assistant"}
    assert {name for name, row in said.items() if row["Declared"] == "yes"} == set(found.direct)
    for row in rows:
        size = sum(({**found.sizes, "airflow-provider-assistant": found.own})[name] for name in codes(row["Package"]))
        megabytes = float(re.sub(r"[^\d.]", "", row["Size"]))
        assert megabytes == pytest.approx(size / MEGA, rel=TOLERANCE, abs=0.3), row


def test_pandas_is_no_runtime_dependency() -> None:
    assert "pandas" not in {requirement.name for requirement in requirements()}
