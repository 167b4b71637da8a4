"""Queries of the documents of one site, of all sources, to compare them with the list of the site."""

from __future__ import annotations

import json
from collections.abc import Collection

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.texts import storable


def known_ids(connection: sa.Connection, site_url: str, document_ids: Collection[str]) -> set[str]:
    """Return those of the ids that an entry of the site has, as its document or as a superseded one."""
    c = documents.c
    # The ledger stores ids in this form.
    id_by_stored_id = {storable(document_id): document_id for document_id in document_ids}
    stored_ids = list(id_by_stored_id)
    found: set[str] = set()
    # One parameter of each query is the site.
    ids_per_query = PARAMETERS - 1
    for start in range(0, len(stored_ids), ids_per_query):
        wanted = stored_ids[start : start + ids_per_query]
        query = sa.select(c.document_id).where(c.site_url == site_url, c.document_id.in_(wanted))
        found.update(connection.scalars(query))
    # SQL cannot search the JSON lists of superseded ids, so all of them are read.
    superseded_query = sa.select(c.superseded).where(c.site_url == site_url, c.superseded.is_not(None))
    for superseded in connection.scalars(superseded_query):
        found.update(json.loads(superseded))
    return {id_by_stored_id[stored_id] for stored_id in found.intersection(stored_ids)}
