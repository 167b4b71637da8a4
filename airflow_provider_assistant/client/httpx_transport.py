"""Send synchronous requests with httpx."""

from __future__ import annotations

import contextlib
import logging
import queue
import ssl
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, BinaryIO, TypeAlias

import httpx

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
from airflow_provider_assistant.client.redaction import redactor_of
from airflow_provider_assistant.client.response_limits import BoundedBody, ResponseDeadline, ResponseDeadlineExceeded
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.tls import client_tls_context, renew_client_certificate
from airflow_provider_assistant.client.transport import Transport

_Connection: TypeAlias = tuple[httpx.Client, ResponseDeadline]
TIMED_OUT = (httpx.TimeoutException, ResponseDeadlineExceeded)

# What the log may show of the request that this thread sends; None if it sends none for this package.
_shown: ContextVar[Callable[[str], str] | None] = ContextVar("shown", default=None)


def _nothing(_: str) -> str:
    return ""


def _is_logged(record: logging.LogRecord) -> bool:
    """Change a record of httpx to what may be shown of it; drop it if that is nothing."""
    shown = _shown.get()
    if shown is None:
        return True
    record.msg, record.args = shown(record.getMessage()), ()
    return bool(record.msg)


# They log the URL of every request, and the reason and the headers of every response, which may repeat it or the key.
for _name in ("httpx", "httpcore.http11"):
    logging.getLogger(_name).addFilter(_is_logged)


class HttpxTransport(Transport):
    """
    Send requests with httpx, each thread on its own connection.

    httpx's own pool has a race: it checks a connection's state and its socket in two steps, so it may close a
    connection that another thread has just received. Therefore every connection has its own httpx client.

    :param settings: Settings of the client.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._redactor = redactor_of(settings.base_url, settings.api_key)
        # Reuse the most recently used connection, so that few stay open. None is a connection that is not open yet.
        self._connections: queue.LifoQueue[_Connection | None] = queue.LifoQueue()
        for _ in range(settings.max_concurrency):
            self._connections.put(None)

    def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Send a call once, see :meth:`.Transport.exchange`."""
        _shown.set(_nothing if call.private else self._redactor.text)
        try:
            with open_upload(call) as file, self._borrowed() as (http, deadline):
                return self._exchange(http, deadline, call, file)
        finally:
            # Other code in this thread may use httpx as well.
            _shown.set(None)

    def _exchange(
        self, http: httpx.Client, deadline: ResponseDeadline, call: Call[Any], file: BinaryIO | None
    ) -> Response | TransportFailure:
        settings = self._settings
        seconds, connect_seconds = settings.timeout_of(call), connect_timeout(settings)
        options = request_arguments(settings, call, file, "content")
        options["extensions"] = {"trace": deadline.trace}
        # The deadline limits the response; httpx also limits the reply to CONNECT as if it were one.
        pause = max(seconds, connect_seconds)
        options["timeout"] = httpx.Timeout(pause, connect=connect_seconds)
        url = settings.base_url + call.path
        try:
            with (
                deadline.within(seconds, connect_seconds),
                http.stream(call.method, url, **options) as answer,
            ):
                encoding = answer.headers.get("content-encoding", "")
                body = BoundedBody(settings.max_response_bytes, encoding)
                for piece in answer.iter_raw():
                    if not body.feed(piece):
                        break
            response = body.response(answer.status_code, answer.headers)
        except (httpx.TransportError, ResponseDeadlineExceeded) as error:
            # httpcore does not close a tunnel whose TLS failed, and would wait for it forever.
            http.close()
            renew_client_certificate(self._tls, settings)
            return failure(
                settings,
                self._proxy,
                call,
                error,
                sent=deadline.is_sent,
                timed_out=isinstance(error, TIMED_OUT),
                tunnel_failed=deadline.is_asking_proxy,
                connect_status=connect_status(error),
            )
        return refused_by_proxy(settings, self._proxy, response) or response

    def use_key(self, api_key: str) -> None:
        """Send another API key from now on."""
        self._redactor = redactor_of(self._settings.base_url, api_key, self._settings.api_key)
        self._settings = replace(self._settings, api_key=api_key)

    def close(self) -> None:
        """Close the connections that no thread is using."""
        connections = [self._connections.get() for _ in range(self._connections.qsize())]
        for connection in connections:
            if connection is not None:
                http, _deadline = connection
                http.close()
            # The next request opens a new connection.
            self._connections.put(None)

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[_Connection]:
        """Lend a connection to one thread at a time."""
        connection = self._connections.get()
        try:
            if connection is None:
                connection = self._connection()
            yield connection
        finally:
            is_usable = connection is not None and not connection[0].is_closed
            self._connections.put(connection if is_usable else None)

    def _connection(self) -> _Connection:
        http = httpx.Client(
            headers=COMMON_HEADERS,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE_SECONDS),
            verify=self._tls,
            proxy=httpx_proxy(self._proxy, self._tls),
            # The environment is read by proxy_for, as for asyncio.
            trust_env=False,
            # No domain is allowed, so no cookie is kept.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )
        return http, ResponseDeadline()

    @cached_property
    def _proxy(self) -> Proxy | None:
        return proxy_for(self._settings.base_url)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return client_tls_context(self._settings, self._proxy)


def httpx_proxy(proxy: Proxy | None, context: ssl.SSLContext) -> httpx.Proxy | None:
    """
    Return a proxy for httpx.

    :param proxy: The proxy; None if there is none.
    :param context: Certificates that verify a proxy with TLS.
    """
    if proxy is None:
        return None
    # httpcore refuses a context for a proxy without TLS.
    proxy_context = context if proxy.url.startswith("https:") else None
    return httpx.Proxy(proxy.url, headers=proxy.headers, ssl_context=proxy_context)


def connect_status(error: Exception) -> int | None:
    """Return the status of a proxy's reply to CONNECT, with which the text of httpx begins."""
    status = str(error).partition(" ")[0]
    return int(status) if isinstance(error, httpx.ProxyError) and status.isdecimal() else None
