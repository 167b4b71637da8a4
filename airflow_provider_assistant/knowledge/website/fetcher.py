"""Read files of a website: slowly, within limits, and only where it is allowed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple, Self

import httpx

from airflow_provider_assistant import __version__
from airflow_provider_assistant.api.errors import parse_retry_after
from airflow_provider_assistant.client.connection_errors import todo_of_proxy
from airflow_provider_assistant.client.httpx_transport import ResponseTimeout, Watch, connect_status, httpx_proxy
from airflow_provider_assistant.client.network import Proxy, proxy_for, tls_context, usable_proxy
from airflow_provider_assistant.client.transport import ENCODINGS, BoundedBody
from airflow_provider_assistant.exceptions import (
    AssistantConnectionError,
    AssistantError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.knowledge.website.addresses import host_of, refuse_private_networks, web_address
from airflow_provider_assistant.knowledge.website.robots import NAME, Robots
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

CONNECT_SECONDS, FILE_SECONDS = 10.0, 60.0
ATTEMPTS, FIRST_BACKOFF_SECONDS = 4, 2.0
# The website may ask for a longer pause, but then the task ends and does not occupy a worker.
LONGEST_PAUSE_SECONDS = 120.0
REDIRECTS = 5
LEAVE_OUT = "Leave the page out, or have it repaired."
# RFC 9309 demands half a megabyte at least.
LARGEST_ROBOTS = 1_000_000
# Statuses of responses.
REDIRECTED = frozenset({301, 302, 303, 307, 308})
GONE = frozenset({404, 410})
NOT_MODIFIED = 304
PROXY_AUTHENTICATION_REQUIRED = 407
# Starts of the media types of files without text.
NOT_TEXT = ("audio/", "font/", "image/", "video/", "text/css", "text/javascript", "application/javascript")
_Validators = Callable[[str], Mapping[str, str]]


class Skipped(Exception):
    """
    A file is not to be read, or is not what was looked for.

    :param reason: Why, as a predicate.
    :param is_expected: Whether the owner of the website wants that.
    """

    def __init__(self, reason: str, *, is_expected: bool = False) -> None:
        super().__init__(reason)
        self.is_expected = is_expected


class WebsiteTimeoutError(AssistantTimeoutError):
    """The time for all pages is over."""


class Fetched(NamedTuple):
    """
    A file of a website.

    :param url: After redirects.
    :param content: The decompressed content; None if it has not been modified.
    """

    url: httpx.URL
    headers: httpx.Headers
    content: bytes | None


class Fetcher:
    """
    Sends the requests of one task, one after the other.

    :param hosts: Hosts that it may connect to, with the port unless their scheme implies it.
    :param requests_per_second: How many requests to send per second at most; fewer if robots.txt says so.
    :param timeout: Seconds for all requests together.
    :param private_networks: Whether private addresses and the proxy of the environment are allowed.
    :param file_seconds: Seconds for one file.
    """

    def __init__(
        self,
        hosts: Collection[str],
        *,
        requests_per_second: float,
        timeout: float,
        private_networks: bool = False,
        file_seconds: float = FILE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.hosts = frozenset(hosts)
        self.interval = 1 / requests_per_second
        """Seconds between the starts of two requests."""
        self._timeout = timeout
        self._private_networks = private_networks
        self._file_seconds = file_seconds
        self._clock = clock
        self._sleep = sleep
        self._end_time = clock() + timeout
        self._next_request_time = clock()
        self._robots_by_origin: dict[str, Robots] = {}
        self._tls = tls_context()
        self._clients: dict[str | None, httpx.Client] = {}

    def _client(self, proxy: Proxy | None) -> httpx.Client:
        """Return the client for a proxy, or the one without a proxy."""
        url = proxy.url if proxy else None
        if url not in self._clients:
            seconds = self._file_seconds
            self._clients[url] = httpx.Client(
                headers={"User-Agent": f"{NAME}/{__version__}", "Accept-Encoding": ENCODINGS},
                timeout=httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
                # Each request opens a connection, so that its address is checked.
                limits=httpx.Limits(max_keepalive_connections=0),
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                verify=self._tls,
                proxy=httpx_proxy(proxy, self._tls),
                # The environment is read by proxy_for and tls_context, as for the API.
                trust_env=False,
            )
        return self._clients[url]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def fetch(
        self,
        url: httpx.URL,
        limit: int,
        types: Collection[str] | None = None,
        validators: _Validators = lambda _: {},
    ) -> Fetched:
        """
        Read a file, unless robots.txt forbids it.

        :param limit: Maximum size in bytes, after decompression.
        :param types: Media types that are read, or None for all.
        :param validators: Returns the headers of a conditional request for an address.
        :raises Skipped: robots.txt forbids it, it does not exist, is on another host, or has another media type.
        :raises AssistantInputError: It is too large, redirects too often, has a private IP address, or the website
            refuses it with another status than 404 and 410.
        :raises AssistantServerError: The website fails (5xx), also after retries.
        :raises AssistantRateLimitError: The website refuses more requests (429), also after retries.
        :raises AssistantConnectionError: There is no connection, also after retries.
        :raises AssistantTimeoutError: The file is not complete in time, also after retries, or the time for all
            requests is over.
        :raises AssistantResponseError: The file cannot be decompressed, also after retries.
        """
        for _ in range(REDIRECTS + 1):
            self._check_host(url)
            if not self.robots(url).allows(str(url)):
                raise Skipped("is not allowed by robots.txt", is_expected=True)
            fetched, status = self._request(url, limit, types, validators(str(url)))
            if status in GONE:
                raise Skipped(f"is gone ({status})")
            if status not in REDIRECTED:
                return fetched
            url = _target(fetched)
        raise AssistantInputError(
            f"{url} is the end of {REDIRECTS} redirects, and redirects again",
            todo=LEAVE_OUT,
            field="source",
        )

    def check_time(self, requests: int) -> None:
        """
        Check that there is time for some more requests.

        :raises AssistantInputError: The pauses between them take too long.
        """
        seconds = requests * self.interval
        if self._clock() + seconds > self._end_time:
            raise AssistantInputError(
                f"reading {counted(requests, 'page')} with {self.interval:g} s between requests takes "
                f"{seconds:,.0f} s, and timeout={self._timeout:g}. robots.txt may ask for such pauses",
                todo="Raise timeout or requests_per_second, or leave pages out with include=….",
                field="timeout",
            )

    def robots(self, url: httpx.URL) -> Robots:
        """
        Return what robots.txt of a page's host allows. The host is asked once.

        :return: The rules. If there is no such file (4xx), everything is allowed.
        :raises AssistantError: The file cannot be read, as for :meth:`fetch`; then nothing is allowed.
        """
        origin = f"{url.scheme}://{host_of(url)}"
        if origin not in self._robots_by_origin:
            robots = Robots(self._robots_text(origin))
            # The slowest host decides for all.
            self.interval = max(self.interval, robots.crawl_delay)
            self._robots_by_origin[origin] = robots
        return self._robots_by_origin[origin]

    def _robots_text(self, origin: str) -> str:
        url = httpx.URL(f"{origin}/robots.txt")
        for _ in range(REDIRECTS + 1):
            if host_of(url) not in self.hosts:
                raise AssistantInputError(
                    f"{origin}/robots.txt redirects to the host {host_of(url)}",
                    todo="If that is the same website, pass it in hosts.",
                    field="hosts",
                )
            fetched, status = self._request(
                url,
                limit=LARGEST_ROBOTS,
                types=None,
                headers={},
                is_robots=True,
            )
            if 400 <= status < 500:
                return ""
            if status not in REDIRECTED:
                return (fetched.content or b"").decode("utf-8", "replace")
            url = _target(fetched)
        return ""  # RFC 9309: as if there were none

    def _check_host(self, url: httpx.URL) -> None:
        if host_of(url) not in self.hosts:
            raise Skipped("is on another host", is_expected=True)

    def _request(
        self,
        url: httpx.URL,
        limit: int,
        types: Collection[str] | None,
        headers: Mapping[str, str],
        *,
        is_robots: bool = False,
    ) -> tuple[Fetched, int]:
        """Return the file or the redirect, and the status, after retries."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._send(url, limit, types, headers, is_robots=is_robots)
            except AssistantInputError:
                raise  # another attempt would fail for the same reason
            except AssistantError as error:
                pause = FIRST_BACKOFF_SECONDS * 2 ** (attempt - 1)
                retry_after = getattr(error, "retry_after", None)
                if retry_after is not None:
                    pause = retry_after
                if attempt == ATTEMPTS or pause > LONGEST_PAUSE_SECONDS:
                    raise
                log.warning("%s Trying again in %.0f s.", error, pause)
            self._wait(pause)
        raise AssertionError  # pragma: no cover

    def _send(
        self,
        url: httpx.URL,
        limit: int,
        types: Collection[str] | None,
        headers: Mapping[str, str],
        *,
        is_robots: bool,
    ) -> tuple[Fetched, int]:
        self._wait(max(0.0, self._next_request_time - self._clock()))
        self._next_request_time = self._clock() + self.interval
        remaining = self._end_time - self._clock()
        seconds = max(0.001, min(self._file_seconds, remaining))
        watch = Watch()
        # A proxy looks up names itself, so it has to decide what it connects to.
        proxy = proxy_for(str(url)) if self._private_networks else None

        def trace(event: str, info: Mapping[str, Any]) -> None:
            if not self._private_networks:
                refuse_private_networks(event, info)
            watch.trace(event, info)

        try:
            with (
                watch.within(seconds),
                self._client(proxy).stream(
                    "GET",
                    url,
                    headers=dict(headers),
                    extensions={"trace": trace},
                ) as response,
            ):
                status = response.status_code
                if proxy and status == PROXY_AUTHENTICATION_REQUIRED:
                    raise AssistantInputError(
                        f"{url} cannot be read: the proxy {proxy.address} answers {status}",
                        todo=todo_of_proxy(proxy),
                    )
                _check_status(url, response, is_conditional=bool(headers), is_robots=is_robots)
                content = None
                if status == 200:
                    _check_type(response.headers.get("content-type", ""), types)
                    content = _body(url, response, limit, is_robots=is_robots)
        except (httpx.TimeoutException, ResponseTimeout) as error:
            raise AssistantTimeoutError(f"{url} is not complete within {seconds:g} s") from error
        except httpx.ProxyError as error:
            # Its text is that of the proxy, which may repeat its credentials.
            raise AssistantConnectionError(
                f"{url} cannot be read: the proxy answered CONNECT with {connect_status(error)}",
                todo=todo_of_proxy(proxy) if proxy else None,
            ) from None
        except httpx.TransportError as error:
            raise AssistantConnectionError(
                f"{url} cannot be read: {type(error).__name__}: {error}",
                todo=_connection_todo(url, error, proxy),
            ) from error
        return Fetched(url=url, headers=response.headers, content=content), status

    def _wait(self, seconds: float) -> None:
        """Wait, unless the time would be over then."""
        if self._clock() + seconds >= self._end_time:
            raise WebsiteTimeoutError(
                f"the website could not be read within timeout={self._timeout:g} s",
                todo="Raise timeout, or read fewer pages per task.",
            )
        if seconds:
            self._sleep(seconds)


