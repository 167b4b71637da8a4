"""Statistics of a site, counted from the stored data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox.timestamps import iso, maybe_iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_assistant.sandbox.database import Database

# The percentiles are those of the last requests.
_MAX_LATENCIES = 10_000
_MAX_CATEGORIES = 10


def site_statistics(database: Database, site: str, now: float) -> dict[str, Any]:
    """Return the statistics of a site.

    :param now: current time, in seconds since the epoch.
    """
    return {
        "site_id": site,
        "generated_at": iso(now),
        "documents": _documents(database, site),
        "chats": {mode: count_chats(database, site, mode) for mode in ("sync", "async")},
        "sessions": _sessions(database, site),
        "feedback": count_feedback(database, site),
    }


def _documents(database: Database, site: str) -> dict[str, Any]:
    count_by_kind = {"file": 0, "text": 0, "qa": 0}
    size = 0
    last_added_at = None
    rows = database.rows(
        "SELECT kind, count(*), sum(bytes), max(created_at) FROM documents WHERE site = ? GROUP BY kind",
        site,
    )
    for kind, count, kind_size, kind_last_added_at in rows:
        count_by_kind[kind] = count
        size += kind_size
        last_added_at = max(last_added_at or 0.0, kind_last_added_at)
    categories = database.rows(
        "SELECT category, count(*) AS documents FROM documents WHERE site = ?"
        " AND category IS NOT NULL GROUP BY category ORDER BY documents DESC, category LIMIT ?",
        site,
        _MAX_CATEGORIES,
    )
    return {
        "total": sum(count_by_kind.values()),
        "by_kind": count_by_kind,
        "bytes": size,
        "last_added_at": maybe_iso(last_added_at),
        "top_categories": [dict(row) for row in categories],
    }


def count_chats(
    database: Database, site: str, mode: str, since: float = 0.0, until: float = math.inf
) -> dict[str, Any]:
    """Return the statistics of the chat requests of a site in a time range.

    :param mode: ``sync`` or ``async``.
    :param until: end of the range, which is not a part of it.
    """
    counts = database.rows(
        "SELECT count(*) AS total,"
        " count(*) FILTER (WHERE answered) AS answered,"
        " count(*) FILTER (WHERE NOT answered) AS unanswered,"
        " count(*) FILTER (WHERE status = 'failed') AS failed,"
        " count(*) FILTER (WHERE status IN ('queued', 'processing')) AS pending"
        " FROM requests WHERE site = ? AND mode = ? AND created_at >= ? AND created_at < ?",
        site,
        mode,
        since,
        until,
    )[0]
    duration_rows = database.rows(
        "SELECT completed_at - created_at FROM requests WHERE site = ? AND mode = ? AND created_at >= ?"
        " AND created_at < ? AND completed_at IS NOT NULL ORDER BY n DESC LIMIT ?",
        site,
        mode,
        since,
        until,
        _MAX_LATENCIES,
    )
    durations = [duration for (duration,) in duration_rows]
    return chat_statistics(dict(counts), durations)


def chat_statistics(counts: Mapping[str, int], durations: Iterable[float]) -> dict[str, Any]:
    """Return counts with the answer rate and the percentiles of the latency.

    :param counts: counts, including ``answered`` and ``unanswered``.
    :param durations: duration of each request in seconds.
    """
    answer_rate = None
    completed = counts["answered"] + counts["unanswered"]
    if completed:
        answer_rate = round(counts["answered"] / completed, 4)
    # A duration is negative if the clock was set back.
    milliseconds = sorted(1000 * max(0.0, seconds) for seconds in durations)
    return {**counts, "answer_rate": answer_rate, "latency_ms": _percentiles(milliseconds)}


def _percentiles(ordered: list[float]) -> dict[str, float] | None:
    if not ordered:
        return None
    percentiles = {}
    for percent in (50, 95, 99):
        rank = math.ceil(percent / 100 * len(ordered))
        percentiles[f"p{percent}"] = round(ordered[rank - 1], 3)
    return percentiles


def _sessions(database: Database, site: str) -> dict[str, Any]:
    row = database.rows(
        "SELECT count(*) FILTER (WHERE closed_at IS NULL) AS open,"
        " count(*) FILTER (WHERE closed_at IS NOT NULL) AS closed,"
        " round(avg(messages), 2) AS mean_messages FROM sessions WHERE site = ?",
        site,
    )[0]
    return dict(row)


def count_feedback(database: Database, site: str, since: float = 0.0, until: float = math.inf) -> dict[str, Any]:
    """Return the ratings of a site in a time range.

    :param until: end of the range, which is not a part of it.
    """
    rows = database.rows(
        "SELECT rating, count(*) AS total FROM feedback"
        " WHERE site = ? AND created_at >= ? AND created_at < ?"
        " GROUP BY rating ORDER BY rating",
        site,
        since,
        until,
    )
    count_by_rating: dict[str, int] = {row["rating"]: row["total"] for row in rows}
    total = sum(count_by_rating.values())
    return {"total": total, "has_feedback": total > 0, "by_rating": count_by_rating}
