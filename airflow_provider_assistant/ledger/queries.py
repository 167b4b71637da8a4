"""Queries of the entries, for the command line and the pages in Airflow's UI."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.api.document_state import DEFAULT_WORDS, NOT_IN_USE
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger.leases import LeaseSettings, is_living
from airflow_provider_assistant.ledger.load_queries import OUTCOME
from airflow_provider_assistant.ledger.schema import (
    IS_OPEN,
    OUTDATED,
    RUN_COLUMNS,
    TABLES,
    RunRef,
    chat_requests,
    documents,
    is_unresolved,
    loads,
)
from airflow_provider_assistant.ledger.scopes import SITE_COLUMNS, Site, site_of, site_of_scope
from airflow_provider_assistant.ledger.selection import (
    ALL,
    MOST,
    Page,
    Rows,
    Selection,
    capped_count,
    page_of,
)
from airflow_provider_assistant.texts import counted

# Age of the chat requests that are listed as open.
REQUESTS_AGE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class AmbiguousEntry:
    """
    Hold the entry of an effect that may or may not have happened.

    :param kind: ``document``, ``chat_request`` or ``rating``.
    :param endpoint: Endpoint of a document; None for other kinds.
    :param key: Key of the entry, unique within its scope.
    :param label: Key as readable text; the session id for single chat requests and ratings.
    :param source: Name of the source; the DAG and the task for chat requests and ratings.
    :param outcome: ``ambiguous``, or ``claimed`` for a claim without an outcome.
    :param run: Task instance that made the claim.
    :param claimed_at: Time of the claim, UTC.
    :param may_be_under_way: Whether a task that is alive is sending it.
    :param sent_hash: Content hash of what was sent; None if it is not known.
    :param ambiguous: Number of ambiguous attempts; a claim without an outcome is not among them.
    """

    kind: str
    scope: str
    endpoint: str | None
    key: str
    site_id: str
    label: str
    source: str
    outcome: str
    attempts: int
    error: str | None
    run: RunRef
    claimed_at: datetime
    may_be_under_way: bool
    sent_hash: str | None = None
    ambiguous: int = 0

    @property
    def site(self) -> Site:
        """The site, without its URL."""
        return site_of_scope(self.scope)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON types."""
        return {
            "key": self.key,
            "kind": self.kind,
            "site_id": self.site_id,
            "label": self.label,
            "source": self.source,
            "outcome": self.outcome,
            "attempts": self.attempts,
            "error": self.error,
            "claimed_at": self.claimed_at.isoformat(timespec="seconds"),
            "may_be_under_way": self.may_be_under_way,
            "run": str(self.run),
        }


def entry_of(kind: str, row: Any) -> AmbiguousEntry:
    """Return the entry of a row of :func:`unresolved_query`."""
    is_alive = is_living(row.heartbeat_at, row.lease_seconds, row.database_now)
    # Only the table of documents has this column.
    endpoint = None
    if kind == "document":
        endpoint = row.endpoint
    run = RunRef(**{name: getattr(row, name) for name in RUN_COLUMNS})
    return AmbiguousEntry(
        kind=kind,
        scope=row.scope,
        endpoint=endpoint,
        key=row.key,
        site_id=row.site_id,
        label=row.label,
        source=row.source,
        outcome=row.outcome,
        attempts=row.attempts,
        error=row.error,
        run=run,
        claimed_at=row.claimed_at,
        may_be_under_way=row.outcome == "claimed" and is_alive,
        sent_hash=row.sent_hash,
        ambiguous=row.ambiguous,
    )


def unresolved_query(kind: str, leases: LeaseSettings, selection: Selection) -> sa.Select[Any]:
    """Return the query of the unresolved entries of a kind, with the leases of their claims."""
    table = TABLES[kind]
    query = sa.select(table).where(is_unresolved(table), *selection.of(table))
    return leases.with_lease(query, table)


# -- counts ----------------------------------------------------------------------------------------


def counts(connection: sa.Connection, selection: Selection) -> list[dict[str, Any]]:
    """
    Count the entries by kind, site and outcome, drafts, superseded documents, and the loads.

    :return: One mapping per kind, site and outcome, with ``kind``, ``service``, ``tenant_id``, ``site_id``,
        ``outcome``, ``entries`` and ``latest``, the time of the latest claim or start in ISO format; None for
        superseded documents. The outcome ``draft`` counts the created documents whose status says that they are not in
        use.
    """
    count_rows = []
    for kind, table in TABLES.items():
        c = table.c
        count_rows += _count_rows(connection, kind, table, c.outcome, c.claimed_at, selection)
    count_rows += _draft_rows(connection, selection)
    superseded_by_site = Counter[Site]()
    for row in page_of_superseded(connection, selection, ALL).rows:
        superseded_by_site[site_of(row)] += len(json.loads(row.superseded))
    for site, entries in sorted(superseded_by_site.items(), key=str):
        count_rows.append(_count_row("document", site, "superseded", entries, None))
    count_rows += _count_rows(connection, "load", loads, OUTCOME, loads.c.started_at, selection)
    return count_rows


