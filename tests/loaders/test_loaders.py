"""The real documents of other libraries. `make loaders` installs them and runs this; nothing else collects it."""

from __future__ import annotations

import dlt
import pytest
from haystack import Document as HaystackDocument
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.schema import Document as LlamaIndexDocument
from llama_index.core.schema import TextNode

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import documents_of

URL = "https://docs.example.com/a"
METADATA = {"url": URL, "title": "A", "category": "guide", "date": "2026-11-22"}
ROW = {"key": URL, "parent": URL, "content": "text", **METADATA}


@pytest.mark.parametrize(
    "document",
    [
        LangChainDocument(page_content="text", metadata=METADATA),
        LlamaIndexDocument(text="text", metadata=METADATA),
        TextNode(text="text", metadata=METADATA),
        HaystackDocument(content="text", meta=METADATA),
    ],
    ids=lambda document: f"{type(document).__module__.partition('.')[0]}.{type(document).__name__}",
)
def test_a_document_with_metadata(document):
    assert list(documents_of([document])) == [ROW]


def test_a_key_without_metadata():
    """Ids of LlamaIndex are random: they would create every document again."""
    haystack = HaystackDocument(content="text")
    documents = [LangChainDocument(page_content="text", id="7"), LlamaIndexDocument(text="text"), haystack]
    documents += [LlamaIndexDocument(text="text", id_="a.md"), TextNode(text="text")]
    assert [row["key"] for row in documents_of(documents)] == ["7", None, haystack.id, "a.md", None]


def test_a_document_without_text():
    with pytest.raises(AssistantInputError, match=r"object 0 \(Document\).* has no text"):
        list(documents_of([HaystackDocument(meta=METADATA)]))


def test_the_rows_of_a_resource():
    """dlt extracts mappings; its own columns, such as the id of a load, are added only when it loads them."""

    @dlt.resource(primary_key="id")
    def articles():
        yield [{"id": number, "title": f"T{number}", "body": "text", "category": "guide"} for number in range(3)]

    rows = list(documents_of(articles(), content="body"))
    assert [(row["key"], row["title"], row["content"]) for row in rows] == [
        (str(number), f"T{number}", "text") for number in range(3)
    ]
