"""Rows from the objects of other libraries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import COLUMNS, documents_of

METADATA = {"source": "https://docs.example.com/a", "title": "A", "category": "guide", "date": date(2026, 11, 22)}


@dataclass
class LangChain:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    type: str = "Document"


@dataclass
class LlamaIndex:
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id_: str = "a random id"


@dataclass
class Haystack:
    id: str
    content: str | None
    meta: dict[str, Any] = field(default_factory=dict)
    blob: bytes | None = None


@pytest.mark.parametrize(
    "found",
    [
        LangChain("text", METADATA),
        LlamaIndex("text", METADATA),
        Haystack("hash", "text", METADATA),
        {"text": "text", "metadata": METADATA},
        {"content": "text", **METADATA},
    ],
    ids=lambda found: type(found).__name__,
)
def test_text_and_metadata_of_known_objects(found):
    (row,) = documents_of([found])
    assert tuple(row) == COLUMNS
    assert row == {
        "key": "https://docs.example.com/a",
        "parent": "https://docs.example.com/a",
        "title": "A",
        "content": "text",
        "category": "guide",
        "url": "https://docs.example.com/a",
        "date": "2026-11-22",
    }


@pytest.mark.parametrize(
    ("found", "key"),
    [
        (LangChain("text", {"source": "/data/a.pdf", "page": 0}), "/data/a.pdf#page=0"),
        (LlamaIndex("text", {"file_path": "a.pdf", "page_label": "iv"}), "a.pdf#page=iv"),
        (LangChain("text", {}, id="7"), "7"),
        (LlamaIndex("text"), None),
        ({"content": "text", "id": 7}, "7"),
        ({"content": "text", "url": "", "path": None, "id": " "}, None),
        ({"content": "text", "metadata": {"url": "u", "source": "s"}}, "u"),
    ],
)
def test_the_key_is_the_source_and_its_page(found, key):
    (row,) = documents_of([found])
    assert row["key"] == key
    assert row["url"] is None


def test_the_field_of_the_text_can_be_named():
    (row,) = documents_of([{"body": "text", "content": "other", "url": "u"}], content="body")
    assert row["content"] == "text"


@pytest.mark.parametrize("found", [Haystack("1", None, blob=b"x"), {"words": "text"}, 7, "text", None, {"text": 7}])
def test_an_object_without_text_is_named(found):
    rows = documents_of([LangChain("text"), found])
    next(rows)
    with pytest.raises(AssistantInputError, match=rf"object 1 \({type(found).__name__}\) has no text"):
        next(rows)


def test_only_what_is_needed_is_read():
    def endless():
        number = 0
        while True:
            yield {"text": str(number)}
            number += 1

    rows = documents_of(endless())
    assert [next(rows)["content"] for _ in range(3)] == ["0", "1", "2"]
