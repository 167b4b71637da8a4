"""The routes of the page and of the tab of a task: they read the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Header, Query

from airflow_provider_assistant import __version__
from airflow_provider_assistant.ledger import Filter, queries
from airflow_provider_assistant.ledger import Site as LedgerSite
from airflow_provider_assistant.ledger import clock as ledger_clock
from airflow_provider_assistant.ledger.settle import Settled
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages, may_see_task
from airflow_provider_assistant.ui.ledger import read
from airflow_provider_assistant.ui.models import (
    Context,
    Documents,
    DocumentsDay,
    Entries,
    Entry,
    Finding,
    Findings,
    ListName,
    RecordedOutcome,
    Site,
    TaskKind,
    TaskReply,
    Tries,
    Try,
)
from airflow_provider_assistant.ui.tasks import (
    TASK_PATH,
    TaskKeyDep,
    instance_of,
    report_path,
    running_tokens,
    tries_of_task,
)

router = APIRouter(prefix="/api", dependencies=[Depends(may_see_pages)])
task_router = APIRouter(prefix="/api/tasks", dependencies=[Depends(may_see_task)])

MOST_SITES, MOST_SOURCES = 200, 50
# Number of entries of a list that the page counts and shows: settling or filters bring the others.
MOST_LISTED = 1000
# Age of the tries from which sites and sources are listed.
SITES_AGE = timedelta(days=366)
# The lists of entries, and what their entries can be settled as.
LISTS: Mapping[ListName, tuple[Settled, ...]] = {
    "unresolved": ("created", "not-created"),
    "doubled": ("not-created", "removed"),
    "superseded": ("removed",),
    "stale": ("removed",),
    "draft": ("removed",),
    "open": (),
}
# What entries of other kinds than documents cannot be settled as: a chat request that was created needs its id, which
# only the command line takes, and neither requests nor ratings can be removed.
_IMPOSSIBLE: Mapping[str, set[Settled]] = {"chat": {"created", "removed"}, "rating": {"removed"}}
_EMPTY = queries.Page(0, is_capped=False, rows=[])
NameQuery = Annotated[str | None, Query(max_length=500)]


class Position(NamedTuple):
    """Position of a page of rows, see :class:`.models.Paged`."""

    limit: int
    offset: int

    def of(self, page: queries.Page) -> dict[str, Any]:
        """Return the position and the total as fields of :class:`.models.Paged`."""
        return {"total": page.total, "is_capped": page.is_capped, **self._asdict()}


def position_of(
    limit: Annotated[int, Query(ge=1, le=100)] = 25, offset: Annotated[int, Query(ge=0, le=queries.MOST)] = 0
) -> Position:
    """Return the position that a request names."""
    return Position(limit, offset)


def selection_of(rights: RightsDep, site: NameQuery = None, service: NameQuery = None) -> dict[str, Any]:
    """Return the site that a request selects and the DAGs that the user may read, as arguments of the queries."""
    if site is not None and service is not None:
        return {"site": LedgerSite(service, site), "dag_ids": rights.selected}
    return {"site_id": site, "dag_ids": rights.selected}


PositionDep = Annotated[Position, Depends(position_of)]
SelectionDep = Annotated[dict[str, Any], Depends(selection_of)]


@router.get("/context")
def context(rights: RightsDep) -> Context:
    """Return the sites that the page can select."""
    now = datetime.now(UTC)
    rows, problem = read(lambda connection: queries.sources(connection, now - SITES_AGE, rights.selected))
    sites: dict[tuple[str, str], Site] = {}
    for row in rows or []:
        site = Site(service=row["service"], site_id=row["site_id"], sources=[])
        known = sites.setdefault((site.service, site.site_id), site)
        if len(known.sources) < MOST_SOURCES:
            known.sources.append(row["source"])
    return Context(
        version=__version__,
        now=now,
        problem=problem,
        sites=list(sites.values())[:MOST_SITES],
        may_settle=any(rights.may_settle(dag_id) for dag_id in sorted(rights.readable)),
    )


@router.get("/tries")
def tries(
    selection: SelectionDep,
    rights: RightsDep,
    position: PositionDep,
    kind: TaskKind | None = None,
    outcome: RecordedOutcome | None = None,
    source: NameQuery = None,
) -> Tries:
    """Return tries of tasks."""
    filters = {"task_kind": kind, "outcome": outcome, "source": source, **position._asdict(), **selection}
    found, problem = read(lambda connection: queries.page_of_tries(connection, **filters))
    page = found or _EMPTY
    return Tries(problem=problem, **position.of(page), rows=_tries(page.rows, rights))


@router.get("/documents")
def documents(selection: SelectionDep, days: Annotated[int, Query(ge=1, le=366)] = 90) -> Documents:
    """Return the documents over time."""
    # Today is one of the days.
    first_day = (datetime.now(UTC) - timedelta(days=days - 1)).date()
    found, problem = read(lambda connection: queries.documents_by_day(connection, first_day, **selection))
    rows = [DocumentsDay(day=day, documents=count) for day, count in (found or {}).items()]
    return Documents(problem=problem, days=rows)


@router.get("/entries")
def entries(
    selection: SelectionDep,
    rights: RightsDep,
    position: PositionDep,
    which: ListName | None = None,
    source: NameQuery = None,
    assistant_search: Annotated[str, Header(max_length=2000)] = "",
) -> Entries:
    """
    Return the number of entries of each list, and the entries of one.

    :param which: Default: the first list that has entries.
    :param assistant_search: Text that keys contain, percent-encoded. It is a header because URLs are logged.
    """
    label_part = unquote(assistant_search) or None

    def found_of(connection: sa.Connection) -> tuple[dict[Any, int], ListName, queries.Page]:
        counts = queries.counts(connection, Filter(**selection), tuple(LISTS), MOST_LISTED)
        default: ListName = next((name for name in LISTS if counts[name]), "unresolved")
        name = which or default
        selected = Filter(which=name, source=source, label_part=label_part, **selection)
        page = queries.entries(connection, ledger_clock.configured(), selected, **position._asdict(), most=MOST_LISTED)
        return counts, name, page

    found, problem = read(found_of)
    lists, name, page = found or ({}, which or "unresolved", _EMPTY)
    rows = [_entry(name, row, rights) for row in page.rows]
    return Entries(problem=problem, **position.of(page), which=name, lists=lists, rows=rows)


@task_router.get(TASK_PATH)
def task(key: TaskKeyDep, rights: RightsDep) -> TaskReply:
    """Return what a task instance did."""
    instance = instance_of(key)
    rows, problem = read(lambda connection: tries_of_task(connection, key))
    return TaskReply(
        problem=problem,
        operator=instance.operator,
        state=instance.state,
        is_mapped=instance.is_mapped,
        tries=_tries(rows or [], rights),
    )


@task_router.get(f"{TASK_PATH}/findings")
def findings(
    key: TaskKeyDep, position: PositionDep, kind: Annotated[str | None, Query(max_length=50)] = None
) -> Findings:
    """Return the findings of the latest try of a task instance that has an end."""

    def found_of(connection: sa.Connection) -> tuple[dict[str, int], list[dict[str, Any]]]:
        ended = [row["token"] for row in tries_of_task(connection, key) if row["ended_at"]]
        return queries.findings_of(connection, ended[-1] if ended else "", kind, **position._asdict())

    found, problem = read(found_of)
    kinds, rows = found or ({}, [])
    total = sum(count for name, count in kinds.items() if kind in {None, name})
    return Findings(
        problem=problem,
        **position.of(queries.Page(total, is_capped=False, rows=rows)),
        kinds=kinds,
        rows=[Finding(**row) for row in rows],
    )


def _tries(rows: Any, rights: Rights) -> list[Try]:
    running = running_tokens([row for row in rows if row["ended_at"] is None and row["dag_id"] in rights.dags])
    names = Try.model_fields.keys() - {"outcome", "counts", "report", "task"}
    return [
        Try(
            **{name: row[name] for name in names},
            outcome="running" if row["token"] in running else row["outcome"],
            counts=row["counts"] or {},
            report=report_path(row) if row["report"] else None,
            task=rights.task(row),
        )
        for row in rows
    ]


def _entry(which: ListName, row: Mapping[str, Any], rights: Rights) -> Entry:
    outcomes: list[Settled] = []
    if not row["is_alive"] and rights.may_settle(row["dag_id"]):
        outcomes = [outcome for outcome in LISTS[which] if outcome not in _IMPOSSIBLE.get(row["kind"], ())]
    names = Entry.model_fields.keys() & row.keys()
    return Entry(
        **{name: row[name] for name in names},
        id=(row["scope"], row["key"], row["number"]),
        document_id=row["remote_id"],
        is_batch=row["kind"] == "chat" and row["namespace"] is not None,
        outcomes=outcomes,
        task=rights.task(row),
    )
