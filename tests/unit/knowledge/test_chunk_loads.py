"""Chunks of generated pages and articles, loaded on several nights: what is created again, and what looks stale."""

from __future__ import annotations

import random
import re

import pytest

from airflow_provider_assistant.knowledge import documents_of, split_documents, write_documents
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


@pytest.mark.promise("sources of documents", "Night after night, only chunks whose text or title changed are created.")
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
