"""Check the installation size that the page states: what the package requires, less what Airflow requires."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.pages import ROOT, codes, section, table

PAGE = "docs/start/install.md"
MEGA = 1_000_000
# Share by which a size may differ: minor versions of dependencies change it.
TOLERANCE = 0.3
NOT_COUNTED = {"pandas", "pyarrow"}


def requirements() -> list[Requirement]:
    """Return the declared runtime dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["dependencies"]]


def closure(*wanted: Requirement) -> dict[str, Distribution]:
    """Return every installed distribution that these requirements bring, by name."""
    found: dict[tuple[str, frozenset[str]], Distribution] = {}
    todo = list(wanted)
    while todo:
        requirement = todo.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key in found:
            continue
        found[key] = distribution(requirement.name)
        extras = sorted(requirement.extras) or [""]
        for line in found[key].requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(needed)
    return {name: dist for (name, _), dist in found.items()}


def new_distributions() -> dict[str, Distribution]:
    """Return the distributions that the package brings and Airflow does not."""
    airflow = closure(Requirement("apache-airflow"))
    return {name: found for name, found in closure(*requirements()).items() if name not in airflow}


def direct() -> set[str]:
    """Return the new distributions that the package itself requires."""
    return {canonicalize_name(requirement.name) for requirement in requirements()} & set(new_distributions())


def test_few_dependencies_are_new_to_airflow() -> None:
    assert len(direct() - NOT_COUNTED) <= 3


def test_the_page_says_what_an_installation_grows_by() -> None:
    package = [path for path in (ROOT / "airflow_provider_assistant").rglob("*") if path.is_file()]
    sizes = {name: sum(file.size or 0 for file in found.files or ()) for name, found in new_distributions().items()}
    sizes["airflow-provider-assistant"] = sum(
        path.stat().st_size for path in package if "__pycache__" not in path.parts
    )
    rows = table(section(PAGE, "What it adds to Airflow"))
    stated = {name: row for row in rows for name in codes(row["Package"])}
    assert set(stated) == set(sizes)
    assert {name for name, row in stated.items() if row["Declared"] == "yes"} == direct()
    for row in rows:
        size = sum(sizes[name] for name in codes(row["Package"]))
        megabytes = float(re.sub(r"[^\d.]", "", row["Size"]))
        assert megabytes == pytest.approx(size / MEGA, rel=TOLERANCE, abs=0.3), row


def test_pandas_is_no_runtime_dependency() -> None:
    assert "pandas" not in {requirement.name for requirement in requirements()}


def test_the_page_lists_the_extras_for_users() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {name for row in table(section(PAGE, "Extras")) for name in codes(row["Extra"])}
    assert listed == {*project["optional-dependencies"]} - {"dev", "docs", "cluster", "release"}
