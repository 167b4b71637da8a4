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
    # Case, spaces, punctuation and width; a letter twice, missing, or in another place.
    "EXPECTED": "expected",
    " tags": "tags",
    "weight\N{NO-BREAK SPACE}": "weight",
    "expected:": "expected",
    "\uff54\uff41\uff47\uff53": "tags",
    "mustInclude": "must_include",
    "must-not.include": "must_not_include",
    "expect__no answer": "expect_no_answer",
    "exppected": "expected",
    "wegiht": "weight",
    "weigt": "weight",
}
OTHER_MEANINGS = (
    *("key", "id", "message", "message_de", "question", "answer", "category", "language", "source", "url"),
    *("expected_de", "expected_source", "expert", "weight_kg", "stage", "flags", "pages", "must", "include"),
    *("note", "notes", "human.correctness", "human_notes", "priority", "turn", "conversation", "email", "\u4f60"),
)


def test_misspelt_names_are_found_with_the_right_one():
    for written, meant in OTHER_WORDS.items():
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
