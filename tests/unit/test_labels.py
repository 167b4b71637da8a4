"""One label for a key, whoever shows it."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.asking.questions import read_questions
from airflow_provider_assistant.evaluation.golden import read_cases
from airflow_provider_assistant.keys import LABEL_LENGTH, key_label
from airflow_provider_assistant.texts import storable


@given(st.lists(st.text(min_size=LABEL_LENGTH - 2, max_size=LABEL_LENGTH + 50), min_size=2, max_size=2, unique=True))
def test_long_keys_stay_different(keys):
    labels = [key_label(["url"], [f"https://assistant.example.com/{'a' * LABEL_LENGTH}/{key}"]) for key in keys]
    assert all(len(label) == LABEL_LENGTH for label in labels)
    assert len(set(labels)) == len(set(map(storable, keys)))
    assert [key_label(["key"], [label]) for label in labels] == labels


KEYS = {
    "whole numbers as floats": [7.0, 8.0],
    "decimals": [Decimal("7.00"), Decimal("8.00")],
    "long texts": ["a" * 300, "a" * 301],
    "texts": ["a", "b"],
}


@pytest.mark.parametrize("names", [["id"], ["kind", "id"]], ids=["one column", "two columns"])
@pytest.mark.parametrize("kind", KEYS)
def test_answers_and_their_expectations_have_the_same_label(kind, names):
    """Whether the evaluation is told the key columns, or uses the labels in the file of answers."""
    rows = [{"kind": "faq", "id": key, "message": f"Question {number}?"} for number, key in enumerate(KEYS[kind])]
    labels = [question.label for question in read_questions(rows, key_columns=names).rows]
    answers = pa.Table.from_pylist([{**row, "answer": "a", "status": "complete"} for row in rows])
    assert [case.key for case in read_cases(answers, key_columns=names)] == labels
    by_label = answers.append_column("key", pa.array(labels))
    assert [case.key for case in read_cases(by_label, key_columns="key")] == labels
