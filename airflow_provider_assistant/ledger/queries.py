"""Queries of the entries, for the command line, the pages in Airflow's UI and the exports."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger.leases import LeaseSettings, is_living
from airflow_provider_assistant.ledger.load_queries import OUTCOME
from airflow_provider_assistant.ledger.schema import (
    IS_OPEN,
    NOT_CREATED,
    RUN_COLUMNS,
    TABLES,
    UNRESOLVED,
    RunRef,
    chat_requests,
    documents,
    is_unresolved,
    loads,
    ratings,
)
from airflow_provider_assistant.ledger.selection import (
    ALL,
    MOST,
    Page,
    Rows,
    Selection,
    capped,
    dictionaries,
    page_of,
    seconds_between,
)

# Age of the chat requests that are listed as open.
REQUESTS_AGE = timedelta(days=7)
# Columns of the task instance in the exported datasets.
_RUN = ("dag_id", "run_id", "task_id", "map_index")


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

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON types."""
        names = ("key", "kind", "site_id", "label", "source", "outcome", "attempts", "error")
        return {
            **{name: getattr(self, name) for name in names},
            "claimed_at": self.claimed_at.isoformat(timespec="seconds"),
            "may_be_under_way": self.may_be_under_way,
            "run": str(self.run),
        }


def _entry_of(kind: str, row: Any) -> AmbiguousEntry:
    is_alive = is_living(row.heartbeat_at, row.lease_seconds, row.database_now)
    names = ("scope", "key", "site_id", "label", "source", "outcome", "attempts", "error", "claimed_at", "sent_hash")
    return AmbiguousEntry(
        kind=kind,
        endpoint=row.endpoint if kind == "document" else None,
        run=RunRef(**{name: getattr(row, name) for name in RUN_COLUMNS}),
        may_be_under_way=row.outcome == "claimed" and is_alive,
        **{name: getattr(row, name) for name in names},
    )


def _unresolved(kind: str, leases: LeaseSettings, selection: Selection) -> sa.Select[Any]:
    table = TABLES[kind]
    query = sa.select(table).where(is_unresolved(table), *selection.of(table))
    return leases.with_lease(query, table)


# -- counts ----------------------------------------------------------------------------------------


def counts(connection: sa.Connection, selection: Selection) -> list[dict[str, Any]]:
    """
    Count the entries by kind, site and outcome, the superseded documents, and the loads.

    :return: One mapping per kind, site and outcome, with ``kind``, ``site_id``, ``outcome``, ``entries`` and
        ``latest``, the time of the latest claim or start in ISO format; None for superseded documents.
    """
    found = []
    for kind, table in TABLES.items():
        found += _counted(connection, kind, table, table.c.outcome, table.c.claimed_at, selection)
    superseded = Counter[str]()
    for row in page_of_superseded(connection, selection, ALL).rows:
        superseded[row.site_id] += len(json.loads(row.superseded))
    for site_id, entries in sorted(superseded.items()):
        found.append(_count("document", site_id, "superseded", entries, None))
    return found + _counted(connection, "load", loads, OUTCOME, loads.c.started_at, selection)


def _counted(
    connection: sa.Connection,
    kind: str,
    table: sa.Table,
    outcome: sa.ColumnElement[str],
    at: sa.ColumnElement[datetime],
    selection: Selection,
) -> list[dict[str, Any]]:
    query = (
        sa.select(table.c.site_id, outcome, sa.func.count(), sa.func.max(at))
        .where(*selection.of(table))
        .group_by(table.c.site_id, outcome)
        .order_by(table.c.site_id, outcome)
    )
    return [_count(kind, *row) for row in connection.execute(query)]


def _count(kind: str, site_id: str, outcome: str, entries: int, latest: datetime | None) -> dict[str, Any]:
    at = latest.isoformat(timespec="seconds") if latest else None
    return {"kind": kind, "site_id": site_id, "outcome": outcome, "entries": entries, "latest": at}


# -- ambiguous entries -----------------------------------------------------------------------------


