"""Queries of what the exports write: ratings, chat requests and tries of a time interval."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.queries import TRY_COLUMNS, dictionaries
from airflow_provider_assistant.ledger.schema import UNRESOLVED, attempts, tries

# Columns of the task instance in the exported datasets.
_TASK_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")
_c = attempts.c


def feedback_between(connection: sa.Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """
    Return the ratings that were sent in a time interval, in the order of sending, with the durations of the answers.

    :param start: Inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    :return: Rows of the dataset ``feedback``. ``answer_seconds`` is None if this ledger does not contain the request or
        its end.
    """
    chat = attempts.alias()
    is_rated = sa.and_(
        chat.c.remote_id == _c.remote_id,
        chat.c.service == _c.service,
        chat.c.site_id == _c.site_id,
        chat.c.kind == "chat",
    )
    query = (
        sa.select(
            _c.recorded_at.label("sent_at"),
            _c.remote_id.label("request_id"),
            _c.requests.label("attempts"),
            *(_c[name] for name in ("service", "site_id", "session_id", "rating", *_TASK_COLUMNS)),
            chat.c.recorded_at.label("submitted_at"),
            chat.c.ended_at,
        )
        .select_from(attempts.outerjoin(chat, is_rated))
        .where(_c.kind == "rating", _c.state == "created", _c.recorded_at >= start, _c.recorded_at < end)
        .order_by(_c.recorded_at, _c.scope, _c.key, _c.number, chat.c.number)
    )
    ratings: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in dictionaries(connection, query):
        row["answer_seconds"] = _seconds(row.pop("submitted_at"), row.pop("ended_at"))
        # A request that was asked again has several attempts; the latest one got the answer.
        ratings[row["sent_at"], row["service"], row["site_id"], row["session_id"], row["request_id"]] = row
    return list(ratings.values())


def requests_between(connection: sa.Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """
    Return the async chat requests of a time interval in the order of submission, also those of chat batches.

    Of a chat that was asked again, only the last request is one of them.

    :param start: Start of the interval of claims, inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    :return: Rows of the dataset ``requests``. ``state`` is the recorded end, ``open`` if there is none, and
        ``ambiguous`` if the submission is.
    """
    later = attempts.alias()
    is_of_same_chat = sa.and_(later.c.scope == _c.scope, later.c.key == _c.key, later.c.number > _c.number)
    is_ambiguous = _c.state.in_(UNRESOLVED)
    # The service has not acknowledged an ambiguous submission, so that counts from its claim.
    submitted_at = sa.case((is_ambiguous, _c.claimed_at), else_=_c.recorded_at)
    query = (
        sa.select(
            submitted_at.label("submitted_at"),
            sa.case((is_ambiguous, "ambiguous"), else_=sa.func.coalesce(_c.ended, "open")).label("state"),
            sa.case((~is_ambiguous, _c.remote_id)).label("request_id"),
            _c.ended_at.label("completed_at"),
            _c.requests.label("attempts"),
            _c.namespace.is_not(None).label("is_batch"),
            *(_c[name] for name in ("service", "site_id", "session_id", "ambiguous", *_TASK_COLUMNS)),
        )
        .where(_is_request(_c), ~sa.exists().where(is_of_same_chat, _is_request(later.c)))
        # The claim stays what it is if the request is settled by hand on a later day.
        .where(_c.claimed_at >= start, _c.claimed_at < end)
        .order_by(submitted_at, _c.site_id, _c.remote_id, _c.key, _c.number)
    )
    rows = dictionaries(connection, query)
    for row in rows:
        row["seconds"] = _seconds(row["submitted_at"], row["completed_at"])
    return rows


def _is_request(c: sa.ColumnCollection[str, sa.Column[Any]]) -> sa.ColumnElement[bool]:
    """Return the condition for attempts that are, or may be, an async chat request of the service."""
    # A request that was accepted and then failed or was lost has an end.
    return sa.and_(c.kind == "chat", c.mode == "async", c.state.in_(("created", *UNRESOLVED)) | c.ended.is_not(None))


def tries_between(connection: sa.Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """
    Return the tries that started in a time interval, in the order of their starts.

    :param start: Inclusive, timezone-aware.
    :param end: Exclusive, timezone-aware.
    """
    c = tries.c
    query = sa.select(*TRY_COLUMNS).where(c.started_at >= start, c.started_at < end)
    return dictionaries(connection, query.order_by(c.started_at, c.token))


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()
