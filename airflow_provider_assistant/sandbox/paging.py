"""Lists in pages: the parameters that a request may have, and how a reply names the next page."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from airflow_provider_assistant.sandbox.errors import ApiError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from starlette.requests import Request

    from airflow_provider_assistant.sandbox.settings import Settings

# Where a request has its path as the client has sent it, if that has other names.
SENT_PATH = "assistant.sent_path"
_LARGEST = 1_000_000_000


class PageQuery(BaseModel):
    """Query parameters of a list. Which of them it reads depends on the setting ``paging``."""

    page: int = Field(default=1, ge=1, le=_LARGEST)
    page_size: int | None = Field(default=None, ge=1, le=_LARGEST)
    limit: int | None = Field(default=None, ge=1, le=_LARGEST)
    offset: int = Field(default=0, ge=0, le=_LARGEST)
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list.

    :param fields: what the body says about the page and the next one.
    :param headers: what the headers say about the next page.
    """

    rows: list[sqlite3.Row]
    fields: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def read_page(
    request: Request,
    query: PageQuery,
    settings: Settings,
    fetch: Callable[[int, int, int], list[sqlite3.Row]],
    count: Callable[[], int],
) -> Page:
    """Return the page of a list that a request asks for.

    :param fetch: returns rows in the order of their ``n``: those after an ``n``, without the first
        ones (offset), at most so many (limit; -1 means all).
    :param count: returns the number of all rows.
    """
    size = min(query.page_size or query.limit or settings.page_size, settings.page_size)
    match settings.paging:
        case "none":
            return Page(fetch(0, 0, -1))
        case "page":
            total = count()
            fields = {
                "page": query.page,
                "page_size": size,
                "total": total,
                "total_pages": -(-total // size),  # rounded up
            }
            return Page(fetch(0, (query.page - 1) * size, size), fields)
        case "offset":
            fields = {"offset": query.offset, "limit": size, "total": count()}
            return Page(fetch(0, query.offset, size), fields)
        case _:
            # One row more shows whether there is a next page.
            rows = fetch(_decode(query.cursor), 0, size + 1)
            cursor = None
            if len(rows) > size:
                rows = rows[:size]
                cursor = _encode(rows[-1]["n"])
            return _page_with_next(request, query, settings, rows, cursor)


def _page_with_next(
    request: Request,
    query: PageQuery,
    settings: Settings,
    rows: list[sqlite3.Row],
    cursor: str | None,
) -> Page:
    if settings.paging == "cursor":
        return Page(rows, {"next_cursor": cursor})
    url = None
    if cursor is not None:
        # Only lists of documents have other names.
        names = settings.document_names if SENT_PATH in request.scope else {}
        parameters = {names.get("cursor") or "cursor": cursor}
        if query.page_size:
            parameters[names.get("page_size") or "page_size"] = str(query.page_size)
        path = request.scope.get(SENT_PATH, request.url.path)
        url = str(request.url.replace(path=path, query="").include_query_params(**parameters))
    if settings.paging == "link":
        return Page(rows, {"next": url})
    headers = {}
    if url is not None:
        headers["Link"] = f'<{url}>; rel="next"'
    return Page(rows, headers=headers)


def _encode(number: int) -> str:
    """Return a cursor; clients must not read anything into it."""
    return base64.urlsafe_b64encode(f"after {number}".encode()).decode()


def _decode(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        word, _, number = base64.urlsafe_b64decode(cursor.encode()).decode().partition(" ")
        if word == "after" and number.isdecimal():
            return min(int(number), 2**63 - 1)
    except (binascii.Error, ValueError):
        pass
    raise ApiError(400, "cursor is not valid.", code="invalid_field", field="cursor")
