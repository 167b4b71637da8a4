"""Look at the documents of a site, and change them, in bounded requests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from http import HTTPStatus

from airflow_provider_assistant.api import document_routes, errors
from airflow_provider_assistant.api.document_pages import DocumentPages
from airflow_provider_assistant.api.document_routes import Change, DocumentRoutes
from airflow_provider_assistant.api.document_state import DocumentState
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantPermissionError,
)

log = logging.getLogger(__name__)

# Seconds between two looks at the list: the first pause, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0


class RouteMissingError(Exception):
    """The service does not have a route that the connection describes."""


async def listed_documents(
    client: AssistantClient, site_id: str, routes: DocumentRoutes
) -> AsyncIterator[SiteDocument]:
    """
    Yield the documents of a site.

    :raises AssistantInputError: The connection describes no list.
    :raises AssistantResponseError: The list cannot be read to its end.
    :raises AssistantError: A request failed.
    """
    pages = DocumentPages(site_id, routes)
    while pages.call is not None:
        try:
            page = await client.asend(pages.call)
        except AssistantError as error:
            pages.failed(error)
            continue
        for document in pages.take(page):
            yield document


class SiteClient:
    """
    Look at the documents of a site, and change them.

    :param routes: The routes, from ``manage_documents`` of the connection.
    :ivar can_look: Whether the site has a list.
    :ivar watched: Ids of the documents to look for.
    :ivar states: State of the watched documents that the last look found, by id.
    :ivar gone: Ids of documents that a change did not find.
    """

    def __init__(self, client: AssistantClient, site_id: str, routes: DocumentRoutes) -> None:
        self.routes = routes
        self.can_look = routes.list is not None
        self.watched: set[str] = set()
        self.states: dict[str, DocumentState] = {}
        self.gone: set[str] = set()
        self._client = client
        self._site_id = site_id

    async def look(self) -> None:
        """
        Read the list, and keep the states of the watched documents. Do nothing if the service has no list.

        :raises AssistantError: The list cannot be read.
        """
        if not self.can_look:
            return
        states: dict[str, DocumentState] = {}
        try:
            async for document in listed_documents(self._client, self._site_id, self.routes):
                if document.document_id in self.watched:
                    states[document.document_id] = document.state
        except AssistantError as error:
            if not document_routes.is_missing_route(error):
                raise
            self.can_look = False
            log.warning("The documents of site %r cannot be listed: %s", self._site_id, error)
            return
        self.states = states

    async def look_until(self, is_done: Callable[[], bool], longest: float) -> None:
        """
        Look again, with growing pauses, until a condition holds.

        :param is_done: The condition, on :attr:`states`.
        :param longest: Longest time in seconds.
        """
        deadline = self._client.now() + longest
        pause = FIRST_PAUSE
        while self.can_look and not is_done():
            remaining = deadline - self._client.now()
            if remaining <= 0:
                return
            await self._client.asleep(min(pause, remaining))
            pause = min(2 * pause, LONGEST_PAUSE)
            await self.look()

    def among(self, ids: Iterable[str], states: Collection[DocumentState]) -> set[str]:
        """Return the documents that the last look found in one of these states."""
        return {document_id for document_id in ids if self.states.get(document_id) in states}

    async def change(self, change: Change, ids: Sequence[str]) -> dict[str, str]:
        """
        Change documents. A document that is gone counts as deactivated and deleted.

        :return: Why the service refused to change a document, by its id.
        :raises RouteMissingError: The service does not have the route.
        :raises AssistantError: A request failed.
        """
        if not ids:
            return {}
        refused: dict[str, AssistantError] = {}
        size = document_routes.route_of(self.routes, change).batch_size
        for batch in document_routes.batches(ids, size):
            refused |= await self._send(change, batch)
        missing = [one for one, error in refused.items() if _is_not_found(error)]
        for document_id in await self._gone(missing, refused, has_changed_others=len(missing) < len(ids)):
            self.gone.add(document_id)
            del refused[document_id]
        return {one: str(error) for one, error in refused.items()}

    async def _send(self, change: Change, batch: Sequence[str]) -> dict[str, AssistantError]:
        """Send one request; if it is refused, one for each document. Return the documents that were refused."""
        try:
            await self._client.asend(document_routes.change_documents(self._site_id, self.routes, change, batch))
        except AssistantError as error:
            _check_refusal(error)
            if len(batch) == 1:
                return {batch[0]: error}
        else:
            return {}
        refused: dict[str, AssistantError] = {}
        for document_id in batch:
            refused |= await self._send(change, [document_id])
        return refused

    async def _gone(
        self, missing: Sequence[str], refused: dict[str, AssistantError], *, has_changed_others: bool
    ) -> Sequence[str]:
        """
        Return those documents that got a 404 because they are gone.

        Without a list, the text of the reply says whether the document is missing or the route.

        :raises RouteMissingError: The 404 concerns the route, not the documents.
        """
        if not missing:
            return []
        self.watched.update(missing)
        await self.look()
        error = refused[missing[0]]
        gone = [one for one in missing if not self.can_look or one not in self.states]
        names_document = "document" in (getattr(error, "detail", None) or "").lower()
        is_about_documents = len(gone) == len(missing) if self.can_look else names_document
        if not (has_changed_others or is_about_documents):
            raise RouteMissingError(str(error))
        return gone


def _is_not_found(error: AssistantError) -> bool:
    return getattr(error, "status", None) == HTTPStatus.NOT_FOUND


def _check_refusal(error: AssistantError) -> None:
    """Raise an error that does not concern single documents."""
    if document_routes.is_missing_route(error) and not _is_not_found(error):
        raise RouteMissingError(str(error)) from error
    concerns_key = isinstance(error, AssistantAuthenticationError | AssistantPermissionError)
    if concerns_key or not errors.is_refused(error):
        raise error
