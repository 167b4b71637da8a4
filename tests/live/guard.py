"""Run a command and end all its processes when the owner ends.

Airflow's processes leave their process group and outlive their parents, so killing the group is not enough. The guard
adopts orphaned descendants and reads a pipe from its owner. When the pipe closes, because the owner has ended or was
killed, the guard ends the command and its descendants.

Run as ``python guard.py GRACE COMMAND…``. On the pipe, end of file asks for SIGTERM and, ``GRACE``
seconds later, SIGKILL; a byte asks for SIGKILL at once.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PR_SET_CHILD_SUBREAPER = 36
POLL = 0.05
# Signals such as Ctrl-C are for the owner; the guard detects the owner's end by the pipe.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def spawn(command: Sequence[str]) -> int:
    """Start a command that does not inherit the owner's pipe, and return its process id."""
    null = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0)]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=actions, setsigdef=IGNORED)
    os.close(null)
    return pid


class Guard:
    """The command and its descendants.

    :param start: starts the command, and returns its process id
    """

    def __init__(self, start: Callable[[], int]) -> None:
        self._ended = self._ends_of_children()
        self.pid = start()
        self.exit_code: int | None = None

    @staticmethod
    def _ends_of_children() -> int:
        """Return a pipe that can be read after a child has ended."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        return reader

    def reap(self) -> None:
        """Reap ended processes, and store the command's exit status."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.pid:
                    self.exit_code = os.waitstatus_to_exitcode(ended[1])

    def watch(self) -> bytes | None:
        """Wait until the command ends (None) or the owner sends a byte or closes the pipe."""
        while self.exit_code is None:
            if 0 in select.select([0, self._ended], [], [])[0]:
                return os.read(0, 1)
            os.read(self._ended, 4096)
            self.reap()
        return None

    def terminate(self, grace: float) -> None:
        """Send SIGTERM to the command and wait for its end."""
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.exit_code is None and time.monotonic() < deadline:
            time.sleep(POLL)
            self.reap()

    def kill(self) -> None:
        """Kill all remaining descendants, including those started in the meantime."""
        while descendants := psutil.Process().children(recursive=True):
            for process in descendants:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self.reap()
            time.sleep(POLL / 10)


def watch_over(start: Callable[[], int], grace: float) -> int:
    """Start the command, wait until it and all its descendants have ended, and return its exit code."""
    for ignored in IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    adopt_orphans()
    guard = Guard(start)
    if guard.watch() == b"":
        guard.terminate(grace)
    guard.kill()
    code = guard.exit_code
    return 0 if code is None else code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(watch_over(lambda: spawn(sys.argv[2:]), float(sys.argv[1])))
