"""The part of the hook that is about its connection: settings, clients, tenant and site."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowException, BaseHook

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.document_routes import DocumentRoutes, described
from airflow_provider_assistant.api.document_state import needs_attention
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.connection import Settings, extra_of, settings_of
from airflow_provider_assistant.ledger.scopes import Site
from airflow_provider_assistant.parameters import checked, text
from airflow_provider_assistant.texts import escaped

OnAmbiguous: TypeAlias = Literal["retry", "fail"]
T = TypeVar("T")


class AssistantBaseHook(BaseHook):
    """
    Read an Airflow connection of type ``assistant``, and send calls with its settings.

    :param assistant_conn_id: Id of the Airflow connection. Default: ``assistant_default``.
    :param tenant_id: Tenant that overrides the connection's ``tenant_id``. Default: None, the connection's.
    :param site_id: Site that overrides the connection's ``site_id``. Default: None, the connection's.
    """

    conn_name_attr = "assistant_conn_id"
    default_conn_name = "assistant_default"
    conn_type = "assistant"
    hook_name = "Assistant"

    def __init__(
        self,
        assistant_conn_id: str = default_conn_name,
        *,
        tenant_id: str | None = None,
        site_id: str | None = None,
    ) -> None:
        super().__init__()
        self.assistant_conn_id = assistant_conn_id
        self.tenant_id = tenant_id
        self.site_id = site_id

    @cached_property
    def settings(self) -> Settings:
        """Settings of the connection, read once per hook; :meth:`load_settings_async` reads them again."""
        return self._read_settings()

    @cached_property
    def client(self) -> AssistantClient:
        """Client that the synchronous methods send with."""
        return AssistantClient(self.settings.client)

    def get_conn(self) -> AssistantClient:
        """
        Return the synchronous client; this is Airflow's common hook interface.

        :return: The same object as :attr:`client`.
        """
        return self.client

    async def load_settings_async(self) -> Settings:
        """
        Read the connection again, without blocking the event loop.

        :return: The current settings; :attr:`settings` is updated as well.
        :raises AssistantInputError: The connection is incomplete or has an invalid field.
        """
        from asgiref.sync import sync_to_async

        # Read the connection in a thread: before Airflow 3.3.2, `aget_connection` also calls the supervisor
        # synchronously to mask secrets. common-compat has a helper for this since 1.21, but Airflow's constraints pin
        # an older version. Use asgiref's thread: Airflow 3.1's triggerer answers synchronous calls only from there.
        self.settings = await sync_to_async(self._read_settings)()
        return self.settings

    def _read_settings(self) -> Settings:
        connection = self.get_connection(self.assistant_conn_id)
        return settings_of(connection, extra_of(connection))

    @contextlib.asynccontextmanager
    async def async_client(self) -> AsyncIterator[AssistantClient]:
        """
        Open an asyncio client for the connection, and close it at the end of the ``async with`` block.

        The connection is read without blocking the event loop. Inside the block, :meth:`resolve_tenant_id` and
        :meth:`resolve_site_id` use the values just read. If many coroutines use one connection, let them share a client
        with :func:`airflow_provider_assistant.hooks.shared_client.shared_client`.

        :return: The client; send with its ``asend``.
        :raises AssistantInputError: The connection is incomplete or has an invalid field.
        """
        settings = await self.load_settings_async()
        async with AssistantClient(settings.client) as client:
            yield client

    def resolve_tenant_id(self, tenant_id: str | None = None) -> str:
        """
        Return the tenant to use: the parameter, else the hook's, else the connection's.

        :param tenant_id: Tenant to prefer. Default: None.
        :return: The tenant id, without surrounding white space.
        :raises AssistantInputError: None of the three is set, or the first that is set is empty.
        """
        return self._required("tenant_id", tenant_id, self.tenant_id, self.settings.tenant_id)

    def known_tenant_id(self) -> str | None:
        """Return the hook's tenant, else the connection's; None if neither is set."""
        if self.tenant_id is None and self.settings.tenant_id is None:
            return None
        return self.resolve_tenant_id()

    def resolve_site_id(self, site_id: str | None = None) -> str:
        """
        Return the site to use: the parameter, else the hook's, else the connection's.

        :param site_id: Site to prefer. Default: None.
        :return: The site id, without surrounding white space.
        :raises AssistantInputError: None of the three is set, or the first that is set is empty.
        """
        return self._required("site_id", site_id, self.site_id, self.settings.site_id)

    def site(self, site_id: str | None = None) -> Site:
        """
        Return the site, as the ledger and the datasets identify it: by service and id.

        :param site_id: Site to prefer. Default: None, the hook's or the connection's.
        :return: The site; its ``url`` is ``{base_url}/m2m/sites/{site_id}``.
        :raises AssistantInputError: No site is set.
        """
        site_id = self.resolve_site_id(site_id)
        url = f"{self.settings.client.base_url}/m2m/sites/{site_id}"
        return Site(self.settings.service, site_id, self.known_tenant_id(), url)

    def location(self) -> str:
        """
        Return site, host and connection, as the end of a sentence in a message.

        :return: For example ``site 'docs' at assistant.example.com (connection 'assistant_default')``; only the
            connection if it cannot be read.
        """
        try:
            host = urlsplit(self.settings.client.base_url).netloc
            site_id = self.settings.site_id if self.site_id is None else self.site_id
        except AirflowException:
            return f"connection {self.assistant_conn_id!r}"
        host_and_connection = f"{host} (connection {self.assistant_conn_id!r})"
        if not site_id:
            return host_and_connection
        return f"site {site_id!r} at {host_and_connection}"

    def send(self, call: Call[T], on_ambiguous: OnAmbiguous | None = None) -> T:
        """
        Send a call that was built with :mod:`airflow_provider_assistant.api.endpoints`, and return its reply.

        :param call: The call.
        :param on_ambiguous: What to do if the call failed and may have taken effect nevertheless. ``retry`` sends it
            again as often as the connection's ``retries`` allow, except for a ``POST …/chat`` that timed out.
            ``fail`` never sends it again. Default: None, send again as the connection's retry rule says.
        :return: The reply that the call's parser builds.
        :raises AssistantError: The call failed; see the errors that
            :class:`~airflow_provider_assistant.hooks.assistant.AssistantHook` lists.
        """
        return self.client.send(call, retry_ambiguous=None if on_ambiguous is None else on_ambiguous == "retry")

    def _create(self, call: Call[CreatedDocument]) -> CreatedDocument:
        """Create a document, and log a warning if the service does not use it."""
        created = described(self.send(call), self.settings.documents)
        if created.existed:
            self.log.info("An earlier attempt had created the document of this call: %s.", call)
        reason = needs_attention(created.status, created.words)
        if reason:
            document_id = escaped(str(created.document_id))
            self.log.warning("Document %s of %s: %s.", document_id, call.subject, reason)
        return created

    def document_routes(self) -> DocumentRoutes:
        """
        Return the routes that list, change and delete documents.

        :raises AssistantInputError: The connection does not switch them on.
        """
        routes = self.settings.documents
        if routes is None:
            raise AssistantInputError(
                f"connection {self.assistant_conn_id!r} does not allow to list, change or delete documents",
                todo="Set manage_documents in its extra to true, or to the routes of the service; "
                "`airflow assistant documents check` tests them.",
                field="manage_documents",
            )
        return routes

    def client_settings(self, max_concurrency: int | None = None) -> ClientSettings:
        """
        Return the settings of a client for many requests at once.

        :param max_concurrency: Maximum number of requests in flight. Default: None, that of the connection.
        """
        settings = self.settings.client
        if max_concurrency is None:
            return settings
        return replace(settings, max_concurrency=max_concurrency)

    def _required(self, field: str, *choices: str | None) -> str:
        """Return the first id that is given. An empty one is an error, and does not mean the next."""
        for value in choices:
            if value is not None:
                # A pasted id, or one that a template read from a file, may end in white space.
                given_id: str = checked(field, value, text)
                return given_id.strip()
        raise AssistantInputError(
            f"no {field}",
            todo=f"Give it to the operator or hook, or set it in connection {self.assistant_conn_id!r}: in its "
            "extra, which is below Extra Fields in the form.",
            field=field,
        )
