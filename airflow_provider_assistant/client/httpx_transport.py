"""Send synchronous requests with httpx."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from airflow_provider_assistant.api.call import Call, Response
from airflow_provider_assistant.client.connection_errors import failure
from airflow_provider_assistant.client.network import Proxy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import (
    COMMON_HEADERS,
    KEEPALIVE_SECONDS,
    BoundedBody,
    HttpLibrary,
    Transport,
    UploadForm,
)
from airflow_provider_assistant.exceptions import AssistantError

_is_sending: ContextVar[bool] = ContextVar("is_sending", default=False)


def _is_logged(_: logging.LogRecord) -> bool:
    return not _is_sending.get()


# They log the URL of every request, and the reason and the headers of every response, which may repeat it or the key.
for _name in ("httpx", "httpcore.http11"):
    logging.getLogger(_name).addFilter(_is_logged)


class ResponseTimeout(TimeoutError):
    """A response was not complete in time."""


class Watch:
    """
    Know whether a request of httpx was sent, and end a response that takes too long.

    httpx itself limits only the pauses between the pieces of a response. Use one watch for each connection: pass
    :meth:`trace` as the ``trace`` extension, and send one request at a time inside ``with watch.within(seconds)``.

    :ivar is_sent: Whether the service may have received the request: its connection stood, and it was written.
    """

    def __init__(self) -> None:
        self.is_sent = False
        self._is_over = False
        self._seconds = 0.0
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """
        Limit the time from the end of the request to the last byte of the response.

        :raises ResponseTimeout: The time was over.
        """
        self.is_sent = self._is_over = False
        self._seconds = seconds
        error: Exception | None = None
        try:
            yield
        except httpx.TransportError as broken:
            error = broken
        finally:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
        if self._is_over:
            raise ResponseTimeout from error
        if error:
            raise error

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the socket of the connection, and start the time when the request has been sent."""
        get_extra_info = getattr(info.get("return_value"), "get_extra_info", None)
        if get_extra_info:
            # A connection stands, or its TLS.
            self._socket = get_extra_info("socket")
        elif event.endswith("send_request_headers.started"):
            self.is_sent = info["request"].method != b"CONNECT"
        elif event.endswith("send_request_body.complete") and self.is_sent:
            self._timer = timer = threading.Timer(self._seconds, lambda: self._end(timer))
            timer.daemon = True
            timer.start()

    def _end(self, timer: threading.Timer) -> None:
        with self._lock:
            if timer is not self._timer or self._socket is None:
                # Its request has ended, and the next one may have begun.
                return
            self._is_over = True
            # The socket may already be closed. SSLSocket.shutdown would let the reader continue with encrypted bytes.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class HttpxTransport(HttpLibrary, Transport):
    """
    Send requests with httpx, each thread on its own connection.

    httpx's own pool has a race: it checks a connection's state and its socket in two steps, so it may close a
    connection that another thread has just received. Therefore every connection has its own httpx client.
    """

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings)
        # Reuse the most recently used connection, so that few stay open. None is a connection that is not open yet.
        self._connections: queue.LifoQueue[tuple[httpx.Client, Watch] | None] = queue.LifoQueue()
        for _ in range(settings.max_concurrency):
            self._connections.put(None)

    def exchange(self, call: Call[Any]) -> Response | AssistantError:
        """Send a call once, see :meth:`.Transport.exchange`."""
        connection = self._connections.get()
        _is_sending.set(True)
        try:
            if connection is None:
                connection = self._opened(), Watch()
            return self._exchange(*connection, call)
        finally:
            # Other code in this thread may use httpx as well.
            _is_sending.set(False)
            is_usable = connection is not None and not connection[0].is_closed
            self._connections.put(connection if is_usable else None)

    def _exchange(self, http: httpx.Client, watch: Watch, call: Call[Any]) -> Response | AssistantError:
        settings = self._settings
        seconds = settings.timeout_of(call)
        headers = {"X-API-Key": settings.api_key}
        options: dict[str, Any] = {
            "headers": headers,
            "json": call.json,
            "timeout": httpx.Timeout(seconds, connect=settings.connect_timeout),
            "extensions": {"trace": watch.trace},
        }
        try:
            with contextlib.ExitStack() as stack:
                if call.upload:
                    form = UploadForm(stack.enter_context(call.upload.open()), call.upload)
                    options["content"] = form
                    headers.update(form.headers)
                stack.enter_context(watch.within(seconds))
                answer = stack.enter_context(http.stream(call.method, settings.base_url + call.path, **options))
                body = BoundedBody(settings.max_response_bytes, answer.headers.get("content-encoding", ""))
                for piece in answer.iter_raw():
                    if not body.feed(piece):
                        break
        except (httpx.TransportError, ResponseTimeout) as error:
            # httpcore does not close a tunnel whose TLS failed, and would wait for it forever.
            http.close()
            return failure(
                error,
                call,
                settings,
                self._proxy,
                sent=watch.is_sent,
                timed_out=isinstance(error, httpx.TimeoutException | ResponseTimeout),
                connect_status=connect_status(error),
            )
        return body.response(answer.status_code, answer.headers)

    def close(self) -> None:
        """Close the connections that no thread is using."""
        connections = [self._connections.get() for _ in range(self._connections.qsize())]
        for connection in connections:
            if connection is not None:
                connection[0].close()
            # The next request opens a new connection.
            self._connections.put(None)

    def _opened(self) -> httpx.Client:
        return httpx.Client(
            headers=COMMON_HEADERS,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE_SECONDS),
            verify=self._tls,
            proxy=httpx_proxy(self._proxy, self._tls),
            # The environment is read by proxy_for, as for asyncio.
            trust_env=False,
            # No domain is allowed, so no cookie is kept.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )


def httpx_proxy(proxy: Proxy | None, context: ssl.SSLContext) -> httpx.Proxy | None:
    """
    Return a proxy for httpx.

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
