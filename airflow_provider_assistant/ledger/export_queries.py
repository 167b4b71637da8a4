"""Queries of the chat requests and ratings of a time interval, for the exports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.schema import NOT_CREATED, UNRESOLVED, chat_requests, prunings, ratings
from airflow_provider_assistant.ledger.scopes import SITE_COLUMNS, Site
from airflow_provider_assistant.ledger.selection import Selection, dictionaries, seconds_between

# Columns of the task instance in the exported datasets.
_TASK_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")


def feedback_between(
    connection: sa.Connection, start: datetime, end: datetime, site: Site | None = None
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
        *Selection(site=site).of(ratings),
    )
    is_rated = [chat[name].is_not_distinct_from(rating[name]) for name in (*SITE_COLUMNS, "request_id")]
    rated = [rating[name] for name in (*SITE_COLUMNS, "request_id")]
    durations_query = (
        sa.select(*rated, chat.recorded_at, chat.completed_at)
        .select_from(ratings.join(chat_requests, sa.and_(*is_rated)))
        .where(*sent_conditions)
    )
    seconds_by_request = {}
    duration_rows = connection.execute(durations_query)
    for *rated_request, submitted_at, completed_at in duration_rows:
        seconds_by_request[tuple(rated_request)] = seconds_between(submitted_at, completed_at)
    names = (*SITE_COLUMNS, "session_id", "request_id", "rating", "attempts", *_TASK_COLUMNS)
    columns = [rating[name] for name in names]
    query = (
        sa.select(rating.recorded_at.label("sent_at"), *columns)
        .where(*sent_conditions)
        .order_by(rating.recorded_at, rating.scope, rating.key)
    )
    rows = dictionaries(connection, query)
    for row in rows:
        request = tuple(row[name] for name in (*SITE_COLUMNS, "request_id"))
        row["answer_seconds"] = seconds_by_request.get(request)
    return rows


def requests_between(
    connection: sa.Connection, start: datetime, end: datetime, site: Site | None = None
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
    names = ("completed_at", *SITE_COLUMNS, "session_id", "attempts", "ambiguous", *_TASK_COLUMNS)
    query = (
        sa.select(
            submitted_at.label("submitted_at"),
            state.label("state"),
            request_id.label("request_id"),
            c.batch.is_not(None).label("is_batch"),
            *(c[name] for name in names),
        )
        .where(c.mode == "async", was_made, submitted_at >= start, submitted_at < end)
        .where(*Selection(site=site).of(chat_requests))
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
