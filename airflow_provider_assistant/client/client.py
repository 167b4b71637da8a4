"""
Run flows over HTTP, with and without asyncio; no other module imports httpx or aiohttp.

Synchronous requests use httpx. Asyncio requests use aiohttp: httpx's own connection pool slows down badly beyond about
50 connections, and httpx on aiohttp's transport spends most of its time converting between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import random
import re
import ssl
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from html.entities import html5
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from airflow_provider_assistant import __version__
from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.ambiguity import OnAmbiguous, decided
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.api.multipart import UploadBody
from airflow_provider_assistant.api.status import StatusMapping
from airflow_provider_assistant.client.response_limits import ENCODINGS, Body, TooLate, Watch
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.observability import metrics, tracing

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

T = TypeVar("T")
_Connection: TypeAlias = tuple[httpx.Client, Watch]

CONNECT_TIMEOUT = 10.0
# Common servers close an idle connection after five seconds. A request that is written while the server closes the
# connection is ambiguous, so the client closes idle connections earlier.
KEEPALIVE_EXPIRY = 3.0
REDACTED = "***"
NOTHING = r"(?!)"
# A key of at least SURELY_SECRET characters is always redacted. A shorter one is not redacted if it is a word or a
# number, because ordinary replies may contain it.
SURELY_SECRET = 16
SHORTEST_SECRET = 8


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """
    Settings of a client.

    :param base_url: Versioned base URL, ending in ``/api/v1``.
    :param api_key: Value of the ``X-API-Key`` header.
    :param timeout: Response timeout in seconds, from the end of the request to the last byte of the response.
        Default: 30.
    :param retry: Retry rule of one call. Default: :class:`~airflow_provider_assistant.api.flow.RetryPolicy` with its
        defaults.
    :param max_concurrency: Maximum number of requests in flight, and of open connections. Default: 32.
    :param verify: Whether to verify TLS certificates, or the path of a CA bundle to verify them with. Default: True.
    :param max_response_bytes: Maximum size of a response body in bytes, after decompression; reading stops there.
        Default: 16 MiB.
    :param words: Status words that end polling. Default: the built-in ones.
    """

    base_url: str
    api_key: str = field(repr=False)
    timeout: float = 30.0
    retry: flow.RetryPolicy = flow.RetryPolicy()
    max_concurrency: int = 32
    verify: bool | str = True
    max_response_bytes: int = 16 * 1024 * 1024
    words: StatusMapping = StatusMapping()


class AssistantClient:
    """
    Send calls and run flows for one connection.

    Use :meth:`send` from any number of threads, or :meth:`asend` from one event loop. Close the client with
    :meth:`close` or :meth:`aclose`, or use it as a context manager.

    :param settings: Base URL, API key, timeout and the other settings.
    :param now: Clock, returning seconds since the epoch. Default: :func:`time.time`.
    :param sleep: Function that waits a number of seconds, for :meth:`send`. Default: :func:`time.sleep`.
    :param asleep: Coroutine function that waits a number of seconds, for :meth:`asend`. Default:
        :func:`asyncio.sleep`.
    :param rng: Random generator of the retry jitter. Default: a new one.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        now: flow.Clock = time.time,
        sleep: Callable[[float], None] = time.sleep,
        asleep: Callable[[float], Any] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.now = now
        self._sleep = sleep
        self._asleep = asleep
        self._rng = rng or random.Random()  # noqa: S311 (jitter is no secret)
        self._requests = metrics.Requests()
        # Users often forget to close a client: send its pending metrics when it is garbage-collected.
        weakref.finalize(self, self._requests.flush)
        # Reuse the most recently used connection, so that few stay open. None is a connection that is not open yet.
        self._connections: queue.LifoQueue[_Connection | None] = queue.LifoQueue()
        for _ in range(settings.max_concurrency):
            self._connections.put(None)

    def send(self, call: Call[T], on_ambiguous: OnAmbiguous | None = None) -> T:
        """
        Send one call, with retries, and return its reply.

        :param call: The call.
        :param on_ambiguous: What to do if the call failed and may have taken effect nevertheless. ``retry`` sends it
            again as often as the retry rule allows, except for a ``POST …/chat`` that timed out. ``fail`` never sends
            it again. Default: None, follow ``retry_ambiguous`` of the retry rule.
        :return: The reply that the call's parser builds.
        :raises AssistantAPIError: The service answered with an error status; the subclass depends on the status.
        :raises AssistantConnectionError: There is no connection, or it broke.
        :raises AssistantTimeoutError: No complete response came within ``timeout``.
        :raises AssistantAmbiguousError: The call creates something, failed, and may have taken effect nevertheless.
        :raises AssistantResponseError: The status is a success, but the body cannot be used.
        """
        steps = self._performed(call)
        with _spanned(call):
            return self.run(steps if on_ambiguous is None else decided(steps, call, on_ambiguous))

    async def asend(self, call: Call[T]) -> T:
        """
        Send one call under asyncio, with retries, and return its reply.

        :param call: The call.
        :return: The reply that the call's parser builds.
        :raises AssistantError: The call failed; the subclasses are those of :meth:`send`.
        """
        with _spanned(call):
            return await self.arun(self._performed(call))

    def run(self, steps: flow.Flow[T]) -> T:
        """
        Run a flow to its end and return its result.

        :param steps: The flow.
        :return: What the flow returns; errors that it raises are raised unchanged.
        """
        outcome: flow.Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # StopIteration is not generic
            outcome = None
            match step:
                case flow.Send(call):
                    outcome = self._exchange(call)
                case flow.Wait():
                    _note_retry(step)
                    _announce(step)
                    self._sleep(step.seconds)
                case flow.Measured(state, seconds):
                    metrics.async_completion(state, seconds)
                case flow.Polled(lag):
                    metrics.poll_lag(lag)

    async def arun(self, steps: flow.Flow[T], *, pause: Callable[[flow.Wait], Awaitable[None]] | None = None) -> T:
        """
        Run a flow to its end under asyncio and return its result.

        :param steps: The flow.
        :param pause: Coroutine function that performs the flow's waits, for example a shared rate limiter's. Default:
            None, wait with ``asleep``.
        :return: What the flow returns; errors that it raises are raised unchanged.
        """
        outcome: flow.Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # StopIteration is not generic
            outcome = None
            match step:
                case flow.Send(call):
                    outcome = await self._aexchange(call)
                case flow.Wait():
                    _note_retry(step)
                    await (pause or self._apause)(step)
                case flow.Measured(state, seconds):
                    metrics.async_completion(state, seconds)
                case flow.Polled(lag):
                    metrics.poll_lag(lag)

    async def _apause(self, wait: flow.Wait) -> None:
        _announce(wait)
        await self._asleep(wait.seconds)

    def _performed(self, call: Call[T]) -> flow.Flow[T]:
        return flow.perform(call, self.settings.retry, now=self.now, rng=self._rng)

    def _exchange(self, call: Call[Any]) -> Response | TransportFailure:
        started = time.perf_counter()
        outcome: Response | TransportFailure
        try:
            with _opened(call) as content, self._borrowed() as (http, watch), watch:
                options = _body(call, content, "content") | {"extensions": {"trace": watch.trace}}
                with http.stream(call.method, self._url(call), **options) as answer:
                    body = self._bounded(answer.headers)
                    for piece in answer.iter_raw():
                        if not body.take(piece):
                            break
            outcome = self._response(answer.status_code, answer.headers, body)
        except (httpx.TransportError, TooLate) as error:
            sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError)
            outcome = self._failure(error, isinstance(error, httpx.TimeoutException | TooLate), sent)
        self._measure(call, outcome, started)
        return outcome

    async def _aexchange(self, call: Call[Any]) -> Response | TransportFailure:
        import aiohttp

        started = time.perf_counter()
        outcome: Response | TransportFailure
        try:
            with _opened(call) as content:
                # The response timeout starts once the request has been sent: waiting for a pool slot or uploading a
                # file does not count.
                async with self._slots, asyncio.timeout(None if content else self._time_to_answer) as clock:
                    # The trace of an upload restarts the timeout; the session of other calls has no trace.
                    options = _body(call, content, "data") | {"allow_redirects": False, "trace_request_ctx": clock}
                    session = self._uploading if content else self._async
                    async with session.request(call.method, self._url(call), **options) as answer:
                        body = self._bounded(answer.headers)
                        async for piece in answer.content.iter_any():
                            if not body.take(piece):
                                answer.close()
                                break
            outcome = self._response(answer.status, answer.headers, body)
        except (aiohttp.ClientError, TimeoutError) as error:
            if interruption := _interruption(error):
                raise interruption from None
            sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            outcome = self._failure(error, isinstance(error, TimeoutError), sent)
        self._measure(call, outcome, started)
        return outcome

    def _measure(self, call: Call[Any], outcome: Response | TransportFailure, started: float) -> None:
        status = str(outcome.status) if isinstance(outcome, Response) else outcome.kind
        self._requests.add(call.endpoint, status, time.perf_counter() - started)

    def _url(self, call: Call[Any]) -> str:
        return self.settings.base_url + call.path

    def _bounded(self, headers: Mapping[str, str]) -> Body:
        return Body(self.settings.max_response_bytes, headers.get("content-encoding", ""))

    def _response(self, status: int, headers: Mapping[str, str], received: Body) -> Response:
        body = received.end()
        # A service may repeat the API key in a message: keep it out of logs and XCom.
        clean = {name.lower(): self._without_key(value) for name, value in headers.items()}
        if len(body) >= len(self.settings.api_key):
            body = self._key_bytes.sub(REDACTED.encode(), body)
        return Response(status, clean, body, received.flaw)

    def _without_key(self, text: str) -> str:
        # No spelling is shorter than the key itself, and most headers are shorter: skip those.
        return self._key.sub(REDACTED, text) if len(text) >= len(self.settings.api_key) else text

    def _failure(self, error: Exception, timed_out: bool, sent: bool) -> TransportFailure:
        reason = str(error) or f"no complete answer within {self.settings.timeout:g} s"
        detail = self._key.sub(REDACTED, f"{type(error).__name__}: {reason}")
        host = _whereabouts(self.settings.base_url)
        return TransportFailure("timeout" if timed_out and sent else "connection", detail, sent, host)

    @cached_property
    def _key(self) -> re.Pattern[str]:
        key = self.settings.api_key
        return re.compile(_spelled(key) if is_recognisable(key) else NOTHING)

    @cached_property
    def _key_bytes(self) -> re.Pattern[bytes]:
        return re.compile(self._key.pattern.encode())

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[_Connection]:
        """
        Lend a connection to one thread at a time.

        httpx's own pool has a race: it checks a connection's state and its socket in two steps, so it may close a
        connection that another thread has just received.
        """
        connection = self._connections.get()
        try:
            if connection is None:
                connection = self._connection()
            yield connection
        finally:
            self._connections.put(connection)

    def _connection(self) -> _Connection:
        timeout = httpx.Timeout(self.settings.timeout, connect=self._connect_timeout)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE_EXPIRY)
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        http = httpx.Client(headers=self._headers, timeout=timeout, limits=limits, verify=self._tls, cookies=no_cookies)
        return http, Watch(self.settings.timeout)

    @cached_property
    def _async(self) -> aiohttp.ClientSession:
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=self.settings.max_concurrency, keepalive_timeout=KEEPALIVE_EXPIRY, ssl=self._tls
        )
        return self._session(connector)

    @cached_property
    def _uploading(self) -> aiohttp.ClientSession:
        # Uploads have a separate session: tracing makes every request of a session about a tenth slower.
        return self._session(self._async.connector, connector_owner=False, trace_configs=[self._clocked()])

    def _session(self, connector: aiohttp.BaseConnector | None, **options: Any) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(sock_connect=self._connect_timeout, sock_read=self.settings.timeout),
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=_proxy_for(self.settings.base_url),
            auto_decompress=False,
            **options,
        )

    @cached_property
    def _slots(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.settings.max_concurrency)

    @property
    def _time_to_answer(self) -> float:
        return self._connect_timeout + self.settings.timeout

    def _clocked(self) -> aiohttp.TraceConfig:
        """Return a trace that restarts the response timeout with each part of an upload that is sent."""
        import aiohttp

        async def sent(_: Any, context: Any, __: Any) -> None:
            # If the service answers before it has read the whole upload, the timeout has already ended.
            with contextlib.suppress(RuntimeError):
                context.trace_request_ctx.reschedule(asyncio.get_running_loop().time() + self.settings.timeout)

        config = aiohttp.TraceConfig()
        config.on_request_headers_sent.append(sent)
        config.on_request_chunk_sent.append(sent)
        return config

    @property
    def _headers(self) -> dict[str, str]:
        return {
            "X-API-Key": self.settings.api_key,
            "User-Agent": f"airflow-provider-assistant/{__version__}",
            "Accept": "application/json",
            "Accept-Encoding": ENCODINGS,
        }

    @property
    def _connect_timeout(self) -> float:
        return min(self.settings.timeout, CONNECT_TIMEOUT)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        base_url, verify = self.settings.base_url, self.settings.verify
        if base_url.startswith("http:") and not _proxy_for(base_url):
            # TLS is not used here, so the context stays empty: loading the certificates takes as long as 100 requests.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if isinstance(verify, str):
            try:
                return ssl.create_default_context(cafile=verify)
            except OSError as error:
                raise AssistantInputError(
                    f"ca_bundle {verify!r} of the Airflow connection cannot be read as certificates: {error}. It "
                    "must be a file in PEM format on this machine",
                    field="ca_bundle",
                ) from None
        # httpx's default: the certificates of certifi, or those of SSL_CERT_FILE and SSL_CERT_DIR.
        return httpx.create_ssl_context(verify=verify)

    def close(self) -> None:
        """Close the connections of :meth:`send`."""
        self._requests.flush()
        connections = [self._connections.get() for _ in range(self._connections.qsize())]
        for http, _ in filter(None, connections):
            http.close()
        for _ in connections:
            self._connections.put(None)

    async def aclose(self) -> None:
        """Close the connections of :meth:`asend`."""
        self._requests.flush()
        for session in ("_uploading", "_async"):
            if session in self.__dict__:
                await self.__dict__.pop(session).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _interruption(error: BaseException) -> BaseException | None:
    """
    Return the exception inside an aiohttp error that did not come from the connection, or None.

    A signal handler may raise while aiohttp parses a response, and an upload may raise while its file is read.
    aiohttp wraps both in its own errors.
    """
    cause: BaseException | None = error
    while isinstance(cause, Exception) and not isinstance(cause, AssistantInputError):
        cause = cause.__cause__
    # A CancelledError comes from the timeout itself, not from an interruption.
    return None if isinstance(cause, asyncio.CancelledError) else cause


