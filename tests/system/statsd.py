"""A minimal StatsD server."""

from __future__ import annotations

import re
import socket
import threading
from typing import NamedTuple, Self


class Metric(NamedTuple):
    """One line of StatsD's protocol, with InfluxDB's tags."""

    name: str
    tags: dict[str, str]
    value: float
    kind: str


class StatsdReceiver:
    """Receive metrics while the context is active."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The kernel drops packets that do not fit while this process is not scheduled. It may grant less than this.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.bind(("127.0.0.1", 0))
        self.host, self.port = self._socket.getsockname()
        self._thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", (self.host, self.port))
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while packet := self._socket.recv(65536):
            self.lines += packet.decode(errors="replace").splitlines()

    def metrics(self, name: str, **tags: str) -> list[Metric]:
        """Return the lines received under a name with at least these tags, in order."""
        found = []
        for line in tuple(self.lines):
            if match := re.fullmatch(r"([^,:]+)((?:,[^:]*)?):([^|]+)\|(\w+).*", line):
                pairs = dict(pair.split("=", 1) for pair in match[2].split(",") if "=" in pair)
                if match[1] == name and tags.items() <= pairs.items():
                    found.append(Metric(match[1], pairs, float(match[3]), match[4]))
        return found
