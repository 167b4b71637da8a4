"""Chat requests, sessions and feedback. Times are in seconds since the epoch."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox.timestamps import month

if TYPE_CHECKING:
    import sqlite3

    from airflow_provider_assistant.sandbox.database import Database
    from airflow_provider_assistant.sandbox.tenants import Key


class Chats:
    """Store the chat requests, sessions and feedback of all sites."""

    def __init__(self, database: Database) -> None:
        self._db = database
        # Messages by tenant and month.
        self.sent: Counter[tuple[str, str]] = Counter()
        self.recount()

    def recount(self) -> None:
        """Recount the messages per tenant and month."""
        rows = self._db.rows(
            "SELECT tenant, strftime('%Y-%m', created_at, 'unixepoch'), count(*) FROM requests GROUP BY 1, 2"
        )
        count_by_tenant_and_month = {(tenant, sent_month): count for tenant, sent_month, count in rows}
        self.sent = Counter(count_by_tenant_and_month)

    def add(
        self, key: Key, site: str, session_id: str, mode: str, message: str, language: str,
        now: float, email: str | None = None,
    ) -> str:  # fmt: skip
        """Store a chat request as queued, open its session if necessary, and return the request's id.

        :param mode: ``sync`` or ``async``.
        """
        identifier = f"req_{secrets.token_hex(10)}"
        tenant = key.tenant.tenant_id
        self._db.write(
            "INSERT INTO requests (id, tenant, site, session_id, mode, message, language, email,"
            " status, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?)",
            identifier, tenant, site, session_id, mode, message, language, email, now,
        )  # fmt: skip
        self.sent[tenant, month(now)] += 1
        open_sessions = self._db.write(
            "UPDATE sessions SET messages = messages + 1"
            " WHERE site = ? AND session_id = ? AND closed_at IS NULL",
            site, session_id,
        ).rowcount  # fmt: skip
        if not open_sessions:
            self._db.write("INSERT INTO sessions VALUES (NULL, ?, ?, ?, NULL, 1, '[]')", site, session_id, now)
        return identifier

    def request(self, site: str, identifier: str) -> sqlite3.Row | None:
        """Return a chat request of a site, or ``None``."""
        rows = self._db.rows("SELECT * FROM requests WHERE id = ? AND site = ?", identifier, site)
        if not rows:
            return None
        return rows[0]

    def start(self, created_by: float, now: float, limit: int) -> None:
        """Move the oldest requests that were queued at ``created_by`` to processing."""
        self._db.write(
            "UPDATE requests SET status = 'processing', started_at = ? WHERE n IN (SELECT n FROM"
            " requests WHERE status = 'queued' AND created_at <= ? ORDER BY created_at LIMIT ?)",
            now, created_by, limit,
        )  # fmt: skip

    def started(self, started_by: float, limit: int) -> list[sqlite3.Row]:
        """Return the oldest requests that were in processing at ``started_by``."""
        return self._db.rows(
            "SELECT * FROM requests WHERE status = 'processing' AND started_at <= ?"
            " ORDER BY created_at LIMIT ?",
            started_by, limit,
        )  # fmt: skip

    def unfinished_since(self) -> float | None:
        """Return when the oldest unfinished request entered its state, or ``None``."""
        row = self._db.rows(
            "SELECT min(since) FROM ("
            "SELECT min(created_at) AS since FROM requests WHERE status = 'queued' UNION ALL "
            "SELECT min(started_at) FROM requests WHERE status = 'processing')"
        )[0]
        since: float | None = row[0]
        return since

    def pending(self) -> int:
        """Return the number of unfinished requests."""
        sql = "SELECT count(*) FROM requests WHERE status IN ('queued', 'processing')"
        count: int = self._db.rows(sql)[0][0]
        return count

    def requeue(self) -> None:
        """Queue the requests again that were in processing when the service stopped."""
        self._db.write("UPDATE requests SET status = 'queued', started_at = NULL WHERE status = 'processing'")
        self._db.commit()

    def complete(
        self, identifier: str, answer: str, sources: list[dict[str, Any]], now: float,
    ) -> None:  # fmt: skip
        """Record the answer to a chat request; without sources, it counts as not answered."""
        self._db.write(
            "UPDATE requests SET status = 'complete', completed_at = ?, answered = ?, answer = ?,"
            " sources = ?, started_at = coalesce(started_at, ?) WHERE id = ?",
            now, bool(sources), answer, json.dumps(sources), now, identifier,
        )  # fmt: skip

    def fail(self, identifier: str, error: dict[str, str], now: float) -> None:
        """Record that a chat request failed.

        :param error: code and message.
        """
        self._db.write(
            "UPDATE requests SET status = 'failed', completed_at = ?, error = ?,"
            " started_at = coalesce(started_at, ?) WHERE id = ?",
            now, json.dumps(error), now, identifier,
        )  # fmt: skip

    def topic(self, site: str, session_id: str) -> tuple[str, ...]:
        """Return the content words of an open session's topic."""
        rows = self._db.rows(
            "SELECT terms FROM sessions WHERE site = ? AND session_id = ? AND closed_at IS NULL",
            site, session_id,
        )  # fmt: skip
        if not rows:
            return ()
        return tuple(json.loads(rows[0]["terms"]))

    def set_topic(self, site: str, session_id: str, words: tuple[str, ...]) -> None:
        """Store the content words of an open session's topic."""
        self._db.write(
            "UPDATE sessions SET terms = ? WHERE site = ? AND session_id = ?"
            " AND closed_at IS NULL",
            json.dumps(words), site, session_id,
        )  # fmt: skip

    def is_closed(self, site: str, session_id: str) -> bool:
        """Return whether a session was closed and is not open again."""
        rows = self._db.rows(
            "SELECT count(*) AS opened, count(closed_at) AS closed FROM sessions"
            " WHERE site = ? AND session_id = ?",
            site, session_id,
        )  # fmt: skip
        counts = rows[0]
        return bool(counts["opened"]) and counts["opened"] == counts["closed"]

    def close_session(self, site: str, session_id: str, now: float) -> None:
        """Close a session; one that is not open stays as it is."""
        self._db.write(
            "UPDATE sessions SET closed_at = ?"
            " WHERE site = ? AND session_id = ? AND closed_at IS NULL",
            now, site, session_id,
        )  # fmt: skip

    def rating(self, site: str, request_id: str) -> str | None:
        """Return the first rating of a chat request, or None."""
        rows = self._db.rows(
            "SELECT rating FROM feedback WHERE site = ? AND request_id = ? ORDER BY n LIMIT 1",
            site, request_id,
        )  # fmt: skip
        if not rows:
            return None
        rating: str = rows[0]["rating"]
        return rating

    def rate(self, site: str, request_id: str, session_id: str, rating: str, now: float) -> None:
        """Record a rating."""
        self._db.write(
            "INSERT INTO feedback VALUES (NULL, ?, ?, ?, ?, ?)",
            site, request_id, session_id, rating, now,
        )  # fmt: skip
