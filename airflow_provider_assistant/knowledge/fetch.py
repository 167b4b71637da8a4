"""Read files of a website: slowly, within limits, and only where robots.txt allows it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import httpx

from airflow_provider_assistant import __version__
from airflow_provider_assistant.api.errors import parse_retry_after
from airflow_provider_assistant.client.httpx_transport import ResponseTimeout, Watch, connect_status, httpx_proxy
from airflow_provider_assistant.client.network import proxy_for, tls_context
from airflow_provider_assistant.client.transport import ENCODING, BoundedBody
from airflow_provider_assistant.error import sentence
from airflow_provider_assistant.exceptions import (
    AssistantConnectionError,
    AssistantError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.knowledge.addresses import host_of, refuse_private_networks, web_address
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from protego import Protego

log = logging.getLogger(__name__)

# The name to which rules in robots.txt may refer.
NAME = "airflow-provider-assistant"
CONNECT_SECONDS, FILE_SECONDS = 10.0, 60.0
ATTEMPTS, FIRST_BACKOFF_SECONDS = 4, 2.0
# The website may ask for a longer pause, but then the task ends and does not occupy a worker.
LONGEST_PAUSE_SECONDS = 120.0
REDIRECTS = 5
# Bytes of robots.txt whose rules count, as RFC 9309 demands.
LARGEST_ROBOTS = 512_000
OK, TOO_MANY_REQUESTS = 200, 429
REDIRECTED, GONE = frozenset({301, 302, 303, 307, 308}), frozenset({404, 410})
# Starts of the media types of files without text.
NOT_TEXT = ("audio/", "font/", "image/", "video/", "text/css", "text/javascript", "application/javascript")
LEAVE_OUT = "Leave the page out with include=…, pass on_error='skip', or have it repaired."
UNREACHABLE = (
    "Check the address, and that this machine reaches the website. If your company signs certificates itself, set "
    "SSL_CERT_FILE to the file of its certificate authority. A proxy of the environment is used only with "
    "private_networks=True (--private-networks)."
)
# A line of robots.txt that says for whom the next rules are. Groups: all before the name, and the name.
_USER_AGENT_LINE = re.compile(r"(\s*user[-\s]*agent\s*:?\s*)([^\s#]+).*", re.IGNORECASE)


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


@dataclass(slots=True)
class File:
    """
    A response of a website.

    :param url: Address, after redirects.
    :param encoding: The charset that the header names, if any.
    :param content: The decompressed content, or its beginning up to the limit; empty if the status is not 200.
    """

    url: httpx.URL
    status: int
    headers: httpx.Headers
    encoding: str = ""
    content: bytes = b""


class Fetcher:
    """
    Send the requests of one task, one after the other.

    :param hosts: Hosts that it may connect to, with the port unless their scheme implies it.
    :param requests_per_second: Maximum number of requests per second; fewer if robots.txt says so.
    :param timeout: Seconds for all requests together.
    :param private_networks: Whether private addresses and the proxy of the environment are allowed.
    :param file_seconds: Seconds for one file.
    :ivar interval: Seconds between the starts of two requests.
    :ivar address: The last address that was asked for.
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
        self.address: httpx.URL | None = None
        self._clock = clock
        self._end_time = clock() + timeout
        self._sleep = sleep
        self._timeout = timeout
        self._private_networks = private_networks
        self._file_seconds = file_seconds
        self._next_request_time = clock()
        self._rules_by_origin: dict[str, Protego] = {}
        self._tls = tls_context()

    def fetch(self, url: httpx.URL, limit: int, types: Collection[str] = ()) -> File:
        """
        Read a file, unless robots.txt forbids it.

        :param limit: Maximum size in bytes, after decompression.
        :param types: Media types that are read. Default: all.
        :raises Skipped: robots.txt forbids it, it does not exist, is on another host, or has another media type.
        :raises AssistantError: It is too large, redirects too often, has a private IP address, is refused, or cannot be
            read, also after retries; or the time is over.
        """
        file = self._followed(url, self._check_allowed, limit, types)
        if file.status in GONE:
            raise Skipped(f"is gone ({file.status})")
        if file.status != OK:
            problem = f"answers {file.status}"
        elif len(file.content) >= limit:
            problem = f"has {limit:,} bytes or more"
        else:
            return file
        raise AssistantInputError(f"{file.url} {problem}", todo=LEAVE_OUT, field="source")

    def robots(self, url: httpx.URL) -> Protego:
        """Return the rules of the host of an address, which is asked once. Without a file (4xx), all is allowed."""
        origin = f"{url.scheme}://{host_of(url)}"
        if origin not in self._rules_by_origin:
            robots_url = httpx.URL(f"{origin}/robots.txt")
            try:
                file = self._followed(robots_url, self._check_host, LARGEST_ROBOTS)
            except Skipped as reason:
                todo = "If that is the same website, pass the host to which it redirects in hosts."
                raise AssistantInputError(f"{robots_url} {reason}", todo=todo, field="hosts") from None
            rules = robots_rules(file.content.decode("utf-8", "replace"))
            # The slowest host decides for all.
            self.interval = max(self.interval, rules.crawl_delay(NAME) or 0.0)
            self._rules_by_origin[origin] = rules
        return self._rules_by_origin[origin]

    def check_time(self, pages: Collection[httpx.URL]) -> None:
        """
        Read robots.txt of all hosts, and check that there is time for all pages.

        :raises AssistantInputError: The pauses between them take too long.
        """
        page_by_origin = {(url.scheme, host_of(url)): url for url in pages}
        for url in page_by_origin.values():
            self.robots(url)
        seconds = len(pages) * self.interval
        if self._clock() + seconds > self._end_time:
            raise AssistantInputError(
                f"reading {counted(len(pages), 'page')} with {self.interval:g} s between requests takes "
                f"{seconds:,.0f} s, and timeout={self._timeout:g}. robots.txt may ask for such pauses",
                todo="Raise timeout or requests_per_second, or leave pages out with include=… or changed_since=….",
                field="timeout",
            )

    def _check_host(self, url: httpx.URL) -> None:
        if host_of(url) not in self.hosts:
            raise Skipped("is on another host", is_expected=True)

    def _check_allowed(self, url: httpx.URL) -> None:
        self._check_host(url)
        self.address = url
        if not self.robots(url).can_fetch(str(url), NAME):
            raise Skipped("is not allowed by robots.txt", is_expected=True)

    def _followed(
        self, url: httpx.URL, check: Callable[[httpx.URL], None], limit: int, types: Collection[str] = ()
    ) -> File:
        """Return the response at the end of the redirects; each address is checked first."""
        for _ in range(REDIRECTS + 1):
            check(url)
            file = self._requested(url, limit, types)
            if file.status not in REDIRECTED:
                return file
            location = file.headers.get("location", "")
            target = web_address(location, url) if location else None
            if target is None:
                problem = f"redirects to {location[:200]!r}, which is not an address"
                break
            problem = f"is the end of {REDIRECTS} redirects, and redirects again"
            url = target
        raise AssistantInputError(f"{url} {problem}", todo=LEAVE_OUT, field="source")

    def _requested(self, url: httpx.URL, limit: int, types: Collection[str]) -> File:
        """Return the response to a request, after retries."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._sent(url, limit, types)
            except AssistantError as error:
                pause = FIRST_BACKOFF_SECONDS * 2 ** (attempt - 1)
                if error.retry_after is not None:
                    pause = error.retry_after
                if not error.retryable or attempt == ATTEMPTS or pause > LONGEST_PAUSE_SECONDS:
                    raise
                log.warning("%s Trying again in %.0f s.", sentence(error.happened), pause)
            self._wait(pause)
        raise AssertionError  # pragma: no cover

    def _sent(self, url: httpx.URL, limit: int, types: Collection[str]) -> File:
        self._wait(max(0.0, self._next_request_time - self._clock()))
        self._next_request_time = self._clock() + self.interval
        seconds = max(0.001, min(self._file_seconds, self._end_time - self._clock()))
        watch = Watch()

        def trace(event: str, info: Mapping[str, Any]) -> None:
            if not self._private_networks:
                refuse_private_networks(event, info)
            watch.trace(event, info)

        try:
            with (
                self._client(url, seconds) as client,
                watch.within(seconds),
                client.stream("GET", url, extensions={"trace": trace}) as response,
            ):
                return _file_of(response, url, limit, types)
        except (httpx.TimeoutException, ResponseTimeout):
            raise AssistantTimeoutError(f"{url} is not complete within {seconds:g} s") from None
        except httpx.TransportError as error:
            problem = f"{type(error).__name__}: {error}"
            if isinstance(error, httpx.ProxyError):
                # Its text is that of the proxy, which may repeat its credentials.
                problem = f"the proxy answers CONNECT with {connect_status(error)}"
            raise AssistantConnectionError(f"{url} cannot be read: {problem}", todo=UNREACHABLE) from None

    def _client(self, url: httpx.URL, seconds: float) -> httpx.Client:
        """Return a client for one request, so that each connection is checked."""
        # A proxy looks up names itself, so it has to decide what it connects to.
        proxy = proxy_for(str(url)) if self._private_networks else None
        return httpx.Client(
            headers={"User-Agent": f"{NAME}/{__version__}", "Accept-Encoding": ENCODING},
            timeout=httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            verify=self._tls,
            proxy=httpx_proxy(proxy, self._tls),
            # The environment is read by proxy_for and tls_context, as for the API.
            trust_env=False,
        )

    def _wait(self, seconds: float) -> None:
        """Wait, unless the time would be over then."""
        if self._clock() + seconds >= self._end_time:
            raise WebsiteTimeoutError(
                f"the website could not be read within timeout={self._timeout:g} s",
                todo="Raise timeout, or read fewer pages per task.",
            )
        if seconds:
            self._sleep(seconds)


def _file_of(response: httpx.Response, url: httpx.URL, limit: int, types: Collection[str]) -> File:
    """Read a response. An error is raised only if another attempt may have another result."""
    status, headers = response.status_code, response.headers
    if status == TOO_MANY_REQUESTS or status >= 500:
        kind = AssistantRateLimitError if status == TOO_MANY_REQUESTS else AssistantServerError
        retry_after = parse_retry_after(headers.get("retry-after"), time.time())
        raise kind(f"{url} answers {status}", status=status, retry_after=retry_after)
    if status != OK:
        return File(url, status, headers)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    # A file without a type is read.
    if types and media_type and media_type not in types:
        raise Skipped(f"is not HTML ({media_type[:60]})", is_expected=media_type.startswith(NOT_TEXT))
    body = BoundedBody(limit, headers.get("content-encoding", ""))
    for piece in response.iter_raw():
        if not body.feed(piece):
            break
    content = body.end()
    if body.defect and len(content) < limit:
        raise AssistantResponseError(f"{url} {body.defect}")
    return File(url, status, headers, response.charset_encoding or "", content)


def robots_rules(text: str) -> Protego:
    """
    Return the rules of a robots.txt for this package, after RFC 9309.

    Protego keeps a copy of each rule for each name, so a file with many names would need gigabytes. Therefore all names
    but ours and ``*`` become one.

    :param text: The file. Empty: everything is allowed.
    """
    from protego import Protego

    def renamed(line: re.Match[str]) -> str:
        name, _, _version = line[2].lower().partition("/")
        return line[1] + (name if name in {NAME, "*"} else "other")

    lines = text.removeprefix("\ufeff").splitlines()
    return Protego.parse("\n".join(_USER_AGENT_LINE.sub(renamed, line) for line in lines))
