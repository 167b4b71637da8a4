"""A scripted service on a virtual clock."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport

SECRET = "canary-91f0c4e2b7a8"


@dataclass(frozen=True)
class Answer:
    """
    The service's handling of one request.

    :param status: HTTP status of the response; 0 if the connection breaks.
    :param body: Kind of the body: ``id`` acknowledges a document, other kinds are faulty.
    :param identifier: Id in the body, if it has one.
    :param retry_after: Value of the Retry-After header; None to omit it.
    :param latency: Seconds until the response; may exceed the client's timeout.
    :param stores: Whether the document is created in spite of a 5xx or a missing response.
    :param refuses: With status 0, whether the connection is refused.
    """

    status: int = 201
    body: Literal["id", "empty", "page", "truncated", "list", "number", "deep", "large", "secret"] = "id"
    identifier: str | int | None = "d"
    retry_after: str | None = None
    latency: float = 0.01
    stores: bool = False
    refuses: bool = False

    @property
    def is_carried_out(self) -> bool:
        """Whether the request creates the document."""
        if self.refuses or 300 <= self.status < 500:
            return False  # a refused request has no effect
        return self.stores or 200 <= self.status < 300


WELL = Answer()


class Killed(BaseException):
    """The process was killed."""


@dataclass
class Service(AsyncTransport):
    """
    Handle requests one by one.

    :param answers: Responses to the first requests.
    :param then: Response to all later requests.
    :param timeout: Response timeout of the client, in seconds.
    :param most: Maximum number of requests; one more breaks a promise.
    :param on_request: Called with the number of every request, from 0, once it has arrived.
    :param on_half: Called with the number of every upload, from 0, once half of its content has arrived.
    :param check_alive: Raises an error if the process was killed.
    """

    answers: Sequence[Answer]
    then: Answer = WELL
    timeout: float = 30.0
    most: float = math.inf
    on_request: Callable[[int], None] = lambda _: None
    on_half: Callable[[int], None] = lambda _: None
    check_alive: Callable[[], None] = lambda: None
    received: int = 0
    in_flight: int = 0
    documents: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Answer one request."""
        self.check_alive()
        number = self.received
        title = self._title(number, call)
        self.received += 1
        assert number < self.most, "the number of requests is bounded"
        answer = self.answers[number] if number < len(self.answers) else self.then
        self.in_flight += 1
        try:
            return await self._answered(number, answer, title)
        finally:
            self.in_flight -= 1

    def _title(self, number: int, call: Call[Any]) -> str | None:
        """Return the identity of the document; None for a file of which only a part arrives."""
        if call.upload is None:
            return str((call.json or {})["title"])
        with call.upload.open() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            content = file.read(size // 2)
            self.on_half(number)
            while piece := file.read(size):
                content += piece
        title = title_of(content)
        assert self.names.setdefault(call.upload.filename, title) == title, "different files have different names"
        return title if len(content) == size else None

    async def _answered(self, number: int, answer: Answer, title: str | None) -> Response | TransportFailure:
        if answer.is_carried_out and title is not None:
            self.documents[title] += 1
        self.on_request(number)
        await asyncio.sleep(min(answer.latency, self.timeout))
        if title is None:
            return TransportFailure("connection", "broken off", sent=True)
        if answer.refuses:
            return TransportFailure("connection", "refused", sent=False)
        if answer.status == 0:
            return TransportFailure("connection", "broken off", sent=True)
        if answer.latency >= self.timeout:
            return TransportFailure("timeout", f"no answer within {self.timeout:g} s", sent=True)
        headers = {} if answer.retry_after is None else {"retry-after": answer.retry_after}
        return Response(answer.status, headers, body_of(answer))


def title_of(content: bytes) -> str:
    """Return the identity of a file's document: the first word of its content, and its size."""
    return f"{content.split(b' ', 1)[0].decode()} ({len(content)} bytes)"


def body_of(answer: Answer) -> bytes:
    """Return the body of an answer."""
    match answer.body:
        case "id":
            return json.dumps({"document_id": answer.identifier, "error": "odd"}).encode("utf-8", "surrogatepass")
        case "empty":
            return b""
        case "page":
            return b"<html><title>Maintenance</title>"
        case "truncated":
            return b'{"document_id": "d'
        case "list":
            return b"[1, null]"
        case "number":
            return b"1e400"
        case "deep":
            return b"[" * 5000
        case "large":
            return b'"' + b"x" * 200_000 + b'"'
        case "secret":
            return json.dumps({"error": f"the key {SECRET} is wrong"}).encode()


class Client(AssistantClient):
    """
    A client whose requests go to a service in this process.

    :param service: The service.
    :param retries: Maximum number of retries per request.
    :param now: Returns seconds since the epoch.
    """

    def __init__(self, service: Service, retries: int, now: Callable[[], float]) -> None:
        rule = flow.RetryPolicy(retries + 1)
        settings = ClientSettings("http://assistant.test/api/v1", SECRET, service.timeout, rule)
        super().__init__(settings, async_transport=service, now=now)
