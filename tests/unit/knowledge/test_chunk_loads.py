"""Chunks of generated pages and articles, loaded on several nights: what is created again, and what looks stale."""

from __future__ import annotations

import random
import re

import pytest

from airflow_provider_assistant.knowledge import article_documents, documents_of, split_documents, write_documents
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from tests.markdown_pages import Pages
from tests.task_runs.context import task_context


@pytest.fixture
def load(connection, tmp_path):
    def run(rows):
        path = write_documents(rows, tmp_path / "chunks.parquet")["path"]
        operator = AssistantLoadTextOperator(
            task_id="load", source=path, key_columns=["key"], group_columns=["parent"], max_rejected=1
        )
        return operator.execute(task_context())

    return run


def pages_of(texts, changed=()):
    for name, text in texts.items():
        yield {"text": text, "path": name, "title": f"New {name}" if name in changed else f"Title {name}"}


def test_chunks_on_four_nights(load, service):
    pages = Pages(random.Random(5))
    texts = {f"page-{number}.md": pages.page(8) for number in range(3)}
    chunks = list(split_documents(documents_of(pages_of(texts)), 500))
    first = load(split_documents(documents_of(pages_of(texts)), 500))
    assert (first["created"], first["rejected"]) == (len(chunks), 0)
    stored = sorted((document["title"], document["content"]) for document in service.documents())
    assert stored == sorted((chunk["title"], chunk["content"]) for chunk in chunks)
    shown = "".join(title + content for title, content in stored)
    assert set(re.findall(r"u\d+u", "".join(texts.values()))) <= set(re.findall(r"u\d+u", shown))

    reformatted = {name: re.sub(r"\n", "  \r\n", text) + "\r\n\r\n" for name, text in texts.items()}
    second = load(split_documents(documents_of(pages_of(reformatted)), 500))
    assert (second["created"], second["unchanged"], second["stale"]) == (0, len(chunks), 0)

    of_page = sum(chunk["parent"] == "page-2.md" for chunk in chunks)
    third = load(split_documents(documents_of(pages_of(texts, {"page-2.md"})), 500))
    assert (third["created"], third["changed"], third["stale"]) == (of_page, of_page, 0)

    # The last night, a page cannot be read: its row has no key.
    del texts["page-2.md"]
    rows = [*documents_of(pages_of(texts)), {**chunks[0], "key": None, "parent": "page-2.md", "content": ""}]
    last = load(split_documents(rows, 500))
    assert (last["created"], last["rejected"], last["unchanged"]) == (0, 1, len(chunks) - of_page)
    assert not last["stale"]


def test_articles_on_two_nights(load, service):
    articles = [
        {
            "id": number,
            "title": f"Title {number}",
            "body": f"<h2>Question {number}?</h2><p>Answer <b>{number}</b>.</p><h2>Shipped on Sunday? No.</h2>",
            "html_url": f"https://acme.zendesk.com/hc/en-us/articles/{number}",
            "draft": number % 4 == 0,
            "locale": "en-us",
        }
        for number in range(1, 13)
    ]
    results = [load(split_documents(article_documents(articles, locales="en"))) for _ in range(2)]
    assert [result["created"] for result in results] == [18, 0]
    assert results[1]["stale"] == 0
    assert results[0]["left_out"] == 3
    contents = [document["content"] for document in service.documents()]
    assert sorted(contents)[:2] == ["Answer **1**.", "Answer **10**."]
    assert contents.count("Shipped on Sunday? No.") == 9
