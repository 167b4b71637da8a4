"""
Send requests under asyncio with aiohttp.

httpx's own connection pool slows down badly beyond about 50 connections, and httpx on aiohttp's transport spends most
of its time converting between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api.call import Call, Response
from airflow_provider_assistant.client.connection_errors import HEAD_TOO_LARGE, MAX_HEAD_BYTES, failure
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import (
    COMMON_HEADERS,
    KEEPALIVE_SECONDS,
    AsyncTransport,
    BoundedBody,
    HttpLibrary,
    UploadForm,
)
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError

if TYPE_CHECKING:
    import aiohttp


@dataclass(slots=True)
class _Attempt:
    """
    How far the request of this task has got.

    :param clock: The timeout: first of the connection, then of the response.
    :param seconds: Response timeout.
    :param is_sent: Whether the connection stands, so that the service may have received the request.
    """

    clock: asyncio.Timeout
    seconds: float
    is_sent: bool = False

    def restart_clock(self) -> None:
        # If the service answers before it has read the whole upload, the timeout has already ended.
        with contextlib.suppress(RuntimeError):
            self.clock.reschedule(asyncio.get_running_loop().time() + self.seconds)


_attempt: ContextVar[_Attempt] = ContextVar("attempt")


class AiohttpTransport(HttpLibrary, AsyncTransport):
    """Send requests with aiohttp. Use it in one event loop at a time, and close it before using it in another."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings)
        self._session: aiohttp.ClientSession | None = None

    async def exchange(self, call: Call[Any]) -> Response | AssistantError:
        """Send a call once, see :meth:`.Transport.exchange`."""
        import aiohttp

        settings = self._settings
        session = self._session = self._session or self._opened()
        attempt = None
        try:
            async with asyncio.timeout(settings.connect_timeout) as clock:
                attempt = _Attempt(clock, settings.timeout_of(call))
                _attempt.set(attempt)
                with contextlib.ExitStack() as stack:
                    options = self._options(call, attempt, stack)
                    url = settings.base_url + call.path
                    async with session.request(call.method, url, allow_redirects=False, **options) as answer:
                        # A header may have several lines, such as one for each Link.
                        names = {name.lower() for name in answer.headers}
                        headers = {name: ", ".join(answer.headers.getall(name)) for name in names}
                        body = BoundedBody(settings.max_response_bytes, headers.get("content-encoding", ""))
                        async for piece in answer.content.iter_any():
                            if not body.feed(piece):
                                answer.close()
                                break
        except (aiohttp.ClientError, TimeoutError) as error:
            if interruption := _interruption(error):
                raise interruption from None
            return failure(
                error,
                call,
                settings,
                self._proxy,
                sent=attempt is not None and attempt.is_sent,
                timed_out=isinstance(error, TimeoutError),
                connect_status=error.status if isinstance(error, aiohttp.ClientHttpProxyError) else None,
            )
        return body.response(answer.status, headers)

    def _options(self, call: Call[Any], attempt: _Attempt, stack: contextlib.ExitStack) -> dict[str, Any]:
        """Return headers, body and proxy of a request; the stack closes the file of an upload."""
        headers = {"X-API-Key": self._settings.api_key}
        options: dict[str, Any] = {"headers": headers, "json": call.json}
        if call.upload:
            form = UploadForm(stack.enter_context(call.upload.open()), call.upload)
            headers.update(form.headers)
            options["data"] = _pieces(form, attempt)
        if self._proxy:
            options["proxy"] = self._proxy.url
            options["proxy_headers"] = self._proxy.headers
            if self._settings.base_url.startswith("http:"):
                # Without a tunnel, the proxy reads the request itself.
                headers.update(self._proxy.headers)
        return options

    def prepare(self) -> None:
        """Import aiohttp and read the certificates."""
        import aiohttp  # noqa: F401

        _ = self._tls

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        connector_class, response_handler = _own_classes()
        # The throttle limits how many requests are in flight. Waiting here would count as connecting.
        connector = connector_class(limit=0, keepalive_timeout=KEEPALIVE_SECONDS, ssl=self._tls)
        # aiohttp has no public way to say how a response is read.
        connector._factory = functools.partial(response_handler, loop=asyncio.get_running_loop())  # noqa: SLF001
        return aiohttp.ClientSession(
            connector=connector,
            headers=COMMON_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            # The clock of the attempt is the only timeout.
            timeout=aiohttp.ClientTimeout(),
            # The response handler limits the size of all headers together.
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
            max_headers=MAX_HEAD_BYTES,
        )


async def _pieces(form: UploadForm, attempt: _Attempt) -> AsyncIterator[bytes]:
    """Read a file in a thread; the response timeout starts when its last piece is sent."""
    pieces = iter(form)
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece
        attempt.restart_clock()


@functools.cache
def _own_classes() -> tuple[Any, Any]:
    """Return our connector and our response handler; importing aiohttp takes long."""
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *args: Any, **options: Any) -> Any:
            """Return a connection, whose tunnel and TLS stand, for the request of this task."""
            connection = await super().connect(*args, **options)
            attempt = _attempt.get()
            attempt.is_sent = True
            attempt.restart_clock()
            return connection

    class Handler(ResponseHandler):
        """Limit the head of a response as httpx does, and read one that has the same Content-Length twice."""

        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            super().__init__(loop)
            self._head: bytes | None = None

        def set_response_params(self, **params: Any) -> None:
            # Called before each request.
            self._head = b""
            super().set_response_params(**params)

        def data_received(self, data: bytes) -> None:
            if self._head is None:
                super().data_received(data)
                return
            received = self._head + data
            while interim := _INTERIM.match(received):
                received = received[interim.end() :]
            if not b"HTTP/".startswith(received[:5]) or _END_OF_HEAD.search(received):
                self._head = None
                super().data_received(_with_one_length(received))
                return
            self._head = received
            if len(received) > MAX_HEAD_BYTES:
                self.set_exception(aiohttp.ClientPayloadError(HEAD_TOO_LARGE))
                if self.transport is not None:
                    self.transport.close()

    return Connector, Handler


# The response follows, such as after 100 Continue.
_INTERIM = re.compile(rb"HTTP/\d\.\d 1\d\d\b.*?\r?\n\r?\n", re.DOTALL)
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length[ \t]*:([^\r\n]*)\r?\n", re.IGNORECASE | re.MULTILINE)


def _with_one_length(data: bytes) -> bytes:
    """Return the beginning of a response with one Content-Length, if it has several that are equal."""
    end = _END_OF_HEAD.search(data)
    size = end.end() if end else 0
    head, body = data[:size], data[size:]
    # A line may have several, separated by commas.
    lengths = [length.strip() for length in b",".join(_LENGTH.findall(head)).split(b",")]
    if len(lengths) == 1 or len(set(lengths)) > 1:
        return data
    status_line, newline, other_fields = _LENGTH.sub(b"", head).partition(b"\n")
    return status_line + newline + b"Content-Length: " + lengths[0] + b"\r\n" + other_fields + body


def _interruption(error: BaseException) -> BaseException | None:
    """
    Return the exception inside an aiohttp error that did not come from the connection, or None.

    A signal handler may raise while aiohttp parses a response, and an upload may raise while its file is read.
    aiohttp wraps both in its own errors.
    """
    cause: BaseException | None = error
    while isinstance(cause, Exception) and not isinstance(cause, AssistantInputError):
        cause = cause.__cause__
    # A timeout comes from a cancellation.
    return None if isinstance(cause, asyncio.CancelledError) else cause
