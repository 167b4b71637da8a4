"""The ASGI middleware for every API request: journal, latency, key, rate limit, faults.

It is plain ASGI because the framework's middleware cannot drop a connection or discard a response.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response

from airflow_provider_assistant.sandbox.actions import Action
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.tenants import KEYS, Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from airflow_provider_assistant.sandbox.service import Service

MAX_BODY = 10 * 1024 * 1024
# Seconds between two checks of whether to keep holding a request.
HOLD_POLL = 0.01
DROP_EXTENSION = "assistant.drop"
# Where a request that has passed has its key.
KEY = "assistant.key"

_PROXY_PAGE = (
    "<html><head><title>{0} Bad Gateway</title></head>"
    "<body><center><h1>{0} Bad Gateway</h1></center><hr><center>proxy</center></body></html>"
)


@dataclass(slots=True)
class BufferedReply:
    """A buffered response of the application."""

    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)

    async def send(self, message: Message) -> None:
        """Take a message of the application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message.get("headers", ()))
        else:
            self.body += message.get("body", b"")


class Gate:
    """Check and record API requests before the API handles them.

    :param prefix: beginning of the paths to check; others, such as the OpenAPI document, need no key.
    :param bearer: whether the key is in ``Authorization: Bearer`` instead of ``X-API-Key``.
    """

    def __init__(self, app: ASGIApp, service: Service, *, prefix: str = "/m2m/", bearer: bool = False) -> None:
        self._app = app
        self._service = service
        self._prefix = prefix
        self._bearer = bearer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or not path.startswith(self._prefix):
            await self._app(scope, receive, send)
            return
        self._service.in_flight += 1
        try:
            await self._serve(path, scope, receive, send)
        finally:
            self._service.in_flight -= 1

    async def _serve(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        resets_before = service.data_resets
        body, oversized = await _read_body(receive)
        key = self._key(Headers(scope=scope))
        key_name = key.name if key else None
        entry = service.journal.add(service.clock(), scope["method"], path, key_name, body)

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry.status = message["status"]
            await send(message)

        if service.settings.latency:
            await asyncio.sleep(service.settings.latency)
        try:
            admitted = self._admit(key, oversized=oversized)
        except ApiError as refusal:
            response = refusal.response(service.settings.error_format)
            await response(scope, receive, send_and_record)
            return
        scope[KEY] = admitted
        version = service.faults.version  # read first: the faults may change at any time
        entry.fault = service.faults.choose(scope["method"], path, admitted.name, body)
        receive_again = replaying(body, receive)
        action = Action.parse(entry.fault) if entry.fault else None
        # A delayed or held request is served afterwards, as if it had no fault.
        if action and action.kind == "delay":
            await asyncio.sleep(action.number)
            action = None
        elif action and action.kind == "hold":
            await self._wait_for_change(version)
            action = None
        if service.data_resets != resets_before:
            # Otherwise it could create something in the new data.
            await _drop(scope, receive_again)
        elif action is None:
            await self._app(scope, receive_again, send_and_record)
        else:
            await self._misbehave(action, scope, receive_again, send_and_record)

    def _key(self, headers: Headers) -> Key | None:
        if self._bearer:
            return KEYS.get(headers.get("authorization", "").removeprefix("Bearer "))
        return KEYS.get(headers.get("x-api-key", ""))

    def _admit(self, key: Key | None, *, oversized: bool) -> Key:
        if key is None:
            header = "Authorization" if self._bearer else "X-API-Key"
            raise ApiError(401, f"The {header} header is missing or its key is not known.")
        wait = self._service.rate.wait(key.name, self._service.settings, self._service.clock())
        if wait:
            pause = max(1, math.ceil(wait))
            raise ApiError(429, "Too many requests.", code="rate_limited", retry_after=pause)
        if oversized:
            raise ApiError(400, f"The body exceeds {MAX_BODY} bytes.", code="body_too_large")
        return key

    async def _misbehave(self, action: Action, scope: Scope, receive: Receive, send: Send) -> None:
        reply = BufferedReply()
        if action.stores:
            await self._app(scope, receive, reply.send)
        number = int(action.number)
        error_format = self._service.settings.error_format
        match action.kind:
            case "drop":
                await _drop(scope, receive)
            case "empty":
                await Response(status_code=reply.status)(scope, receive, send)
            case "truncate":
                start = {"status": reply.status, "headers": reply.headers}
                await send({"type": "http.response.start", **start})
                half = bytes(reply.body[: len(reply.body) // 2])
                await send({"type": "http.response.body", "body": half, "more_body": True})
                await _drop(scope, receive)
            case "html":
                await HTMLResponse(_PROXY_PAGE.format(number), number)(scope, receive, send)
            case "retry-after":
                refusal = ApiError(429, "Too many requests.", retry_after=number)
                await refusal.response(error_format)(scope, receive, send)
            case _:
                refusal = ApiError(number, "This failure was asked for.", code="injected_fault")
                await refusal.response(error_format)(scope, receive, send)

    async def _wait_for_change(self, version: int) -> None:
        """Wait until the faults are changed or reset, possibly by another thread."""
        while self._service.faults.version == version:  # noqa: ASYNC110 (an event would belong to one loop)
            await asyncio.sleep(HOLD_POLL)


async def _read_body(receive: Receive) -> tuple[bytes, bool]:
    """Return the body, and whether it exceeds the maximum size."""
    body = bytearray()
    size = 0
    while True:
        message = await receive()
        chunk = message.get("body", b"")
        size += len(chunk)
        # An oversized body is read to its end, so that the client gets the refusal, but not kept.
        if size <= MAX_BODY:
            body += chunk
        if not message.get("more_body", False):
            return bytes(body), size > MAX_BODY


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` callable that repeats a body that was already read, then continues with later messages."""
    pending = [body]

    async def replay() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return replay


async def _drop(scope: Scope, receive: Receive) -> None:
    """Close the connection without a response."""
    drop = cast("Callable[[], None] | None", scope.get("extensions", {}).get(DROP_EXTENSION))
    if drop is None:
        raise ConnectionResetError("The service dropped the connection.")
    drop()
    while (await receive())["type"] != "http.disconnect":
        pass
