"""Rows from the objects of other libraries."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import COLUMNS, documents_of, split_documents

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
    id_: str = field(default_factory=lambda: str(uuid4()))
    ref_doc_id: str | None = None


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
        (LlamaIndex("text", {}, "handbook/a.md"), "handbook/a.md"),
        (LlamaIndex("text", {}, ref_doc_id="a.md"), "a.md"),
        ({"content": "text", "id": 7, "page_id": 3}, "7"),
        ({"content": "text", "metadata": {"title": "A"}, "path": "a.md"}, "a.md"),
        ({"content": "text", "url": "", "path": None, "id": " "}, None),
    ],
)
def test_the_key_is_the_source_and_its_page(found, key):
    (row,) = documents_of([found])
    assert row["key"] == key
    assert row["url"] is None


def test_a_document_of_a_node_is_its_parent():
    nodes = [
        LlamaIndex("one", {}, "node 1", "a.md"),
        LlamaIndex("two", ref_doc_id="a.md"),
        LlamaIndex("three", {}, "b.md"),
    ]
    assert [(row["parent"], row["key"]) for row in documents_of(nodes)] == [
        ("a.md", "node 1"),
        ("a.md", "a.md"),
        ("b.md", "b.md"),
    ]


def test_parts_of_one_page_have_different_chunks():
    """Many loaders give the parts of a page one address and no number."""
    parts = [LangChain(f"part {number}", {"source": "https://docs.example.com/a"}) for number in range(3)]
    chunks = list(split_documents(documents_of(parts)))
    assert [chunk["content"] for chunk in chunks] == ["part 0", "part 1", "part 2"]
    assert len({chunk["key"] for chunk in chunks}) == 3
    assert {chunk["parent"] for chunk in chunks} == {"https://docs.example.com/a"}


@pytest.mark.parametrize("found", [Haystack("1", None, blob=b"x"), {"words": "text"}, 7, "text", None, {"text": 7}])
def test_an_object_without_text_is_named(found):
    rows = documents_of([LangChain("text"), found])
    next(rows)
    with pytest.raises(AssistantInputError, match=rf"object 1 \({type(found).__name__}\) has no text"):
        next(rows)


def test_the_field_of_the_text_can_be_named_and_only_what_is_needed_is_read():
    endless = ({"body": str(number), "content": "other", "url": "u"} for number in itertools.count())
    rows = documents_of(endless, content="body")
    assert [next(rows)["content"] for _ in range(3)] == ["0", "1", "2"]
