"""The documents of all sites, and their full-text index."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox import schemas, search
from airflow_provider_assistant.sandbox.timestamps import iso

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from airflow_provider_assistant.sandbox.database import Database
    from airflow_provider_assistant.sandbox.faults import Faults
    from airflow_provider_assistant.sandbox.tenants import Key

# A match in the question counts most, and one in the title counts more than one in the text.
_WEIGHTS = "2.0, 4.0, 1.0"
_COLUMNS = """
    n, id, tenant, site, kind, title, question, content, category, bytes,
    created_at, updated_at, activated_at
"""
# The documents as they were at a moment: a later change has kept the earlier version.
_AS_OF = (
    f"(SELECT {_COLUMNS} FROM documents WHERE created_at <= ?"  # noqa: S608 (a constant)
    " AND id NOT IN (SELECT id FROM past_documents WHERE changed_at > ?)"
    f" UNION ALL SELECT {_COLUMNS} FROM past_documents WHERE created_at <= ? AND rowid IN"
    " (SELECT min(rowid) FROM past_documents WHERE changed_at > ? GROUP BY id))"
)


class Documents:
    """Store, change and search the documents of all sites."""

    def __init__(self, database: Database, faults: Faults) -> None:
        self._db = database
        self._faults = faults
        # Documents by tenant.
        self.held: Counter[str] = Counter()
        self.recount()

    def recount(self) -> None:
        """Recount the documents per tenant."""
        rows = self._db.rows("SELECT tenant, count(*) AS total FROM documents GROUP BY tenant")
        count_by_tenant = {row["tenant"]: row["total"] for row in rows}
        self.held = Counter(count_by_tenant)
        # SQLite would use the number of the last document again if that is deleted, and a list
        # that continues after this number would skip the new document.
        self._last_number: int = self._db.rows("SELECT max(n) FROM documents")[0][0] or 0

    def add(
        self,
        key: Key,
        site: str,
        kind: schemas.Kind,
        *,
        title: str,
        content: str,
        question: str | None = None,
        category: str | None = None,
        size: int,
        now: float,
    ) -> schemas.DocumentReply:
        """Store and index a document.

        :param title: title or file name.
        :param content: text, or answer of a question.
        :param question: question of a ``qa`` document.
        :param size: size of the content as sent, in bytes.
        :param now: current time, in seconds since the epoch.
        """
        identifier = f"doc_{secrets.token_hex(10)}"
        tenant = key.tenant.tenant_id
        activated_at = None if self._faults.settings.document_status == "draft" else now
        self._last_number += 1
        number = self._last_number
        self._db.write(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            number,
            identifier, tenant, site, kind, title, question, content, category, size, now, now,
            activated_at,
        )  # fmt: skip
        self._index(number, title, question, content)
        self.held[tenant] += 1
        created_at = iso(now)
        return schemas.DocumentReply(
            id=identifier,
            site_id=site,
            kind=kind,
            title=title,
            category=category,
            bytes=size,
            status=self._status(activated_at, now),
            active=activated_at is not None,
            created_at=created_at,
            updated_at=created_at,
        )

    def described(self, row: sqlite3.Row, now: float) -> dict[str, Any]:
        """Return the fields of a document that replies show."""
        return {
            "id": row["id"],
            "site_id": row["site"],
            "kind": row["kind"],
            "title": row["title"],
            "category": row["category"],
            "bytes": row["bytes"],
            "status": self._status(row["activated_at"], now),
            "active": row["activated_at"] is not None,
            "created_at": iso(row["created_at"]),
            "updated_at": iso(row["updated_at"]),
        }

    def _status(self, activated_at: float | None, now: float) -> schemas.DocumentStatus:
        if activated_at is None:
            return "draft"
        if activated_at > self._ready_by(now):
            return "processing"
        return "active"

    def _ready_by(self, now: float) -> float:
        """Return when the newest document that is ready was activated."""
        return now - self._faults.settings.document_seconds

    def _index(self, number: int, title: str, question: str | None, content: str) -> None:
        self._db.write(
            "INSERT INTO words (rowid, title, question, content) VALUES (?, ?, ?, ?)",
            number,
            search.indexable(title), search.indexable(question or ""), search.indexable(content),
        )  # fmt: skip

    def _remove_from_index(self, row: sqlite3.Row) -> None:
        # The index does not store the texts, so that SQLite needs them to remove their words.
        self._db.write(
            "INSERT INTO words (words, rowid, title, question, content)"
            " VALUES ('delete', ?, ?, ?, ?)",
            row["n"],
            search.indexable(row["title"]), search.indexable(row["question"] or ""),
            search.indexable(row["content"]),
        )  # fmt: skip

    def document(self, site: str, identifier: str) -> sqlite3.Row | None:
        """Return a document of a site, or None."""
        # Only what changes documents needs this index: loads are faster without it.
        self._db.write("CREATE INDEX IF NOT EXISTS documents_by_id ON documents (id)")
        sql = "SELECT * FROM documents WHERE id = ? AND site = ?"
        rows = self._db.rows(sql, identifier, site)
        if not rows:
            return None
        return rows[0]

    def find_same(self, site: str, title: str, question: str | None, content: str) -> str | None:
        """Return the id of a document with this title and content, or None."""
        # Only a service that refuses duplicates needs this index: others load faster without it.
        self._db.write("CREATE INDEX IF NOT EXISTS documents_by_title ON documents (site, title)")
        rows = self._db.rows(
            "SELECT id FROM documents WHERE site = ? AND title = ? AND content = ?"
            " AND question IS ? LIMIT 1",
            site, title, content, question,
        )  # fmt: skip
        if not rows:
            return None
        identifier: str = rows[0]["id"]
        return identifier

    def change(self, row: sqlite3.Row, changes: Mapping[str, Any], now: float) -> sqlite3.Row:
        """Change a document, and return it.

        A document that is activated, or whose text changes while it is active, is processed again.

        :param changes: new values of ``title``, ``question``, ``content`` and ``category``; new
            value of ``active``.
        """
        new = {**dict(row), **changes}
        text_changed = any(new[name] != row[name] for name in ("title", "question", "content"))
        active = changes.get("active", row["activated_at"] is not None)
        activated_at = row["activated_at"]
        if not active:
            activated_at = None
        elif activated_at is None or text_changed:
            activated_at = now
        self._keep_past(row, now)
        if text_changed:
            self._remove_from_index(row)
            self._index(row["n"], new["title"], new["question"], new["content"])
            new["bytes"] = len((new["question"] or "").encode()) + len(new["content"].encode())
        self._db.write(
            "UPDATE documents SET title = ?, question = ?, content = ?, category = ?, bytes = ?,"
            " updated_at = ?, activated_at = ? WHERE n = ?",
            new["title"], new["question"], new["content"], new["category"], new["bytes"],
            now, activated_at, row["n"],
        )  # fmt: skip
        return self._db.rows("SELECT * FROM documents WHERE n = ?", row["n"])[0]

    def delete(self, row: sqlite3.Row, now: float) -> None:
        """Delete a document."""
        self._keep_past(row, now)
        self._remove_from_index(row)
        self._db.write("DELETE FROM documents WHERE n = ?", row["n"])
        self.held[row["tenant"]] -= 1

    def _keep_past(self, row: sqlite3.Row, now: float) -> None:
        """Keep the version before a change, for lists that show changes later."""
        if self._faults.settings.list_delay:
            self._db.write(
                f"INSERT INTO past_documents (changed_at, {_COLUMNS})"  # noqa: S608 (a constant)
                f" SELECT ?, {_COLUMNS} FROM documents WHERE n = ?",
                now, row["n"],
            )  # fmt: skip

    def page(self, site: str, now: float, after: int, offset: int, limit: int) -> list[sqlite3.Row]:
        """Return documents of a site in the order of their creation.

        :param after: ``n`` of the document before the first one.
        """
        source, values = self._listed_source(now)
        return self._db.rows(
            f"SELECT * FROM {source} WHERE site = ? AND n > ?"  # noqa: S608 (a constant)
            " ORDER BY n LIMIT ? OFFSET ?",
            *values, site, after, limit, offset,
        )  # fmt: skip

    def count_listed(self, site: str, now: float) -> int:
        """Return the number of documents that a list of a site shows."""
        source, values = self._listed_source(now)
        sql = f"SELECT count(*) FROM {source} WHERE site = ?"  # noqa: S608 (a constant)
        count: int = self._db.rows(sql, *values, site)[0][0]
        return count

    def _listed_source(self, now: float) -> tuple[str, list[float]]:
        """Return what a list reads from, and the values of its placeholders."""
        delay = self._faults.settings.list_delay
        if not delay:
            return "documents", []
        return _AS_OF, [now - delay] * 4

    def count(self, site: str | None = None) -> int:
        """Return the number of documents, of all sites if ``site`` is None."""
        if site is None:
            return sum(self.held.values())
        row = self._db.rows("SELECT count(*) AS total FROM documents WHERE site = ?", site)[0]
        count: int = row["total"]
        return count

    def listed(self, site: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the documents in the order of their creation, of all sites if ``site`` is None."""
        columns = (
            "id, tenant, site, kind, title, question, content, category, bytes, created_at,"
            " activated_at IS NOT NULL AS active"
        )
        condition = ""
        values: list[str | int] = []
        if site:
            condition = "WHERE site = ?"
            values.append(site)
        if limit is None:
            limit = -1  # SQLite then returns all rows
        values.append(limit)
        # Both are constants.
        sql = f"SELECT {columns} FROM documents {condition} ORDER BY n LIMIT ?"  # noqa: S608
        rows = self._db.rows(sql, *values)
        return [{**dict(row), "active": bool(row["active"])} for row in rows]

    def find(self, site: str, words: tuple[str, ...], limit: int, now: float) -> list[sqlite3.Row]:
        """Return the documents in use that have any of the words, best first."""
        return self._db.rows(
            "SELECT d.n, d.id, d.kind, d.title, d.content,"  # noqa: S608 (a constant)
            f" -bm25(words, {_WEIGHTS}) AS bm25"
            " FROM words JOIN documents d ON d.n = words.rowid"
            " WHERE words MATCH ? AND d.site = ? AND d.activated_at <= ?"
            " ORDER BY bm25 DESC, d.n LIMIT ?",
            search.query(words), site, self._ready_by(now), limit,
        )  # fmt: skip

    def holds(self, number: int, word: str) -> bool:
        """Return whether the document with this ``n`` contains a word in any inflection."""
        sql = "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?"
        return bool(self._db.rows(sql, search.query((word,)), number))