def is_recognisable(key: str) -> bool:
    """
    Return whether an API key differs enough from ordinary text to be redacted from replies.

    A key such as ``test``, ``1234`` or ``assistant`` does not: redaction would remove words and numbers from replies.

    :param key: The API key.
    :return: True from 16 characters on, or from 8 if the key is neither all letters nor all digits.
    """
    if len(key) >= SURELY_SECRET:
        return True
    return len(key) >= SHORTEST_SECRET and not key.isalpha() and not key.isdecimal()


def _spelled(key: str) -> str:
    """Return a regular expression that matches a key also when it is escaped as in JSON, HTML or URLs."""
    # One pass over the 2,000 names, not one per character of the key.
    named = [(text, re.escape(f"&{name}")) for name, text in html5.items() if text in key]

    def spelled(char: str) -> str:
        forms = [
            r"\\?" + re.escape(char),
            rf"\\u(?i:{ord(char):04x})",
            rf"&#0*{ord(char)};",
            rf"&#[xX]0*(?i:{ord(char):x});",
            rf"%(?i:{ord(char):02x})",
            *(name for text, name in named if text == char),
        ]
        return f"(?:{'|'.join(forms)})"

    return "".join(map(spelled, key))


def _opened(call: Call[Any]) -> AbstractContextManager[BinaryIO | None]:
    """Open the file of an upload for one attempt; other calls get None."""
    return call.upload.open() if call.upload else contextlib.nullcontext()


