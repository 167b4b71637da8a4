"""A SQLite file as a ledger: its settings, and files that are refused."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger.engine import UnusableDatabaseError
from airflow_provider_assistant.ledger.schema import metadata
from airflow_provider_assistant.storage.private import create_private

# How long a process waits for the lock of another one.
LOCK_SECONDS = 60
# How long a process waits for another one that has just begun to create the tables.
CREATION_SECONDS = 3.0
# Key of the pool's record of a connection: whether the file had a write-ahead log beside it.
_HAD_LOG = "assistant_had_log"
# Names that an error lists.
LISTED = 5


def sqlite_engine(path: Path) -> sa.Engine:
    """
    Return an engine for a SQLite file that several processes may write to concurrently.

    :param path: Path of the file; it is created if it does not exist.
    """
    engine = sa.create_engine(f"sqlite:///{path}")
    share_file(engine)
    return engine


def share_file(engine: sa.Engine) -> None:
    """Let several processes use the file of an engine, keep it private, and refuse files that are not a ledger."""

    @sa.event.listens_for(engine, "do_connect")
    def _before(_dialect: Any, record: Any, arguments: list[Any], parameters: dict[str, Any]) -> None:
        parameters.setdefault("timeout", LOCK_SECONDS)
        name = str(arguments[0])
        if not name or name == ":memory:" or name.startswith("file:"):
            return
        file = Path(name)
        # Nothing here opens the file: if a process closes a file, it loses SQLite's locks on it.
        record.info[_HAD_LOG] = Path(f"{file}-wal").exists()
        # Create the file before SQLite does, so that other users cannot read it. SQLite says what is wrong with a path.
        with contextlib.suppress(OSError):
            create_private(file)

    @sa.event.listens_for(engine, "connect")
    def _after(connection: sqlite3.Connection, record: Any) -> None:
        try:
            ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
            _check_tables(connection, lacks_log=mode == "wal" and not record.info.get(_HAD_LOG, True))
            # With a write-ahead log, readers do not wait for a writer.
            connection.execute("PRAGMA journal_mode=WAL")
            # A power failure must not forget a claim: its row would be created again, and not listed.
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise


def check_in_place(engine: sa.Engine, inode: int | None) -> int | None:
    """
    Check that the file of an engine is still in its place: SQLite goes on writing to one that was deleted.

    :param inode: Result of an earlier call; None for the first one.
    :return: What identifies the file. None if the database is a server, or in memory.
    :raises AssistantLedgerError: It was deleted or replaced.
    """
    database = engine.url.database or ""
    if engine.dialect.name != "sqlite" or not database or database.startswith((":memory:", "file:")):
        return None
    try:
        current = Path(database).stat().st_ino
    except OSError:
        current = 0
    if inode is not None and current != inode:
        raise AssistantLedgerError(
            f"the ledger cannot be written: its file {database!r} was deleted or replaced during the task",
            retryable=False,
            todo="Put the file back from a backup, or restore its entries with 'airflow assistant documents "
            "reconcile', before the next run: it creates everything again that the ledger does not know.",
        )
    return current


def _check_tables(connection: sqlite3.Connection, *, lacks_log: bool) -> None:
    """
    Check that a file is a ledger or has no tables yet.

    :raises UnusableDatabaseError: It has tables of another application; or it was copied without its log.
    """
    deadline = time.monotonic() + CREATION_SECONDS
    while True:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = {str(name) for (name,) in rows}
        if names & metadata.tables.keys():
            return
        if names:
            listed = ", ".join(sorted(names)[:LISTED])
            raise UnusableDatabaseError(
                f"the file belongs to another application: it has other tables, such as {listed}",
                "Use another file for the ledger.",
            )
        if not lacks_log:
            return
        # A process that creates the file now is about to create its log and its tables.
        if time.monotonic() > deadline:
            raise UnusableDatabaseError(
                "the file has no tables, but had a write-ahead log: it was copied without its file -wal",
                "Restore a backup that `sqlite3 FILE .backup` has written. If no task has used this ledger, "
                "delete the file.",
            )
        time.sleep(0.1)
