"""A ledger whose database fails like a server: for some statements or for some time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator

import sqlalchemy as sa

# Primary result codes of SQLite.
BUSY, READ_ONLY, FULL = 5, 8, 13
TEXTS = {BUSY: "database is locked", FULL: "database or disk is full"}


class Outage:
    """
    Make statements fail.

    :param begins: Beginning of the statements that fail. Default: all statements.
    :param times: Number of failures before the database works again.
    :param code: Result code of SQLite.
    :param when: Returns whether statements fail now.
    """

    def __init__(
        self,
        *begins: str,
        times: float = float("inf"),
        code: int = BUSY,
        when: Callable[[], bool] = lambda: True,
    ) -> None:
        self.begins, self.left, self.code, self.when = begins, times, code, when
        self.failed: list[str] = []

    def __call__(self, _connection, _cursor, statement, *_rest) -> None:
        if self.left > 0 and (not self.begins or statement.startswith(self.begins)) and self.when():
            self.left -= 1
            self.failed.append(statement)
            error = sqlite3.OperationalError(TEXTS.get(self.code, "attempt to write"))
            error.sqlite_errorcode = self.code
            raise sa.exc.OperationalError(statement, {}, error)


@contextlib.contextmanager
def away(engine: sa.Engine | type[sa.Engine], *begins: str, **options) -> Iterator[Outage]:
    """Make one database, or all of them, fail during a ``with`` block, see :class:`Outage`."""
    outage = Outage(*begins, **options)
    sa.event.listen(engine, "before_cursor_execute", outage)
    try:
        yield outage
    finally:
        sa.event.remove(engine, "before_cursor_execute", outage)
