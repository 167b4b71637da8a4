"""
A trivial service in a process of its own: it reads a request, counts it, and answers 201.

``python -m tests.benchmarks.service PORT`` serves; :func:`served` starts it for a ``with`` block.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.measure import pin


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


@dataclass
class State:
    """What the service does, and what it has seen, by key."""

    delay: float = 0.0
    limit: Limit | None = None
    created: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    # Moments of the accepted requests since the last reset.
    moments: deque[float] = field(default_factory=deque)


class App:
    """The ASGI application."""

    def __init__(self) -> None:
        self.state = State()

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
        await self._create(scope, send)

    async def _create(self, scope: Any, send: Any) -> None:
        state = self.state
        key = next((value.decode() for name, value in scope["headers"] if name == b"x-api-key"), "")
        if state.limit and (wait := state.limit.retry_after()) is not None:
            state.refused[key] += 1
            await _answer(send, 429, b"{}", (b"retry-after", str(wait).encode()))
            return
        if state.delay:
            await asyncio.sleep(state.delay)
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
            )
            return b"{}"
        return json.dumps({"created": state.created, "refused": state.refused, "moments": [*state.moments]}).encode()


async def _answer(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True)
class Service:
    """The service as its clients see it."""

    root: str

    @property
    def api(self) -> str:
        """Its versioned API root."""
        return f"{self.root}/api/v1"

    @property
    def documents(self) -> str:
        """Where documents are posted to."""
        return f"{self.api}/m2m/sites/bench/documents/qa"

    def reset(self, delay: float = 0.0, limit: dict[str, float] | None = None) -> None:
        """Forget what was seen, and behave like this from now on."""
        self._ask("reset", json.dumps({"delay": delay, "limit": limit}).encode())

    def seen(self) -> dict[str, Any]:
        """Return what was seen since the last reset."""
        return json.loads(self._ask("seen", b"{}"))

    def created(self) -> int:
        """Return how many documents were created since the last reset."""
        return sum(self.seen()["created"].values())

    def _ask(self, what: str, body: bytes) -> bytes:
        with urllib.request.urlopen(f"{self.root}/control/{what}", data=body, timeout=30) as answer:
            return answer.read()


@contextlib.contextmanager
def served() -> Iterator[Service]:
    """Run the service."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.service", str(port)])
    try:
        service = Service(f"http://127.0.0.1:{port}")
        for _ in range(200):
            with contextlib.suppress(OSError):
                service.reset()
                break
            time.sleep(0.05)
        else:
            raise RuntimeError("the service does not answer")
        yield service
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    import uvicorn

    pin(1)
    uvicorn.run(App(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False, lifespan="off")
