"""Look at the documents of a site, and change them, in bounded requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from airflow_provider_assistant.api import document_routes, errors
from airflow_provider_assistant.api.document_routes import Change
from airflow_provider_assistant.api.document_state import DocumentState
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantNotFoundError,
    AssistantPermissionError,
)
from airflow_provider_assistant.loading.managed_site import ManagedSite

log = logging.getLogger(__name__)

# Seconds between two looks at the list: the first pause, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0


class RouteMissingError(Exception):
    """The service does not have a route that the connection describes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that the service refused to change."""

    document_id: str
    reason: str


class SiteClient:
    """
    Look at the documents of a site, and change them.

    :param max_per_minute: Maximum number of documents to deactivate or delete per minute. Default: None, no limit.
    :ivar can_look: Whether the site has a list.
    :ivar watched: Ids of the documents to look for.
    :ivar states: State of the watched documents that the last look found, by id.
    """

    def __init__(self, client: AssistantClient, site: ManagedSite, max_per_minute: float | None = None) -> None:
        self._client = client
        self._site = site
        self._max_per_minute = max_per_minute
        # Time from which on further documents may be removed, in seconds since the epoch.
        self._next_removal = 0.0
        self.routes = site.routes
        self.can_look = site.routes.list is not None
        self.watched: set[str] = set()
        self.states: dict[str, DocumentState] = {}

    # -- look ----------------------------------------------------------------------------------

    async def look(self) -> None:
        """
        Read the list, and keep the states of the watched documents. Do nothing if the service has no list.

        :raises AssistantError: The list cannot be read.
        """
        if not self.can_look:
            return
        states: dict[str, DocumentState] = {}
        try:
            async for documents in self._site.pages(self._client):
                for document in documents:
                    if document.document_id in self.watched:
                        states[document.document_id] = document.state
        except AssistantError as error:
            if not document_routes.is_missing_route(error):
                raise
            self.can_look = False
            log.warning("The documents of site %r cannot be listed: %s", self._site.site_id, error)
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

    def among(self, ids: Iterable[str], states: Collection[DocumentState]) -> list[str]:
        """Return the documents that the last look found in one of these states."""
        return [document_id for document_id in ids if self.states.get(document_id) in states]

    # -- change --------------------------------------------------------------------------------

    async def change(
        self, change: Change, ids: Sequence[str], before: Callable[[Sequence[str]], None] = lambda _: None
    ) -> list[Refusal]:
        """
        Change documents. A document that is gone counts as deactivated and deleted.

        :param before: Called with the documents of each request before it is sent.
        :return: Documents that the service refused to change.
        :raises RouteMissingError: The service does not have the route.
        :raises AssistantError: A request failed.
        """
        refusals = []
        not_found = []
        for batch in self._batches(change, ids):
            await self._wait_for_turn(change, len(batch))
            before(batch)
            for document_id, error in await self._send(change, batch):
                if isinstance(error, AssistantNotFoundError):
                    not_found.append(Refusal(document_id, str(error)))
                else:
                    refusals.append(Refusal(document_id, str(error)))
        if not_found:
            is_route_known = len(not_found) < len(ids)
            refusals += await self._still_listed(not_found, is_route_known=is_route_known)
        return refusals

    def _batches(self, change: Change, ids: Sequence[str]) -> Iterator[Sequence[str]]:
        size = document_routes.route_of(self.routes, change).batch_size
        if self._max_per_minute is not None:
            size = min(size, max(1, int(self._max_per_minute)))
        return document_routes.batches(ids, size)

    async def _wait_for_turn(self, change: Change, count: int) -> None:
        """Wait until the rate allows the next removals."""
        if self._max_per_minute is None or change == "activate":
            return
        pause = self._next_removal - self._client.now()
        if pause > 0:
            await self._client.asleep(pause)
        self._next_removal = self._client.now() + 60.0 * count / self._max_per_minute

    async def _send(self, change: Change, batch: Sequence[str]) -> list[tuple[str, AssistantError]]:
        """Send one request; if it is refused, one for each document. Return the documents that were refused."""
        try:
            route = document_routes.route_of(self.routes, change)
            await self._client.asend(document_routes.change_documents(self._site.site_id, route, change, batch))
        except AssistantError as error:
            self._check_refusal(error)
            if len(batch) == 1:
                return [(batch[0], error)]
        else:
            return []
        refused = []
        for document_id in batch:
            refused += await self._send(change, [document_id])
        return refused

    @staticmethod
    def _check_refusal(error: AssistantError) -> None:
        """Raise an error that does not concern single documents."""
        is_not_found = isinstance(error, AssistantNotFoundError) and error.status == HTTPStatus.NOT_FOUND
        if document_routes.is_missing_route(error) and not is_not_found:
            raise RouteMissingError(str(error)) from error
        concerns_key = isinstance(error, AssistantAuthenticationError | AssistantPermissionError)
        if concerns_key or not errors.is_refused(error):
            raise error

    async def _still_listed(self, not_found: Sequence[Refusal], *, is_route_known: bool) -> list[Refusal]:
        """
        Return the documents that got a 404 and are on the site nevertheless.

        :param is_route_known: Whether the route has changed other documents.
        :raises RouteMissingError: The 404 seems to concern the route, not the documents.
        """
        self.watched.update(refusal.document_id for refusal in not_found)
        await self.look()
        if not self.can_look:
            if is_route_known:
                return []
            raise RouteMissingError(not_found[0].reason)
        listed = [refusal for refusal in not_found if refusal.document_id in self.states]
        if listed and not is_route_known:
            raise RouteMissingError(listed[0].reason)
        return listed
