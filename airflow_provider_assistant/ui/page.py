"""The routes of the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Header, Query

from airflow_provider_assistant import __version__
from airflow_provider_assistant.ledger import Filter, queries
from airflow_provider_assistant.ledger import clock as ledger_clock
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.lake import evaluations, gates
from airflow_provider_assistant.ui.ledger import read
from airflow_provider_assistant.ui.models import (
    Context,
    Documents,
    DocumentsDay,
    Entries,
    ListName,
    Loads,
    Problem,
    Site,
    SourceState,
    Summary,
    UnavailableError,
)
from airflow_provider_assistant.ui.rows import add_failures, entry_row, loads_of, source_states
from airflow_provider_assistant.ui.selected import NameQuery, SiteDep, SourceQuery
from airflow_provider_assistant.ui.trend_models import Evaluations

router = APIRouter(prefix="/api", dependencies=[Depends(may_see_pages)])

MOST_SITES, MOST_SOURCES, MOST_STATES = 200, 50, 50
# Age of the tries from which sites and sources are listed, and of those from which the state of a source is.
SITES_AGE, SOURCES_AGE = timedelta(days=366), timedelta(days=62)
LISTS: tuple[ListName, ...] = ("unresolved", "doubled", "superseded", "stale", "draft", "open")


class Position(NamedTuple):
    """Position of a page of rows, see :class:`.models.Paged`."""

    limit: int
    offset: int

    def of(self, found: queries.Page | None) -> dict[str, Any]:
        """Return the fields of :class:`.models.Paged`; None if the ledger cannot be read."""
        total, is_capped = (found.total, found.is_capped) if found else (0, False)
        return {"total": total, "is_capped": is_capped, **self._asdict()}


def position_of(
    limit: Annotated[int, Query(ge=1, le=100)] = 25, offset: Annotated[int, Query(ge=0, le=queries.MOST)] = 0
) -> Position:
    """Return the position that a request names."""
    return Position(limit, offset)


def selection_of(rights: RightsDep, site: SiteDep) -> dict[str, Any]:
    """Return what a request selects, as arguments of the queries."""
    return site.selection(rights.selected)


PageDep = Annotated[Position, Depends(position_of)]
SelectionDep = Annotated[dict[str, Any], Depends(selection_of)]


@router.get("/context")
def context(rights: RightsDep) -> Context:
    """Return the sites that a page can select."""
    since = _now() - SITES_AGE
    rows, problem = read(lambda connection: queries.sources(connection, since, rights.selected))
    return Context(
        version=__version__,
        now=_now(),
        sites=_sites(rows or []),
        problem=problem,
        may_settle=any(rights.may_settle(dag_id) for dag_id in sorted(rights.readable)),
    )


@router.get("/summary")
def summary(selection: SelectionDep, rights: RightsDep, site: SiteDep) -> Summary:
    """Return the answers at the top of the page."""
    now = _now()
    found, problem = read(lambda connection: _facts(connection, now, selection, rights))
    # Without a ledger, all of this is unknown.
    facts = found or {"created_day": None, "lists": {}, "unresolved_since": None, "sources": []}
    facts["sources"] = facts["sources"][:MOST_STATES]
    add_failures(facts["sources"], rights)
    latest_gates, lake_problem = gates(rights, site.has)
    return Summary(now=now, problem=problem, gates=latest_gates, lake_problem=lake_problem, **facts)


def _facts(connection: sa.Connection, now: datetime, selection: dict[str, Any], rights: Rights) -> dict[str, Any]:
    """Return what the summary has from the ledger, by the names of its fields."""
    tries = queries.latest_tries(connection, now - SOURCES_AGE, task_kind="load", **selection)
    day = now - timedelta(days=1)
    loads_of_day = queries.page_of_tries(connection, task_kind="load", since=day, limit=queries.MOST, **selection)
    created = [(row["counts"] or {}).get("created") or 0 for row in loads_of_day.rows]
    states: list[SourceState] = source_states(tries, rights, now)
    return {
        "created_day": sum(created),
        "lists": queries.counts(connection, Filter(**selection), LISTS),
        "unresolved_since": queries.oldest(connection, Filter(which="unresolved", **selection)),
        "sources": states,
    }


@router.get("/loads")
def loads(
    selection: SelectionDep,
    rights: RightsDep,
    page: PageDep,
    source: SourceQuery = None,
    outcome: Literal["succeeded", "succeeded with findings", "failed", "deferred", "unfinished"] | None = None,
) -> Loads:
    """Return tries of loads."""
    found, problem = read(
        lambda connection: queries.page_of_tries(
            connection, task_kind="load", source=source, outcome=outcome, **page._asdict(), **selection
        )
    )
    rows = loads_of(found.rows if found else [], rights)
    return Loads(**page.of(found), problem=problem, rows=rows)


@router.get("/documents")
def documents(selection: SelectionDep, days: Annotated[int, Query(ge=1, le=366)] = 90) -> Documents:
    """Return the documents over time."""
    # Today is one of the days.
    first_day = (_now() - timedelta(days=days - 1)).date()
    found, problem = read(lambda connection: queries.documents_by_day(connection, first_day, **selection))
    rows = [DocumentsDay(day=day, documents=count) for day, count in (found or {}).items()]
    return Documents(problem=problem, days=rows)


@router.get("/entries/{which}")
def entries(
    which: ListName,
    selection: SelectionDep,
    rights: RightsDep,
    page: PageDep,
    source: SourceQuery = None,
    assistant_search: Annotated[str, Header(max_length=2000)] = "",
) -> Entries:
    """
    Return the entries of a list.

    :param assistant_search: Text that keys contain, percent-encoded. It is a header because URLs are logged.
    """
    selected = Filter(which=which, source=source, label_part=unquote(assistant_search) or None, **selection)

    def found_of(connection: sa.Connection) -> queries.Page:
        return queries.entries(connection, ledger_clock.configured(), selected, **page._asdict())

    found, problem = read(found_of)
    rows = [entry_row(which, row, rights, _now()) for row in (found.rows if found else [])]
    return Entries(**page.of(found), problem=problem, rows=rows)


@router.get("/evaluations")
def last_evaluations(
    rights: RightsDep,
    site: SiteDep,
    name: NameQuery = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 30,
) -> Evaluations:
    """Return the last evaluations."""
    problem: Problem | None = None
    rows = []
    try:
        rows = evaluations(rights, limit, name, site.has)
    except UnavailableError as error:
        problem = error.problem
    return Evaluations(problem=problem, names=sorted({one.name for one in rows}), rows=rows)


def _sites(rows: list[dict[str, Any]]) -> list[Site]:
    """
    Return the sites with their sources.

    :param rows: One per site and source.
    """
    sites: dict[tuple[str, str], Site] = {}
    for row in rows:
        key = (row["service"], row["site_id"])
        site = sites.setdefault(key, Site(service=row["service"], site_id=row["site_id"], sources=[]))
        if len(site.sources) < MOST_SOURCES and row["source"] not in site.sources:
            site.sources.append(row["source"])
    return list(sites.values())[:MOST_SITES]


def _now() -> datetime:
    return datetime.now(UTC)
