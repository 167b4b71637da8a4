"""A site whose documents a load can list and change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from airflow_provider_assistant.api.document_pages import DocumentPages
from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError


@dataclass(frozen=True, slots=True)
class ManagedSite:
    """
    A site whose connection describes the routes of documents.

    :param routes: The routes, from ``manage_documents``.
    """

    site_id: str
    routes: DocumentRoutes

    @classmethod
    def of(cls, site_id: str, routes: DocumentRoutes | None) -> ManagedSite | None:
        """Return the site, or None if the connection describes no routes."""
        if routes is None:
            return None
        return cls(site_id, routes)

    async def pages(self, client: AssistantClient) -> AsyncIterator[Sequence[SiteDocument]]:
        """
        Yield the documents of the site, page by page.

        :raises AssistantInputError: The connection describes no list.
        :raises AssistantResponseError: The list cannot be read to its end.
        :raises AssistantError: A request failed.
        """
        pages = DocumentPages(self.site_id, self.routes)
        while pages.call is not None:
            try:
                page = await client.asend(pages.call)
            except AssistantError as error:
                pages.failed(error)
            else:
                yield pages.take(page)
