"""Chat requests, sessions and feedback."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    from airflow_provider_assistant.sandbox.database import Database
    from airflow_provider_assistant.sandbox.tenants import Key


def month(moment: float) -> str:
    """Return the calendar month (UTC) whose quota a message counts against.

    :param moment: seconds since the epoch.
    """
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m")


class Chats:
    """Store the chat requests, sessions and feedback of all sites.

    :param database: database of the sandbox.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self.sent: Counter[tuple[str, str]] = Counter()
        self.recount()

    def recount(self) -> None:
        """Recount the messages per tenant and month."""
        rows = self._db.rows(
            "SELECT tenant, strftime('%Y-%m', created_at, 'unixepoch'), count(*) FROM requests GROUP BY 1, 2"
        )
        self.sent = Counter({(tenant, of_month): count for tenant, of_month, count in rows})

    def add(
        self, key: Key, site: str, session_id: str, mode: str, message: str, language: str,
        now: float,
    ) -> str:  # fmt: skip
        """Store a chat request as queued, open its session if necessary, and return the request's id.

        :param key: API key of the caller.
        :param site: id of the site.
        :param session_id: id of the session.
        :param mode: ``sync`` or ``async``.
        :param message: the question.
        :param language: language of the answer.
        :param now: current time, in seconds since the epoch.
        """
        identifier, tenant = f"req_{secrets.token_hex(10)}", key.tenant.tenant_id
        self._db.write(
            "INSERT INTO requests (id, tenant, site, session_id, mode, message, language, status,"
            " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?)",
            identifier, tenant, site, session_id, mode, message, language, now,
        )  # fmt: skip
        self.sent[tenant, month(now)] += 1
        opened = self._db.write(
            "UPDATE sessions SET messages = messages + 1"
            " WHERE site = ? AND session_id = ? AND closed_at IS NULL",
            site, session_id,
        ).rowcount  # fmt: skip
        if not opened:
            self._db.write("INSERT INTO sessions VALUES (NULL, ?, ?, ?, NULL, 1, '[]')", site, session_id, now)
        return identifier

    def request(self, site: str, identifier: str) -> sqlite3.Row | None:
        """Return a chat request of a site, or ``None``.

        :param site: id of the site.
        :param identifier: id of the request.
        """
        found = self._db.rows("SELECT * FROM requests WHERE id = ? AND site = ?", identifier, site)
        return found[0] if found else None

    def start(self, created_by: float, now: float, limit: int) -> int:
        """Move queued requests to processing, oldest first, and return their number.

        :param created_by: move only requests created until this time.
        :param now: current time, in seconds since the epoch.
        :param limit: maximum number of requests.
        """
        return self._db.write(
            "UPDATE requests SET status = 'processing', started_at = ? WHERE n IN (SELECT n FROM"
            " requests WHERE status = 'queued' AND created_at <= ? ORDER BY created_at LIMIT ?)",
            now, created_by, limit,
        ).rowcount  # fmt: skip

    def started(self, started_by: float, limit: int) -> list[sqlite3.Row]:
        """Return requests in processing, oldest first.

        :param started_by: return only requests started until this time.
        :param limit: maximum number of requests.
        """
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
        self, identifier: str, answer: str, sources: list[dict[str, Any]], *, answered: bool,
        now: float,
    ) -> None:  # fmt: skip
        """Record the answer to a chat request.

        :param identifier: id of the request.
        :param answer: text of the answer.
        :param sources: documents that the answer is based on.
        :param answered: whether the assistant found an answer.
        :param now: current time, in seconds since the epoch.
        """
        self._db.write(
            "UPDATE requests SET status = 'complete', completed_at = ?, answered = ?, answer = ?,"
            " sources = ?, started_at = coalesce(started_at, ?) WHERE id = ?",
            now, answered, answer, json.dumps(sources), now, identifier,
        )  # fmt: skip

    def fail(self, identifier: str, error: dict[str, str], now: float) -> None:
        """Record that a chat request failed.

        :param identifier: the request.
        :param error: code and message.
        :param now: the time.
        """
        self._db.write(
            "UPDATE requests SET status = 'failed', completed_at = ?, error = ?,"
            " started_at = coalesce(started_at, ?) WHERE id = ?",
            now, json.dumps(error), now, identifier,
        )  # fmt: skip

    def topic(self, site: str, session_id: str) -> tuple[str, ...]:
        """Return the content words of an open session's topic.

        :param site: id of the site.
        :param session_id: id of the session.
        """
        found = self._db.rows(
            "SELECT terms FROM sessions WHERE site = ? AND session_id = ? AND closed_at IS NULL",
            site, session_id,
        )  # fmt: skip
        return tuple(json.loads(found[0][0])) if found else ()

    def set_topic(self, site: str, session_id: str, words: tuple[str, ...]) -> None:
        """Store the content words of an open session's topic.

        :param site: id of the site.
        :param session_id: id of the session.
        :param words: content words.
        """
        self._db.write(
            "UPDATE sessions SET terms = ? WHERE site = ? AND session_id = ?"
            " AND closed_at IS NULL",
            json.dumps(words), site, session_id,
        )  # fmt: skip

    def close_session(self, site: str, session_id: str, now: float) -> bool:
        """Close an open session, and return whether there was one.

        :param site: id of the site.
        :param session_id: id of the session.
        :param now: current time, in seconds since the epoch.
        """
        closed = self._db.write(
            "UPDATE sessions SET closed_at = ?"
            " WHERE site = ? AND session_id = ? AND closed_at IS NULL",
            now, site, session_id,
        ).rowcount  # fmt: skip
        return closed > 0

    def rate(self, site: str, request_id: str, session_id: str, rating: str, now: float) -> None:
        """Record a rating.

        :param site: id of the site.
        :param request_id: id of the rated request.
        :param session_id: id of its session.
        :param rating: the rating.
        :param now: current time, in seconds since the epoch.
        """
        self._db.write(
            "INSERT INTO feedback VALUES (NULL, ?, ?, ?, ?, ?)",
            site, request_id, session_id, rating, now,
        )  # fmt: skip
