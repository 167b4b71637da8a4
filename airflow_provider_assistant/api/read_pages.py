"""Whether a reply has a next page, and how to ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from airflow_provider_assistant.api.fields import text_of
from airflow_provider_assistant.api.replies import ApiReply

# Depth of the objects in which paging is described, such as ``meta`` or ``pagination``.
DEPTH = 3
LINK_FIELDS = ("next", "next_url", "nextUrl", "next_link", "nextLink", "next_page_url")
# Fields with the next cursor, and the usual query parameter of each.
CURSOR_FIELDS = {
    "next_cursor": "cursor",
    "nextCursor": "cursor",
    "end_cursor": "cursor",
    "cursor": "cursor",
    "next_page_token": "page_token",
    "nextPageToken": "pageToken",
    "next_token": "token",
    "starting_after": "starting_after",
}
PAGE_FIELDS = ("next_page", "nextPage")
NUMBER_FIELDS = ("page", "current_page", "currentPage", "page_number", "pageNumber")
MORE_FIELDS = ("has_more", "hasMore", "has_next", "hasNext")
TOTAL_FIELDS = ("total", "total_count", "totalCount", "total_items", "totalItems", "total_documents")
LAST_PAGE_FIELDS = ("total_pages", "totalPages", "page_count", "pageCount", "last_page", "pages")
# One link of a Link header (RFC 8288): its target and its parameters.
_LINK = re.compile(r"<([^>]*)>([^<]*)")


def next_query(reply: ApiReply, params: Mapping[str, str]) -> dict[str, str] | None:
    """
    Return the query of the next page; None if the reply shows none, or says that there is none.

    Of a link, only the query is used, so the API key stays with the configured host and path.

    :param params: Query parameters of the first page.
    """
    if says_more(reply.raw) is False:
        return None
    for query in map(_query_of, _links(reply)):
        if query:
            return dict(parse_qsl(query, keep_blank_values=True))
    for name, parameter in CURSOR_FIELDS.items():
        for cursor in map(text_of, _values(reply.raw, name)):
            if cursor:
                return {**params, parameter: cursor}
    number = number_of(reply.raw, PAGE_FIELDS)
    return None if number is None else {**params, "page": str(number)}


def says_more(raw: Any) -> bool | None:
    """Return whether the reply says that there are more pages; None if it does not say it."""
    for value in _values(raw, *MORE_FIELDS):
        word = str(value).strip().lower()
        if word in {"true", "false"}:
            return word == "true"
    return None


def names_next(reply: ApiReply) -> bool:
    """Return whether the reply names a next page, also one that :func:`next_query` cannot ask for."""
    return any([*_links(reply), *_values(reply.raw, *PAGE_FIELDS)])


def number_of(raw: Any, names: tuple[str, ...]) -> int | None:
    """Return the number in the first of these fields, which may be a text; None if there is none."""
    for number in map(text_of, _values(raw, *names)):
        if number and re.fullmatch(r"-?\d{1,99}", number, re.ASCII):
            return int(number)
    return None


def unread_items(raw: Any, read: int, pages: int = 1) -> int:
    """
    Return how many items there are in addition to those that were read; 1 if the reply only says that there are more.

    :param raw: The reply of the last page.
    :param read: Number of items that were read.
    :param pages: Number of pages that were read.
    """
    missing = (number_of(raw, TOTAL_FIELDS) or 0) - read
    if missing > 0:
        return missing
    return 1 if says_more(raw) or (number_of(raw, LAST_PAGE_FIELDS) or 0) > pages else 0


def _values(raw: Any, *names: str) -> Iterator[Any]:
    """Yield the values of these fields in the objects of a reply, ordered by name, and then by depth."""
    for name in names:
        objects = [raw] if isinstance(raw, dict) else []
        for _ in range(DEPTH):
            yield from (one[name] for one in objects if one.get(name) is not None)
            objects = [value for one in objects for value in one.values() if isinstance(value, dict)]


def _links(reply: ApiReply) -> Iterator[Any]:
    """Yield what may be the URL of the next page: of the ``Link`` header, and then of the body."""
    for target, parameters in _LINK.findall(reply.call_info.link or ""):
        if re.search(r'\brel="?([^"]* )?next\b', parameters, re.IGNORECASE):
            yield target
    for value in _values(reply.raw, *LINK_FIELDS):
        yield value.get("href", any(value.values())) if isinstance(value, dict) else value


def _query_of(link: Any) -> str:
    return link.partition("#")[0].partition("?")[2] if isinstance(link, str) else ""
