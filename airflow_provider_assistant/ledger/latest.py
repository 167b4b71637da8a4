"""The condition that a rating of a chat request is not its latest."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_provider_assistant.ledger.schema import NOT_CREATED, ratings


def is_superseded() -> sa.ColumnElement[bool]:
    """
    Return a condition on a row of ``ratings``: the same request has, or may have, a later rating.

    The service keeps only the latest rating of a request, so a superseded rating has to be sent again.

    :return: SQL expression.
    """
    other = ratings.alias()
    same_request = [other.c[name] == ratings.c[name] for name in ("scope", "session_id", "request_id")]
    is_later = _time_of(other) >= _time_of(ratings)
    found = sa.exists().where(
        *same_request, other.c.key != ratings.c.key, other.c.outcome.not_in(NOT_CREATED), is_later
    )
    return found.correlate(ratings)


def _time_of(table: sa.FromClause) -> sa.ColumnElement[object]:
    """Return when a rating was acknowledged, or when it was claimed if it has no outcome."""
    return sa.func.coalesce(table.c.recorded_at, table.c.claimed_at)
