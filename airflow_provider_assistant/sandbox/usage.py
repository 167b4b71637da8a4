"""What tenants, sites and users have done, counted from the stored data."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox.statistics import site_statistics
from airflow_provider_assistant.sandbox.timestamps import iso, maybe_iso

if TYPE_CHECKING:
    import sqlite3

    from airflow_provider_assistant.sandbox.database import Database
    from airflow_provider_assistant.sandbox.tenants import Tenant

# Days of the usage history that a reply has at most.
MAX_DAYS = 366
_COUNTS = ("total", "answered", "unanswered", "failed", "pending")
_CHAT_COUNTS = (
    "count(*) AS total,"
    " count(*) FILTER (WHERE answered) AS answered,"
    " count(*) FILTER (WHERE NOT answered) AS unanswered,"
    " count(*) FILTER (WHERE status = 'failed') AS failed,"
    " count(*) FILTER (WHERE status IN ('queued', 'processing')) AS pending"
)


def document_usage(database: Database, tenant_id: str) -> dict[str, int]:
    """Return how many documents a tenant has."""
    row = database.rows(
        "SELECT count(*) AS documents, count(activated_at) AS active_documents,"
        " coalesce(sum(bytes), 0) AS storage_bytes FROM documents WHERE tenant = ?",
        tenant_id,
    )[0]
    return dict(row)


def usage_history(
    database: Database,
    tenant: Tenant,
    first: date | None,
    last: date | None,
    days: int,
    now: float,
) -> list[dict[str, Any]]:
    """Return the usage of a tenant by day.

    :param first: first day. None to return ``days`` days, which end with the last one.
    :param last: last day. None for today; later days are left out.
    :param now: current time, in seconds since the epoch.
    """
    today = datetime.fromtimestamp(now, UTC).date()
    last_day = min(last or today, today)
    count = days
    if first is not None:
        count = (last_day - first).days + 1
    count = min(count, MAX_DAYS, last_day.toordinal())
    created = _count_by_day(database, "documents", "created_at", tenant)
    sent = _count_by_day(database, "requests", "created_at", tenant)
    opened = _count_by_day(database, "sessions", "opened_at", tenant)
    history = []
    for days_back in reversed(range(count)):
        day = (last_day - timedelta(days=days_back)).isoformat()
        created_until_day = [number for created_on, number in created.items() if created_on <= day]
        history.append(
            {
                "date": day,
                "documents": sum(created_until_day),
                "messages": sent[day],
                "sessions": opened[day],
            }
        )
    return history


def _count_by_day(database: Database, table: str, column: str, tenant: Tenant) -> Counter[str]:
    placeholders = ", ".join("?" * len(tenant.sites))
    rows = database.rows(
        f"SELECT date({column}, 'unixepoch') AS day, count(*) AS total"  # noqa: S608 (constants)
        f" FROM {table} WHERE site IN ({placeholders}) GROUP BY day",
        *tenant.sites,
    )
    return Counter({row["day"]: row["total"] for row in rows})


def tenant_statistics(database: Database, tenant: Tenant, now: float) -> dict[str, Any]:
    """Return the sums of the statistics of a tenant's sites."""
    documents: Counter[str] = Counter(total=0, bytes=0)
    chats: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
    sessions: Counter[str] = Counter(open=0, closed=0)
    ratings: Counter[str] = Counter()
    sites = []
    for site in tenant.sites:
        statistics = site_statistics(database, site, now)
        site_chats = 0
        for chats_of_mode in statistics["chats"].values():
            chats.update({name: chats_of_mode[name] for name in _COUNTS})
            site_chats += chats_of_mode["total"]
        documents.update({name: statistics["documents"][name] for name in documents})
        sessions.update({name: statistics["sessions"][name] for name in sessions})
        ratings.update(statistics["feedback"]["by_rating"])
        document_count = statistics["documents"]["total"]
        sites.append({"site_id": site, "documents": document_count, "chats": site_chats})
    return {
        "tenant_id": tenant.tenant_id,
        "generated_at": iso(now),
        "documents": documents,
        "chats": chats,
        "sessions": sessions,
        "feedback": _feedback(ratings),
        "sites": sites,
    }


def _feedback(ratings: Counter[str]) -> dict[str, Any]:
    total = ratings.total()
    return {"total": total, "has_feedback": total > 0, "by_rating": ratings}


def site_record(database: Database, tenant: Tenant, site: str) -> dict[str, Any]:
    """Return what a site is and has."""
    row = database.rows(
        """
        SELECT count(*) AS documents, count(activated_at) AS active_documents
        FROM documents WHERE site = ?
        """,
        site,
    )[0]
    return {
        "site_id": site,
        "tenant_id": tenant.tenant_id,
        **dict(row),
        "open_sessions": count_sessions(database, site, only_open=True),
    }


def count_sessions(database: Database, site: str, *, only_open: bool = False) -> int:
    """Return the number of sessions of a site."""
    row = database.rows(
        """
        SELECT count(*) - count(closed_at) AS open, count(*) AS total
        FROM sessions WHERE site = ?
        """,
        site,
    )[0]
    count: int = row["open"] if only_open else row["total"]
    return count


def sessions(
    database: Database,
    site: str,
    after: int,
    offset: int,
    limit: int,
) -> list[sqlite3.Row]:
    """Return sessions of a site in the order of their opening, with a user's address."""
    return database.rows(
        "SELECT s.*, (SELECT email FROM requests r WHERE r.site = s.site"
        " AND r.session_id = s.session_id AND email IS NOT NULL LIMIT 1) AS email"
        " FROM sessions s WHERE site = ? AND n > ? ORDER BY n LIMIT ? OFFSET ?",
        site, after, limit, offset,
    )  # fmt: skip


def described_session(row: sqlite3.Row) -> dict[str, Any]:
    """Return the fields of a session that replies show."""
    return {
        "session_id": row["session_id"],
        "status": "open" if row["closed_at"] is None else "closed",
        "email": row["email"],
        "messages": row["messages"],
        "opened_at": iso(row["opened_at"]),
        "closed_at": maybe_iso(row["closed_at"]),
    }


def user_statistics(database: Database, site: str, email: str) -> dict[str, Any] | None:
    """Return the statistics of a user of a site; None if the site had no message of the user."""
    row = database.rows(
        f"SELECT {_CHAT_COUNTS}, count(DISTINCT session_id) AS sessions,"  # noqa: S608 (a constant)
        " min(created_at) AS first_at, max(created_at) AS last_at"
        " FROM requests WHERE site = ? AND lower(email) = lower(?)",
        site, email,
    )[0]  # fmt: skip
    if not row["total"]:
        return None
    ratings = database.rows(
        "SELECT rating, count(*) AS total FROM feedback WHERE site = ? AND request_id IN"
        " (SELECT id FROM requests WHERE site = ? AND lower(email) = lower(?))"
        " GROUP BY rating ORDER BY rating",
        site, site, email,
    )  # fmt: skip
    return {
        "site_id": site,
        "email": email,
        "sessions": row["sessions"],
        "chats": {name: row[name] for name in _COUNTS},
        "first_message_at": iso(row["first_at"]),
        "last_message_at": iso(row["last_at"]),
        "feedback": _feedback(Counter({rating["rating"]: rating["total"] for rating in ratings})),
    }
