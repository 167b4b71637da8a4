"""The documents of all sites, and their full-text index."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox import schemas, search
from airflow_provider_assistant.sandbox.timestamps import iso

if TYPE_CHECKING:
    import sqlite3

    from airflow_provider_assistant.sandbox.database import Database
    from airflow_provider_assistant.sandbox.tenants import Key

# A match in the question counts most, and one in the title counts more than one in the text.
_WEIGHTS = "2.0, 4.0, 1.0"


class Documents:
    """Store and search the documents of all sites."""

    def __init__(self, database: Database) -> None:
        self._db = database
        # Documents by tenant.
        self.held: Counter[str] = Counter()
        self.recount()

    def recount(self) -> None:
        """Recount the documents per tenant."""
        rows = self._db.rows("SELECT tenant, count(*) AS total FROM documents GROUP BY tenant")
        count_by_tenant = {row["tenant"]: row["total"] for row in rows}
        self.held = Counter(count_by_tenant)

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
        number = self._db.write(
            "INSERT INTO documents VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            identifier, tenant, site, kind, title, question, content, category, size, now,
        ).lastrowid  # fmt: skip
        self._db.write(
            "INSERT INTO words (rowid, title, question, content) VALUES (?, ?, ?, ?)",
            number,
            search.indexable(title), search.indexable(question or ""), search.indexable(content),
        )  # fmt: skip
        self.held[tenant] += 1
        return schemas.DocumentReply(
            id=identifier,
            site_id=site,
            kind=kind,
            title=title,
            category=category,
            bytes=size,
            status="indexed",
            created_at=iso(now),
        )

    def count(self, site: str | None = None) -> int:
        """Return the number of documents, of all sites if ``site`` is None."""
        if site is None:
            return sum(self.held.values())
        row = self._db.rows("SELECT count(*) AS total FROM documents WHERE site = ?", site)[0]
        count: int = row["total"]
        return count

    def listed(self, site: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the documents in the order of their creation, of all sites if ``site`` is None."""
        columns = "id, tenant, site, kind, title, question, content, category, bytes, created_at"
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
        return [dict(row) for row in rows]

    def find(self, site: str, words: tuple[str, ...], limit: int) -> list[sqlite3.Row]:
        """Return the documents with any of the words, best first, with ``bm25`` and ``n``."""
        return self._db.rows(
            "SELECT d.n, d.id, d.kind, d.title, d.content,"  # noqa: S608 (a constant)
            f" -bm25(words, {_WEIGHTS}) AS bm25"
            " FROM words JOIN documents d ON d.n = words.rowid"
            " WHERE words MATCH ? AND d.site = ? ORDER BY bm25 DESC, d.n LIMIT ?",
            search.query(words), site, limit,
        )  # fmt: skip

    def holds(self, number: int, word: str) -> bool:
        """Return whether the document with this ``n`` contains a word in any inflection."""
        sql = "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?"
        return bool(self._db.rows(sql, search.query((word,)), number))
