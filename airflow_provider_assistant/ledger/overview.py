"""
Queries for the pages in Airflow's UI: pages of rows, and counts that stop at a limit.

The cost of a query does not depend on the number of entries: it reads an index, or the table of loads. Every function
takes a connection, so that a page reads all its parts in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.leases import LeaseSettings
from airflow_provider_assistant.ledger.queries import TABLES, AmbiguousEntry, entry_of, unresolved
from airflow_provider_assistant.ledger.schema import (
    RUN_COLUMNS,
    documents,
    is_open,
    is_unresolved,
    loads,
    questions,
    submissions,
)

# Counts stop here.
MOST = 10_000
# Age of the loads from which sites and sources are listed, and of the chat requests that are listed as open.
SITES_AGE, REQUESTS_AGE = timedelta(days=366), timedelta(days=7)
# Age of the loads among which the latest try of a source is searched, and number of tries per source and task.
SOURCES_AGE, TRIES = timedelta(days=62), 5


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Select the entries that a user sees.

    :param site_id: Only this site. Default: all sites.
    :param dag_ids: Only the entries of these DAGs. Default: None, all entries, also those without a DAG.
    """

    site_id: str | None = None
    dag_ids: frozenset[str] | None = None

    def of(self, table: sa.Table) -> list[sa.ColumnElement[bool]]:
        """
        Return the conditions of the selection.

        :param table: The table.
        """
        conditions = [] if self.site_id is None else [table.c.site_id == self.site_id]
        return conditions if self.dag_ids is None else [*conditions, table.c.dag_id.in_(sorted(self.dag_ids))]


class Rows(NamedTuple):
    """
    A page of rows.

    :param total: Number of rows that match, at most :data:`MOST`.
    :param is_capped: Whether there are more than ``total``.
    :param rows: The rows of the page.
    """

    total: int
    is_capped: bool
    rows: list[Any]


@dataclass(frozen=True, slots=True)
class Page:
    """
    Position of a page.

    :param limit: Rows per page.
    :param offset: Number of rows before the page.
    """

    limit: int = 25
    offset: int = 0