def _connection_todo(url: httpx.URL, error: httpx.TransportError, proxy: Proxy | None) -> str:
    """Return what to do about a website that cannot be reached."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "If your company signs certificates itself, set SSL_CERT_FILE to the file of its certificate authority."
    if proxy:
        return todo_of_proxy(proxy)
    unused = usable_proxy(str(url))
    if unused:
        return (
            f"The proxy in {unused.variable} is used only with private_networks=True: set it if workers need a proxy."
        )
    return "Check the address, and from the worker that the website can be reached."


def _target(redirect: Fetched) -> httpx.URL:
    """Return where a redirect leads to."""
    location = redirect.headers.get("location", "")
    url = None
    if location:
        url = web_address(location, redirect.url)
    if url is None:
        raise AssistantInputError(
            f"{redirect.url} redirects to {location[:200]!r}, which is not an address",
            todo=LEAVE_OUT,
            field="source",
        )
    return url


def _check_status(
    url: httpx.URL,
    response: httpx.Response,
    *,
    is_conditional: bool,
    is_robots: bool,
) -> None:
    status = response.status_code
    retry_after = parse_retry_after(response.headers.get("retry-after"), time.time())
    if status == 429:
        raise AssistantRateLimitError(f"{url} answers 429", status=status, retry_after=retry_after)
    if status >= 500:
        raise AssistantServerError(f"{url} answers {status}", status=status, retry_after=retry_after)
    is_expected = status in {200, *GONE, *REDIRECTED}
    if is_conditional and status == NOT_MODIFIED:
        is_expected = True
    if is_robots and 400 <= status < 500:  # there is no such file
        is_expected = True
    if not is_expected:
        raise AssistantInputError(
            f"{url} answers {status}",
            safe="Its documents would look stale if the page was left out, so nothing was written.",
            todo="If the page is not public, leave it out with include=…, or pass on_error='skip'.",
            field="source",
        )


def _check_type(header: str, types: Collection[str] | None) -> None:
    media_type, _, _ = header.partition(";")  # without parameters such as the charset
    media_type = media_type.strip().lower()
    # A file without a type is read.
    if types is not None and media_type and media_type not in types:
        is_expected = media_type.startswith(NOT_TEXT)
        raise Skipped(f"is not HTML ({media_type[:60]})", is_expected=is_expected)


def _body(url: httpx.URL, response: httpx.Response, limit: int, *, is_robots: bool) -> bytes:
    encoding = response.headers.get("content-encoding", "")
    body = BoundedBody(limit, encoding)
    for piece in response.iter_raw():
        if not body.feed(piece):
            break
    content = body.end()
    is_too_large = body.defect is not None and len(content) == limit
    # Of a robots.txt that is too large, the rules up to the limit count.
    if is_too_large and not is_robots:
        raise AssistantInputError(
            f"{url} is larger than {limit:,} bytes",
            todo="Leave it out with include=…, or split it.",
            field="source",
        )
    if body.defect and len(content) < limit:
        raise AssistantResponseError(f"{url} {body.defect}")
    return content
