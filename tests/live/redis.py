"""A Redis server for tests: the installed one."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path

from tests.live.process import WAIT, Process, free_port, wait_for


class RedisServer:
    """
    A server on the loopback interface that keeps its data over a restart, as a broker must.

    :param home: folder of its data and its log
    """

    def __init__(self, home: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise FileNotFoundError("no Redis: run `make redis` as root, or install Debian's redis-server")
        self.port = free_port()
        self._process = Process(
            "redis",
            [
                *(program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(home)),
                *("--appendonly", "yes", "--save", ""),
            ],
            env=os.environ,
            cwd=home,
            log=home / "redis.log",
        )

    @property
    def url(self) -> str:
        """The URL of the first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server, and return once it has read its data."""
        self._process.cwd.mkdir(parents=True, exist_ok=True)
        self._process.start()
        wait_for("Redis", self._ready, timeout=WAIT)

    def stop(self, *, kill: bool = False) -> None:
        """Stop the server, with SIGTERM or SIGKILL."""
        self._process.stop(kill=kill)

    def _ready(self) -> bool:
        self._process.check()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False
