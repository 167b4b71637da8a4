"""The assistant connections that the API server can list."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from airflow.models.connection import Connection
from airflow.providers.common.compat.sdk import BaseHook
from airflow.utils.session import create_session

from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import extra_of, settings_of
from airflow_provider_assistant.ledger import Site

# Maximum number of assistant connections that are searched.
MOST_CONNECTIONS = 200
PREFIX = "AIRFLOW_CONN_"


@dataclass(frozen=True, slots=True)
class SiteConnection:
    """
    A connection that manages the documents of a site.

    :param client: Settings with the API key: they must not be shown.
    """

    conn_id: str
    client: ClientSettings
    routes: DocumentRoutes


def assistant_connections(*further_ids: str) -> Iterator[Any]:
    """
    Yield the connections of Airflow's database and of environment variables.

    Those of a secrets backend cannot be listed.

    :param further_ids: Ids of connections that may be in a secrets backend.
    """
    with create_session() as session:
        query = sa.select(Connection).where(Connection.conn_type == "assistant")
        yield from session.scalars(query.order_by(Connection.conn_id).limit(MOST_CONNECTIONS))
    conn_ids = set(further_ids)
    for name, value in list(os.environ.items())[: 10 * MOST_CONNECTIONS]:
        if name.startswith(PREFIX) and "assistant" in value:
            conn_ids.add(name.removeprefix(PREFIX).lower())
    for conn_id in sorted(conn_ids):
        # It may be invalid, or there is none.
        with contextlib.suppress(Exception):
            connection = BaseHook.get_connection(conn_id)
            if connection.conn_type == "assistant":
                yield connection


def managing_connection(site: Site) -> SiteConnection | str:
    """
    Return the connection that may delete documents of a site, or a sentence why there is none.

    :param site: The site in the ledger. That of the connection must be the same.
    """
    others = []
    for connection in assistant_connections(AssistantHook.default_conn_name):
        # A user may have written anything into it; the message might contain a secret.
        with contextlib.suppress(Exception):
            settings = settings_of(connection, extra_of(connection))
            hook = AssistantHook(connection.conn_id, site_id=site.site_id)
            hook.settings = settings
            if hook.site() != site:
                continue
            if settings.documents and settings.documents.delete:
                return SiteConnection(connection.conn_id, settings.client, settings.documents)
            others.append(connection.conn_id)
    if others:
        return (
            f"Connection {others[0]!r} does not manage documents. Set manage_documents in its extra, "
            "or delete the document on the site."
        )
    return (
        "The API server finds no connection to this site. It cannot list the connections of a "
        "secrets backend. Delete the document on the site."
    )
