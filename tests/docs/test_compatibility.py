"""The compatibility page agrees with the results of the matrix and with the skipped tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

import pytest

from tests.docs.pages import ROOT, codes, section, table
from tests.lowest import declared, lower_bound
from tests.matrix import AIRFLOWS, PAIRS, PYTHONS, RESULTS, result_file
from tests.matrix import table as matrix
from tests.matrix.pair import SUITES, is_good
from tests.versions import SINCE

PAGE, TESTED = "docs/reference/compatibility.md", "docs/internals/tested.md"


def test_the_table_is_that_of_the_results() -> None:
    text = matrix.PAGE.read_text()
    assert matrix.BETWEEN.search(text), "the markers are gone"
    assert matrix.BETWEEN.sub(lambda _: matrix.table(), text) == text, "python -m tests.matrix.table"


def test_every_pair_is_a_row_run_or_not() -> None:
    rows = table(section(TESTED, "Airflow and Python"))
    assert [(line(row["Airflow"]), line(row["Python"])) for row in rows] == list(PAIRS)
    assert {result_file(*pair) for pair in PAIRS} >= set(RESULTS.glob("*"))
    assert [row[""] != "not run yet" for row in rows] == [result_file(*pair).exists() for pair in PAIRS]


def line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_every_difference_is_a_row() -> None:
    said = {row["Feature"]: row["From Airflow"] for row in table(section(PAGE, "What differs"))}
    assert said == {feature: ".".join(map(str, since)) for feature, since in SINCE.items()}


def test_the_lowest_versions_are_the_declared_ones() -> None:
    bounds = {requirement.name: lower_bound(requirement) for group in declared().values() for requirement in group}
    for row in table(section(PAGE, "Lowest versions")):
        (name,) = codes(row["Dependency"])
        assert row["Lowest version"] == bounds[name]


@pytest.mark.parametrize("airflow", AIRFLOWS)
def test_every_airflow_is_pinned(airflow: str) -> None:
    pins = (ROOT / "constraints" / f"airflow-{airflow}.txt").read_text()
    assert re.search(rf"^apache-airflow-core=={re.escape(airflow)}\.", pins, re.MULTILINE)


def test_tox_and_the_package_s_metadata_name_the_same() -> None:
    tox = (ROOT / "tox.ini").read_text()
    listed = subprocess.run(
        [sys.executable, "-m", "tox", "list", "--no-desc", "-q"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(listed.stdout.split()) == {f"py{python}-airflow{airflow}".replace(".", "") for airflow, python in PAIRS}
    assert [f"airflow{full.replace('.', '')}: LINE = {full}" in tox for full in AIRFLOWS] == [True] * len(AIRFLOWS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name]
    assert tuple(declared) == PYTHONS
    (airflow,) = (line for line in project["dependencies"] if line.startswith("apache-airflow>"))
    assert re.fullmatch(rf"apache-airflow>={re.escape(AIRFLOWS[0])}\.\d+,<4", airflow)


def test_the_matrix_runs_tests_that_exist() -> None:
    assert [suite for suite in SUITES if not (ROOT / suite).exists()] == []


GOOD = {"pip_check": "", "imports": "", "tests": {"passed": 1, "failed": [], "ended": "complete"}}


@pytest.mark.parametrize(
    "fault",
    [
        {"pip_check": "a requires b"},
        {"imports": "ImportError"},
        {"tests": {**GOOD["tests"], "failed": ["test_x"]}},
        {"tests": {**GOOD["tests"], "ended": "stopped after 1 s"}},
    ],
)
def test_a_pair_is_good_only_without_a_fault(fault: dict[str, object]) -> None:
    assert is_good(GOOD)
    assert not is_good({**GOOD, **fault})


def test_results_name_no_path_of_a_machine() -> None:
    for file in RESULTS.glob("*.json"):
        assert not re.search(r'"/|/home/|/root/|/tmp/', file.read_text()), file
        assert json.loads(file.read_text())["versions"]
