"""
A process that forks others, so that all of them share what it has imported.

Each connection to the server's socket carries the arguments of one command. The server forks its guard, and the guard
forks the command. The connection then carries the guard's process id and, at its end, the exit code.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn, Self

from tests.live.guard import IGNORED, watch_over
from tests.live.process import WAIT, Process, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# The kernel joins what is sent in two steps; numbers of a fixed size can still be told apart.
NUMBER = struct.Struct("=i")


class ForkServer:
    """The process from which commands are forked.

    :param command: starts a program that calls ``serve`` with its last argument
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> None:
        # The path of a socket has at most 107 characters.
        self._folder = tempfile.TemporaryDirectory(prefix="assistant-forks-", dir="/tmp")
        self._address = str(Path(self._folder.name) / "socket")
        self.process = Process("fork-server", [*command, self._address], env=env, cwd=cwd, log=log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        self._folder.cleanup()

    def connect(self) -> socket.socket:
        """Return a connection as soon as the server accepts it; the first one starts the server."""
        if not self.process.was_started:
            self.process.start()

        def connected() -> socket.socket | None:
            self.process.check()
            connection = socket.socket(socket.AF_UNIX)
            with suppress(FileNotFoundError, ConnectionRefusedError):
                connection.connect(self._address)
                return connection
            connection.close()
            return None

        return wait_for("the fork server", connected, timeout=WAIT)


class ForkedGuard:
    """A guard that is not a child of its owner."""

    stdout = None

    def __init__(self, connection: socket.socket, arguments: Sequence[str], grace: float, log: IO[bytes]) -> None:
        reader, writer = os.pipe()
        self.stdin: IO[bytes] = os.fdopen(writer, "wb", 0)
        self.returncode: int | None = None
        self._connection = connection
        socket.send_fds(connection, [json.dumps([grace, *arguments]).encode()], [reader, log.fileno()])
        os.close(reader)
        (self.pid,) = NUMBER.unpack(connection.recv(NUMBER.size, socket.MSG_WAITALL))

    def poll(self) -> int | None:
        """Return the exit code, or None if the guard is running."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            code = self._connection.recv(NUMBER.size, socket.MSG_WAITALL)
            # A guard that was killed sends nothing.
            self.returncode = NUMBER.unpack(code)[0] if code else 128 + signal.SIGKILL
            self._connection.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code as soon as the guard has ended."""
        if self.returncode is None:
            select.select([self._connection], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("guard", timeout or 0)
        return code


class ForkedProcess(Process):
    """A command that the server forks."""

    def __init__(self, name: str, arguments: Sequence[str], server: ForkServer, log: Path) -> None:
        super().__init__(name, arguments, env=server.process.env, cwd=server.process.cwd, log=log)
        self._server = server

    def _start_guard(self, log: IO[bytes]) -> ForkedGuard:
        return ForkedGuard(self._server.connect(), self.command, self.grace, log)


def serve(address: str, run: Callable[[list[str]], object]) -> NoReturn:
    """
    Fork a guard for each connection.

    :param run: runs the command with these arguments in a process of its own
    """
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        while True:
            connection, _ = server.accept()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not os.fork():
                server.close()
                _guard(connection, run)
            connection.close()


def _guard(connection: socket.socket, run: Callable[[list[str]], object]) -> NoReturn:
    message, files, _, _ = socket.recv_fds(connection, 65536, 2)
    grace, *arguments = json.loads(message)

    def fork() -> int:
        if pid := os.fork():
            return pid
        connection.close()
        _forget_guard()
        sys.exit(run(arguments))  # type: ignore[arg-type]

    os.setsid()  # Ctrl-C is for the owner
    for number, file in zip((0, 1, 2), (*files, files[1]), strict=True):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    connection.sendall(NUMBER.pack(os.getpid()))
    code = watch_over(fork, grace)
    connection.sendall(NUMBER.pack(code))
    os._exit(code)


def _forget_guard() -> None:
    """Restore what the guard has changed: its signals, and the owner's pipe as standard input."""
    signal.set_wakeup_fd(-1)
    for number in (*IGNORED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
