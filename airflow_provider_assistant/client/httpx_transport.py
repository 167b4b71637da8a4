"""Send synchronous requests with httpx."""

from __future__ import annotations

import contextlib
import logging
import queue
import ssl
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeAlias

import httpx

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
from airflow_provider_assistant.client.response_limits import BoundedBody, ResponseDeadline, ResponseDeadlineExceeded
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import Transport
from airflow_provider_assistant.exceptions import AssistantInputError

_Connection: TypeAlias = tuple[httpx.Client, ResponseDeadline]
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
TIMED_OUT = (httpx.TimeoutException, ResponseDeadlineExceeded)

# Whether the request that this thread sends has a private path.
_is_private: ContextVar[bool] = ContextVar("is_private", default=False)


def _is_logged(_: logging.LogRecord) -> bool:
    return not _is_private.get()


# They log the URL of every request, and the headers of every response, which may repeat it.
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
        # Reuse the most recently used connection, so that few stay open. None is a connection that is not open yet.
        self._connections: queue.LifoQueue[_Connection | None] = queue.LifoQueue()
        for _ in range(settings.max_concurrency):
            self._connections.put(None)

    def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Send a call once, see :meth:`.Transport.exchange`."""
        _is_private.set(bool(call.private))
        seconds = self._settings.timeout_of(call)
        try:
            with open_upload(call) as file, self._borrowed() as (http, deadline), deadline.within(seconds):
                url = self._settings.base_url + call.path
                options = request_arguments(self._settings, call, file, "content")
                options["extensions"] = {"trace": deadline.trace}
                options["timeout"] = httpx.Timeout(seconds, connect=connect_timeout(self._settings))
                with http.stream(call.method, url, **options) as answer:
                    encoding = answer.headers.get("content-encoding", "")
                    body = BoundedBody(self._settings.max_response_bytes, encoding)
                    for piece in answer.iter_raw():
                        if not body.feed(piece):
                            break
            return body.response(answer.status_code, answer.headers)
        except (httpx.TransportError, ResponseDeadlineExceeded) as error:
            is_sent = not isinstance(error, NOT_SENT)
            is_timeout = isinstance(error, TIMED_OUT)
            return failure(self._settings, call, error, sent=is_sent, timed_out=is_timeout)
        finally:
            # Other code in this thread may use httpx as well.
            _is_private.set(False)

    def use_key(self, api_key: str) -> None:
        """Send another API key from now on."""
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
            self._connections.put(connection)

    def _connection(self) -> _Connection:
        http = httpx.Client(
            headers=COMMON_HEADERS,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE_SECONDS),
            verify=self._tls,
            # No domain is allowed, so no cookie is kept.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )
        return http, ResponseDeadline()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context(self._settings)


def tls_context(settings: ClientSettings) -> ssl.SSLContext:
    """
    Read the certificates that verify the service.

    :param settings: Settings of the client.
    :return: The TLS context; without certificates if the client does not use TLS.
    :raises AssistantInputError: The CA bundle cannot be read.
    """
    base_url, verify = settings.base_url, settings.verify
    if base_url.startswith("http:") and not proxy_for(base_url):
        # TLS is not used here, so the context stays empty: loading the certificates takes as long as 100 requests.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if isinstance(verify, str):
        try:
            return ssl.create_default_context(cafile=verify)
        except OSError as error:
            raise AssistantInputError(
                f"ca_bundle {verify!r} of the Airflow connection cannot be read as certificates: {error}",
                todo="Give the path of a file in PEM format on this machine.",
                field="ca_bundle",
            ) from None
    # httpx's default: the certificates of certifi, or those of SSL_CERT_FILE and SSL_CERT_DIR.
    return httpx.create_ssl_context(verify=verify)
