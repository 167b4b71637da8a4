"""
Send requests under asyncio with aiohttp.

httpx's own connection pool slows down badly beyond about 50 connections, and httpx on aiohttp's transport spends most
of its time converting between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client.http_common import (
    COMMON_HEADERS,
    KEEPALIVE_SECONDS,
    connect_timeout,
    failure,
    open_upload,
    refused_by_proxy,
    request_arguments,
)
from airflow_provider_assistant.client.proxies import Proxy, proxy_for
from airflow_provider_assistant.client.response_head import MAX_HEAD_BYTES, HeadReader, HeadTooLargeError
from airflow_provider_assistant.client.response_limits import BoundedBody
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.tls import client_tls_context, renew_client_certificate
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import aiohttp


@dataclass(slots=True)
class _Pool:
    """Open connections; uploads share them, but have a session whose trace restarts the response timeout."""

    slots: asyncio.Semaphore
    session: aiohttp.ClientSession
    upload_session: aiohttp.ClientSession


@dataclass(slots=True)
class _Attempt:
    """
    How far the request of this task has got.

    :param clock: The timeout: first of the connection, then of the response.
    :param seconds: Response timeout.
    :param sent: Whether the connection stands, so that the service may have received the request.
    """

    clock: asyncio.Timeout
    seconds: float
    sent: bool = False

    def restart_clock(self) -> None:
        # If the service answers before it has read the whole upload, the timeout has already ended.
        with contextlib.suppress(RuntimeError):
            self.clock.reschedule(asyncio.get_running_loop().time() + self.seconds)


# None while the request waits for a slot of the pool.
_attempt: ContextVar[_Attempt | None] = ContextVar("attempt", default=None)


class AiohttpTransport(AsyncTransport):
    """
    Send requests with aiohttp. Use it in one event loop at a time, and close it before using it in another.

    :param settings: Settings of the client.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._open_pool: _Pool | None = None

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Send a call once, see :meth:`.AsyncTransport.exchange`."""
        import aiohttp

        settings = self._settings
        attempt: _Attempt | None = None
        _attempt.set(None)
        try:
            with open_upload(call) as file:
                pool = self._pool()
                # Waiting for a slot of the pool does not count.
                async with pool.slots, asyncio.timeout(connect_timeout(settings)) as clock:
                    attempt = _Attempt(clock, settings.timeout_of(call))
                    _attempt.set(attempt)
                    session = pool.upload_session if file else pool.session
                    options = self._request_arguments(call, file)
                    url = settings.base_url + call.path
                    async with session.request(call.method, url, **options) as answer:
                        encoding = answer.headers.get("content-encoding", "")
                        body = BoundedBody(settings.max_response_bytes, encoding)
                        async for piece in answer.content.iter_any():
                            if not body.feed(piece):
                                answer.close()
                                break
            response = body.response(answer.status, answer.headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            interruption = _interruption(error)
            if interruption:
                raise interruption from None
            is_tunnelled = settings.base_url.startswith("https:")
            is_connected_to_proxy = not isinstance(error, aiohttp.ClientConnectorError)
            connect_status = None
            if isinstance(error, aiohttp.ClientHttpProxyError):
                connect_status = error.status
            renew_client_certificate(self._tls, settings)
            return failure(
                settings,
                self._proxy,
                call,
                error,
                sent=attempt is not None and attempt.sent,
                timed_out=isinstance(error, TimeoutError),
                tunnel_failed=is_tunnelled and is_connected_to_proxy,
                connect_status=connect_status,
            )
        return refused_by_proxy(settings, self._proxy, response) or response

    def _request_arguments(self, call: Call[Any], file: BinaryIO | None) -> dict[str, Any]:
        options = request_arguments(self._settings, call, file, "data")
        options["allow_redirects"] = False
        if self._proxy:
            options["proxy"] = self._proxy.url
            options["proxy_headers"] = self._proxy.headers
            if self._settings.base_url.startswith("http:"):
                # Without a tunnel, the proxy reads the request itself.
                options["headers"] |= self._proxy.headers
        return options

    def has_sent(self) -> bool:
        """Return whether the last request of this task had a connection, so that the service may have received it."""
        attempt = _attempt.get()
        return attempt is not None and attempt.sent

    def use_key(self, api_key: str) -> None:
        """Send another API key from now on."""
        self._settings = replace(self._settings, api_key=api_key)

    def prepare(self) -> None:
        """Import aiohttp and read the certificates."""
        import aiohttp  # noqa: F401

        _ = self._tls

    async def close(self) -> None:
        """Close the connections."""
        pool = self._open_pool
        # A later request opens a new pool, also if closing this one fails.
        self._open_pool = None
        if pool:
            await pool.upload_session.close()
            await pool.session.close()

    @cached_property
    def _proxy(self) -> Proxy | None:
        return proxy_for(self._settings.base_url)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return client_tls_context(self._settings, self._proxy)

    def _pool(self) -> _Pool:
        if self._open_pool is None:
            import aiohttp

            class Connector(aiohttp.TCPConnector):
                async def connect(self, *args: Any, **options: Any) -> Any:
                    """Return a connection, whose tunnel and TLS stand, for the request of this task."""
                    connection = await super().connect(*args, **options)
                    if attempt := _attempt.get():
                        attempt.sent = True
                        attempt.restart_clock()
                    return connection

            max_concurrency = self._settings.max_concurrency
            loop = asyncio.get_running_loop()
            connector = Connector(
                limit=max_concurrency,
                keepalive_timeout=KEEPALIVE_SECONDS,
                ssl=self._tls,
            )
            # aiohttp has no public way to say how a response is read.
            connector._factory = functools.partial(_response_handler(), loop=loop)  # noqa: SLF001
            session = self._session(connector=connector)
            # Uploads have a separate session: tracing makes every request of a session about a tenth slower.
            upload_session = self._session(
                connector=connector,
                connector_owner=False,
                trace_configs=[_restarting_trace()],
            )
            self._open_pool = _Pool(
                slots=asyncio.Semaphore(max_concurrency),
                session=session,
                upload_session=upload_session,
            )
        return self._open_pool

    def _session(self, **options: Any) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            headers=COMMON_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            # The clock of the attempt is the only timeout.
            timeout=aiohttp.ClientTimeout(),
            # The size of the whole head is limited, see `_response_handler`.
            max_line_size=2 * MAX_HEAD_BYTES,
            max_field_size=2 * MAX_HEAD_BYTES,
            max_headers=MAX_HEAD_BYTES,
            **options,
        )


@functools.cache
def _response_handler() -> Any:
    """Return the class that reads responses, with heads of the same size and form as httpx."""
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    class Handler(ResponseHandler):
        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            super().__init__(loop)
            self._reader = HeadReader()

        def set_response_params(self, **params: Any) -> None:
            # Called before each request.
            self._reader.start()
            super().set_response_params(**params)

        def data_received(self, data: bytes) -> None:
            try:
                data = self._reader.feed(data)
            except HeadTooLargeError as error:
                self.set_exception(aiohttp.ClientPayloadError(str(error)))
                if self.transport is not None:
                    self.transport.close()
                return
            if data:
                super().data_received(data)

    return Handler


def _restarting_trace() -> aiohttp.TraceConfig:
    """Return a trace that restarts the response timeout with each part of an upload that is sent."""
    import aiohttp

    async def restart(*_: Any) -> None:
        if attempt := _attempt.get():
            attempt.restart_clock()

    config = aiohttp.TraceConfig()
    config.on_request_chunk_sent.append(restart)
    return config


def _interruption(error: BaseException) -> BaseException | None:
    """
    Return the exception inside an aiohttp error that did not come from the connection, or None.

    A signal handler may raise while aiohttp parses a response, and an upload may raise while its file is read.
    aiohttp wraps both in its own errors.
    """
    cause: BaseException | None = error
    while isinstance(cause, Exception) and not isinstance(cause, AssistantInputError):
        cause = cause.__cause__
    if isinstance(cause, asyncio.CancelledError):
        # It comes from the timeout itself, not from an interruption.
        return None
    return cause