def count_ambiguous(connection: sa.Connection, selection: Selection) -> tuple[int, datetime | None]:
    """
    Count the entries that are ambiguous or have no outcome, at most :data:`.MOST`.

    :return: Their number, and the time of the oldest claim.
    """
    total, times = 0, []
    for table in TABLES.values():
        query = sa.select(table.c.claimed_at).where(is_unresolved(table), *selection.of(table))
        total += capped(connection, query)
        oldest = connection.scalar(query.order_by(table.c.claimed_at).limit(1))
        if oldest:
            times.append(oldest)
    return min(total, MOST), min(times, default=None)


def page_of_ambiguous(connection: sa.Connection, leases: LeaseSettings, selection: Selection, page: Page) -> Rows:
    """
    Return the entries that are ambiguous or have no outcome, by kind and time of the claim.

    :return: Rows with an :class:`AmbiguousEntry` each.
    """
    total, before = 0, page.offset
    rows: list[AmbiguousEntry] = []
    for kind, table in TABLES.items():
        query = _unresolved(kind, leases, selection)
        found = capped(connection, query)
        total += found
        if before < found and len(rows) < page.limit:
            ordered = query.order_by(table.c.claimed_at, table.c.scope, table.c.key)
            limited = ordered.offset(before).limit(page.limit - len(rows))
            rows += [_entry_of(kind, row) for row in connection.execute(limited)]
        before = max(0, before - found)
    return Rows(min(total, MOST), total > MOST, rows)


def find_unresolved(
    connection: sa.Connection, leases: LeaseSettings, kind: str, scope: str, key: str
) -> AmbiguousEntry | None:
    """Return one entry that is ambiguous or has no outcome, or None."""
    c = TABLES[kind].c
    query = _unresolved(kind, leases, Selection()).where(c.scope == scope, c.key == key)
    row = connection.execute(query).one_or_none()
    return None if row is None else _entry_of(kind, row)


def find_ambiguous(
    connection: sa.Connection, leases: LeaseSettings, selection: Selection, prefix: str
) -> AmbiguousEntry:
    """
    Return the unresolved entry with a key prefix.

    :raises AssistantInputError: No unresolved entry has this prefix, or several have.
    """
    rows = page_of_ambiguous(connection, leases, selection, ALL).rows
    found: list[AmbiguousEntry] = [entry for entry in rows if entry.key.startswith(prefix)]
    if not found:
        raise AssistantInputError(f"no entry to resolve has a key that begins with {prefix!r}", field="entry")
    if len(found) > 1:
        listed = "; ".join(f"{kind_name(entry.kind)} {entry.key} on {entry.site_id}" for entry in found[:5])
        raise AssistantInputError(
            f"{len(found)} entries have keys that begin with {prefix!r}: {listed}",
            todo="Give more of it, or the site.",
            field="entry",
        )
    return found[0]


def kind_name(kind: str) -> str:
    """Return a kind of entries as a sentence names it."""
    return kind.replace("_", " ")


# -- superseded documents and chat requests --------------------------------------------------------


def count_superseded(connection: sa.Connection, selection: Selection) -> int:
    """Count the keys with superseded documents, at most :data:`.MOST`."""
    return min(MOST, capped(connection, _superseded(selection)))


def page_of_superseded(connection: sa.Connection, selection: Selection, page: Page) -> Rows:
    """Return the keys with superseded documents, the latest change first."""
    c = documents.c
    return page_of(connection, _superseded(selection), (c.claimed_at.desc(), c.scope, c.key), page)


def superseded_documents(connection: sa.Connection, selection: Selection) -> list[tuple[str, str, str, str]]:
    """
    Return the superseded documents by site, source and label.

    :return: Tuples of site id, source, key label and document id.
    """
    c = documents.c
    ordered = _superseded(selection).order_by(c.site_id, c.source, c.label, c.key)
    found = []
    for row in connection.execute(ordered):
        document_ids = json.loads(row.superseded)
        found += [(row.site_id, row.source, row.label, document_id) for document_id in document_ids]
    return found


def _superseded(selection: Selection) -> sa.Select[Any]:
    is_superseding = documents.c.superseded.is_not(None)
    return sa.select(documents).where(is_superseding, *selection.of(documents))


def count_open_requests(connection: sa.Connection, now: datetime, selection: Selection) -> int:
    """
    Count the chat requests of the last week without a recorded end, at most :data:`.MOST`.

    :param now: Timezone-aware.
    """
    return min(MOST, capped(connection, _open(now, selection)))


