"""A service on a real socket that sends scripted answers and records the requests."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport

# Response timeout in seconds, for tests of a service that never answers. The connection has to be open within this time
# as well: with 0.1 s, a busy machine turned an expected response timeout into a connection timeout.
SHORT_TIMEOUT = 1.0


@dataclass(frozen=True)
class Answer:
    """
    One scripted answer.

    :param status: HTTP status.
    :param body: A JSON value, or bytes to send as they are.
    :param headers: Further headers.
    :param drop: Read the request, then close the connection without a response.
    :param delay: Seconds before anything is sent.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    delay: float = 0.0


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedService:
    """Answer the requests with the scripted answers in order; the last one repeats."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers or (Answer(),))
        self.received: list[Received] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                body = self._body()
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = service.next(Received(self.command, self.path, headers, body))
                time.sleep(answer.delay)
                if answer.drop:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            do_GET = do_POST = do_PUT = do_DELETE = handle_one

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/api/v1"

    def next(self, request: Received) -> Answer:
        with self._lock:
            self.received.append(request)
            return self.answers[min(len(self.received), len(self.answers)) - 1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class FunctionTransport(AsyncTransport):
    """A transport without a network: a coroutine function returns the response to a call."""

    def __init__(self, answer: Callable[[Any], Awaitable[Any]]) -> None:
        self._answer = answer

    async def exchange(self, call: Any) -> Any:
        return await self._answer(call)


@dataclass
class FakeTime:
    """A clock that advances only when something waits."""

    moment: float = 1_700_000_000.0
    waited: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.moment

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.moment += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


def client_of(url: str, clock: FakeTime | None = None, *, retry: RetryPolicy | None = None, **changes: Any) -> Any:
    """Return a client of the service at this URL whose waits take no time."""
    clock = clock or FakeTime()
    settings = ClientSettings(
        url, changes.pop("api_key", "canary-key-0123456789"), retry=retry or RetryPolicy(), **changes
    )
    return AssistantClient(settings, now=clock.now, sleep=clock.sleep, asleep=clock.asleep)


@contextmanager
def refusing_port() -> Iterator[int]:
    """Hold a port that refuses connections: it is bound, so nothing else can listen on it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def drive(steps: Any, outcomes: Iterable[Any], clock: FakeTime) -> tuple[Any, list[Any]]:
    """Run a flow without a socket: each Send gets the next outcome, each Wait moves the clock."""
    from airflow_provider_assistant.api import flow

    answers = iter(outcomes)
    seen: list[Any] = []
    outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            return end.value, seen
        seen.append(step)
        outcome = next(answers) if isinstance(step, flow.Send) else None
        if isinstance(step, flow.Wait):
            clock.sleep(step.seconds)
