"""
A trivial service in a separate process: it reads a request, counts it, and answers 201.

Statistics of a site never change. Async chats get their answers over some time; for each, the service
records when its answer was ready and when a poll first returned it.

``python -m tests.benchmarks.service PORT`` serves; :func:`served` starts it for a ``with`` block.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
import tempfile
import time
import urllib.request
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import pin
from tests.live.environment import ROOT
from tests.live.process import WAIT, Process, free_port, running, wait_for

# Appended to every answer to give it a realistic length.
_FILLER = " ".join(["and this is what the assistant knows about it."] * 20)

# Number of metrics per site.
METRICS = 200


def question(number: int) -> str:
    """Return the message of a question."""
    return f"How does number {number} work?"


def answer(message: str) -> str:
    """Return the answer to a message."""
    return f"You asked: {message} {_FILLER}"


def statistics() -> dict[str, Any]:
    """Return the statistics of a site: ``METRICS`` values, ten per object, nine of ten a number."""
    groups: dict[str, Any] = {"period": "2026-11"}
    for number in range(METRICS - 1):
        value = f"plan-{number}" if number % 10 == 0 else number * 1.5
        groups.setdefault(f"group_{number // 10}", {})[f"metric_{number}"] = value
    return groups


def request_id(number: int) -> str:
    """Return the id of a request by its position in the order of submission, from 0."""
    return f"request-{number}"


@dataclass
class Limit:
    """A token bucket."""

    rate: float
    bucket: float
    tokens: float = 0.0
    at: float = 0.0

    def retry_after(self) -> int | None:
        """Take a token, or return the whole seconds to wait for one."""
        now = time.monotonic()
        self.tokens = min(self.bucket, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return None
        return max(1, math.ceil((1.0 - self.tokens) / self.rate))


@dataclass(slots=True)
class Asked:
    """
    An async chat.

    :param message: The question.
    :param ready: Time when its answer is ready, in seconds since the epoch.
    :param polls: Number of polls.
    :param noticed: Time when a poll first returned its answer, in seconds since the epoch.
    """

    message: str
    ready: float
    polls: int = 0
    noticed: float | None = None


@dataclass
class State:
    """The behaviour of the service, and its counts by API key."""

    delay: float = 0.0
    limit: Limit | None = None
    # Seconds over which answers become ready, evenly distributed.
    spread: float = 0.0
    created: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    # Times of the accepted requests since the last reset.
    moments: deque[float] = field(default_factory=deque)
    asked: dict[str, Asked] = field(default_factory=dict)
    closed: int = 0
    most_connections: int = 0

    def ask(self, message: str) -> str:
        """Accept a question, and return the id of its request."""
        name = request_id(len(self.asked))
        share = zlib.crc32(name.encode()) / 2**32
        self.asked[name] = Asked(message, time.time() + self.spread * share)
        return name


class App:
    """The ASGI application."""

    def __init__(self) -> None:
        self.state = State()
        # Open connections of the server.
        self.connections: set[Any] = set()
        self._statistics = json.dumps(statistics()).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["path"].startswith("/control/"):
            await _answer(send, 200, self._control(scope["path"], body))
            return
        await self._serve(scope, body, send)

    async def _serve(self, scope: Any, body: bytes, send: Any) -> None:
        state, path = self.state, scope["path"]
        key = next((value.decode() for name, value in scope["headers"] if name == b"x-api-key"), "")
        if state.limit and (wait := state.limit.retry_after()) is not None:
            state.refused[key] += 1
            await _answer(send, 429, b"{}", (b"retry-after", str(wait).encode()))
            return
        if state.delay:
            await asyncio.sleep(state.delay)
        if path.endswith("/statistics"):
            await _answer(send, 200, self._statistics)
            return
        if "/chat/" in path:
            state.most_connections = max(state.most_connections, len(self.connections))
            await _answer(send, *_chat(state, path, body))
            return
        state.created[key] += 1
        if state.limit:
            state.moments.append(time.monotonic())
        await _answer(send, 201, b'{"id": "%d"}' % state.created[key])

    def _control(self, path: str, body: bytes) -> bytes:
        state = self.state
        if path == "/control/reset":
            wanted = json.loads(body or b"{}")
            limit = wanted.get("limit")
            self.state = State(
                wanted.get("delay", 0.0),
                Limit(limit["rate"], limit["bucket"], limit["bucket"], time.monotonic()) if limit else None,
                wanted.get("spread", 0.0),
            )
            for number in range(wanted.get("outstanding", 0)):
                self.state.ask(question(number))
            return b"{}"
        if path == "/control/chats":
            asked = state.asked.values()
            return json.dumps(
                {
                    "messages": [one.message for one in asked],
                    "ready": [one.ready for one in asked],
                    "polls": [one.polls for one in asked],
                    "noticed": [one.noticed for one in asked],
                    "closed": state.closed,
                    "connections": state.most_connections,
                }
            ).encode()
        return json.dumps({"created": state.created, "refused": state.refused, "moments": [*state.moments]}).encode()


def _chat(state: State, path: str, body: bytes) -> tuple[int, bytes]:
    """Answer ``POST …/chat/async``, ``GET …/chat/requests/{request_id}`` and ``POST …/chat/session/close``."""
    last = path.rpartition("/")[2]
    if last == "async":
        return 201, b'{"request_id": "%s"}' % state.ask(json.loads(body)["message"]).encode()
    if last == "close":
        state.closed += 1
        return 200, b"{}"
    asked = state.asked.get(last)
    if asked is None:
        return 404, b"{}"
    asked.polls += 1
    now = time.time()
    if now < asked.ready:
        return 200, b'{"request_id": "%s", "status": "processing"}' % last.encode()
    asked.noticed = asked.noticed or now
    ended = {"request_id": last, "status": "complete", "result": {"answer": answer(asked.message)}}
    return 200, json.dumps(ended).encode()


async def _answer(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True)
class Chats:
    """
    The chats that the service has received. The lists have one entry per chat.

    :param messages: The questions.
    :param ready: Times when the answers were ready, in seconds since the epoch.
    :param polls: Number of polls.
    :param noticed: Times when a poll first returned the answer, or None.
    :param closed: Number of closed sessions.
    :param connections: Maximum number of open connections.
    """

    messages: list[str]
    ready: list[float]
    polls: list[int]
    noticed: list[float | None]
    closed: int
    connections: int

    def delays(self, count: int) -> list[float]:
        """
        Return the seconds between each answer becoming ready and the poll that returned it.

        :param count: Expected number of chats. Each must be unique and have been returned by a poll.
        """
        noticed = [moment for moment in self.noticed if moment]
        if not len(set(self.messages)) == len(self.messages) == len(noticed) == count:
            raise RuntimeError(f"of {count} questions {len(self.messages)} were submitted, {len(noticed)} noticed")
        return [moment - ready for ready, moment in zip(self.ready, noticed, strict=True)]

    @property
    def polls_each(self) -> float:
        """Mean number of polls per chat."""
        return sum(self.polls) / len(self.polls)


@dataclass(frozen=True)
class Service:
    """The service as its clients see it."""

    root: str

    @property
    def api(self) -> str:
        """URL of the versioned API root."""
        return f"{self.root}/api/v1"

    @property
    def documents(self) -> str:
        """URL for creating documents."""
        return f"{self.api}/m2m/sites/bench/documents/qa"

    @property
    def chats(self) -> str:
        """Prefix of the URLs of chats."""
        return f"{self.api}/m2m/sites/bench/chat"

    def statistics(self, site_id: str) -> str:
        """Return the URL of the statistics of a site."""
        return f"{self.api}/m2m/sites/{site_id}/statistics"

    def reset(
        self,
        delay: float = 0.0,
        limit: dict[str, float] | None = None,
        *,
        spread: float = 0.0,
        outstanding: int = 0,
    ) -> None:
        """
        Reset the counts and configure the service.

        :param delay: Latency of each reply in seconds.
        :param limit: Rate and bucket of a token bucket.
        :param spread: Seconds over which chats become ready, evenly distributed.
        :param outstanding: Number of chats to create as if they were just submitted.
        """
        wanted = {"delay": delay, "limit": limit, "spread": spread, "outstanding": outstanding}
        self._ask("reset", json.dumps(wanted).encode())

    def seen(self) -> dict[str, Any]:
        """Return the counts since the last reset."""
        return json.loads(self._ask("seen", b"{}"))

    def created(self) -> int:
        """Return the number of documents created since the last reset."""
        return sum(self.seen()["created"].values())

    def asked(self) -> Chats:
        """Return the chats submitted since the last reset, in order of submission."""
        return Chats(**json.loads(self._ask("chats", b"{}")))

    def _ask(self, what: str, body: bytes) -> bytes:
        with urllib.request.urlopen(f"{self.root}/control/{what}", data=body, timeout=30) as answer:
            return answer.read()


@contextlib.contextmanager
def served() -> Iterator[Service]:
    """Run the service."""
    port = free_port()
    command = [sys.executable, "-m", "tests.benchmarks.service", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        process = Process("the service", command, env=os.environ, cwd=ROOT, log=Path(folder) / "log")
        service = Service(f"http://127.0.0.1:{port}")

        def answers() -> bool:
            process.check()
            with contextlib.suppress(OSError):
                service.reset()
                return True
            return False

        with running([process]):
            wait_for("the service", answers, timeout=WAIT, interval=0.05)
            yield service


if __name__ == "__main__":
    import uvicorn

    pin(1)
    application = App()
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            host="127.0.0.1",
            port=int(sys.argv[1]),
            log_level="warning",
            access_log=False,
            lifespan="off",
        )
    )
    application.connections = server.server_state.connections
    server.run()
