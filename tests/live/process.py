"""Processes with log files that tests start, stop and kill."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

import psutil

POLL = 0.2
# Timeout in seconds for operations that are fast on an idle machine; a busy machine must not fail a test.
WAIT = 300
# The kernel kills a command whose owner was killed. Processes that the command has started may stay.
DIES_WITH_OWNER = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
_reserved: list[socket.socket] = []
T = TypeVar("T")


class NotReadyError(AssertionError):
    """Raised when a condition is not met in time or can no longer be met."""


class Process:
    """
    A command whose output is appended to a log.

    :param pipes: Whether the owner writes to its standard input and reads its standard output.
    :param grace: Seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        pipes: bool = False,
        grace: float = 5,
    ) -> None:
        self.name, self.command, self.env, self.cwd, self.log = name, list(command), dict(env), cwd, log
        self.pipes, self.grace = pipes, grace
        self.pid = 0
        self._is_wanted = False

    def start(self) -> None:
        """Start the command, unless it is running."""
        if self.pid and self.exit_code() is None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._spawn(log)
        self._is_wanted = True

    def _spawn(self, log: IO[bytes]) -> None:
        pipe = subprocess.PIPE if self.pipes else None
        self.popen = subprocess.Popen(
            [*DIES_WITH_OWNER, *self.command],
            env=self.env,
            cwd=self.cwd,
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the owner
        )
        self.pid = self.popen.pid

    def exit_code(self) -> int | None:
        """Return the exit code of the command, or None while it is running."""
        return self.popen.poll()

    def tree(self) -> list[psutil.Process]:
        """Return the running command and all its descendants, the command first."""
        if not self.pid or self.exit_code() is not None:
            return []
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            return [process, *process.children(recursive=True)]
        return []

    def stop(self, *, kill: bool = False) -> None:
        """End the command and all its descendants: by SIGTERM, and SIGKILL after the grace or at once."""
        self._is_wanted = False
        family = self.tree()
        deadline = time.monotonic() + (0 if kill else self.grace)
        if family and not kill:
            family[0].terminate()
        while time.monotonic() < deadline and (running := self.tree()):
            family += [process for process in running if process not in family]
            time.sleep(0.05)
        for process in (*family, *self.tree()):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if family:
            wait_for(f"the end of {self.name}", lambda: self.exit_code() is not None, timeout=30, interval=0.02)

    def check(self) -> None:
        """Raise an error with the end of the log if the command has ended by itself."""
        if self._is_wanted and (code := self.exit_code()) is not None:
            text = self.log.read_text(errors="replace") if self.log.exists() else ""
            tail = "\n".join(text.splitlines()[-40:])
            raise NotReadyError(f"{self.name} ended with exit code {code}:\n{tail}")

    def run(self, timeout: float) -> None:
        """Run the command to its end; raise an error with its log if it fails."""
        with running([self]):
            wait_for(f"the end of {self.name}", lambda: self.exit_code() is not None, timeout=timeout)
            if self.exit_code():
                self.check()


@contextmanager
def running(processes: Sequence[Process]) -> Iterator[None]:
    """Start all processes, and stop all of them when the block exits."""
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:  # all at once; below, each is waited for
            for command in process.tree()[:1]:
                with suppress(psutil.NoSuchProcess):
                    command.send_signal(signal.SIGTERM)
        for process in processes:
            process.stop()


def wait_for(what: str, probe: Callable[[], T | None], *, timeout: float, interval: float = POLL) -> T:
    """Poll until ``probe`` returns a true value."""
    deadline = time.monotonic() + timeout
    while True:
        if result := probe():
            return result
        if time.monotonic() > deadline:
            raise NotReadyError(f"{what}: not within {timeout:g} s")
        time.sleep(interval)


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