def _count_row(kind: str, site: Site, outcome: str, entries: int, latest: datetime | None) -> dict[str, Any]:
    latest_text = None
    if latest is not None:
        latest_text = latest.isoformat(timespec="seconds")
    return {"kind": kind, **site.columns(), "outcome": outcome, "entries": entries, "latest": latest_text}


def _draft_rows(connection: sa.Connection, selection: Selection) -> list[dict[str, Any]]:
    """Return the counts of the created documents that were not in use, by site."""
    c = documents.c
    columns = [c[name] for name in SITE_COLUMNS]
    query = (
        sa.select(*columns, c.status, sa.func.count(), sa.func.max(c.claimed_at))
        .where(c.outcome == "created", c.status.is_not(None), *selection.of(documents))
        .group_by(*columns, c.status)
    )
    entries_by_site = Counter[Site]()
    latest_by_site: dict[Site, datetime] = {}
    for *site_columns, status, entries, latest in connection.execute(query):
        site = Site(*site_columns)
        if DEFAULT_WORDS.state(status) in NOT_IN_USE:
            entries_by_site[site] += entries
            latest_by_site[site] = max(latest, latest_by_site.get(site, latest))
    draft_rows = []
    for site, entries in sorted(entries_by_site.items(), key=str):
        draft_rows.append(_count_row("document", site, "draft", entries, latest_by_site[site]))
    return draft_rows


def _count_rows(
    connection: sa.Connection,
    kind: str,
    table: sa.Table,
    outcome_column: sa.ColumnElement[str],
    time_column: sa.ColumnElement[datetime],
    selection: Selection,
) -> list[dict[str, Any]]:
    """Return the counts of one kind, by site and outcome."""
    columns = [table.c[name] for name in SITE_COLUMNS]
    query = (
        sa.select(*columns, outcome_column, sa.func.count(), sa.func.max(time_column))
        .where(*selection.of(table))
        .group_by(*columns, outcome_column)
        .order_by(*columns, outcome_column)
    )
    count_rows = []
    for *site_columns, outcome, entries, latest in connection.execute(query):
        count_rows.append(_count_row(kind, Site(*site_columns), outcome, entries, latest))
    return count_rows


def addresses(connection: sa.Connection, selection: Selection) -> list[dict[str, Any]]:
    """
    Return the sites of the ledger, and the addresses at which they were used.

    :return: One mapping per site, with ``service``, ``tenant_id``, ``site_id`` and ``addresses``, a list of URLs.
    """
    urls_by_site: dict[Site, set[str]] = {}
    for table in (*TABLES.values(), loads):
        columns = [table.c[name] for name in (*SITE_COLUMNS, "site_url")]
        query = sa.select(*columns).where(*selection.of(table)).distinct()
        for row in connection.execute(query):
            urls_by_site.setdefault(site_of(row), set()).add(row.site_url)
    sites = sorted(urls_by_site.items(), key=lambda item: str(item[0]))
    return [{**site.columns(), "addresses": sorted(urls)} for site, urls in sites]


# -- ambiguous entries -----------------------------------------------------------------------------


def count_ambiguous(connection: sa.Connection, selection: Selection) -> tuple[int, datetime | None]:
    """
    Count the entries that are ambiguous or have no outcome, at most :data:`.MOST`.

    :return: Their number, and the time of the oldest claim.
    """
    total = 0
    oldest_claims = []
    for table in TABLES.values():
        query = sa.select(table.c.claimed_at).where(is_unresolved(table), *selection.of(table))
        total += capped_count(connection, query)
        oldest_claim = connection.scalar(query.order_by(table.c.claimed_at).limit(1))
        if oldest_claim is not None:
            oldest_claims.append(oldest_claim)
    return min(total, MOST), min(oldest_claims, default=None)


def page_of_ambiguous(
    connection: sa.Connection, leases: LeaseSettings, selection: Selection, page: Page, only_kind: str | None = None
) -> Rows:
    """
    Return the entries that are ambiguous or have no outcome, by kind and time of the claim.

    :param only_kind: Only this kind of entries. Default: all.
    :return: Rows with an :class:`AmbiguousEntry` each.
    """
    total = 0
    # Entries to skip: the offset counts through the tables, one after another.
    offset = page.offset
    entries: list[AmbiguousEntry] = []
    for kind, table in TABLES.items():
        if only_kind not in {None, kind}:
            continue
        query = unresolved_query(kind, leases, selection)
        table_total = capped_count(connection, query)
        total += table_total
        missing = page.limit - len(entries)
        if offset < table_total and missing > 0:
            ordered_query = query.order_by(table.c.claimed_at, table.c.scope, table.c.key)
            page_query = ordered_query.offset(offset).limit(missing)
            entries += [entry_of(kind, row) for row in connection.execute(page_query)]
        offset = max(0, offset - table_total)
    return Rows(total=min(total, MOST), is_capped=total > MOST, rows=entries)