def _body(call: Call[Any], content: BinaryIO | None, files_as: str) -> dict[str, Any]:
    """
    Return the body of a call as keyword arguments for a request.

    :param call: The call.
    :param content: The open file of an upload, or None.
    :param files_as: Name of the HTTP library's argument for a streamed body: ``content`` or ``data``.
    """
    if call.upload and content:
        body = UploadBody(content, call.upload.filename, call.upload.content_type)
        return {files_as: body, "headers": body.headers}
    return {} if call.json is None else {"json": call.json}


def _proxy_for(url: str) -> str | None:
    """Return the proxy for a URL from the environment, once; aiohttp itself would read it for every request."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _whereabouts(url: str) -> str:
    """Return host and port of a URL and of its proxy, without the credentials that the URLs may hold."""
    proxy = _proxy_for(url)
    through = f" through the proxy {_host_and_port(proxy)}" if proxy else ""
    return f"{_host_and_port(url)}{through}"


def _host_and_port(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _spanned(call: Call[Any]) -> AbstractContextManager[Any]:
    return tracing.span(call.endpoint, call=str(call))


def _note_retry(wait: flow.Wait) -> None:
    if wait.retry_of:
        metrics.retry(wait.retry_of.endpoint)
        tracing.waited(wait.seconds, wait.reason)


def _announce(wait: flow.Wait) -> None:
    if wait.reason is not None:
        log.warning("Trying again in %.1f s: %s", wait.seconds, wait.reason)
