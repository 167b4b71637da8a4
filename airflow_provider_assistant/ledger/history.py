"""Ratings, async chat requests and loads of a time interval, for the exported datasets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import COUNTS, loads, questions, ratings, submissions

_RUN = ("dag_id", "run_id", "task_id", "map_index")


def questions_scope(target: str, mode: str, batch: str) -> str:
    """
    Return the scope of a chat batch's questions.

    :param target: URL of the site, see :meth:`AssistantHook.target`.
    :param mode: ``async`` or ``sync``.
    :param batch: Name that identifies the batch.
    :return: The scope.
    """
    return f"{target}/chat?{mode}={batch}"


def feedback_between(
    engine: sa.Engine, start: datetime, end: datetime, scope: str | None = None
) -> list[dict[str, Any]]:
    """
    Return the ratings that were sent in a time interval, with the durations of the rated answers.

    :param engine: Engine of the ledger's database.
    :param start: Start of the interval, inclusive, timezone-aware.
    :param end: End of the interval, exclusive, timezone-aware.
    :param scope: Scope of the site whose ratings to return. None returns those of all sites.
    :return: One mapping per rating in the order of sending, with ``sent_at``, ``site_id``, ``session_id``,
        ``request_id``, ``rating``, ``attempts``, the columns of the task instance, and ``answer_seconds``, which is
        None if this ledger does not contain the request or its end.
    :raises AssistantLedgerError: The database cannot be read.
    """
    rating, chat, batched = ratings.c, submissions.c, questions.c
    is_sent = (rating.outcome == "done") & (rating.settled_at >= start) & (rating.settled_at < end)
    if scope is not None:
        is_sent &= rating.scope == scope
    names = ("site_id", "session_id", "request_id", "rating", "attempts", *_RUN)
    alone = (chat.scope == rating.scope) & (chat.request_id == rating.request_id)
    query = (
        sa.select(rating.settled_at.label("sent_at"), rating.scope, *(rating[name] for name in names))
        .add_columns(chat.settled_at.label("submitted_at"), chat.completed_at)
        .select_from(ratings.outerjoin(submissions, alone))
        .where(is_sent)
        .order_by(rating.settled_at, rating.scope, rating.key)
    )
    in_batch = (batched.document_id == rating.request_id) & (batched.site_id == rating.site_id)
    ends = (
        sa.select(rating.scope, rating.request_id, batched.settled_at, batched.completed_at)
        .add_columns(batched.scope.label("batch"))
        .select_from(ratings.join(questions, in_batch))
        .where(is_sent)
    )
    # Compare prefixes here instead of in SQL: databases disagree on the length of a text.
    seconds = {
        (end["scope"], end["request_id"]): _seconds(end["settled_at"], end["completed_at"])
        for end in _rows(engine, ends)
        if end["batch"].startswith(questions_scope(end["scope"], "async", ""))
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
    :param scope: Scope of the site whose requests to return. None returns those of all sites.
    :return: One mapping per request in the order of submission, with ``submitted_at``, ``state``, ``request_id``,
        ``completed_at``, ``seconds``, ``site_id``, ``session_id``, ``attempts``, ``ambiguous``, ``is_batch`` and the
        columns of the task instance. ``state`` is the recorded end, ``open`` if there is none, and ``unclear`` if the
        submission is ambiguous.
    :raises AssistantLedgerError: The database cannot be read.
    """
    asked, batched = submissions.c, questions.c
    alone = _requests(submissions, asked.request_id, start, end)
    batches = _requests(questions, batched.document_id, start, end).add_columns(batched.ambiguous)
    if scope is None:
        batches = batches.where(batched.scope.contains(questions_scope("", "async", ""), autoescape=True))
    else:
        alone = alone.where(asked.scope == scope)
        batches = batches.where(batched.scope.startswith(questions_scope(scope, "async", ""), autoescape=True))
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
    :param scope: Scope of the loads to return. None returns all.
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


def _requests(table: sa.Table, request_id: sa.ColumnElement[Any], start: datetime, end: datetime) -> sa.Select[Any]:
    c = table.c
    is_unclear = c.outcome.in_(("intended", "ambiguous"))
    submitted_at = sa.case((is_unclear, c.intended_at), else_=c.settled_at)
    columns = (
        submitted_at.label("submitted_at"),
        sa.case((is_unclear, "unclear"), else_=sa.func.coalesce(c.state, "open")).label("state"),
        sa.case((is_unclear, sa.null()), else_=request_id).label("request_id"),
        *(c[name] for name in ("completed_at", "site_id", "session_id", "attempts", *_RUN)),
    )
    # "refused" with a state is a request that failed or was lost; "refused" without one was never accepted.
    was_made = (c.outcome != "refused") | c.state.is_not(None)
    return sa.select(*columns).where(was_made, submitted_at >= start, submitted_at < end)


def _rows(engine: sa.Engine, query: sa.Select[Any]) -> list[dict[str, Any]]:
    return transaction(engine, lambda connection: [dict(row) for row in connection.execute(query).mappings()])


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