def sites(connection: sa.Connection, now: datetime, selection: Selection) -> list[Mapping[str, Any]]:
    """
    Return the sources of the last year.

    :param connection: Connection to the database.
    :param now: Current time, timezone-aware.
    :param selection: What the user sees.
    :return: One mapping per source with ``site_id``, ``url`` and ``source``, the latest load first; at most 1,000.
    """
    c = loads.c
    query = (
        sa.select(c.site_id, c.scope.label("url"), c.source)
        .where(c.started_at >= now - SITES_AGE, *selection.of(loads))
        .group_by(c.site_id, c.scope, c.source)
        .order_by(sa.func.max(c.started_at).desc())
        .limit(1000)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def page_of_loads(
    connection: sa.Connection,
    selection: Selection,
    page: Page,
    *,
    source: str | None = None,
    outcome: str | None = None,
) -> Rows:
    """
    Return tries of loads, latest start first.

    :param connection: Connection to the database.
    :param selection: What the user sees.
    :param page: Position.
    :param source: Only this source. Default: all.
    :param outcome: Only this outcome; ``unfinished`` for tries without an end. Default: all.
    :return: Rows with the columns of the table; ``outcome`` is None for a try without an end.
    """
    c, conditions = loads.c, selection.of(loads)
    if source is not None:
        conditions.append(c.source == source)
    if outcome is not None:
        conditions.append(c.outcome.is_(None) if outcome == "unfinished" else c.outcome == outcome)
    return _paged(connection, sa.select(loads).where(*conditions), (c.started_at.desc(), c.load_id), page)


def tries_of(connection: sa.Connection, run: Mapping[str, Any], limit: int = 50) -> list[sa.Row[Any]]:
    """
    Return the tries of the load of a task instance, earliest first.

    :param connection: Connection to the database.
    :param run: Values of the columns of the task instance.
    :param limit: Maximum number of tries; the latest ones. Default: 50.
    """
    c = loads.c
    mine = [c[name].is_not_distinct_from(value) for name, value in run.items()]
    query = sa.select(loads).where(*mine).order_by(c.started_at.desc(), c.load_id).limit(limit)
    return list(connection.execute(query).all())[::-1]


def latest_tries(connection: sa.Connection, now: datetime, selection: Selection) -> list[sa.Row[Any]]:
    """
    Return the latest tries of each source of the last two months, without those that were deferred.

    :param connection: Connection to the database.
    :param now: Current time, timezone-aware.
    :param selection: What the user sees.
    :return: The last :data:`TRIES` tries per source and mapped task, latest start first; at most 1,000 rows.
    """
    c = loads.c
    rank = sa.func.row_number().over(
        partition_by=(c.scope, c.source, c.map_index), order_by=(c.started_at.desc(), c.load_id)
    )
    ranked = (
        sa.select(c.load_id, rank.label("rank"))
        .where(c.started_at >= now - SOURCES_AGE, c.outcome.is_distinct_from("deferred"), *selection.of(loads))
        .subquery()
    )
    query = (
        sa.select(loads)
        .join(ranked, ranked.c.load_id == c.load_id)
        .where(ranked.c.rank <= TRIES)
        .order_by(c.started_at.desc(), c.load_id)
        .limit(1000)
    )
    return list(connection.execute(query).all())


def sums_of_day(connection: sa.Connection, now: datetime, selection: Selection) -> Mapping[str, int]:
    """
    Return sums over the loads that started in the last 24 hours.

    :param connection: Connection to the database.
    :param now: Current time, timezone-aware.
    :param selection: What the user sees.
    :return: ``loads``; ``failed``, those that failed; ``created``, ``requests`` and ``throttled``.
    """
    c = loads.c
    has_failed = sa.case((c.outcome == "failed", 1), else_=0)
    query = sa.select(
        sa.func.count().label("loads"),
        sa.func.coalesce(sa.func.sum(has_failed), 0).label("failed"),
        *(sa.func.coalesce(sa.func.sum(c[name]), 0).label(name) for name in ("created", "requests", "throttled")),
    ).where(c.started_at >= now - timedelta(days=1), *selection.of(loads))
    return {name: int(value) for name, value in connection.execute(query).mappings().one().items()}


def documents_by_day(
    connection: sa.Connection, first: date, selection: Selection
) -> tuple[int, list[tuple[date, int, int]]]:
    """
    Count the documents that loads created, by UTC day of the load's start.

    :param connection: Connection to the database.
    :param first: First day.
    :param selection: What the user sees.
    :return: Documents before the first day (created without changed); and a tuple of day, created and changed for each
        day with loads, earliest first.
    """
    c = loads.c
    created, changed = (sa.func.coalesce(sa.func.sum(c[name]), 0) for name in ("created", "changed"))
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    before = sa.select(created, changed).where(c.started_at < start, *selection.of(loads))
    had = connection.execute(before).one()
    day = sa.func.date(c.started_at, type_=sa.String())
    query = sa.select(day, created, changed).where(c.started_at >= start, *selection.of(loads))
    rows = connection.execute(query.group_by(day).order_by(day)).all()
    return int(had[0] - had[1]), [(date.fromisoformat(str(one)), int(new), int(again)) for one, new, again in rows]


def count_ambiguous(connection: sa.Connection, selection: Selection) -> tuple[int, datetime | None]:
    """
    Count the entries that are ambiguous or have no outcome, at most :data:`MOST` per kind.

    :param connection: Connection to the database.
    :param selection: What the user sees.
    :return: Their number, and the time of the oldest claim.
    """
    total, oldest = 0, None
    for table in TABLES.values():
        conditions = (is_unresolved(table), *selection.of(table))
        total += _capped(connection, table, *conditions)
        first = sa.select(table.c.claimed_at).where(*conditions).order_by(table.c.claimed_at).limit(1)
        if (claimed_at := connection.scalar(first)) and (oldest is None or claimed_at < oldest):
            oldest = claimed_at
    return min(total, MOST), oldest


def page_of_ambiguous(connection: sa.Connection, leases: LeaseSettings, selection: Selection, page: Page) -> Rows:
    """
    Return the entries that are ambiguous or have no outcome, by kind and time of the claim.

    :param connection: Connection to the database.
    :param leases: Settings of leases.
    :param selection: What the user sees.
    :param page: Position.
    :return: Rows with an :class:`AmbiguousEntry` each.
    """
    total, is_capped, before = 0, False, page.offset
    rows: list[AmbiguousEntry] = []
    for kind, table in TABLES.items():
        c = table.c
        found = _capped(connection, table, is_unresolved(table), *selection.of(table))
        total, is_capped = total + found, is_capped or found > MOST
        if before < found and len(rows) < page.limit:
            query = unresolved(kind, leases).where(*selection.of(table)).order_by(c.claimed_at, c.scope, c.key)
            some = connection.execute(query.offset(before).limit(page.limit - len(rows)))
            rows += [entry_of(kind, row) for row in some]
        before = max(0, before - found)
    return Rows(min(total, MOST), is_capped or total > MOST, rows)


def find_unresolved(
    connection: sa.Connection, leases: LeaseSettings, kind: str, scope: str, key: str
) -> AmbiguousEntry | None:
    """
    Return one entry that is ambiguous or has no outcome, or None.

    :param connection: Connection to the database.
    :param leases: Settings of leases.
    :param kind: Kind of the entry.
    :param scope: Scope of the entry.
    :param key: Key of the entry.
    """
    c = TABLES[kind].c
    row = connection.execute(unresolved(kind, leases).where(c.scope == scope, c.key == key)).one_or_none()
    return None if row is None else entry_of(kind, row)


def count_superseded(connection: sa.Connection, selection: Selection) -> int:
    """
    Count the keys with superseded documents, at most :data:`MOST`.

    :param connection: Connection to the database.
    :param selection: What the user sees.
    """
    return min(MOST, _capped(connection, documents, documents.c.superseded.is_not(None), *selection.of(documents)))


def page_of_superseded(connection: sa.Connection, selection: Selection, page: Page) -> Rows:
    """
    Return the keys with superseded documents, the latest change first.

    :param connection: Connection to the database.
    :param selection: What the user sees.
    :param page: Position.
    :return: Rows with the columns of the documents.
    """
    c = documents.c
    query = sa.select(documents).where(c.superseded.is_not(None), *selection.of(documents))
    return _paged(connection, query, (c.claimed_at.desc(), c.scope, c.key), page)


def count_open_requests(connection: sa.Connection, now: datetime, selection: Selection) -> int:
    """
    Count the chat requests of the last week without a recorded end, at most :data:`MOST`.

    :param connection: Connection to the database.
    :param now: Current time, timezone-aware.
    :param selection: What the user sees.
    """
    return min(MOST, sum(_capped(connection, table, *_is_open(table, now, selection)) for table in _REQUESTS))


def page_of_open_requests(connection: sa.Connection, now: datetime, selection: Selection, page: Page) -> Rows:
    """
    Return the chat requests of the last week without a recorded end, oldest first.

    :param connection: Connection to the database.
    :param now: Current time, timezone-aware.
    :param selection: What the user sees.
    :param page: Position.
    :return: Rows with ``request_id``, ``site_id``, ``claimed_at``, ``is_batch`` and the columns of the task instance.
    """
    queries = [
        sa.select(
            *(table.c[name] for name in ("request_id", "site_id", "claimed_at", "key", *RUN_COLUMNS)),
            sa.literal(table is questions).label("is_batch"),
        ).where(*_is_open(table, now, selection))
        for table in _REQUESTS
    ]
    both = sa.union_all(*queries).subquery()
    return _paged(connection, sa.select(both), (both.c.claimed_at, both.c.key), page)


_REQUESTS = (submissions, questions)


def _is_open(table: sa.Table, now: datetime, selection: Selection) -> list[sa.ColumnElement[bool]]:
    c = table.c
    conditions = [is_open(table), c.claimed_at >= now - REQUESTS_AGE, *selection.of(table)]
    return [*conditions, c.mode == "async"] if table is questions else conditions


def _paged(
    connection: sa.Connection, query: sa.Select[Any], order: Sequence[sa.ColumnElement[Any]], page: Page
) -> Rows:
    found = connection.scalar(sa.select(sa.func.count()).select_from(query.limit(MOST + 1).subquery())) or 0
    rows = connection.execute(query.order_by(*order).limit(page.limit).offset(page.offset)).all()
    return Rows(min(found, MOST), found > MOST, list(rows))


def _capped(connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
    """Count rows, at most one more than :data:`MOST`."""
    some = sa.select(sa.literal(1).label("one")).select_from(table).where(*conditions).limit(MOST + 1).subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0
