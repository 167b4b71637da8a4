"""The SQLite database of the sandbox.

All handlers share one connection, one lock and one open transaction. :meth:`Database.settled` commits once for all
handlers that wrote in the same iteration of the event loop. A response is sent only after that commit, so that
acknowledged changes survive if the process is killed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FILE = "assistant.sqlite3"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL, tenant TEXT NOT NULL, site TEXT NOT NULL,
    kind TEXT NOT NULL, title TEXT NOT NULL, question TEXT, content TEXT NOT NULL, category TEXT,
    bytes INTEGER NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL,
    activated_at REAL);
CREATE INDEX IF NOT EXISTS documents_of_site ON documents (site);
CREATE TABLE IF NOT EXISTS past_documents (
    changed_at REAL NOT NULL, n INTEGER NOT NULL, id TEXT NOT NULL, tenant TEXT NOT NULL,
    site TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, question TEXT,
    content TEXT NOT NULL, category TEXT, bytes INTEGER NOT NULL, created_at REAL NOT NULL,
    updated_at REAL NOT NULL, activated_at REAL);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
    title, question, content, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE TABLE IF NOT EXISTS requests (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, site TEXT NOT NULL,
    session_id TEXT NOT NULL, mode TEXT NOT NULL, message TEXT NOT NULL, language TEXT NOT NULL,
    email TEXT,
    status TEXT NOT NULL, created_at REAL NOT NULL, started_at REAL, completed_at REAL,
    answered INTEGER, answer TEXT, sources TEXT, error TEXT);
CREATE INDEX IF NOT EXISTS requests_unfinished ON requests (status, created_at)
    WHERE status IN ('queued', 'processing');
CREATE INDEX IF NOT EXISTS requests_of_session ON requests (site, session_id);
CREATE TABLE IF NOT EXISTS sessions (
    n INTEGER PRIMARY KEY, site TEXT NOT NULL, session_id TEXT NOT NULL, opened_at REAL NOT NULL,
    closed_at REAL, messages INTEGER NOT NULL, terms TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS sessions_open ON sessions (site, session_id)
    WHERE closed_at IS NULL;
CREATE INDEX IF NOT EXISTS sessions_of_site ON sessions (site, session_id);
CREATE TABLE IF NOT EXISTS feedback (
    n INTEGER PRIMARY KEY, site TEXT NOT NULL, request_id TEXT NOT NULL,
    session_id TEXT NOT NULL, rating TEXT NOT NULL, created_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS feedback_of_request ON feedback (site, request_id);
"""
_TABLES = ("documents", "past_documents", "requests", "sessions", "feedback")


class Database:
    """Share one database connection between all handlers.

    :param directory: directory of the SQLite file. ``None`` keeps everything in memory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        name = ":memory:"
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            name = str(directory / FILE)
        self._lock = threading.RLock()
        self._settling: asyncio.Future[None] | None = None
        self._connection = sqlite3.connect(name, timeout=0.2, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        try:
            # Lock the file: a second service on it would not see this one's counters.
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error:
            self._connection.close()
            raise

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def write(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement in the open transaction, or in a new one if none is open."""
        with self._lock:
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            return self._connection.execute(sql, values)

    async def settled(self) -> None:
        """Wait until all writes are committed."""
        if self._settling is None:
            loop = asyncio.get_running_loop()
            self._settling = loop.create_future()
            loop.call_soon(self._settle, self._settling)
        # The cancellation of one handler must not cancel the commit of the others.
        await asyncio.shield(self._settling)

    def _settle(self, settling: asyncio.Future[None]) -> None:
        self._settling = None
        try:
            self.commit()
        except sqlite3.Error as error:
            settling.set_exception(error)
        else:
            settling.set_result(None)

    def commit(self) -> None:
        """Commit immediately."""
        with self._lock:
            self._connection.commit()

    def close(self) -> None:
        """Commit and close the file."""
        with self._lock:
            self._connection.commit()
            self._connection.close()

    def clear(self) -> None:
        """Delete all data."""
        with self._lock:
            for table in _TABLES:
                self.write(f"DELETE FROM {table}")  # noqa: S608 (a constant)
            # This command of SQLite's FTS5 empties the full-text index.
            self.write("INSERT INTO words (words) VALUES ('delete-all')")
            self.commit()
