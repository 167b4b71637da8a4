"""The shipped golden set equals the output of its script, and its questions can be answered from the knowledge base."""

from __future__ import annotations

import csv
import runpy
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from airflow_provider_assistant.evaluation.cells import as_list
from airflow_provider_assistant.evaluation.text import has_phrase

FOLDER = Path(__file__).parents[2] / "dags" / "golden_set"
SCRIPT = FOLDER / "make_golden_set.py"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with (FOLDER / "golden_set.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


def test_the_script_is_deterministic(script, tmp_path):
    if (installed := version("apache-airflow-core")) != script["MADE_WITH"]:
        pytest.skip(f"Airflow {installed} describes its options in other words than {script['MADE_WITH']}")
    again = tmp_path / "golden_set.csv"
    assert script["write"](again) > 0
    assert again.read_bytes() == (FOLDER / "golden_set.csv").read_bytes(), f"run {SCRIPT}"


def test_every_question_is_unique_and_has_expectations(rows):
    assert len({row["key"] for row in rows}) == len({row["message"] for row in rows}) == len(rows)
    for row in rows:
        is_answerable = row["expect_no_answer"] == "false"
        assert bool(row["expected"] and row["must_include"]) == is_answerable, row["key"]


def test_all_kinds_of_questions_are_there(rows):
    kinds = Counter(as_list(row["tags"])[0] for row in rows)
    assert kinds == {"configuration": 52, "guides": 10, "unanswerable": 20}
    assert {as_list(row["tags"])[0] for row in rows if row["expect_no_answer"] == "true"} == {"unanswerable"}


def test_made_up_options_do_not_exist(rows):
    from airflow.configuration import retrieve_configuration_description

    known = str(retrieve_configuration_description(include_providers=False))
    made_up = [row for row in rows if "made-up" in row["tags"]]
    assert made_up
    assert "zeppelin" not in known
    assert all("zeppelin" in row["message"] for row in made_up)


def test_labels_calibrate_a_judge(rows):
    labelled = [row for row in rows if row["human"]]
    assert len(labelled) >= 50
    for row in labelled:
        assert row["human_answer"]
        assert row["expect_no_answer"] == "false"
        if row["human"] == "false":
            assert not has_phrase(row["human_answer"], as_list(row["must_include"])[0])
    assert 0.4 < sum(row["human"] == "true" for row in labelled) / len(labelled) < 0.6


def test_what_is_expected_holds_what_must_be_included(rows):
    for row in rows:
        for phrase in as_list(row["must_include"]):
            assert phrase in row["expected"], row["key"]
