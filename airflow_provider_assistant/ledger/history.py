"""Ratings, async chat requests and loads of a time interval, for the exported datasets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import (
    COUNTS,
    NOT_CREATED,
    UNRESOLVED,
    loads,
    questions,
    ratings,
    submissions,
)

_RUN = ("dag_id", "run_id", "task_id", "map_index")


def feedback_between(
    engine: sa.Engine, start: datetime, end: datetime, scope: str | None = None
) -> list[dict[str, Any]]:
    """
    Return the ratings that were sent in a time interval, with the durations of the rated answers.

    :param engine: Engine of the ledger's database.
    :param start: Start of the interval, inclusive, timezone-aware.
    :param end: End of the interval, exclusive, timezone-aware.
    :param scope: URL of the site whose ratings to return. None returns those of all sites.
    :return: One mapping per rating in the order of sending, with ``sent_at``, ``site_id``, ``session_id``,
        ``request_id``, ``rating``, ``attempts``, the columns of the task instance, and ``answer_seconds``, which is
        None if this ledger does not contain the request or its end.
    :raises AssistantLedgerError: The database cannot be read.
    """
    rating, chat, batched = ratings.c, submissions.c, questions.c
    is_sent = (rating.outcome == "created") & (rating.recorded_at >= start) & (rating.recorded_at < end)
    if scope is not None:
        is_sent &= rating.scope == scope
    names = ("site_id", "session_id", "request_id", "rating", "attempts", *_RUN)
    alone = (chat.scope == rating.scope) & (chat.request_id == rating.request_id)
    query = (
        sa.select(rating.recorded_at.label("sent_at"), rating.scope, *(rating[name] for name in names))
        .add_columns(chat.recorded_at.label("submitted_at"), chat.completed_at)
        .select_from(ratings.outerjoin(submissions, alone))
        .where(is_sent)
        .order_by(rating.recorded_at, rating.scope, rating.key)
    )
    in_batch = (
        (batched.request_id == rating.request_id) & (batched.site_url == rating.scope) & (batched.mode == "async")
    )
    ends = (
        sa.select(rating.scope, rating.request_id, batched.recorded_at, batched.completed_at)
        .select_from(ratings.join(questions, in_batch))
        .where(is_sent)
    )
    seconds = {
        (end["scope"], end["request_id"]): _seconds(end["recorded_at"], end["completed_at"])
        for end in _rows(engine, ends)
    }
    rows = _rows(engine, query)
    for row in rows:
        name = row.pop("scope"), row["request_id"]
        took = _seconds(row.pop("submitted_at"), row.pop("completed_at"))
        row["answer_seconds"] = seconds.get(name) if took is None else took
    return rows


def requests_between(
    engine: sa.Engine, start: datetime, end: datetime, scope: str | None = None
) -> list[dict[str, Any]]:
    """
    Return the async chat requests of a time interval, single ones and those of chat batches.

    :param engine: Engine of the ledger's database.
    :param start: Start of the interval of submission, inclusive, timezone-aware.
    :param end: End of the interval, exclusive, timezone-aware.
    :param scope: URL of the site whose requests to return. None returns those of all sites.
    :return: One mapping per request in the order of submission, with ``submitted_at``, ``state``, ``request_id``,
        ``completed_at``, ``seconds``, ``site_id``, ``session_id``, ``attempts``, ``ambiguous``, ``is_batch`` and the
        columns of the task instance. ``state`` is the recorded end, ``open`` if there is none, and ``ambiguous`` if the
        submission is.
    :raises AssistantLedgerError: The database cannot be read.
    """
    asked, batched = submissions.c, questions.c
    alone = _requests(submissions, start, end)
    batches = _requests(questions, start, end).add_columns(batched.ambiguous).where(batched.mode == "async")
    if scope is not None:
        alone = alone.where(asked.scope == scope)
        batches = batches.where(batched.site_url == scope)
    rows = [{**row, "ambiguous": None, "is_batch": False} for row in _rows(engine, alone)]
    rows += [{**row, "is_batch": True} for row in _rows(engine, batches)]
    for row in rows:
        row["seconds"] = _seconds(row["submitted_at"], row["completed_at"])
    return sorted(rows, key=lambda row: (row["submitted_at"], row["site_id"], row["request_id"] or ""))


def loads_between(engine: sa.Engine, start: datetime, end: datetime, scope: str | None = None) -> list[dict[str, Any]]:
    """
    Return the tries of loads that started in a time interval.

    :param engine: Engine of the ledger's database.
    :param start: Start of the interval, inclusive, timezone-aware.
    :param end: End of the interval, exclusive, timezone-aware.
    :param scope: URL of the site whose loads to return. None returns those of all sites.
    :return: One mapping per try in the order of the starts, with ``started_at``, ``ended_at``, ``outcome``,
        ``site_id``, ``endpoint``, ``source``, the counts, ``seconds``, ``error`` and the columns of the task instance.
        The ``outcome`` of a load without an end is ``unfinished``.
    :raises AssistantLedgerError: The database cannot be read.
    """
    c = loads.c
    names = ("started_at", "ended_at", "site_id", "endpoint", "source", *COUNTS, "seconds", "error", *_RUN)
    query = (
        sa.select(*(c[name] for name in names), sa.func.coalesce(c.outcome, "unfinished").label("outcome"))
        .where(c.started_at >= start, c.started_at < end)
        .order_by(c.started_at, c.load_id)
    )
    return _rows(engine, query if scope is None else query.where(c.scope == scope))


def _requests(table: sa.Table, start: datetime, end: datetime) -> sa.Select[Any]:
    c = table.c
    is_ambiguous = c.outcome.in_(UNRESOLVED)
    submitted_at = sa.case((is_ambiguous, c.claimed_at), else_=c.recorded_at)
    columns = (
        submitted_at.label("submitted_at"),
        sa.case((is_ambiguous, "ambiguous"), else_=sa.func.coalesce(c.state, "open")).label("state"),
        # SQLAlchemy 1.4 reads the result with the type of the first value, so that must not be NULL.
        sa.case((~is_ambiguous, c.request_id)).label("request_id"),
        *(c[name] for name in ("completed_at", "site_id", "session_id", "attempts", *_RUN)),
    )
    # A request that was accepted and then failed or was lost has a state.
    was_made = c.outcome.not_in(NOT_CREATED) | c.state.is_not(None)
    return sa.select(*columns).where(was_made, submitted_at >= start, submitted_at < end)


def _rows(engine: sa.Engine, query: sa.Select[Any]) -> list[dict[str, Any]]:
    return transaction(engine, lambda connection: [dict(row) for row in connection.execute(query).mappings()])


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
