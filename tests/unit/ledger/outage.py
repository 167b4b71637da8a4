"""A ledger whose database fails as a server does: for some statements, or for some time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import sqlalchemy as sa

# SQLite's primary result code for a database that is locked.
BUSY, READ_ONLY = 5, 8


class Outage:
    """
    Statements that fail.

    :param engine: The ledger's database.
    :param begins: How the statements that fail begin; all of them by default.
    :param times: How many fail before the database is back.
    :param code: What SQLite reports.
    """

    def __init__(self, engine: sa.Engine, *begins: str, times: float = float("inf"), code: int = BUSY) -> None:
        self.engine, self.begins, self.left, self.code = engine, begins, times, code
        self.failed: list[str] = []

    def __call__(self, _connection, _cursor, statement, *_rest) -> None:
        if self.left > 0 and (not self.begins or statement.startswith(self.begins)):
            self.left -= 1
            self.failed.append(statement)
            error = sqlite3.OperationalError("database is locked" if self.code == BUSY else "attempt to write")
            error.sqlite_errorcode = self.code
            raise sa.exc.OperationalError(statement, {}, error)


@contextlib.contextmanager
def away(engine: sa.Engine, *begins: str, **options) -> Iterator[Outage]:
    """Have a database fail for a ``with`` block, see :class:`Outage`."""
    outage = Outage(engine, *begins, **options)
    sa.event.listen(engine, "before_cursor_execute", outage)
    try:
        yield outage
    finally:
        sa.event.remove(engine, "before_cursor_execute", outage)
