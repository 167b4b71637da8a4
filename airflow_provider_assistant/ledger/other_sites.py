"""Documents of the same source at another service: the same site may have been reached by another address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import sqlalchemy as sa

from airflow_provider_assistant.ledger.database import connected, stream
from airflow_provider_assistant.ledger.schema import UNRESOLVED, documents
from airflow_provider_assistant.ledger.scopes import DocumentScope, Site, document_scope_of


def sites_of_source(
    engine: sa.Engine, scope: DocumentScope, source: str, is_other: Callable[[Site], bool]
) -> Iterator[tuple[Site, Iterator[str]]]:
    """
    Yield the sites on which the ledger has documents of the same source, and their keys.

    Keys with a document in this scope are left out.

    :param scope: Scope that is loaded. The others have the same site id, endpoint and namespace.
    :param is_other: Returns whether to yield a site.
    :return: Pairs of a site, with the URL of one of its documents, and the keys. Read the keys before the next site.
    """
    c, own = documents.c, documents.alias()
    has_own_document = sa.exists().where(own.c.scope == str(scope), own.c.key == c.key, own.c.content_hash.is_not(None))
    # An ambiguous document may exist there.
    may_exist = c.content_hash.is_not(None) | c.outcome.in_(UNRESOLVED)
    with connected(engine) as connection:
        # Read before the queries of the loop, which use the same connection.
        scopes = list(stream(connection, _scopes()))
        for (text,) in scopes:
            other = document_scope_of(text)
            is_same_load = (other.site.site_id, other.endpoint, other.namespace) == (
                scope.site.site_id,
                scope.endpoint,
                scope.namespace,
            )
            if not is_same_load or other.site == scope.site:
                continue
            conditions = (c.scope == text, c.source == source, may_exist, ~has_own_document)
            first = list(stream(connection, sa.select(c.site_url).where(*conditions).limit(1)))
            if not first:
                continue
            site = replace(other.site, url=first[0].site_url)
            if is_other(site):
                yield site, (key for (key,) in stream(connection, sa.select(c.key).where(*conditions)))


def _scopes() -> sa.Select[tuple[str]]:
    """Return the query of the scopes that have documents; it looks each one up in the index of the primary key."""
    scopes = sa.select(sa.func.min(documents.c.scope).label("scope")).cte("scopes", recursive=True)
    other = documents.alias()
    next_scope = sa.select(sa.func.min(other.c.scope)).where(other.c.scope > scopes.c.scope).scalar_subquery()
    scopes = scopes.union_all(sa.select(next_scope).where(scopes.c.scope.is_not(None)))
    return sa.select(scopes.c.scope).where(scopes.c.scope.is_not(None))
