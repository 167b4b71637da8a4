"""The routes of the page and the dashboard panel that read the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query

from airflow_provider_assistant import __version__
from airflow_provider_assistant.ledger import overview
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.lake import gates, lake_folder
from airflow_provider_assistant.ui.ledgers import LedgerUnavailableError, known_ledgers, reading, select_ledger
from airflow_provider_assistant.ui.models import (
    ChatRequests,
    Context,
    Documents,
    DocumentsDay,
    Entries,
    LedgerRef,
    Loads,
    Problem,
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


def page_of(
    limit: Annotated[int, Query(ge=1, le=100)] = 25, offset: Annotated[int, Query(ge=0, le=overview.MOST)] = 0
) -> overview.Page:
    """
    Return the position that a request names.

    :param limit: Rows per page.
    :param offset: Number of rows before the page.
    """
    return overview.Page(limit, offset)


PageDep = Annotated[overview.Page, Depends(page_of)]


def selection_of(rights: RightsDep, site: SiteQuery = None) -> overview.Selection:
    """
    Return the entries that a request selects.

    :param rights: Rights of the user.
    :param site: Id of a site. Default: all sites.
    """
    return overview.Selection(site, rights.selected)


SelectionDep = Annotated[overview.Selection, Depends(selection_of)]


@router.get("/context")
def context(ledger: LedgerDep, rights: RightsDep) -> Context:
    """Return the ledgers and sites that a page can select."""
    problem, sites = None, []
    try:
        with reading(ledger) as opened:
            found = overview.sites(opened.connection, _now(), overview.Selection(None, rights.selected))
    except LedgerUnavailableError as error:
        problem = error.problem
    else:
        sites = _sites(found)
    return Context(
        version=__version__,
        now=_now(),
        ledgers=known_ledgers(),
        ledger=ledger.id,
        sites=sites,
        problem=problem,
        lake=lake_folder(),
        may_settle=any(map(rights.may_settle, sorted(rights.readable))),
    )


@router.get("/summary")
def summary(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep) -> Summary:
    """Return the answers at the top of the page, and the numbers of the dashboard panel."""
    now = _now()
    problem: Problem | None = None
    facts: dict[str, Any] = {}
    sources: list[SourceState] = []
    try:
        with reading(ledger) as opened:
            facts, sources = _facts(opened.connection, now, selection, rights)
    except LedgerUnavailableError as error:
        problem = error.problem
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
    connection: Any, now: datetime, selection: overview.Selection, rights: Rights
) -> tuple[dict[str, Any], list[SourceState]]:
    rows = overview.latest_tries(connection, now, selection)
    sources = source_states(loads_of(rows, rights), {row.load_id: row.scope for row in rows}, now)
    sums = overview.sums_of_day(connection, now, selection)
    ambiguous, since = overview.count_ambiguous(connection, selection)
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
        "superseded": overview.count_superseded(connection, selection),
        "stale": sum(stale) if stale else None,
        "open_requests": overview.count_open_requests(connection, now, selection),
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
    try:
        with reading(ledger) as opened:
            found = overview.page_of_loads(opened.connection, selection, page, source=source, outcome=outcome)
    except LedgerUnavailableError as error:
        return Loads(**_position(page), problem=error.problem, rows=[])
    return Loads(**_position(page, found), problem=None, rows=loads_of(found.rows, rights))


@router.get("/documents")
def documents(ledger: LedgerDep, selection: SelectionDep, days: Annotated[int, Query(ge=1, le=366)] = 90) -> Documents:
    """Return the documents over time."""
    try:
        with reading(ledger) as opened:
            first = (_now() - timedelta(days=days - 1)).date()
            total, found = overview.documents_by_day(opened.connection, first, selection)
    except LedgerUnavailableError as error:
        return Documents(problem=error.problem, days=[])
    rows = []
    for day, created, changed in found:
        total += created - changed
        rows.append(DocumentsDay(day=day, created=created, changed=changed, documents=total))
    return Documents(problem=None, days=rows)


@router.get("/ambiguous")
def ambiguous(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep, page: PageDep) -> Entries:
    """Return the ambiguous entries."""
    try:
        with reading(ledger) as opened:
            found = overview.page_of_ambiguous(opened.connection, opened.leases, selection, page)
    except LedgerUnavailableError as error:
        return Entries(**_position(page), problem=error.problem, rows=[])
    rows = [entry_row(entry, rights, _now()) for entry in found.rows]
    return Entries(**_position(page, found), problem=None, rows=rows)


@router.get("/superseded")
def superseded(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep, page: PageDep) -> SupersededPage:
    """Return the keys with superseded documents."""
    try:
        with reading(ledger) as opened:
            found = overview.page_of_superseded(opened.connection, selection, page)
    except LedgerUnavailableError as error:
        return SupersededPage(**_position(page), problem=error.problem, rows=[])
    rows = [superseded_row(row, rights) for row in found.rows]
    return SupersededPage(**_position(page, found), problem=None, rows=rows)


@router.get("/requests")
def requests(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep, page: PageDep) -> ChatRequests:
    """Return the open chat requests."""
    try:
        with reading(ledger) as opened:
            found = overview.page_of_open_requests(opened.connection, _now(), selection, page)
    except LedgerUnavailableError as error:
        return ChatRequests(**_position(page), problem=error.problem, rows=[])
    rows = [request_row(row, rights, _now()) for row in found.rows]
    return ChatRequests(**_position(page, found), problem=None, rows=rows)


def _sites(found: list[Any]) -> list[Site]:
    sites: dict[tuple[str, str], Site] = {}
    for row in found:
        site = sites.setdefault((row["site_id"], row["url"]), Site(site_id=row["site_id"], url=row["url"], sources=[]))
        if len(site.sources) < MOST_SOURCES and row["source"] not in site.sources:
            site.sources.append(row["source"])
    return list(sites.values())[:MOST_SITES]


def _position(page: overview.Page, found: overview.Rows | None = None) -> dict[str, Any]:
    total, is_capped = (found.total, found.is_capped) if found else (0, False)
    return {"total": total, "is_capped": is_capped, "limit": page.limit, "offset": page.offset}


def _now() -> datetime:
    return datetime.now(UTC)
