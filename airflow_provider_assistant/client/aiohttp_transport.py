"""
Send requests under asyncio with aiohttp.

httpx's own connection pool slows down badly beyond about 50 connections, and httpx on aiohttp's transport spends most
of its time converting between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client.http_common import (
    COMMON_HEADERS,
    KEEPALIVE_SECONDS,
    connect_timeout,
    failure,
    open_upload,
    proxy_for,
    request_arguments,
)
from airflow_provider_assistant.client.httpx_transport import tls_context
from airflow_provider_assistant.client.response_limits import BoundedBody
from airflow_provider_assistant.client.settings import ClientSettings
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
        seconds = settings.timeout_of(call)
        try:
            with open_upload(call) as file:
                pool = self._pool()
                timeout = None if file else connect_timeout(settings) + seconds
                # The response timeout starts once the request has been sent: waiting for a pool slot or uploading a
                # file does not count.
                async with pool.slots, asyncio.timeout(timeout) as clock:
                    session = pool.upload_session if file else pool.session
                    options = request_arguments(self._settings, call, file, "data")
                    options |= {"allow_redirects": False, "trace_request_ctx": clock}
                    options["timeout"] = aiohttp.ClientTimeout(
                        sock_connect=connect_timeout(settings), sock_read=seconds
                    )
                    url = settings.base_url + call.path
                    async with session.request(call.method, url, **options) as answer:
                        encoding = answer.headers.get("content-encoding", "")
                        body = BoundedBody(settings.max_response_bytes, encoding)
                        async for piece in answer.content.iter_any():
                            if not body.feed(piece):
                                answer.close()
                                break
            return body.response(answer.status, answer.headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            interruption = _interruption(error)
            if interruption:
                raise interruption from None
            is_sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            is_timeout = isinstance(error, TimeoutError)
            return failure(settings, call, error, sent=is_sent, timed_out=is_timeout)

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
    def _tls(self) -> ssl.SSLContext:
        return tls_context(self._settings)

    def _pool(self) -> _Pool:
        if self._open_pool is None:
            import aiohttp

            max_concurrency = self._settings.max_concurrency
            connector = aiohttp.TCPConnector(
                limit=max_concurrency,
                keepalive_timeout=KEEPALIVE_SECONDS,
                ssl=self._tls,
            )
            # Read the proxy once; aiohttp itself would read the environment for every request.
            common = {"connector": connector, "proxy": proxy_for(self._settings.base_url)}
            session = self._session(**common)
            # Uploads have a separate session: tracing makes every request of a session about a tenth slower.
            upload_session = self._session(
                **common,
                connector_owner=False,
                trace_configs=[self._restarting_trace()],
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
            **options,
        )

    def _restarting_trace(self) -> aiohttp.TraceConfig:
        """Return a trace that restarts the response timeout with each part of an upload that is sent."""
        import aiohttp

        async def restart(_: Any, context: Any, __: Any) -> None:
            # If the service answers before it has read the whole upload, the timeout has already ended.
            with contextlib.suppress(RuntimeError):
                response_timeout: asyncio.Timeout = context.trace_request_ctx
                now = asyncio.get_running_loop().time()
                response_timeout.reschedule(now + self._settings.timeout)

        config = aiohttp.TraceConfig()
        config.on_request_headers_sent.append(restart)
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
