"""Check the pages on ratings by rule and on the golden set."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from airflow_provider_assistant.evaluation.rules import parse_condition
from airflow_provider_assistant.feedback import sender
from tests.docs.pages import codes, section, table

FEEDBACK, GOLDEN_SET, OPERATORS = (
    "docs/evaluate/feedback.md",
    "docs/evaluate/golden-set.md",
    "docs/reference/operators.md",
)
ROOT = Path(__file__).parents[2]


def test_counts_of_ratings() -> None:
    text = section(OPERATORS, "Counts of ratings")
    keys = [codes(row["Key"])[0] for row in table(text)]
    assert keys == ["rows", *sender.RatingCounts().as_dict(), "not_rated", "not_answered", "site_id", "findings"]
    sums = re.findall(r"rows = [\w +]+\w", text + section(FEEDBACK, "Many answers, by rule"))
    assert len(sums) == 2
    for told in sums:
        assert set(re.findall(r"\w+", told)) < set(keys)


def test_conditions_can_be_read() -> None:
    text = section(FEEDBACK, "Many answers, by rule")
    conditions = re.findall(r"`(\w+ >= [^`\n]+)`", text)
    assert conditions
    for condition in conditions:
        parse_condition(condition)
    assert f"After {sender.BREAKER} failures in a row" in text


def test_figures_of_the_golden_set() -> None:
    with (ROOT / "dags" / "golden_set" / "golden_set.csv").open(encoding="utf-8", newline="") as file:
        tags = Counter(row["tags"].split("|")[0] for row in csv.DictReader(file))
    text = section(GOLDEN_SET, "The golden set of the example DAG")
    assert {codes(row["Tag"])[0]: int(row["Questions"]) for row in table(text)} == tags
    assert f"has {tags.total()} questions" in text
