"""Rows from the objects of other libraries, and from any mappings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import uuid4

import pandas as pd
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import COLUMNS, documents_of, split_documents

URL = "https://docs.example.com/a"
METADATA = {"source": URL, "title": "A", "category": "guide", "date": date(2026, 11, 22)}
ROW = {
    "key": URL, "parent": URL, "title": "A", "content": "text", "category": "guide", "url": URL, "date": "2026-11-22",
}  # fmt: skip


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

    def title(self) -> str:
        return "a method"


@dataclass
class Haystack:
    id: str
    content: str | None
    meta: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    "found",
    [
        LangChain("text", METADATA),
        LlamaIndex("text", METADATA),
        Haystack("hash", "text", METADATA),
        {"text": "text", "metadata": METADATA},
        {"content": "text", **METADATA},
        ROW,
    ],
    ids=lambda found: type(found).__name__,
)
def test_text_and_metadata_of_known_objects(found):
    (row,) = documents_of([found])
    assert tuple(row) == COLUMNS
    assert row == ROW


@pytest.mark.parametrize(
    ("found", "parent", "key"),
    [
        (LangChain("text", {"source": "/data/a.pdf", "page": 0}), "/data/a.pdf", "/data/a.pdf"),
        (LlamaIndex("text", {"file_path": "a.pdf", "page_label": "iv"}), "a.pdf", "a.pdf"),
        (LangChain("text", {}, id="7"), "7", "7"),
        (LlamaIndex("text"), None, None),
        (LlamaIndex("text", {}, "handbook/a.md"), "handbook/a.md", "handbook/a.md"),
        (LlamaIndex("text", ref_doc_id="a.md"), "a.md", "a.md"),
        (LlamaIndex("text", {}, "node 1", "a.md"), "a.md", "node 1"),
        ({"content": "text", "id": 7, "page_id": 3}, "7", "7"),
        ({"content": "text", "metadata": {"title": "A"}, "path": "a.md"}, "a.md", "a.md"),
        ({"content": "text", "url": "", "path": None, "id": " "}, None, None),
        ({"content": "text", "url": float("nan"), "path": pd.NA, "id": "7"}, "7", "7"),
        ({"content": "text", "key": "a", "parent": "b", "id": 7}, "b", "a"),
    ],
)
def test_the_key_is_the_source_without_its_page(found, parent, key):
    (row,) = documents_of([found])
    assert (row["parent"], row["key"], row["url"]) == (parent, key, None)


def test_a_page_that_is_inserted_into_a_file_changes_no_other_chunk():
    def chunks(pages):
        parts = [LangChain(text, {"source": "h.pdf", "page": number}) for number, text in enumerate(pages)]
        return {chunk["key"] for chunk in split_documents(documents_of(parts))}

    pages = [f"Text of the page {number}." for number in range(10)]
    before = chunks(pages)
    after = chunks([pages[0], "A new page.", *pages[1:]])
    assert (len(before), len(after - before), before - after) == (10, 1, set())


def test_fields_are_named_by_path_or_function():
    article = {
        "number": 5, "fields": {"head": "H", "text": "a"}, "link": "/5", "section": 3, "day": "2026-01-01", "id": 1,
    }  # fmt: skip
    (row,) = documents_of(
        [article],
        key="number",
        title="fields.head",
        content="fields.text",
        url=lambda one: f"https://x.org{one['link']}",
        category=lambda one: {3: "Three"}[one["section"]],
        date="day",
    )
    assert list(row.values()) == ["5", "5", "H", "a", "Three", "https://x.org/5", "2026-01-01"]
    attributes = documents_of([LangChain("text", {"a": {"b": "deep"}})], key="metadata.a.b", title="type")
    assert [(row["key"], row["title"]) for row in attributes] == [("deep", "Document")]


@pytest.mark.promise("sources of documents", "Articles that are not for readers are left out and counted.")
@pytest.mark.parametrize(
    "hidden",
    [
        {"draft": True}, {"draft": "true"}, {"status": "draft"}, {"archived": True}, {"private": "yes"},
        {"visibility": "internal"}, {"is_published": False}, {"deleted_at": "2026-01-01"}, {"published_at": None},
        {"published_at": pd.NaT}, {"published_at": float("nan")}, {"published_at": pd.NA},
        {"metadata": {"draft": True}},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_published_is_left_out(hidden):
    rows = documents_of([{"id": 1, "content": "text", **hidden}, {"id": 2, "content": "text"}])
    assert [row["key"] for row in rows] == ["2"]
    (left_out,) = rows.account.left_out
    assert (left_out.unit, left_out.count, left_out.is_expected) == ("document", 1, True)


@pytest.mark.parametrize(
    "shown",
    [{"draft": False}, {"published": True}, {"status": "current"}, {"deleted_at": None}, {"deleted_at": pd.NaT}],
    ids=str,
)
def test_what_is_published_is_read(shown):
    assert len(list(documents_of([{"id": 1, "content": "text", **shown}]))) == 1


def test_keep_leaves_out_more_but_never_less():
    given = [
        {"id": n, "content": "text", "locale": locale, "public": n or pd.NA}
        for n, locale in enumerate(("en", "de", "en"))
    ]
    given[2]["draft"] = True
    for keep in (lambda one: one["locale"] == "en", "id", "public"):
        rows = documents_of(given, keep=keep)
        assert [row["key"] for row in rows] == ["0" if callable(keep) else "1"]
        assert [(one.count, one.is_expected) for one in rows.account.left_out] == [(1, True), (1, True)]


def test_html_becomes_markdown_only_if_said():
    text = '<article>a</article><main>b</main><p>See <a href="/x">x</a>.</p><pre># no heading</pre>'
    given = {"id": 1, "content": text, "url": URL}
    (row,) = documents_of([given], html=True)
    assert row["content"] == "a\n\nb\n\nSee [x](https://docs.example.com/x).\n\n```\n# no heading\n```"
    for plain in (text, "If 3<x and x>2", "a<b"):
        assert next(documents_of([{**given, "content": plain}]))["content"] == plain


@pytest.mark.parametrize(
    "found", [{"words": "text"}, 7, "text", None, {"text": 7}, {"content": {"html": "a"}}, Haystack("1", None)], ids=str
)
def test_an_object_without_a_field_of_the_text_is_named(found):
    given = [LangChain("text", id="1"), found, LangChain("text", id="3")]
    with pytest.raises(AssistantInputError, match=rf"object 1 \({type(found).__name__}\).* has no text in content or"):
        list(documents_of(given))
    rows = documents_of(given, on_error="skip")
    assert [row["key"] for row in rows] == ["1", None, "3"]
    assert [(one.reason, one.count) for one in rows.account.unexpected] == [("cannot be read", 1)]


def test_an_object_with_an_empty_text_is_a_warning():
    given = [Haystack("1", ""), {"id": 2, "content": " "}]
    rows = documents_of(given)
    assert list(rows) == []
    (left_out,) = rows.account.unexpected
    assert (left_out.reason, left_out.count, left_out.examples) == ("has no text", 2, ["1", "2"])
    with pytest.raises(AssistantInputError, match="has no text"):
        list(documents_of(given, strict=True))


def test_only_what_is_needed_is_read():
    endless = ({"body": str(number), "content": "other", "url": "u"} for number in itertools.count())
    rows = documents_of(endless, content="body")
    assert [next(rows)["content"] for _ in range(3)] == ["0", "1", "2"]
