"""Read the list of a site's documents page by page, without I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from airflow_provider_assistant.api.call import Call, CallInfo
from airflow_provider_assistant.api.document_routes import DocumentRoutes, ListRoute, PagingKind, path_of, required
from airflow_provider_assistant.api.json_objects import nested_objects, text_of
from airflow_provider_assistant.api.site_documents import (
    DocumentPage,
    SiteDocument,
    document_page,
    first_value,
    value_at,
)
from airflow_provider_assistant.exceptions import (
    AssistantBadRequestError,
    AssistantError,
    AssistantNotFoundError,
    AssistantResponseError,
)
from airflow_provider_assistant.texts import counted

# A page that the service invents for ever would otherwise be an endless loop.
MOST_PAGES = 100_000
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
TOTAL_FIELDS = ("total", "total_count", "totalCount", "total_items", "totalItems", "total_documents", "count")
LAST_PAGE_FIELDS = ("total_pages", "totalPages", "page_count", "pageCount", "last_page", "pages")
MORE_FIELDS = ("has_more", "hasMore", "has_next", "hasNext")


# One link of a Link header (RFC 8288): its target and its parameters.
_LINK = re.compile(r"<([^>]*)>([^<]*)")


class DocumentPages:
    """
    Plan the requests that read the list of a site's documents.

    Send :attr:`call` and pass its reply to :meth:`take`, until it is None. If the request fails, pass the error to
    :meth:`failed`.

    :param routes: Routes of the connection.
    :raises AssistantInputError: They have no list, or the site id cannot be part of a URL.
    """

    def __init__(self, site_id: str, routes: DocumentRoutes) -> None:
        self._site_id = site_id
        self._route: ListRoute = required(routes.list, "list")
        self._words = routes.words
        self._paging = self._route.paging
        self._seen = 0
        self._pages = 0
        # Pages that had other documents than the page before.
        self._new_pages = 0
        self._page_number = self._paging.first
        self._last_query: dict[str, str] = {}
        self._last_ids: set[str] = set()
        # What the replies show is replaced here for ``auto``.
        self._kind: PagingKind = self._paging.kind
        # Whether the last request was sent only to see whether there is another page.
        self._is_guess = False
        #: The next request. None after the last page.
        self.call: Call[DocumentPage] | None = self._first()

    def take(self, page: DocumentPage) -> Sequence[SiteDocument]:
        """
        Return the documents of a page, and plan the next request.

        :return: The documents; none if the service repeats the last page instead of sending another one.
        :raises AssistantResponseError: The replies show that there are more documents, but not how to read them.
        """
        self._pages += 1
        ids = {document.document_id for document in page.documents}
        is_repeated = self._pages > 1 and ids <= self._last_ids
        self.call = None
        # For a number beyond the last one, a service may send an empty page, or the last page again.
        if is_repeated or not ids:
            if is_repeated and self._is_guess and self._kind == "page" and self._paging.kind == "auto":
                # Perhaps the service counts documents instead of pages.
                self._kind = "offset"
                self.call = self._call(self._query_of_offset())
            elif is_repeated and self._kind in {"cursor", "link"}:
                raise self._unreadable("the service repeats its last page")
            else:
                self._check_complete(page)
            return ()
        self._last_ids = ids
        self._new_pages += 1
        self._seen += len(page.documents)
        if self._pages >= MOST_PAGES:
            raise self._unreadable(f"it did not end after {MOST_PAGES} pages")
        self._is_guess = False
        query = self._next_query(page)
        if query is None:
            self._check_complete(page)
        else:
            self.call = self._call(query)
        return page.documents

    def failed(self, error: AssistantError) -> None:
        """
        Raise the error of the last request, unless it only asked for a page that does not exist.

        :raises AssistantError: The error.
        """
        is_refused = isinstance(error, AssistantBadRequestError | AssistantNotFoundError)
        if not (self._is_guess and is_refused):
            raise error
        self.call = None

    @property
    def understood(self) -> str:
        """How the list is paged, for people."""
        if self._new_pages <= 1:
            return "one page"
        parameters = ", ".join(self._last_query)
        return f"{self._kind} ({parameters})"

    def _first(self) -> Call[DocumentPage]:
        query = self._size()
        if self._paging.kind == "page" and self._paging.parameter:
            query[self._paging.parameter] = str(self._paging.first)
        return self._call(query)

    # -- how to go on --------------------------------------------------------------------------

    def _next_query(self, page: DocumentPage) -> dict[str, str] | None:
        """Return the query of the next page; None if this is the last one."""
        if self._kind == "auto":
            self._kind = self._kind_of(page)
        match self._kind:
            case "link":
                return self._query_of_link(page)
            case "cursor":
                return self._query_of_cursor(page)
            case "page" if not self._is_at_end(page):
                return self._query_of_page()
            case "offset" if not self._is_at_end(page):
                return self._query_of_offset()
        return None

    def _kind_of(self, page: DocumentPage) -> PagingKind:
        """Return how the list is paged, as its first page shows it; page numbers if it shows nothing."""
        if self._link(page):
            return "link"
        if self._cursor(page)[0]:
            return "cursor"
        return "page"

    def _query_of_link(self, page: DocumentPage) -> dict[str, str] | None:
        """Return the query of a link. Its host and path are not used: the API key stays with the configured path."""
        link = self._link(page)
        if not link:
            return None
        query = dict(parse_qsl(urlsplit(link).query, keep_blank_values=True))
        if not query or query == self._last_query:
            raise self._unreadable("the link to its next page has no new query")
        return query

    def _query_of_cursor(self, page: DocumentPage) -> dict[str, str] | None:
        cursor, parameter = self._cursor(page)
        if not cursor:
            return None
        query = {**self._size(), parameter: cursor}
        if query == self._last_query:
            raise self._unreadable("the cursor of its next page does not change")
        return query

    def _cursor(self, page: DocumentPage) -> tuple[str | None, str]:
        """Return the next cursor, None if there is none, and its query parameter."""
        if self._paging.next:
            return text_of(value_at(page.raw, self._paging.next)), self._paging.parameter or "cursor"
        for envelope in nested_objects(page.raw):
            for name, parameter in CURSOR_FIELDS.items():
                cursor = text_of(envelope.get(name))
                if cursor:
                    return cursor, self._paging.parameter or parameter
        return None, ""

    def _query_of_page(self) -> dict[str, str]:
        self._page_number += 1
        self._is_guess = True
        return {**self._size(), self._paging.parameter or "page": str(self._page_number)}

    def _query_of_offset(self) -> dict[str, str]:
        self._is_guess = True
        return {**self._size(), self._paging.parameter or "offset": str(self._seen)}

    def _is_at_end(self, page: DocumentPage) -> bool:
        """Return whether the reply says that this is the last page."""
        more = first_value(page.raw, MORE_FIELDS)
        if isinstance(more, bool):
            return not more
        last_page = first_value(page.raw, LAST_PAGE_FIELDS)
        if isinstance(last_page, int) and not isinstance(last_page, bool):
            return self._pages >= last_page
        total = self._total(page)
        return total is not None and self._seen >= total

    def _total(self, page: DocumentPage) -> int | None:
        if self._paging.total:
            total = value_at(page.raw, self._paging.total)
        else:
            total = first_value(page.raw, TOTAL_FIELDS)
        if isinstance(total, bool) or not isinstance(total, int):
            return None
        # Some services count the items of this page only.
        is_of_page = total == len(page.documents) + page.skipped and self._pages == 1 and not self._paging.total
        return None if is_of_page else total

    def _check_complete(self, page: DocumentPage) -> None:
        """Raise if the last reply says that there are more documents than were read."""
        more = first_value(page.raw, MORE_FIELDS)
        total = self._total(page)
        is_short = total is not None and self._seen < total
        if is_short:
            raise self._unreadable(
                f"it says that there are {counted(total or 0, 'document')}, and only {self._seen} could be read"
            )
        if more is True:
            raise self._unreadable(f"it says that there are more than the {self._seen} that could be read")

    def _unreadable(self, reason: str) -> AssistantResponseError:
        return AssistantResponseError(
            f"the list of documents of site {self._site_id!r} cannot be read to its end: {reason}",
            safe="Nothing was changed.",
            todo="Describe the paging of the list in manage_documents of the connection (list.paging); "
            "`airflow assistant documents check` shows what is understood.",
        )

    # -- requests and replies ------------------------------------------------------------------

    def _size(self) -> dict[str, str]:
        if self._paging.size_parameter is None:
            return {}
        return {self._paging.size_parameter: str(self._paging.size)}

    def _link(self, page: DocumentPage) -> str | None:
        if self._paging.next:
            return text_of(value_at(page.raw, self._paging.next))
        return next_link(page.raw, page.call_info.link)

    def _call(self, query: dict[str, str]) -> Call[DocumentPage]:
        self._last_query = query
        path = path_of(self._route.path, self._site_id)
        if query:
            path = f"{path}?{urlencode(query)}"
        return Call(
            endpoint="documents.list",
            method=self._route.method,
            path=path,
            subject=f"site {self._site_id!r}",
            parse=self._parse,
            idempotent=True,
        )

    def _parse(self, raw: Any, call_info: CallInfo) -> DocumentPage:
        return document_page(self._route, self._words, raw, call_info)


def next_link(raw: Any, header: str | None) -> str | None:
    """
    Return the URL of the next page, if it has a query.

    :param raw: The reply.
    :param header: Value of its ``Link`` header, or None.
    """
    link = _link_in_header(header)
    if link and urlsplit(link).query:
        return link
    for envelope in nested_objects(raw):
        for name in LINK_FIELDS:
            value = envelope.get(name)
            if isinstance(value, Mapping):
                value = value.get("href")
            if isinstance(value, str) and urlsplit(value).query:
                return value
    return None


def _link_in_header(header: str | None) -> str | None:
    for target, parameters in _LINK.findall(header or ""):
        for parameter in parameters.split(";"):
            name, _, value = parameter.partition("=")
            relations = value.strip(' ",').casefold().split()
            if name.strip().casefold() == "rel" and "next" in relations:
                return str(target).strip()
    return None
