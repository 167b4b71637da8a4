"""The routes of the page and the dashboard panel that read the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Header, Query

from airflow_provider_assistant import __version__
from airflow_provider_assistant.ledger import load_queries, queries
from airflow_provider_assistant.ledger.scopes import SITE_COLUMNS, site_of
from airflow_provider_assistant.ledger.selection import MOST, Page, Rows, Selection
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.ids import STALE, SUPERSEDED
from airflow_provider_assistant.ui.lake import gates, lake_folder
from airflow_provider_assistant.ui.ledgers import OpenLedger, known_ledgers, read, select_ledger
from airflow_provider_assistant.ui.models import (
    ChatRequests,
    Context,
    Documents,
    DocumentsDay,
    Entries,
    EntryKind,
    LedgerRef,
    Loads,
    OutdatedPage,
    Site,
    SourceState,
    Summary,
)
from airflow_provider_assistant.ui.rows import (
    add_failures,
    entry_row,
    loads_of,
    outdated_row,
    request_row,
    source_states,
)
from airflow_provider_assistant.ui.selected import SiteDep, SourceQuery

router = APIRouter(prefix="/api", dependencies=[Depends(may_see_pages)])

MOST_SITES, MOST_SOURCES, MOST_STATES = 200, 50, 50
# The numbers of a summary that the ledger has.
_NUMBERS = (
    "loads_day",
    "failed_day",
    "created_day",
    "requests_day",
    "throttled_day",
    "ambiguous",
    "ambiguous_since",
    "superseded",
    "stale",
    "open_requests",
)
LedgerDep = Annotated[LedgerRef, Depends(select_ledger)]


def page_of(limit: Annotated[int, Query(ge=1, le=100)] = 25, offset: Annotated[int, Query(ge=0, le=MOST)] = 0) -> Page:
    """Return the position that a request names."""
    return Page(limit, offset)


PageDep = Annotated[Page, Depends(page_of)]


def selection_of(rights: RightsDep, site: SiteDep) -> Selection:
    """Return the entries that a request selects."""
    return site.selection(rights.selected)


def filtered_selection(
    selection: Annotated[Selection, Depends(selection_of)],
    source: SourceQuery = None,
    assistant_search: Annotated[str, Header(max_length=2000)] = "",
) -> Selection:
    """
    Return the entries that a request selects with the filters of a list.

    :param assistant_search: Text that keys contain, percent-encoded. It is a header because URLs are logged.
    """
    return replace(selection, source=source, label_part=unquote(assistant_search) or None)


SelectionDep = Annotated[Selection, Depends(selection_of)]
FilterDep = Annotated[Selection, Depends(filtered_selection)]


@router.get("/context")
def context(ledger: LedgerDep, rights: RightsDep) -> Context:
    """Return the ledgers and sites that a page can select."""
    selection = Selection(dag_ids=rights.selected)
    rows, problem = read(ledger, lambda opened: load_queries.sites(opened.connection, _now(), selection))
    may_settle = any(rights.may_settle(dag_id) for dag_id in sorted(rights.readable))
    return Context(
        version=__version__,
        now=_now(),
        ledgers=known_ledgers(),
        ledger=ledger.id,
        sites=_sites(rows or []),
        problem=problem,
        lake=lake_folder(),
        may_settle=may_settle,
    )


@router.get("/summary")
def summary(ledger: LedgerDep, selection: SelectionDep, rights: RightsDep, site: SiteDep) -> Summary:
    """Return the answers at the top of the page, and the numbers of the dashboard panel."""
    now = _now()
    read_result, problem = read(ledger, lambda opened: _numbers_and_sources(opened, now, selection, rights))
    # Without a ledger, every number is unknown.
    numbers: dict[str, Any] = dict.fromkeys(_NUMBERS)
    sources: list[SourceState] = []
    if read_result is not None:
        numbers, sources = read_result
    shown_sources = sources[:MOST_STATES]
    add_failures(shown_sources, rights)
    latest_gates, lake_problem = gates(rights, site.has)
    return Summary(
        now=now,
        problem=problem,
        sources=shown_sources,
        **numbers,
        gates=latest_gates,
        lake_problem=lake_problem,
    )


def _numbers_and_sources(
    opened: OpenLedger, now: datetime, selection: Selection, rights: Rights
) -> tuple[dict[str, Any], list[SourceState]]:
    """Return the numbers of a summary, with the keys ``_NUMBERS``, and the state of each source."""
    connection = opened.connection
    rows = load_queries.latest_tries(connection, now, selection)
    site_by_load = {row.load_id: site_of(row) for row in rows}
    sources = source_states(loads_of(rows, rights), site_by_load, now)
    sums = load_queries.sums_of_day(connection, now, selection)
    ambiguous, since = queries.count_ambiguous(connection, selection)
    day_ago = now - timedelta(days=1)
    # The ledger does not count a killed load as failed: the load has written no outcome.
    killed_loads = 0
    for state in sources:
        load = state.load
        if load.outcome == "unfinished" and load.started_at >= day_ago:
            killed_loads += 1
    numbers = {
        "loads_day": sums["loads"],
        "failed_day": sums["failed"] + killed_loads,
        "created_day": sums["created"],
        "requests_day": sums["requests"],
        "throttled_day": sums["throttled"],
        "ambiguous": ambiguous,
        "ambiguous_since": since,
        "superseded": queries.count_superseded(connection, selection),
        "stale": queries.count_stale(connection, selection),
        "open_requests": queries.count_open_requests(connection, now, selection),
    }
    return numbers, sources


@router.get("/loads")
def loads(
    ledger: LedgerDep,
    selection: SelectionDep,
    rights: RightsDep,
    page: PageDep,
    source: SourceQuery = None,
    outcome: Literal["succeeded", "failed", "deferred", "unfinished"] | None = None,
) -> Loads:
    """Return tries of loads."""
    selection = replace(selection, source=source)
    found, problem = read(
        ledger,
        lambda opened: load_queries.page_of_loads(opened.connection, selection, page, outcome=outcome),
    )
    rows = loads_of(_rows(found), rights)
    return Loads(**_position(page, found), problem=problem, rows=rows)


@router.get("/documents")
def documents(ledger: LedgerDep, selection: SelectionDep, days: Annotated[int, Query(ge=1, le=366)] = 90) -> Documents:
    """Return the documents over time."""
    # Today is one of the days.
    first_day = (_now() - timedelta(days=days - 1)).date()
    found, problem = read(ledger, lambda opened: load_queries.documents_by_day(opened.connection, first_day, selection))
    if found is None:
        return Documents(problem=problem, days=[])
    total_before, counts_by_day = found
    total = total_before
    rows = []
    for counts in counts_by_day:
        # A changed document replaces another one: the total stays.
        total += counts.created - counts.changed
        row = DocumentsDay(day=counts.day, created=counts.created, changed=counts.changed, documents=total)
        rows.append(row)
    return Documents(problem=problem, days=rows)


@router.get("/ambiguous")
def ambiguous(
    ledger: LedgerDep, selection: FilterDep, rights: RightsDep, page: PageDep, kind: EntryKind | None = None
) -> Entries:
    """Return the ambiguous entries."""
    found, problem = read(
        ledger, lambda opened: queries.page_of_ambiguous(opened.connection, opened.leases, selection, page, kind)
    )
    rows = [entry_row(entry, rights, _now()) for entry in _rows(found)]
    return Entries(**_position(page, found), problem=problem, rows=rows)


@router.get("/superseded")
def superseded(ledger: LedgerDep, selection: FilterDep, rights: RightsDep, page: PageDep) -> OutdatedPage:
    """Return the keys with superseded documents."""
    found, problem = read(ledger, lambda opened: queries.page_of_superseded(opened.connection, selection, page))
    rows = [outdated_row(SUPERSEDED, row, rights) for row in _rows(found)]
    return OutdatedPage(**_position(page, found), problem=problem, rows=rows)


@router.get("/stale")
def stale(ledger: LedgerDep, selection: FilterDep, rights: RightsDep, page: PageDep) -> OutdatedPage:
    """Return the documents whose rows are gone from their source."""
    found, problem = read(ledger, lambda opened: queries.page_of_stale(opened.connection, selection, page))
    rows = [outdated_row(STALE, row, rights) for row in _rows(found)]
    return OutdatedPage(**_position(page, found), problem=problem, rows=rows)


@router.get("/requests")
def requests(ledger: LedgerDep, selection: FilterDep, rights: RightsDep, page: PageDep) -> ChatRequests:
    """Return the open chat requests."""
    found, problem = read(
        ledger, lambda opened: queries.page_of_open_requests(opened.connection, _now(), selection, page)
    )
    rows = [request_row(row, rights, _now()) for row in _rows(found)]
    return ChatRequests(**_position(page, found), problem=problem, rows=rows)


def _sites(rows: list[Any]) -> list[Site]:
    """
    Return the sites with their sources.

    :param rows: One per site and source.
    """
    site_by_key: dict[tuple[str, ...], Site] = {}
    for row in rows:
        columns = {name: row[name] for name in SITE_COLUMNS}
        key = tuple(columns.values())
        if key not in site_by_key:
            site_by_key[key] = Site(**columns, sources=[])
        sources = site_by_key[key].sources
        if len(sources) < MOST_SOURCES and row["source"] not in sources:
            sources.append(row["source"])
    return list(site_by_key.values())[:MOST_SITES]


def _position(page: Page, found: Rows | None) -> dict[str, Any]:
    """Return the fields of :class:`Paged`: the position of the page, and how many rows there are."""
    total, is_capped = 0, False
    if found:
        total, is_capped = found.total, found.is_capped
    return {"total": total, "is_capped": is_capped, "limit": page.limit, "offset": page.offset}


def _rows(found: Rows | None) -> list[Any]:
    """Return the rows of a page; none if the ledger cannot be read."""
    return found.rows if found else []


def _now() -> datetime:
    return datetime.now(UTC)
