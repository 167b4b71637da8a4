"""The versions that pages, tox, constraints and metadata name are the same."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from tests.docs.pages import ROOT
from tests.matrix import AIRFLOWS, PAIRS, PYTHONS, RESULTS, result_file
from tests.matrix.pair import SUITES


@pytest.mark.parametrize("airflow", AIRFLOWS)
def test_every_airflow_is_pinned(airflow: str) -> None:
    pins = (ROOT / "constraints" / f"airflow-{airflow}.txt").read_text()
    assert re.search(rf"^apache-airflow-core=={re.escape(airflow)}\.", pins, re.MULTILINE)


def test_tox_and_the_metadata_of_the_package_name_the_same() -> None:
    command = [sys.executable, "-m", "tox", "list", "--no-desc", "-q"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(listed.stdout.split()) == {f"py{python}-airflow{airflow}".replace(".", "") for airflow, python in PAIRS}
    assert {result_file(*pair) for pair in PAIRS} >= set(RESULTS.glob("*"))
    assert [suite for suite in SUITES if not (ROOT / suite).exists()] == []
    tox = (ROOT / "tox.ini").read_text()
    assert [f"airflow{full.replace('.', '')}: LINE = {full}" in tox for full in AIRFLOWS] == [True] * len(AIRFLOWS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name]
    assert tuple(declared) == PYTHONS
    (airflow,) = (line for line in project["dependencies"] if line.startswith("apache-airflow>"))
    assert re.fullmatch(rf"apache-airflow>={re.escape(AIRFLOWS[0])}\.\d+,<4", airflow)


def test_results_name_no_path_of_a_machine() -> None:
    for file in RESULTS.glob("*.json"):
        assert not re.search(r'"/|/home/|/root/|/tmp/', file.read_text()), file
