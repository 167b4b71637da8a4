"""Queries of the chat requests and ratings of a time interval, for the exports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.schema import NOT_CREATED, UNRESOLVED, chat_requests, prunings, ratings
from airflow_provider_assistant.ledger.selection import Selection, dictionaries, seconds_between

# Columns of the site, and of the task instance, in the exported datasets.
_SCOPE_COLUMNS = ("service", "tenant_id", "site_id")
_TASK_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")


def feedback_between(
    connection: sa.Connection, start: datetime, end: datetime, site_url: str | None = None
) -> list[dict[str, Any]]:
    """
    Return the ratings that were sent in a time interval, with the durations of the rated answers.

    :param start: Inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    :return: One mapping per rating in the order of sending, with ``sent_at``, the columns of the site, ``session_id``,
        ``request_id``, ``rating``, ``attempts``, the columns of the task instance, and ``answer_seconds``, which is
        None if this ledger does not contain the request or its end.
    """
    rating, chat = ratings.c, chat_requests.c
    sent_conditions = (
        rating.outcome == "created",
        rating.recorded_at >= start,
        rating.recorded_at < end,
        *Selection(site_url=site_url).of(ratings),
    )
    is_rated = (chat.site_url == rating.site_url) & (chat.request_id == rating.request_id)
    durations_query = (
        sa.select(rating.site_url, rating.request_id, chat.recorded_at, chat.completed_at)
        .select_from(ratings.join(chat_requests, is_rated))
        .where(*sent_conditions)
    )
    seconds_by_request = {}
    duration_rows = connection.execute(durations_query)
    for rated_site_url, request_id, submitted_at, completed_at in duration_rows:
        seconds = seconds_between(submitted_at, completed_at)
        seconds_by_request[rated_site_url, request_id] = seconds
    names = (*_SCOPE_COLUMNS, "session_id", "request_id", "rating", "attempts", *_TASK_COLUMNS)
    columns = [rating[name] for name in names]
    query = (
        sa.select(rating.recorded_at.label("sent_at"), *columns, rating.site_url)
        .where(*sent_conditions)
        .order_by(rating.recorded_at, rating.site_url, rating.key)
    )
    rows = dictionaries(connection, query)
    for row in rows:
        # The URL only identifies the request; it is not exported.
        rated_site_url = row.pop("site_url")
        row["answer_seconds"] = seconds_by_request.get((rated_site_url, row["request_id"]))
    return rows


def requests_between(
    connection: sa.Connection, start: datetime, end: datetime, site_url: str | None = None
) -> list[dict[str, Any]]:
    """
    Return the async chat requests of a time interval, single ones and those of chat batches.

    :param start: Start of the interval of submission, inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    :return: One mapping per request in the order of submission, with ``submitted_at``, ``state``, ``request_id``,
        ``completed_at``, ``seconds``, ``session_id``, ``attempts``, ``ambiguous``, ``is_batch``, and the columns of
        the site and of the task instance. ``state`` is the recorded end, ``open`` if there is none, and
        ``ambiguous`` if the submission is.
    """
    c = chat_requests.c
    is_ambiguous = c.outcome.in_(UNRESOLVED)
    # The service has not acknowledged an ambiguous submission, so that counts from its claim.
    submitted_at = sa.case((is_ambiguous, c.claimed_at), else_=c.recorded_at)
    recorded_state = sa.func.coalesce(c.state, "open")
    state = sa.case((is_ambiguous, "ambiguous"), else_=recorded_state)
    # SQLAlchemy 1.4 reads the result with the type of the first value, so that must not be NULL.
    request_id = sa.case((~is_ambiguous, c.request_id))
    # A request that was accepted and then failed or was lost has a state.
    was_made = c.outcome.not_in(NOT_CREATED) | c.state.is_not(None)
    names = ("completed_at", *_SCOPE_COLUMNS, "session_id", "attempts", "ambiguous", *_TASK_COLUMNS)
    query = (
        sa.select(
            submitted_at.label("submitted_at"),
            state.label("state"),
            request_id.label("request_id"),
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


def pruned_before(connection: sa.Connection) -> datetime | None:
    """Return the time before which entries may have been pruned; None if nothing has been pruned."""
    moment: datetime | None = connection.scalar(sa.select(prunings.c.before))
    return moment