def find_unresolved(
    connection: sa.Connection, leases: LeaseSettings, kind: str, scope: str, key: str
) -> AmbiguousEntry | None:
    """Return one entry that is ambiguous or has no outcome, or None."""
    c = TABLES[kind].c
    query = unresolved_query(kind, leases, Selection()).where(c.scope == scope, c.key == key)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return entry_of(kind, row)


def unresolved_of_scope(connection: sa.Connection, leases: LeaseSettings, scope: str) -> list[AmbiguousEntry]:
    """Return the documents of a scope that are ambiguous or have no outcome, by time of the claim."""
    c = documents.c
    query = unresolved_query("document", leases, Selection()).where(c.scope == scope)
    return [entry_of("document", row) for row in connection.execute(query.order_by(c.claimed_at, c.key))]


def find_ambiguous(
    connection: sa.Connection, leases: LeaseSettings, selection: Selection, prefix: str
) -> AmbiguousEntry:
    """
    Return the unresolved entry with a key prefix.

    :raises AssistantInputError: No unresolved entry has this prefix, or several have.
    """
    entries: list[AmbiguousEntry] = page_of_ambiguous(connection, leases, selection, ALL).rows
    matches = [entry for entry in entries if entry.key.startswith(prefix)]
    if not matches:
        raise AssistantInputError(f"no entry to resolve has a key that begins with {prefix!r}", field="entry")
    if len(matches) > 1:
        examples = []
        for entry in matches[:5]:
            kind = kind_name(entry.kind)
            examples.append(f"{kind} {entry.key} on {entry.site_id}")
        found = counted(len(matches), "entry", "entries")
        raise AssistantInputError(
            f"{found} with a key that begins with {prefix!r}: {'; '.join(examples)}",
            todo="Give more of it, or the site.",
            field="entry",
        )
    return matches[0]


def kind_name(kind: str) -> str:
    """Return a kind of entries as a sentence names it."""
    return kind.replace("_", " ")


# -- superseded documents and chat requests --------------------------------------------------------


def count_superseded(connection: sa.Connection, selection: Selection) -> int:
    """Count the keys with superseded documents, at most :data:`.MOST`."""
    return min(MOST, capped_count(connection, _outdated_query("superseded", selection)))


def page_of_superseded(connection: sa.Connection, selection: Selection, page: Page) -> Rows:
    """Return the keys with superseded documents, the latest change first."""
    c = documents.c
    latest_first = (c.claimed_at.desc(), c.scope, c.key)
    return page_of(connection, _outdated_query("superseded", selection), latest_first, page)


def count_stale(connection: sa.Connection, selection: Selection) -> int:
    """Count the stale documents, at most :data:`.MOST`."""
    return min(MOST, capped_count(connection, _outdated_query("stale", selection)))


def page_of_stale(connection: sa.Connection, selection: Selection, page: Page) -> Rows:
    """Return the documents whose rows are gone from their source, the latest first."""
    c = documents.c
    return page_of(connection, _outdated_query("stale", selection), (c.stale_at.desc(), c.scope, c.key), page)


def superseded_documents(connection: sa.Connection, selection: Selection) -> list[tuple[str, str, str, str]]:
    """
    Return the superseded documents by site, source and label.

    :return: Tuples of site id, source, key label and document id.
    """
    c = documents.c
    query = _outdated_query("superseded", selection).order_by(c.site_id, c.source, c.label, c.key)
    superseded = []
    for row in connection.execute(query):
        site_id, source, label = row.site_id, row.source, row.label
        document_ids = json.loads(row.superseded)
        superseded += [(site_id, source, label, document_id) for document_id in document_ids]
    return superseded


def _outdated_query(which: str, selection: Selection) -> sa.Select[Any]:
    return sa.select(documents).where(OUTDATED[which], *selection.of(documents))


def count_open_requests(connection: sa.Connection, now: datetime, selection: Selection) -> int:
    """
    Count the chat requests of the last week without a recorded end, at most :data:`.MOST`.

    :param now: Timezone-aware.
    """
    return min(MOST, capped_count(connection, _open_requests_query(now, selection)))


def page_of_open_requests(connection: sa.Connection, now: datetime, selection: Selection, page: Page) -> Rows:
    """
    Return the chat requests of the last week without a recorded end, oldest first.

    :param now: Timezone-aware.
    """
    c = chat_requests.c
    oldest_first = (c.claimed_at, c.key)
    return page_of(connection, _open_requests_query(now, selection), oldest_first, page)


def _open_requests_query(now: datetime, selection: Selection) -> sa.Select[Any]:
    c = chat_requests.c
    is_recent = c.claimed_at >= now - REQUESTS_AGE
    conditions = (IS_OPEN, c.mode == "async", is_recent, *selection.of(chat_requests))
    return sa.select(chat_requests).where(*conditions)
