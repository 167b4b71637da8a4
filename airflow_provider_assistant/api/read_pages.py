"""Whether the reply to a read has a next page, and how to ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from airflow_provider_assistant.api.document_pages import (
    CURSOR_FIELDS,
    LAST_PAGE_FIELDS,
    MORE_FIELDS,
    TOTAL_FIELDS,
    next_link,
)
from airflow_provider_assistant.api.json_objects import text_of
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.api.site_documents import first_value

# Fields with the number of the next page.
PAGE_FIELDS = ("next_page", "nextPage")


def next_query(reply: ApiReply, params: Mapping[str, str]) -> dict[str, str] | None:
    """
    Return the query of the next page, if the reply shows that there is one.

    :param params: Query parameters of the first page.
    :return: The query. Of a link, only the query is used, so the API key stays with the configured host and path. None
        if the reply shows no next page.
    """
    link = next_link(reply.raw, reply.call_info.link)
    if link:
        return dict(parse_qsl(urlsplit(link).query, keep_blank_values=True))
    for name, parameter in CURSOR_FIELDS.items():
        cursor = text_of(first_value(reply.raw, (name,)))
        if cursor:
            return {**params, parameter: cursor}
    number = first_value(reply.raw, PAGE_FIELDS)
    if isinstance(number, int) and not isinstance(number, bool):
        return {**params, "page": str(number)}
    return None


def unread_items(raw: Any, read: int, pages: int = 1) -> int:
    """
    Return how many items the reply says that there are in addition to those that were read.

    :param raw: The reply of the last page.
    :param read: Number of items that were read.
    :param pages: Number of pages that were read. Default: 1.
    :return: The number; at least 1 if the reply only says that there are more.
    """
    missing = _number(raw, TOTAL_FIELDS) - read
    if missing > 0:
        return missing
    has_more = first_value(raw, MORE_FIELDS) is True or _number(raw, LAST_PAGE_FIELDS) > pages
    return 1 if has_more else 0


def _number(raw: Any, names: tuple[str, ...]) -> int:
    """Return the number in the first of these fields; 0 if it is not a number."""
    number = first_value(raw, names)
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    return 0
