"""Read the list of a site's documents page by page, without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.document_routes import DocumentRoutes, route_of
from airflow_provider_assistant.api.endpoints import segment, with_query
from airflow_provider_assistant.api.read_pages import (
    LAST_PAGE_FIELDS,
    NUMBER_FIELDS,
    TOTAL_FIELDS,
    names_next,
    next_query,
    number_of,
    says_more,
    unread_items,
)
from airflow_provider_assistant.api.site_documents import DocumentPage, SiteDocument, document_page, fields_of
from airflow_provider_assistant.exceptions import (
    AssistantBadRequestError,
    AssistantError,
    AssistantNotFoundError,
    AssistantResponseError,
)
from airflow_provider_assistant.texts import counted

# A list that the service invents for ever would otherwise be an endless loop.
MOST_PAGES = 100_000


class DocumentPages:
    """
    Plan the requests that read the list of a site's documents.

    Send :attr:`call` and pass its reply to :meth:`take`, until it is None. If the request fails, pass the error to
    :meth:`failed`. The next page is found by a link, a cursor, a page number or an offset. If the first page shows none
    of them, a second one is asked for, which has to be empty, refused, or the same again.

    :param routes: Routes of the connection.
    :raises AssistantInputError: They have no list, or the site id cannot be part of a URL.
    """

    def __init__(self, site_id: str, routes: DocumentRoutes) -> None:
        self._site_id = site_id
        self._routes = routes
        self._route = route_of(routes, "list")
        self._ids: set[str] = set()
        self._pages = 0
        # Whether the last request was sent only to see whether there is another page.
        self._is_guess = False
        #: The next request. None after the last page.
        self.call: Call[DocumentPage] | None = self._call({})

    def take(self, page: DocumentPage) -> Sequence[SiteDocument]:
        """
        Return the documents of a page that are new, and plan the next request.

        :raises AssistantResponseError: The list repeats a page, or says that there are more documents than were read.
        """
        self._pages += 1
        new = [document for document in page.documents if document.document_id not in self._ids]
        self._ids.update(document.document_id for document in new)
        if page.documents and not new and not self._is_guess:
            raise self._unreadable(page, "it repeats a page")
        query = self._next_query(page) if new else None
        unread = unread_items(page.raw, len(self._ids), self._pages)
        if query is None and unread:
            known = f"it has at least {counted(unread, 'more document')} than the {len(self._ids)} that could be read"
            raise self._unreadable(page, known)
        if self._pages >= MOST_PAGES:
            raise self._unreadable(page, f"it did not end after {MOST_PAGES} pages")
        self.call = None if query is None else self._call(query)
        return new

    def failed(self, error: AssistantError) -> None:
        """
        Raise the error of the last request, unless it only asked for a page that does not exist.

        :raises AssistantError: The error.
        """
        is_refused = isinstance(error, AssistantBadRequestError | AssistantNotFoundError)
        if not (self._is_guess and is_refused):
            raise error
        self.call = None

    def _next_query(self, page: DocumentPage) -> dict[str, str] | None:
        """Return the query of the next page; None if this is the last one."""
        may_guess, self._is_guess = self._pages == 1 or self._is_guess, False
        query = next_query(page, {})
        if query or says_more(page.raw) is False:
            return query
        offset, limit = number_of(page.raw, ("offset",)), number_of(page.raw, ("limit",))
        if not (names_next(page) or unread_items(page.raw, len(self._ids), self._pages)):
            if number_of(page.raw, LAST_PAGE_FIELDS + TOTAL_FIELDS) is not None:
                return None
            # Nothing says whether there is more, except a page that is full. After the end of a cursor or of links,
            # there is not.
            is_full = offset is not None and 0 < (limit or 0) <= len(page.documents)
            self._is_guess = may_guess and not is_full
            if not (may_guess or is_full):
                return None
        # Some services count pages from 0.
        number = number_of(page.raw, NUMBER_FIELDS)
        if number is None and offset is not None:
            return {"offset": str(offset + len(page.documents))}
        return {"page": str((self._pages if number is None else number) + 1)}

    def _unreadable(self, page: DocumentPage, reason: str) -> AssistantResponseError:
        return AssistantResponseError(
            f"the list of documents of site {self._site_id!r} cannot be read to its end: {reason}; "
            f"of the last page, {fields_of(page.raw)}",
            safe="Nothing was changed.",
            todo="The list must be one page, or show its next page by a link, a cursor, a page number or an offset. "
            "`airflow assistant documents check` shows what is understood.",
        )

    def _call(self, query: dict[str, str]) -> Call[DocumentPage]:
        path = self._route.path.format(site_id=segment("site_id", self._site_id), document_id="")
        return Call(
            endpoint="documents.list",
            method=self._route.method,
            path=with_query(path, query),
            subject=f"site {self._site_id!r}",
            parse=partial(document_page, self._routes),
            idempotent=True,
        )
