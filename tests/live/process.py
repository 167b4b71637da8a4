"""Processes with log files that tests can start, stop, kill and restart."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

GUARD = Path(__file__).with_name("guard.py")
POLL = 0.2
# Timeout in seconds for operations that are fast on an idle machine; a busy machine must not fail a test.
WAIT = 300
_reserved: list[socket.socket] = []
T = TypeVar("T")


class NotReadyError(AssertionError):
    """Raised when a condition is not met in time or can no longer be met."""


class GuardProcess(Protocol):
    """The part of ``subprocess.Popen`` that is needed of a guard."""

    pid: int
    returncode: int | Any
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Process:
    """Run a command under a guard; its output is appended to a log.

    :param on_line: called with each line of standard output; lines for which it returns true are not logged
    :param grace: seconds between SIGTERM and SIGKILL
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        on_line: Callable[[str], bool] | None = None,
        grace: float = 5,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.env = dict(env)
        self.cwd = cwd
        self.log = log
        self.on_line = on_line
        self.grace = grace
        self._guard: GuardProcess | None = None
        self._meant_to_run = False

    @property
    def was_started(self) -> bool:
        """Whether the command has ever been started."""
        return self._guard is not None

    def start(self) -> None:
        """Start the command, unless it is running."""
        if self._guard and self._guard.poll() is None:
            return
        self._meant_to_run = True
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._guard = self._start_guard(log)
        if self._guard.stdout:
            threading.Thread(target=self._read, args=(self._guard.stdout,), daemon=True).start()

    def _start_guard(self, log: IO[bytes]) -> GuardProcess:
        return subprocess.Popen(
            [sys.executable, str(GUARD), str(self.grace), *self.command],
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if self.on_line else log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the owner, which then ends the guard
        )

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout, self.log.open("ab", buffering=0) as log:
            for line in stdout:
                if self.on_line and not self.on_line(line.decode(errors="replace")):
                    log.write(line)

    def ask_to_end(self, *, kill: bool = False) -> None:
        """Start to stop the command, without waiting for its end."""
        self._meant_to_run = False
        if self._guard and self._guard.stdin and not self._guard.stdin.closed:
            with suppress(BrokenPipeError):
                if kill:
                    self._guard.stdin.write(b"k")
                self._guard.stdin.close()

    def stop(self, *, kill: bool = False) -> None:
        """Stop the command and all its descendants."""
        self.ask_to_end(kill=kill)
        if self._guard:
            self._guard.wait(timeout=self.grace + 30)

    def tree(self) -> list[psutil.Process]:
        """Every process below the guard, the command itself first."""
        if self._guard is None:
            return []
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._guard.pid).children(recursive=True)
        return []

    def check(self) -> None:
        """Raise an error with the end of the log if the command has ended unexpectedly."""
        if self._meant_to_run and self._guard and self._guard.poll() is not None:
            code = self._guard.returncode
            raise NotReadyError(f"{self.name} ended with exit code {code}:\n{tail(self.log)}")

    def run(self, timeout: float) -> None:
        """Run a command to its end; raise an error with its log if it fails."""
        with running([self]):
            self.wait(timeout)

    def wait(self, timeout: float) -> None:
        """Wait for the end of a command; raise an error with its log if it failed."""
        assert self._guard
        try:
            self._guard.wait(timeout)
        except subprocess.TimeoutExpired:
            raise NotReadyError(f"{self.name}: not within {timeout:g} s") from None
        if self._guard.returncode:
            self.check()


@contextmanager
def running(processes: Sequence[Process]) -> Iterator[None]:
    """Start all processes, and stop all of them when the block exits."""
    with ExitStack() as stack:
        for process in processes:
            stack.callback(process.stop)
        try:
            for process in processes:
                process.start()
            yield
        finally:
            for process in processes:  # all at once; the stack then waits for each
                process.ask_to_end()


def wait_for(what: str, probe: Callable[[], T | None], *, timeout: float, interval: float = POLL) -> T:
    """Poll until ``probe`` returns a true value."""
    deadline = time.monotonic() + timeout
    while True:
        if result := probe():
            return result
        if time.monotonic() > deadline:
            raise NotReadyError(f"{what}: not within {timeout:g} s")
        time.sleep(interval)


def tail(path: Path, lines: int = 40) -> str:
    """Return the last lines of a file."""
    if not path.exists():
        return "(no log)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def free_port() -> int:
    """
    Return a port of the loopback interface that is reserved until this process ends.

    A socket is bound to it: the kernel does not assign the port to requests for any free port, but a server that
    specifies it and sets SO_REUSEADDR can listen on it. So concurrent tests never get the same port, and a server can
    restart on its own.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _reserved.append(holder)
    return int(holder.getsockname()[1])


def processes_in(directory: Path) -> list[psutil.Process]:
    """Return the processes whose command line, environment or cwd names a directory.

    Neither this process nor those that started it.
    """
    mark = str(directory.resolve())
    own = [psutil.Process(), *psutil.Process().parents()]
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            places = [*process.cmdline(), process.cwd(), *process.environ().values()]
            if process not in own and any(mark in place for place in places):
                found.append(process)
    return found
