"""The file of a SQLite ledger. SQLite goes on writing to a file that was deleted, and all that it writes is lost."""

from __future__ import annotations

import contextlib
from pathlib import Path

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerPermanentError


class OpenFile:
    """
    Remember the file of a ledger that is open.

    :param engine: Engine of the ledger. A server and a database in memory have no file.
    """

    def __init__(self, engine: sa.Engine) -> None:
        database = engine.url.database or ""
        self._path = Path(database)
        self._inode: int | None = None
        if engine.dialect.name == "sqlite" and database and not database.startswith((":memory:", "file:")):
            self._inode = self._current_inode()

    def check(self) -> None:
        """
        Check that the file is still in its place.

        :raises AssistantLedgerPermanentError: It was deleted or replaced.
        """
        if self._inode is None or self._current_inode() == self._inode:
            return
        raise AssistantLedgerPermanentError(
            f"the ledger cannot be written: its file {str(self._path)!r} was deleted or replaced during the task",
            todo="Put the file back from a backup, or restore its entries with 'airflow assistant ledger rebuild', "
            "before the next run: it creates everything again that the ledger does not know.",
        )

    def _current_inode(self) -> int | None:
        with contextlib.suppress(OSError):
            return self._path.stat().st_ino
        return None
