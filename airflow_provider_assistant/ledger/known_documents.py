"""The documents of a site that the ledger knows."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.ledger.scopes import Site


@dataclass(frozen=True, slots=True)
class KnownDocuments:
    """
    The current documents of a site, without those that newer content replaced.

    :param ids: Their ids, each once.
    :param without_id: Number of documents for which the service returned no id.
    """

    ids: list[str]
    without_id: int


def known_documents(connection: sa.Connection, site: Site, source: str | None = None) -> KnownDocuments:
    """
    Return the current documents of a site.

    :param source: Only those of this source. Default: all.
    """
    c = documents.c
    conditions = [site.of(documents), c.content_hash.is_not(None)]
    if source is not None:
        conditions.append(c.source == source)
    ids: dict[str, None] = {}
    without_id = 0
    for document_id in connection.scalars(sa.select(c.document_id).where(*conditions)):
        if document_id is None:
            without_id += 1
        else:
            ids[document_id] = None
    return KnownDocuments(list(ids), without_id)
