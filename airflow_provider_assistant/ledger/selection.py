"""Which rows of a table a query returns: the selection of a user, and the position of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.scopes import Site

# Counts stop here, so that the cost of a query does not depend on the number of rows.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Select rows of documents, chat requests, ratings or loads.

    :param dag_ids: Only the rows of these DAGs. None for all rows, also those without a DAG.
    :param label_part: Only the entries whose label contains this text, in upper or lower case. Loads have no label.
    """

    site_id: str | None = None
    dag_ids: frozenset[str] | None = None
    site: Site | None = None
    source: str | None = None
    label_part: str | None = None

    def of(self, table: sa.Table) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of the selection."""
        conditions = []
        if self.label_part:
            conditions.append(table.c.label.icontains(self.label_part, autoescape=True))
        for name in ("site_id", "source"):
            value = getattr(self, name)
            if value is not None:
                conditions.append(table.c[name] == value)
        if self.site is not None:
            conditions.append(self.site.of(table))
        if self.dag_ids is not None:
            conditions.append(table.c.dag_id.in_(sorted(self.dag_ids)))
        return conditions


@dataclass(frozen=True, slots=True)
class Page:
    """Position of a page."""

    limit: int = 25
    offset: int = 0


# All rows on one page.
ALL = Page(limit=2**31 - 1)


class Rows(NamedTuple):
    """
    A page of rows.

    :param total: Number of rows that match, at most :data:`MOST`.
    :param is_capped: Whether there are more than ``total``.
    """

    total: int
    is_capped: bool
    rows: list[Any]


def page_of(
    connection: sa.Connection,
    query: sa.Select[Any],
    order: Sequence[sa.ColumnElement[Any]],
    page: Page,
) -> Rows:
    """Return a page of a query."""
    total = capped_count(connection, query)
    page_query = query.order_by(*order).limit(page.limit).offset(page.offset)
    rows = list(connection.execute(page_query).all())
    return Rows(total=min(total, MOST), is_capped=total > MOST, rows=rows)


def capped_count(connection: sa.Connection, query: sa.Select[Any]) -> int:
    """Return the number of rows of a query, at most one more than :data:`MOST`."""
    first_rows = query.limit(MOST + 1).subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(first_rows)) or 0


def dictionaries(connection: sa.Connection, query: sa.Select[Any]) -> list[dict[str, Any]]:
    """Return the rows of a query as mappings."""
    return [dict(row) for row in connection.execute(query).mappings()]


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds between two times, or None if one of them is not known."""
    if start is None or end is None:
        return None
    return (end - start).total_seconds()
