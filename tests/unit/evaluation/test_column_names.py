"""Misspelt names of columns are found, and other names are left alone."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.evaluation.cases import EXPECTATIONS
from airflow_provider_assistant.evaluation.column_names import check_column_names
from airflow_provider_assistant.exceptions import AssistantInputError

OTHER_WORDS = {
    "tag": "tags",
    "weights": "weight",
    "Expected answer": "expected",
    "must_contain": "must_include",
    "must-exclude": "must_not_include",
    "mustNotContain": "must_not_include",
    "Human": "human",
    "human_anwser": "human_answer",
}
OTHER_MEANINGS = (
    *("key", "id", "message", "message_de", "question", "answer", "category", "language", "source", "url"),
    *("expected_de", "expected_source", "expert", "weight_kg", "stage", "flags", "pages", "must", "include"),
    *("note", "notes", "human.correctness", "human_notes", "priority", "turn", "conversation", "email", "\u4f60"),
)


def misspelt(name):
    yield from (name.upper(), name.title(), name.capitalize(), f" {name}", f"{name}\N{NO-BREAK SPACE}", f"{name}:")
    yield "".join(chr(ord(char) + 0xFEE0) if char.isalpha() else char for char in name)
    for separator in ("", " ", "-", ".", "__"):
        if "_" in name:
            yield name.replace("_", separator)
    for position in range(1, len(name)):
        yield name[:position] + name[position - 1] + name[position:]
        if name[position - 1 : position + 1].isalpha():
            yield name[: position - 1] + name[position] + name[position - 1] + name[position + 1 :]
        if len(name) > 4:
            yield name[:position] + name[position + 1 :]


def test_misspelt_names_are_found_with_the_right_one():
    cases = dict(OTHER_WORDS)
    for name in EXPECTATIONS:
        cases |= dict.fromkeys(misspelt(name), name)
    for name in EXPECTATIONS:
        cases.pop(name, None)
    assert len(cases) > 250
    for written, meant in cases.items():
        with pytest.raises(AssistantInputError) as raised:
            check_column_names(["key", "message", written], EXPECTATIONS)
        assert f"did you mean '{meant}'" in str(raised.value), written


def test_other_names_are_left_alone():
    check_column_names([*OTHER_MEANINGS, *EXPECTATIONS], EXPECTATIONS)
    check_column_names(OTHER_MEANINGS, EXPECTATIONS)
    # The right column is there as well, so that this one has another meaning.
    check_column_names(["tags", "tag", "weight", "weights"], EXPECTATIONS)
    check_column_names(["Tags"], EXPECTATIONS, key_columns=["Tags"])
    with pytest.raises(AssistantInputError, match="did you mean 'tags'"):
        check_column_names(["tags", "Tags"], EXPECTATIONS)
