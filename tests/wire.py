"""A service on a real socket that sends scripted answers and records the requests."""

from __future__ import annotations

import functools
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.defaults import ClientDefaults
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.exceptions import AssistantError
from tests.servers import LocalServer, body_of, send

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


class ScriptedService(LocalServer):
    """Answer the requests with the scripted answers in order; the last one repeats."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__()
        self.answers = list(answers or (Answer(),))
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        return f"http://{self.host}/api/v1"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self.next(Received(request.command, request.path, headers, body_of(request)))
        time.sleep(answer.delay)
        if answer.drop:
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        send(request, answer.status, content, {"Content-Type": "application/json", **answer.headers})

    def next(self, request: Received) -> Answer:
        """Record a request, and return the answer to it."""
        with self._lock:
            self.received.append(request)
            return self.answers[min(len(self.received), len(self.answers)) - 1]


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
    return client_with(settings, now=clock.now, sleep=clock.sleep, asleep=clock.asleep)


def client_with(settings: ClientSettings, **parts: Any) -> AssistantClient:
    """Return a client with other parts than the usual ones; a transport or a generator may be given as it is."""
    for name in ("transport", "async_transport", "rng"):
        if name in parts and not callable(parts[name]):
            parts[name] = functools.partial(lambda part, *_: part, parts[name])
    return AssistantClient(settings, ClientDefaults(**parts))


@contextmanager
def refusing_port() -> Iterator[int]:
    """Hold a port that refuses connections: it is bound, so nothing else can listen on it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


class ScriptedTransport(Transport):
    """Give the outcomes to the calls in order; the last one repeats."""

    def __init__(self, outcomes: Iterable[Any]) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[Any] = []

    def exchange(self, call: Any) -> Any:
        self.sent.append(call)
        return self.outcomes[min(len(self.sent), len(self.outcomes)) - 1]

    def close(self) -> None:
        pass


class ScriptedAsyncTransport(AsyncTransport):
    """The same under asyncio."""

    def __init__(self, scripted: ScriptedTransport) -> None:
        self._scripted = scripted

    async def exchange(self, call: Any) -> Any:
        return self._scripted.exchange(call)


def error_of(call: Any, outcome: Any) -> Any:
    """Return the error that the outcome of a call is."""
    try:
        errors.reply_of(call, outcome, CallInfo(0), 1_700_000_000.0)
    except AssistantError as error:
        return error
    raise AssertionError(f"no error: {outcome}")
