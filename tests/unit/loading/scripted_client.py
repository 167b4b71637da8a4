"""Texts to load, and a client of loads without a network."""

from __future__ import annotations

from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.load_client import LoadClient
from airflow_provider_assistant.loading.sources import open_source

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.loading.rows import DataframeRows
from tests.wire import FunctionTransport


class ScriptedClient(LoadClient):
    """
    Get every response from a coroutine function, behind the rate limiter.

    :param answer: Called with each call; returns its response.
    """

    def __init__(self, answer, *args, **kwargs) -> None:
        super().__init__(*args, async_transport=FunctionTransport(answer), **kwargs)


def text_rows(titles, content="c", *, kind=DataframeRows, allow_empty=False):
    """
    Return the rows of a source of texts, whose key is their title.

    :param titles: The titles, or the content by title.
    """
    contents = titles.items() if isinstance(titles, dict) else ((title, content) for title in titles)
    source = [{"title": title, "content": text, "category": "faq"} for title, text in contents]
    fields = ("title", "content", "category")
    return kind(
        open_source(source, ColumnSelection(fields)),
        payload=TextDocument,
        columns={field: field for field in fields},
        constants={},
        key_columns=["title"],
        call=lambda document: endpoints.create_text_document("s", document),
        allow_empty=allow_empty,
    )
