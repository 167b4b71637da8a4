"""A service that does what a night says, on a virtual clock."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client import ClientSettings

SECRET = "canary-91f0c4e2b7a8"


@dataclass(frozen=True)
class Answer:
    """
    What the service does with one request.

    :param status: The status of its answer; 0 for none, because the connection breaks.
    :param body: What kind of body: ``id`` acknowledges a document, the others are as odd as their names.
    :param identifier: The id in the body, if the body has one.
    :param retry_after: The header as sent; None for no such header.
    :param latency: Seconds until the answer; a client gives up earlier.
    :param stores: Whether the request is carried out although there is a 5xx or no answer.
    :param refuses: With status 0: whether there is not even a connection.
    """

    status: int = 201
    body: Literal["id", "empty", "page", "truncated", "list", "number", "deep", "large"] = "id"
    identifier: str | int | None = "d"
    retry_after: str | None = None
    latency: float = 0.01
    stores: bool = False
    refuses: bool = False

    @property
    def is_carried_out(self) -> bool:
        """Whether the document exists afterwards."""
        if self.refuses or 300 <= self.status < 500:
            return False  # a refusal means what it says
        return self.stores or 200 <= self.status < 300


WELL = Answer()


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Service:
    """
    Takes requests one by one.

    :param answers: What it does with the first requests.
    :param then: What it does with all later ones.
    :param timeout: Seconds after which the client gives up.
    :param most: How many requests it takes at most; one more breaks a promise.
    :param killed_at: Number of the request, from 0, at which the client's process is killed; None for never.
    """

    answers: list[Answer]
    then: Answer = WELL
    timeout: float = 30.0
    most: float = math.inf
    killed_at: int | None = None
    is_killed: bool = False
    received: int = 0
    documents: Counter[str] = field(default_factory=Counter)

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Answer one request."""
        number, self.received = self.received, self.received + 1
        answer = self.answers[number] if number < len(self.answers) else self.then
        if self.is_killed:
            raise Killed
        assert number < self.most, "the number of requests is bounded"
        if answer.is_carried_out and call.json:
            self.documents[str(call.json["title"])] += 1
        if number == self.killed_at:
            self.is_killed = True
            raise Killed
        await asyncio.sleep(min(answer.latency, self.timeout))
        if answer.refuses:
            return TransportFailure("connection", "refused", sent=False)
        if answer.status == 0:
            return TransportFailure("connection", "broken off", sent=True)
        if answer.latency >= self.timeout:
            return TransportFailure("timeout", f"no answer within {self.timeout:g} s", sent=True)
        headers = {} if answer.retry_after is None else {"retry-after": answer.retry_after}
        return Response(answer.status, headers, body_of(answer))


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


class Client:
    """What a load needs of a client, in front of a service."""

    def __init__(self, service: Service, retries: int) -> None:
        self.settings = ClientSettings(
            "http://assistant.test/api/v1", SECRET, service.timeout, flow.RetryRule(retries + 1)
        )
        self._service = service

    def now(self) -> float:
        """Return seconds since the epoch."""
        return 1.8e9 + asyncio.get_running_loop().time()

    async def arun(self, steps: flow.Flow[Any], *, pause: Callable[[flow.Wait], Awaitable[None]] | None = None) -> Any:
        """Run a flow to its end."""
        outcome: flow.Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            outcome = None
            if isinstance(step, flow.Send):
                outcome = await self._service.exchange(step.call)
            elif isinstance(step, flow.Wait):
                await (pause(step) if pause else asyncio.sleep(step.seconds))
