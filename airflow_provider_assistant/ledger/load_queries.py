"""Queries of the loads, for the command line, the pages in Airflow's UI and the exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.schema import COUNTS, loads
from airflow_provider_assistant.ledger.scopes import SITE_COLUMNS, Site
from airflow_provider_assistant.ledger.selection import Page, Rows, Selection, dictionaries, page_of

# Age of the loads from which sites and sources are listed.
SITES_AGE = timedelta(days=366)
# Age of the loads among which the latest try of a source is searched, and number of tries per source and task.
SOURCES_AGE, TRIES = timedelta(days=62), 5
# Maximum number of sources, and of latest tries.
MOST_SOURCES = 1000
# Columns of a load for people and for the export, without ``outcome``.
COLUMNS = (
    *("started_at", "ended_at", *SITE_COLUMNS, "endpoint", "source", *COUNTS, "seconds", "error"),
    *("dag_id", "run_id", "task_id", "map_index"),
)
OUTCOME = sa.func.coalesce(loads.c.outcome, "unfinished").label("outcome")
"""Outcome of a load; ``unfinished`` for a load without an end."""


def page_of_loads(connection: sa.Connection, selection: Selection, page: Page, *, outcome: str | None = None) -> Rows:
    """
    Return tries of loads, latest start first.

    :param outcome: Only this outcome; ``unfinished`` for tries without an end. Default: all.
    :return: Rows with the columns of the table; ``outcome`` is None for a try without an end.
    """
    conditions = selection.of(loads)
    if outcome is not None:
        # The expression without its label, which only names a column of the result.
        conditions.append(OUTCOME.element == outcome)
    query = sa.select(loads).where(*conditions)
    return page_of(connection, query, (loads.c.started_at.desc(), loads.c.load_id), page)


def loads_between(
    connection: sa.Connection, start: datetime, end: datetime, site: Site | None = None
) -> list[dict[str, Any]]:
    """
    Return the tries of loads that started in a time interval.

    :param start: Inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    :return: One mapping per try in the order of the starts, with the keys :data:`COLUMNS` and ``outcome``, which is
        ``unfinished`` for a load without an end.
    """
    c = loads.c
    columns = [c[name] for name in COLUMNS]
    site_conditions = Selection(site=site).of(loads)
    query = (
        sa.select(*columns, OUTCOME)
        .where(c.started_at >= start, c.started_at < end, *site_conditions)
        .order_by(c.started_at, c.load_id)
    )
    return dictionaries(connection, query)


def sites(connection: sa.Connection, now: datetime, selection: Selection) -> list[dict[str, Any]]:
    """
    Return the sources of the last year, the latest load first; at most 1,000.

    :param now: Timezone-aware.
    :return: One mapping per source with ``service``, ``tenant_id``, ``site_id`` and ``source``.
    """
    c = loads.c
    columns = (*(c[name] for name in SITE_COLUMNS), c.source)
    query = (
        sa.select(*columns)
        .where(c.started_at >= now - SITES_AGE, *selection.of(loads))
        .group_by(*columns)
        .order_by(sa.func.max(c.started_at).desc())
        .limit(MOST_SOURCES)
    )
    return dictionaries(connection, query)


def tries_of(connection: sa.Connection, run: Mapping[str, Any], limit: int = 50) -> list[sa.Row[Any]]:
    """
    Return the tries of the load of a task instance, earliest first.

    :param run: Values of the columns of the task instance.
    :param limit: Maximum number of tries; the latest ones.
    """
    c = loads.c
    run_conditions = []
    for name, value in run.items():
        run_conditions.append(c[name].is_not_distinct_from(value))
    latest_first = (c.started_at.desc(), c.load_id)
    query = sa.select(loads).where(*run_conditions).order_by(*latest_first).limit(limit)
    tries = list(connection.execute(query).all())
    # The limit keeps the latest tries, so the query has the opposite order of the result.
    tries.reverse()
    return tries


def latest_tries(connection: sa.Connection, now: datetime, selection: Selection) -> list[sa.Row[Any]]:
    """
    Return the latest tries of each source of the last two months, without those that were deferred.

    :param now: Timezone-aware.
    :return: The last :data:`TRIES` tries per source and mapped task, latest start first; at most 1,000 rows.
    """
    c = loads.c
    latest_first = (c.started_at.desc(), c.load_id)
    task_columns = (*(c[name] for name in SITE_COLUMNS), c.source, c.map_index)
    # 1 for the latest try of a source and mapped task, 2 for the try before it.
    rank = sa.func.row_number().over(partition_by=task_columns, order_by=latest_first)
    is_recent = c.started_at >= now - SOURCES_AGE
    was_not_deferred = c.outcome.is_distinct_from("deferred")
    conditions = (is_recent, was_not_deferred, *selection.of(loads))
    ranked = sa.select(c.load_id, rank.label("rank")).where(*conditions).subquery()
    query = (
        sa.select(loads)
        .join(ranked, ranked.c.load_id == c.load_id)
        .where(ranked.c.rank <= TRIES)
        .order_by(*latest_first)
        .limit(MOST_SOURCES)
    )
    return list(connection.execute(query).all())


def sums_of_day(connection: sa.Connection, now: datetime, selection: Selection) -> Mapping[str, int]:
    """
    Return sums over the loads that started in the last 24 hours.

    :param now: Timezone-aware.
    :return: ``loads``; ``failed``, those that failed; ``created``, ``requests`` and ``throttled``.
    """
    c = loads.c
    one_if_failed = sa.case((c.outcome == "failed", 1), else_=0)
    query = sa.select(
        sa.func.count().label("loads"),
        _sum(one_if_failed).label("failed"),
        _sum(c.created).label("created"),
        _sum(c.requests).label("requests"),
        _sum(c.throttled).label("throttled"),
    ).where(c.started_at >= now - timedelta(days=1), *selection.of(loads))
    sums = connection.execute(query).mappings().one()
    return {name: int(value) for name, value in sums.items()}


@dataclass(frozen=True, slots=True)
class DocumentsOfDay:
    """
    Number of documents that the loads of one day created.

    :param day: UTC day on which the loads started.
    :param changed: Those of them that replaced an earlier document.
    """

    day: date
    created: int
    changed: int


def documents_by_day(connection: sa.Connection, first: date, selection: Selection) -> tuple[int, list[DocumentsOfDay]]:
    """
    Count the documents that loads created, by UTC day of the load's start.

    :return: Number of documents before the first day; and the days with loads, earliest first.
    """
    c = loads.c
    created_sum = _sum(c.created)
    changed_sum = _sum(c.changed)
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    # A changed document replaces an earlier one, so it does not add to their number.
    number_query = sa.select(created_sum - changed_sum)
    number_before = number_query.where(c.started_at < start, *selection.of(loads))
    total = int(connection.scalar(number_before) or 0)
    # The databases return a day as text or as a date.
    day_column = sa.func.date(c.started_at, type_=sa.String())
    query = (
        sa.select(day_column, created_sum, changed_sum)
        .where(c.started_at >= start, *selection.of(loads))
        .group_by(day_column)
        .order_by(day_column)
    )
    days = []
    for day, created, changed in connection.execute(query):
        documents_of_day = DocumentsOfDay(
            day=date.fromisoformat(str(day)),
            created=int(created),
            changed=int(changed),
        )
        days.append(documents_of_day)
    return total, days


def _sum(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the sum of a column; 0 without rows, for which SQL's sum is NULL."""
    return sa.func.coalesce(sa.func.sum(column), 0)
