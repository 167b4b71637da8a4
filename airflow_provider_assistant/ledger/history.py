"""What the ledger has of a span of time, for datasets: ratings, async requests, loads."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import COUNTS, loads, questions, ratings, submissions

_RUN = ("dag_id", "run_id", "task_id", "map_index")


def questions_scope(target: str, mode: str, batch: str) -> str:
    """
    Return the scope of a batch's questions.

    :param target: The site's.
    :param mode: ``async`` or ``sync``.
    :param batch: What tells the batch from others.
    """
    return f"{target}/chat?{mode}={batch}"


def feedback_between(
    engine: sa.Engine, start: datetime, end: datetime, scope: str | None = None
) -> list[dict[str, Any]]:
    """
    Return every rating that was sent, with how long its answer took.

    :param engine: The ledger's database.
    :param start: Earliest time of sending, inclusive.
    :param end: Latest time of sending, exclusive.
    :param scope: The one site whose ratings are wanted, as they were recorded; None for all.
    :return: Rows in the order of sending; ``answer_seconds`` is None for a request that this ledger did
        not submit or did not see complete.
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
    # Here and not in SQL: databases do not agree on how long a text is.
    seconds = {
        (end["scope"], end["request_id"]): _seconds(end["settled_at"], end["completed_at"])
        for end in _rows(engine, ends)
        if end["batch"].startswith(questions_scope(end["scope"], "async", ""))
    }
    rows = _rows(engine, query)
    for row in rows:
        name = row.pop("scope"), row["request_id"]
        alone = _seconds(row.pop("submitted_at"), row.pop("completed_at"))
        row["answer_seconds"] = seconds.get(name) if alone is None else alone
    return rows


def requests_between(
    engine: sa.Engine, start: datetime, end: datetime, scope: str | None = None
) -> list[dict[str, Any]]:
    """
    Return every async chat request that was made, or may have been, alone or in a batch.

    :param engine: The ledger's database.
    :param start: Earliest time of submission, inclusive.
    :param end: Latest time of submission, exclusive.
    :param scope: The one site whose requests are wanted, as they were recorded; None for all.
    :return: Rows in the order of submission. ``state`` is what was recorded of the end, ``open`` if nothing was,
        and ``unclear`` where it is not known whether there is a request.
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
    Return every try of a load.

    :param engine: The ledger's database.
    :param start: Earliest start, inclusive.
    :param end: Latest start, exclusive.
    :param scope: The one site whose loads are wanted, as they were recorded; None for all.
    :return: Rows in the order of their starts; the ``outcome`` of a load without an end is ``unfinished``.
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
    # A request that failed or was lost is withdrawn, so that it is made anew; what was refused at once never was one.
    was_made = (c.outcome != "refused") | c.state.is_not(None)
    return sa.select(*columns).where(was_made, submitted_at >= start, submitted_at < end)


def _rows(engine: sa.Engine, query: sa.Select[Any]) -> list[dict[str, Any]]:
    return transaction(engine, lambda connection: [dict(row) for row in connection.execute(query).mappings()])


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None
