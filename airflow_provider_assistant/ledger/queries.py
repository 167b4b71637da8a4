"""Queries of attempts and tries, for loads, reports, the command line and the pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.ledger.clock import Clock
from airflow_provider_assistant.ledger.database import chunks, stream
from airflow_provider_assistant.ledger.filters import Filter, Which, condition_of, has_unresolved, is_latest_document
from airflow_provider_assistant.ledger.schema import (
    DOCUMENT_KINDS,
    HAS_OTHER_STATUS,
    REMOVING,
    RunRef,
    attempts,
    findings,
    ledger_info,
    tries,
)
from airflow_provider_assistant.ledger.scopes import Scope, Site

# Counts stop here, so that the cost of a query does not depend on the number of attempts.
MOST = 10_000
_c = attempts.c


class Page(NamedTuple):
    """
    A page of rows.

    :param total: Number of rows that match, at most :data:`MOST`.
    :param is_capped: Whether there are more than ``total``.
    """

    total: int
    is_capped: bool
    rows: Sequence[Mapping[str, Any]]


def entries(
    connection: sa.Connection,
    clock: Clock,
    selected: Filter,
    *,
    limit: int = 25,
    offset: int = 0,
    most: int | None = None,
) -> Page:
    """
    Return attempts, the latest claim first.

    :param most: If more attempts match, look at any of them, so many, and return the latest of those: the time does not
        depend on their number. Default: look at all, and count :data:`MOST`.
    :return: A page of mappings with the columns of the table, and ``is_alive``: whether a task is sending it.
    """
    counted = most or MOST
    total = capped_count(connection, sa.select(_c.key).where(*selected.conditions()), counted)
    if total <= offset:
        # To find nothing once more takes the longest.
        return Page(min(total, counted), total > counted, [])
    if most is None:
        query = _entries(connection, clock, selected)
    else:
        some = sa.select(_c.scope, _c.key, _c.number).where(*selected.conditions()).limit(most).subquery()
        is_one = sa.and_(*(some.c[name] == _c[name] for name in ("scope", "key", "number")))
        query = _entries(connection, clock, Filter()).join(some, is_one)
    page = query.order_by(_c.claimed_at.desc(), _c.scope, _c.key, _c.number).limit(limit).offset(offset)
    return Page(min(total, counted), total > counted, dictionaries(connection, page))


def all_entries(connection: sa.Connection, clock: Clock, selected: Filter) -> Iterator[Mapping[str, Any]]:
    """Yield attempts, the earliest claim first, in constant memory. See :func:`entries` for their columns."""
    # In the order of the primary key, SQLite would look at every attempt of the scope.
    query = _entries(connection, clock, selected).order_by(_c.claimed_at, _c.scope, _c.key, _c.number)
    names = query.selected_columns.keys()
    for row in stream(connection, query):
        yield dict(zip(names, row, strict=True))


def _entries(connection: sa.Connection, clock: Clock, selected: Filter) -> sa.Select[Any]:
    is_alive = sa.func.coalesce(clock.is_alive(clock.read(connection)), sa.false())
    return sa.select(attempts, is_alive.label("is_alive")).where(*selected.conditions())


def counts(
    connection: sa.Connection, selected: Filter, lists: tuple[Which, ...], most: int | None = None
) -> dict[Which, int]:
    """
    Return the number of attempts of each list.

    :param most: Counts stop here. Default: :data:`MOST`.
    """
    most = most or MOST
    found: dict[Which, int] = {}
    for which in lists:
        query = sa.select(_c.key).where(condition_of(which), *selected.conditions())
        found[which] = min(most, capped_count(connection, query, most))
    return found


def states(connection: sa.Connection, selected: Filter) -> list[dict[str, Any]]:
    """
    Count the attempts by kind, site and state.

    :return: Mappings with ``kind``, ``service``, ``site_id``, ``state``, ``entries`` and ``latest``, the latest claim.
    """
    columns = (_c.kind, _c.service, _c.site_id, _c.state)
    query = sa.select(*columns, sa.func.count().label("entries"), sa.func.max(_c.claimed_at).label("latest"))
    return dictionaries(connection, query.where(*selected.conditions()).group_by(*columns).order_by(*columns))


def capped_count(connection: sa.Connection, query: sa.Select[Any], most: int | None = None) -> int:
    """Return the number of rows of a query, at most one more than ``most``, or than :data:`MOST`."""
    most = most or MOST
    first_rows = query.limit(most + 1).subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(first_rows)) or 0


def dictionaries(connection: sa.Connection, query: sa.Select[Any]) -> list[dict[str, Any]]:
    """Return the rows of a query as mappings."""
    return [dict(row) for row in connection.execute(query).mappings()]


# -- documents of a source ---------------------------------------------------------------------------


def documents_of(connection: sa.Connection, scope: Scope, source: str) -> int:
    """Return the number of documents of a source that the ledger knows on the site, one per row."""
    return connection.scalar(sa.select(sa.func.count(sa.distinct(_c.key))).where(*_created(scope, source))) or 0


def latest_documents(
    connection: sa.Connection, scope: Scope, source: str, run: RunRef, groups: Collection[str] | None = None
) -> Iterator[tuple[Any, ...]]:
    """
    Yield the documents of a source, those of one row earliest first.

    :param groups: Only those of these groups. Default: None, all.
    :return: Key, label, id, group; the map index of the task that loaded it, if it is another one of the same mapped
        task and run, else None; and whether it is known that the row is gone.
    """
    task = {name: value for name, value in run.columns().items() if name in {"dag_id", "run_id", "task_id"}}
    is_sibling = sa.and_(*(_c[name] == value for name, value in task.items()), _c.map_index != run.map_index)
    sibling = sa.case((is_sibling, _c.map_index))
    columns = (_c.key, _c.label, _c.remote_id, _c.group_name, sibling, _c.gone_at.is_not(None))
    query = sa.select(*columns).where(*_created(scope, source)).order_by(_c.key, _c.number)
    parts = [query] if groups is None else [query.where(_c.group_name.in_(part)) for part in chunks(groups)]
    for part in parts:
        yield from stream(connection, part)


def _created(scope: Scope, source: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _c.scope == scope.id, _c.source == source, _c.state == "created"


def statuses(connection: sa.Connection, scope: Scope, source: str) -> list[tuple[str, str | None]]:
    """Return id and status of the documents of a source whose row is in it; the latest of each row."""
    # A row that shares a document does not have its status.
    removing = sa.select(_c.remote_id).where(scope.site.of(attempts), HAS_OTHER_STATUS, _c.status == REMOVING)
    status = sa.case((_c.remote_id.in_(removing.where(_c.state == "created")), REMOVING), else_=_c.status)
    query = sa.select(_c.remote_id, status).where(*_created(scope, source), is_latest_document())
    query = query.where(_c.gone_at.is_(None), _c.remote_id.is_not(None)).order_by(_c.key)
    return [(remote_id, status) for remote_id, status in connection.execute(query)]


def superseded(connection: sa.Connection, scope: Scope, source: str) -> list[tuple[str | None, str | None]]:
    """Return the ids of the superseded documents of a source, each with that of the latest one of its row."""
    newer = attempts.alias()
    is_newer = sa.and_(newer.c.scope == _c.scope, newer.c.key == _c.key, newer.c.source == _c.source)
    newest_first = sa.select(newer.c.remote_id).where(is_newer, newer.c.state == "created")
    latest = newest_first.order_by(newer.c.number.desc()).limit(1).correlate(attempts).scalar_subquery()
    selected = Filter(which="superseded", scope=scope.id, source=source)
    # While a newer attempt has no outcome, nothing is outdated for sure.
    query = sa.select(_c.remote_id, latest).where(*selected.conditions(), ~has_unresolved())
    return [(old, new) for old, new in connection.execute(query)]


def other_services(connection: sa.Connection, scope: Scope, source: str) -> dict[str, int]:
    """Return the number of documents that a source has on a site of this id at other services, by their name."""
    query = (
        sa.select(_c.service, sa.func.count(sa.distinct(_c.key)))
        .where(_c.source == source, _c.site_id == scope.site.site_id, _c.service != scope.site.service)
        .where(_c.kind == scope.kind, _c.namespace.is_not_distinct_from(scope.namespace), _c.state == "created")
        .group_by(_c.service)
        .order_by(_c.service)
    )
    return dict(row for row in connection.execute(query).all())


def ids_in_source(connection: sa.Connection, site: Site, source: str | None = None) -> list[str | None]:
    """Return the ids of the latest documents of the rows that are in their sources, or in this one."""
    query = sa.select(_c.remote_id).where(site.of(attempts), is_latest_document(), _c.gone_at.is_(None))
    if source is not None:
        query = query.where(_c.source == source)
    return list(connection.scalars(query.order_by(_c.scope, _c.key)))


def known_documents(connection: sa.Connection, site: Site, remote_ids: Collection[str]) -> set[str]:
    """Return those of these ids that are documents of the ledger, of any source."""
    found: set[str] = set()
    for chunk in chunks(remote_ids):
        query = sa.select(_c.remote_id).where(site.of(attempts), _c.kind.in_(DOCUMENT_KINDS), _c.remote_id.in_(chunk))
        found.update(connection.scalars(query))
    return found


# -- tries ---------------------------------------------------------------------------------------------


# The outcome of a try; of one without an end, "unfinished".
OUTCOME = sa.func.coalesce(tries.c.outcome, "unfinished").label("outcome")
TRY_COLUMNS = (*(column for column in tries.c if column.name != "outcome"), OUTCOME)


def page_of_tries(
    connection: sa.Connection,
    *,
    site: Site | None = None,
    site_id: str | None = None,
    source: str | None = None,
    dag_ids: frozenset[str] | None = None,
    outcome: str | None = None,
    task_kind: str | None = None,
    since: datetime | None = None,
    limit: int = 25,
    offset: int = 0,
) -> Page:
    """
    Return tries, the latest start first.

    :param outcome: ``succeeded``, ``succeeded with findings``, ``failed``, ``deferred`` or ``unfinished``.
    :return: A page of mappings with the columns of the table; ``outcome`` is ``unfinished`` for a try without an end.
    """
    c = tries.c
    conditions = _of_tries(site, site_id, source, dag_ids)
    for column, value in ((c.task_kind, task_kind), (OUTCOME.element, outcome)):
        if value is not None:
            conditions.append(column == value)
    if since is not None:
        conditions.append(c.started_at >= since)
    query = sa.select(*TRY_COLUMNS).where(*conditions)
    total = capped_count(connection, query)
    page = query.order_by(c.started_at.desc(), c.token).limit(limit).offset(offset)
    return Page(min(total, MOST), total > MOST, dictionaries(connection, page))


def _of_tries(
    site: Site | None, site_id: str | None, source: str | None, dag_ids: frozenset[str] | None
) -> list[sa.ColumnElement[bool]]:
    c = tries.c
    conditions = [] if site is None else [site.of(tries)]
    for column, value in ((c.site_id, site_id), (c.source, source)):
        if value is not None:
            conditions.append(column == value)
    if dag_ids is not None:
        conditions.append(c.dag_id.in_(sorted(dag_ids)))
    return conditions


def tries_of(connection: sa.Connection, run: Mapping[str, Any], limit: int = 50) -> list[dict[str, Any]]:
    """
    Return the latest tries of a task instance, earliest first.

    :param run: Values of the columns of the task instance. Without ``region``, all iterations of a loop.
    """
    c = tries.c
    is_run = [c[name].is_not_distinct_from(value) for name, value in run.items()]
    query = sa.select(*TRY_COLUMNS).where(*is_run).order_by(c.started_at.desc(), c.token).limit(limit)
    return dictionaries(connection, query)[::-1]


def findings_of(
    connection: sa.Connection, token: str, kind: str | None = None, *, limit: int = 25, offset: int = 0
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """
    Return the findings of a try that the ledger has.

    :param kind: Only those of this kind. Default: None, all.
    :return: Their number by kind, and mappings with ``kind``, ``row``, ``key``, ``reason`` and ``document_ids``.
    """
    c = findings.c
    kinds = sa.select(c.kind, sa.func.count()).where(c.token == token).group_by(c.kind).order_by(c.kind)
    query = sa.select(c.kind, c.row, c.key, c.reason, c.document_ids).where(c.token == token).order_by(c.number)
    if kind is not None:
        query = query.where(c.kind == kind)
    rows = dictionaries(connection, query.limit(limit).offset(offset))
    return dict(row for row in connection.execute(kinds).all()), rows


def sources(connection: sa.Connection, since: datetime, dag_ids: frozenset[str] | None = None) -> list[dict[str, Any]]:
    """Return the sources with tries since a time, the latest first: ``service``, ``site_id`` and ``source``."""
    c = tries.c
    columns = (c.service, c.site_id, c.source)
    query = sa.select(*columns).where(c.started_at >= since)
    if dag_ids is not None:
        query = query.where(c.dag_id.in_(sorted(dag_ids)))
    return dictionaries(connection, query.group_by(*columns).order_by(sa.func.max(c.started_at).desc()).limit(1000))


def documents_by_day(
    connection: sa.Connection,
    first: date,
    *,
    site: Site | None = None,
    site_id: str | None = None,
    source: str | None = None,
    dag_ids: frozenset[str] | None = None,
) -> dict[date, int]:
    """
    Return the number of documents on the site at the end of each UTC day with loads, over all sources.

    A source counts as many documents as its latest load of the day, or before, left.

    :param first: Days before are not returned, but their last number is the start of the first.
    """
    c = tries.c
    query = sa.select(c.service, c.site_id, c.kind, c.source, c.ended_at, c.documents)
    query = query.where(c.documents.is_not(None), *_of_tries(site, site_id, source, dag_ids))
    documents_by_source: dict[tuple[Any, ...], int] = {}
    total, totals = 0, {}
    for *name, ended_at, documents in connection.execute(query.order_by(c.ended_at)):
        source_key = tuple(name)
        total += documents - documents_by_source.get(source_key, 0)
        documents_by_source[source_key] = documents
        totals[max(ended_at.date(), first)] = total
    return totals


def ledger_id(connection: sa.Connection) -> str:
    """Return the id of the ledger."""
    return str(connection.scalar(sa.select(sa.func.min(ledger_info.c.id))))


def pruned_before(connection: sa.Connection) -> datetime | None:
    """Return the time before which attempts may have been pruned; None if nothing has been pruned."""
    moment: datetime | None = connection.scalar(sa.select(sa.func.max(ledger_info.c.pruned_before)))
    return moment
