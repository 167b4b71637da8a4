"""Queries of the documents of one site, to compare them with the list of the site."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import connected, stream
from airflow_provider_assistant.ledger.schema import document_changes, documents
from airflow_provider_assistant.ledger.scopes import Site
from airflow_provider_assistant.texts import storable


def known_ids(connection: sa.Connection, site: Site, document_ids: Collection[str]) -> set[str]:
    """Return those of the ids that an entry of the site has or had, superseded ones included."""
    c = documents.c
    # The ledger stores ids in this form.
    id_by_stored_id = {storable(document_id): document_id for document_id in document_ids}
    stored_ids = list(id_by_stored_id)
    found: set[str] = set()
    # Up to three parameters of each query are the site.
    ids_per_query = PARAMETERS - 3
    for start in range(0, len(stored_ids), ids_per_query):
        wanted = stored_ids[start : start + ids_per_query]
        query = sa.select(c.document_id).where(site.of(documents), c.document_id.in_(wanted))
        found.update(connection.scalars(query))
        # Entries forget documents that a load has removed from use.
        changed = document_changes.c
        changes_query = sa.select(changed.document_id).where(site.of(document_changes), changed.document_id.in_(wanted))
        found.update(connection.scalars(changes_query))
    # SQL cannot search the JSON lists of superseded ids, so all of them are read.
    is_superseding = (site.of(documents), c.superseded.is_not(None))
    superseded_query = sa.select(c.superseded).where(*is_superseding)
    for superseded in connection.scalars(superseded_query):
        found.update(json.loads(superseded))
    return {id_by_stored_id[stored_id] for stored_id in found.intersection(stored_ids)}


class SiteEntry(NamedTuple):
    """
    Hold the documents of a key on a site.

    :param document_id: Id of the current document, as stored; None if there is none or the service
        returned none.
    :param has_document: Whether there is a current document.
    :param superseded_ids: Ids of the superseded documents.
    """

    endpoint: str
    namespace: str | None
    source: str
    label: str
    document_id: str | None
    has_document: bool
    superseded_ids: Sequence[str]


def site_entries(engine: sa.Engine, site: Site) -> Iterator[SiteEntry]:
    """Yield the entries with documents on a site, of all sources, in constant memory."""
    c = documents.c
    columns = (
        c.endpoint,
        c.namespace,
        c.source,
        c.label,
        c.document_id,
        c.content_hash,
        c.superseded,
    )
    has_any_document = c.content_hash.is_not(None) | c.superseded.is_not(None)
    query = sa.select(*columns).where(site.of(documents), has_any_document)
    with connected(engine) as connection:
        for row in stream(connection, query):
            has_document = row.content_hash is not None
            yield SiteEntry(
                endpoint=row.endpoint,
                namespace=row.namespace,
                source=row.source,
                label=row.label,
                document_id=row.document_id if has_document else None,
                has_document=has_document,
                superseded_ids=json.loads(row.superseded or "[]"),
            )


def removed_ids(connection: sa.Connection, site: Site) -> set[str]:
    """Return the ids of the documents that loads have deactivated or deleted on a site."""
    c = document_changes.c
    query = sa.select(c.document_id).where(
        site.of(document_changes),
        c.change.in_(("deactivate", "delete")),
        c.outcome == "done",
    )
    return set(connection.scalars(query))
