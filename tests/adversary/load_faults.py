"""Interruptions of a load: kill of the process, unreachable ledger, full disk, clock change."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from tests.adversary.service import Killed
from tests.virtual_time import in_executor

START = 1.8e9


@dataclass(frozen=True)
class Kill:
    """SIGKILL while a request, numbered from 0, is in flight."""

    request: int


@dataclass(frozen=True)
class End:
    """A graceful end, as after SIGTERM, while a request, numbered from 0, is in flight."""

    request: int


@dataclass(frozen=True)
class LedgerAway:
    """
    Statements and commits that fail.

    :param first: Number of the first one, from 0.
    :param times: Number of failures.
    :param is_done: Whether a failing commit takes effect nevertheless, because only its acknowledgement is lost.
    """

    first: int
    times: int
    is_done: bool = False


@dataclass(frozen=True)
class ClockJump:
    """The system clock jumps by some seconds while a request, numbered from 0, is in flight."""

    request: int
    seconds: float


@dataclass(frozen=True)
class DiskFull:
    """The disk is full after some bytes of findings."""

    size: int


Interruption: TypeAlias = Kill | End | LedgerAway | ClockJump | DiskFull


class Clock:
    """The simulated system clock of client and ledger."""

    def __init__(self) -> None:
        self._offset = START

    def now(self) -> float:
        """Return seconds since the epoch."""
        with contextlib.suppress(RuntimeError):
            return self._offset + asyncio.get_running_loop().time()
        return self._offset

    def datetime(self) -> datetime:
        """Return the time, timezone-aware."""
        return datetime.fromtimestamp(self.now(), UTC)

    def advance(self, seconds: float) -> None:
        """Advance the clock, or set it."""
        self._offset += seconds


class Faults:
    """
    Apply the interruptions of one try.

    :param interruptions: The interruptions.
    :param clock: Clock to change.
    """

    def __init__(self, interruptions: tuple[Interruption, ...], clock: Clock) -> None:
        self.is_killed = False
        self.in_flight: Callable[[], int] = lambda: 0
        """Returns the number of requests in flight."""
        self.blocked = 0
        """Number of ledger statements for which the event loop waited while requests were in flight."""
        self._interruptions = interruptions
        self._clock = clock
        self._statements = 0
        self.end: Callable[[], None] = lambda: None
        """Ends the load gracefully."""

    def on_request(self, number: int) -> None:
        """Interrupt at a request."""
        for interruption in self._interruptions:
            match interruption:
                case Kill(request) if request == number:
                    self.is_killed = True
                case End(request) if request == number:
                    self.end()
                case ClockJump(request, seconds) if request == number:
                    self._clock.advance(seconds)
        self.check_alive()

    def check_alive(self) -> None:
        """Raise an error if the process was killed, so that it does nothing more."""
        if self.is_killed:
            raise Killed

    def on_statement(self) -> LedgerAway | None:
        """Return the outage that makes this statement fail, or None."""
        self.check_alive()
        self.blocked += bool(self.in_flight()) and not in_executor()
        number, self._statements = self._statements, self._statements + 1
        for one in self._interruptions:
            if isinstance(one, LedgerAway) and one.first <= number < one.first + one.times:
                return one
        return None

    def findings_path(self, path: Path) -> Any:
        """Return the path of the findings, on a simulated disk that may be full."""
        sizes = [one.size for one in self._interruptions if isinstance(one, DiskFull)]
        return FullDisk(path, min(sizes)) if sizes else path


class FullDisk:
    """A path on a disk with limited space."""

    def __init__(self, path: Path, size: int) -> None:
        self.parent, self._path, self._size = path.parent, path, size

    def __str__(self) -> str:
        return str(self._path)

    def open(self, mode: str) -> Any:
        """Open the file."""
        return _FullFile(self._path.open(mode), self._size)

    def unlink(self, *, missing_ok: bool) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=missing_ok)


class _FullFile:
    def __init__(self, file: Any, left: int) -> None:
        self._file, self._left = file, left

    def write(self, content: Any) -> int:
        self._left -= len(content)
        if self._left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class NightLedger:
    """The ledger's database of one night, with the faults of the current try."""

    def __init__(self, path: Path) -> None:
        shutil.copyfile(_template(), path)
        self.engine = sqlite_engine(path)
        self.faults = Faults((), Clock())
        sa.event.listen(self.engine, "before_cursor_execute", self._execute)
        commit = self.engine.dialect.do_commit
        self.engine.dialect.do_commit = lambda connection: self._commit(commit, connection)  # type: ignore[method-assign]

    def _execute(self, *_: Any) -> None:
        if self.faults.on_statement():
            raise sa.exc.OperationalError("statement", {}, _locked())

    def _commit(self, commit: Callable[[Any], None], connection: Any) -> None:
        away = self.faults.on_statement()
        if away is None or away.is_done:
            commit(connection)
        if away:
            raise _locked()


def _locked() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


@cache
def _template() -> Path:
    """Return the file of an empty ledger, to be copied: creating its tables takes longer than a short night."""
    path = scratch() / "template.db"
    engine = sqlite_engine(path)
    Ledger(engine).close()
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    return path


@cache
def scratch() -> Path:
    """Return a folder for this process, in a memory file system if there is one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="nights-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def night_folder() -> Iterator[Path]:
    """Return a folder for one night."""
    folder = Path(tempfile.mkdtemp(prefix="night-", dir=scratch()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
