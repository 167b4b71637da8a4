"""Statistics of a site, counted from the stored data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox.timestamps import iso, maybe_iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_assistant.sandbox.database import Database

_LATENCIES = 10_000
_CATEGORIES = 10


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
    kinds = {"file": 0, "text": 0, "qa": 0}
    size, last = 0, None
    for row in database.rows(
        "SELECT kind, count(*), sum(bytes), max(created_at) FROM documents WHERE site = ? GROUP BY kind",
        site,
    ):
        kinds[row[0]] = row[1]
        size += row[2]
        last = max(last or 0.0, row[3])
    categories = database.rows(
        "SELECT category, count(*) AS documents FROM documents WHERE site = ?"
        " AND category IS NOT NULL GROUP BY category ORDER BY documents DESC, category LIMIT ?",
        site,
        _CATEGORIES,
    )
    return {
        "total": sum(kinds.values()),
        "by_kind": kinds,
        "bytes": size,
        "last_added_at": maybe_iso(last),
        "top_categories": [dict(row) for row in categories],
    }


def count_chats(
    database: Database, site: str, mode: str, since: float = 0.0, until: float = math.inf
) -> dict[str, Any]:
    """Return the statistics of the chat requests of a site in a time range.

    :param mode: ``sync`` or ``async``.
    :param until: end of the range, which is not a part of it.
    """
    row = database.rows(
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
    durations = database.rows(
        "SELECT completed_at - created_at FROM requests WHERE site = ? AND mode = ? AND created_at >= ?"
        " AND created_at < ? AND completed_at IS NOT NULL ORDER BY n DESC LIMIT ?",
        site,
        mode,
        since,
        until,
        _LATENCIES,
    )
    return chat_statistics(dict(row), (found[0] for found in durations))


def chat_statistics(counts: Mapping[str, int], durations: Iterable[float]) -> dict[str, Any]:
    """Return counts with the answer rate and the percentiles of the latency.

    :param counts: counts, including ``answered`` and ``unanswered``.
    :param durations: duration of each request in seconds.
    """
    total = counts["answered"] + counts["unanswered"]
    return {
        **counts,
        "answer_rate": round(counts["answered"] / total, 4) if total else None,
        "latency_ms": _percentiles(sorted(1000 * max(0.0, seconds) for seconds in durations)),
    }


def _percentiles(ordered: list[float]) -> dict[str, float] | None:
    if not ordered:
        return None
    return {f"p{share}": round(ordered[math.ceil(share / 100 * len(ordered)) - 1], 3) for share in (50, 95, 99)}


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
    ratings = {
        row[0]: row[1]
        for row in database.rows(
            "SELECT rating, count(*) FROM feedback WHERE site = ? AND created_at >= ? AND created_at < ?"
            " GROUP BY rating ORDER BY rating",
            site,
            since,
            until,
        )
    }
    total = sum(ratings.values())
    return {"total": total, "has_feedback": total > 0, "by_rating": ratings}