def page_of_open_requests(connection: sa.Connection, now: datetime, selection: Selection, page: Page) -> Rows:
    """
    Return the chat requests of the last week without a recorded end, oldest first.

    :param now: Timezone-aware.
    """
    c = chat_requests.c
    return page_of(connection, _open(now, selection), (c.claimed_at, c.key), page)


def _open(now: datetime, selection: Selection) -> sa.Select[Any]:
    c = chat_requests.c
    is_recent = c.claimed_at >= now - REQUESTS_AGE
    conditions = (IS_OPEN, c.mode == "async", is_recent, *selection.of(chat_requests))
    return sa.select(chat_requests).where(*conditions)


# -- exports ---------------------------------------------------------------------------------------


def feedback_between(
    connection: sa.Connection, start: datetime, end: datetime, site_url: str | None = None
) -> list[dict[str, Any]]:
    """
    Return the ratings that were sent in a time interval, with the durations of the rated answers.

    :param start: Inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    :return: One mapping per rating in the order of sending, with ``sent_at``, ``site_id``, ``session_id``,
        ``request_id``, ``rating``, ``attempts``, the columns of the task instance, and ``answer_seconds``, which is
        None if this ledger does not contain the request or its end.
    """
    rating, chat = ratings.c, chat_requests.c
    is_sent = (
        rating.outcome == "created",
        rating.recorded_at >= start,
        rating.recorded_at < end,
        *Selection(site_url=site_url).of(ratings),
    )
    is_rated = (chat.site_url == rating.site_url) & (chat.request_id == rating.request_id)
    answers = (
        sa.select(rating.site_url, rating.request_id, chat.recorded_at, chat.completed_at)
        .select_from(ratings.join(chat_requests, is_rated))
        .where(*is_sent)
    )
    seconds = {}
    for site, request_id, submitted_at, completed_at in connection.execute(answers):
        seconds[site, request_id] = seconds_between(submitted_at, completed_at)
    names = ("site_id", "session_id", "request_id", "rating", "attempts", *_RUN)
    query = (
        sa.select(rating.recorded_at.label("sent_at"), *(rating[name] for name in names), rating.site_url)
        .where(*is_sent)
        .order_by(rating.recorded_at, rating.site_url, rating.key)
    )
    rows = dictionaries(connection, query)
    for row in rows:
        row["answer_seconds"] = seconds.get((row.pop("site_url"), row["request_id"]))
    return rows


def requests_between(
    connection: sa.Connection, start: datetime, end: datetime, site_url: str | None = None
) -> list[dict[str, Any]]:
    """
    Return the async chat requests of a time interval, single ones and those of chat batches.

    :param start: Start of the interval of submission, inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    :return: One mapping per request in the order of submission, with ``submitted_at``, ``state``, ``request_id``,
        ``completed_at``, ``seconds``, ``site_id``, ``session_id``, ``attempts``, ``ambiguous``, ``is_batch`` and the
        columns of the task instance. ``state`` is the recorded end, ``open`` if there is none, and ``ambiguous`` if the
        submission is.
    """
    c = chat_requests.c
    is_ambiguous = c.outcome.in_(UNRESOLVED)
    submitted_at = sa.case((is_ambiguous, c.claimed_at), else_=c.recorded_at)
    # A request that was accepted and then failed or was lost has a state.
    was_made = c.outcome.not_in(NOT_CREATED) | c.state.is_not(None)
    names = ("completed_at", "site_id", "session_id", "attempts", "ambiguous", *_RUN)
    query = (
        sa.select(
            submitted_at.label("submitted_at"),
            sa.case((is_ambiguous, "ambiguous"), else_=sa.func.coalesce(c.state, "open")).label("state"),
            # SQLAlchemy 1.4 reads the result with the type of the first value, so that must not be NULL.
            sa.case((~is_ambiguous, c.request_id)).label("request_id"),
            c.batch.is_not(None).label("is_batch"),
            *(c[name] for name in names),
        )
        .where(c.mode == "async", was_made, submitted_at >= start, submitted_at < end)
        .where(*Selection(site_url=site_url).of(chat_requests))
        .order_by(submitted_at, c.site_id, c.request_id, c.key)
    )
    rows = dictionaries(connection, query)
    for row in rows:
        row["seconds"] = seconds_between(row["submitted_at"], row["completed_at"])
    return rows
