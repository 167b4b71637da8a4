"""The routes of the page and the dashboard panel that read the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query

from airflow_provider_assistant import __version__
from airflow_provider_assistant.ledger import load_queries, queries
from airflow_provider_assistant.ledger.selection import MOST, Page, Rows, Selection
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.lake import gates, lake_folder
from airflow_provider_assistant.ui.ledgers import OpenLedger, known_ledgers, read, select_ledger
from airflow_provider_assistant.ui.models import (
    ChatRequests,
    Context,
    Documents,
    DocumentsDay,
    Entries,
    LedgerRef,
    Loads,
    Site,
    SourceState,
    Summary,
    SupersededPage,
)
from airflow_provider_assistant.ui.rows import (
    add_failures,
    entry_row,
    loads_of,
    request_row,
    source_states,
    superseded_row,
)

router = APIRouter(prefix="/api", dependencies=[Depends(may_see_pages)])

MOST_SITES, MOST_SOURCES, MOST_STATES = 200, 50, 50
LedgerDep = Annotated[LedgerRef, Depends(select_ledger)]
SiteQuery = Annotated[str | None, Query(max_length=500)]


def page_of(limit: Annotated[int, Query(ge=1, le=100)] = 25, offset: Annotated[int, Query(ge=0, le=MOST)] = 0) -> Page:
    """Return the position that a request names."""
    return Page(limit, offset)


PageDep = Annotated[Page, Depends(page_of)]


def selection_of(rights: RightsDep, site: SiteQuery = None) -> Selection:
    """Return the entries that a request selects."""
    return Selection(site, rights.selected)


SelectionDep = Annotated[Selection, Depends(selection_of)]


@router.get("/context")
def context(ledger: LedgerDep, rights: RightsDep) -> Context:
    """Return the ledgers and sites that a page can select."""
    selection = Selection(dag_ids=rights.selected)
    found, problem = read(ledger, lambda opened: load_queries.sites(opened.connection, _now(), selection))
    return Context(
        version=__version__,
        now=_now(),
        ledgers=known_ledgers(),
        ledger=ledger.id,
        sites=_sites(found or []),
        problem=problem,
        lake=lake_folder(),
        may_settle=any(map(rights.may_settle, sorted(rights.readable))),
    )


@router.get("/summary")
def summary(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep) -> Summary:
    """Return the answers at the top of the page, and the numbers of the dashboard panel."""
    now = _now()
    read_facts, problem = read(ledger, lambda opened: _facts(opened, now, selection, rights))
    facts, sources = read_facts or ({}, [])
    add_failures(sources[:MOST_STATES], rights)
    names = ("loads_day", "failed_day", "created_day", "requests_day", "throttled_day", "ambiguous", "ambiguous_since")
    found, lake_problem = gates(rights)
    return Summary(
        now=now,
        problem=problem,
        sources=sources[:MOST_STATES],
        **{name: facts.get(name) for name in (*names, "superseded", "stale", "open_requests")},
        gates=found,
        lake_problem=lake_problem,
    )


def _facts(
    opened: OpenLedger, now: datetime, selection: Selection, rights: Rights
) -> tuple[dict[str, Any], list[SourceState]]:
    connection = opened.connection
    rows = load_queries.latest_tries(connection, now, selection)
    sources = source_states(loads_of(rows, rights), {row.load_id: row.site_url for row in rows}, now)
    sums = load_queries.sums_of_day(connection, now, selection)
    ambiguous, since = queries.count_ambiguous(connection, selection)
    day = now - timedelta(days=1)
    killed = sum(state.load.outcome == "unfinished" and state.load.started_at >= day for state in sources)
    stale = [state.load.counts.stale for state in sources if state.load.counts.stale is not None]
    facts = {
        "loads_day": sums["loads"],
        "failed_day": sums["failed"] + killed,
        "created_day": sums["created"],
        "requests_day": sums["requests"],
        "throttled_day": sums["throttled"],
        "ambiguous": ambiguous,
        "ambiguous_since": since,
        "superseded": queries.count_superseded(connection, selection),
        "stale": sum(stale) if stale else None,
        "open_requests": queries.count_open_requests(connection, now, selection),
    }
    return facts, sources


@router.get("/loads")
def loads(
    ledger: LedgerDep,
    selection: SelectionDep,
    rights: RightsDep,
    page: PageDep,
    source: Annotated[str | None, Query(max_length=500)] = None,
    outcome: Literal["succeeded", "failed", "deferred", "unfinished"] | None = None,
) -> Loads:
    """Return tries of loads."""
    some = replace(selection, source=source)
    found, problem = read(
        ledger, lambda opened: load_queries.page_of_loads(opened.connection, some, page, outcome=outcome)
    )
    rows = loads_of(found.rows, rights) if found else []
    return Loads(**_position(page, found), problem=problem, rows=rows)


@router.get("/documents")
def documents(ledger: LedgerDep, selection: SelectionDep, days: Annotated[int, Query(ge=1, le=366)] = 90) -> Documents:
    """Return the documents over time."""
    first = (_now() - timedelta(days=days - 1)).date()
    found, problem = read(ledger, lambda opened: load_queries.documents_by_day(opened.connection, first, selection))
    total, counted = found or (0, [])
    rows = []
    for one in counted:
        total += one.created - one.changed
        rows.append(DocumentsDay(day=one.day, created=one.created, changed=one.changed, documents=total))
    return Documents(problem=problem, days=rows)


@router.get("/ambiguous")
def ambiguous(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep, page: PageDep) -> Entries:
    """Return the ambiguous entries."""
    found, problem = read(
        ledger, lambda opened: queries.page_of_ambiguous(opened.connection, opened.leases, selection, page)
    )
    rows = [entry_row(entry, rights, _now()) for entry in found.rows] if found else []
    return Entries(**_position(page, found), problem=problem, rows=rows)


@router.get("/superseded")
def superseded(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep, page: PageDep) -> SupersededPage:
    """Return the keys with superseded documents."""
    found, problem = read(ledger, lambda opened: queries.page_of_superseded(opened.connection, selection, page))
    rows = [superseded_row(row, rights) for row in found.rows] if found else []
    return SupersededPage(**_position(page, found), problem=problem, rows=rows)


@router.get("/requests")
def requests(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep, page: PageDep) -> ChatRequests:
    """Return the open chat requests."""
    found, problem = read(
        ledger, lambda opened: queries.page_of_open_requests(opened.connection, _now(), selection, page)
    )
    rows = [request_row(row, rights, _now()) for row in found.rows] if found else []
    return ChatRequests(**_position(page, found), problem=problem, rows=rows)


def _sites(found: list[Any]) -> list[Site]:
    sites: dict[tuple[str, str], Site] = {}
    for row in found:
        site_id, url = row["site_id"], row["site_url"]
        site = sites.setdefault((site_id, url), Site(site_id=site_id, url=url, sources=[]))
        if len(site.sources) < MOST_SOURCES and row["source"] not in site.sources:
            site.sources.append(row["source"])
    return list(sites.values())[:MOST_SITES]


def _position(page: Page, found: Rows | None = None) -> dict[str, Any]:
    total, is_capped = (found.total, found.is_capped) if found else (0, False)
    return {"total": total, "is_capped": is_capped, "limit": page.limit, "offset": page.offset}


def _now() -> datetime:
    return datetime.now(UTC)
