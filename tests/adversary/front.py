"""What is between the client and the service: a network with outages, and a gateway that answers with its pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from airflow_provider_assistant.api.call import Call, Response, TransportFailure

HOST = "assistant.test:443"
PROXY = "proxy.test:3128"
CONNECT_TIMEOUT = 10.0
# A word in the content of rows that a firewall blocks.
BLOCKED_WORD = "DROP TABLE"
Kind: TypeAlias = Literal["refused", "no name", "no proxy", "tunnel", "no route", "reset", "silent", 502, 503, 504]
Outcome: TypeAlias = Response | TransportFailure
# Seconds until the outcome, the outcome, and whether the service gets the request.
Answered: TypeAlias = tuple[float, Outcome, bool]


@dataclass(frozen=True)
class Outage:
    """
    A time in which the service is away.

    :param start: Seconds from the beginning of the task.
    :param seconds: Duration.
    :param kind: What a request meets; a number is the status of a gateway's page.
    """

    start: float
    seconds: float
    kind: Kind

    @property
    def end(self) -> float:
        """Seconds from the beginning of the task."""
        return self.start + self.seconds

    @property
    def is_sent(self) -> bool:
        """Whether the client cannot know that the service did not get a request."""
        return self.kind in {"reset", "silent", 502, 503, 504}


NOT_SENT = {
    "refused": (0.001, "ClientConnectorError: Cannot connect to host: Connect call failed (connection refused)"),
    "no name": (0.02, "ClientConnectorDNSError: Temporary failure in name resolution"),
    "no route": (CONNECT_TIMEOUT, f"TimeoutError: no connection within {CONNECT_TIMEOUT:g} s"),
    "no proxy": (0.001, "ClientProxyConnectionError: Cannot connect to the proxy (connection refused)"),
    "tunnel": (0.01, f"the proxy {PROXY} answered CONNECT with 503 Service Unavailable"),
}


@dataclass(frozen=True)
class Page:
    """
    The reply of a gateway that does not pass a request on.

    :param status: HTTP status.
    :param name: Name of the gateway in its ``Server`` header.
    :param title: Title and text of the page.
    :param server: Whether the reply names the gateway in a header.
    """

    status: int
    name: str = "nginx"
    title: str = ""
    server: bool = True

    @property
    def response(self) -> Response:
        """The response."""
        title = self.title or f"{self.status} says the gateway"
        text = f"<html>\r\n<head><title>{title}</title></head>\r\n<body><center><h1>{title}</h1></center><hr>"
        text += f"<center>{self.name}</center></body></html>"
        headers = {"content-type": "text/html; charset=utf-8"}
        if self.server:
            headers["server"] = self.name
        return Response(self.status, headers, text.encode())


# Replies that concern every request. The specification knows none of these.
STOPPING = (
    Page(407, "squid/5.7", "ERROR: Cache Access Denied"),
    Page(421, "Apache", "421 Misdirected Request"),
    Page(431, "nginx", "431 Request Header Fields Too Large"),
    Page(495, "nginx/1.22.1", "400 The SSL certificate error"),
    Page(496, "nginx/1.22.1", "400 No required SSL certificate was sent"),
    Page(497, "nginx/1.22.1", "400 The plain HTTP request was sent to HTTPS port"),
    Page(400, "nginx/1.22.1", "400 No required SSL certificate was sent"),
    Page(400, "nginx", "400 The plain HTTP request was sent to HTTPS port"),
    Page(400, "Apache", "Bad Request: Your browser sent a request that this server could not understand. Reason: "
         "You're speaking plain HTTP to an SSL-enabled server port."),
    Page(511, "hotspot", "Network Authentication Required"),
)  # fmt: skip
# Replies that a gateway gives to all requests, or only to one of a suspicious content.
REFUSING = (
    Page(403, "nginx", "403 Forbidden"),
    Page(403, "cloudflare", "Attention Required! | Cloudflare"),
    Page(403, "", "Web Page Blocked!", server=False),
    Page(406, "Apache", "Not Acceptable!"),
    Page(413, "nginx/1.22.1", "413 Request Entity Too Large"),
    Page(400, "haproxy", "400 Bad request"),
    Page(414, "nginx", "414 Request-URI Too Large"),
    Page(501, "imperva", "Request unsuccessful. Incapsula incident ID"),
)
LOGIN = (
    Page(200, "apache", "Sign in to your company"),
    Page(401, "nginx", "401 Authorization Required"),
    Page(302, "apache", "Found"),
    Page(404, "nginx", "404 Not Found"),
    Page(405, "Microsoft-IIS/10.0", "405 - HTTP verb used to access this page is not allowed."),
)


@dataclass(frozen=True)
class Gateway:
    """
    A gateway that answers with its own page.

    :param page: Its reply.
    :param scope: ``all`` requests from ``first`` on, or only those with the blocked ``word``, or every request beyond
        ``per_second``.
    :param first: Number of the first request, from 0, that gets the page.
    :param per_second: Requests per second that pass, with the scope ``rate``.
    """

    page: Page
    scope: Literal["all", "word", "rate"] = "all"
    first: int = 0
    per_second: int = 5


@dataclass
class Sent:
    """A request at the front: when it was sent, its outcome, when that came, and whether the service got it."""

    call: Call[Any]
    at: float
    until: float
    outcome: Outcome | None
    is_received: bool


@dataclass
class Front:
    """
    Answer what the service does not, and record all requests.

    :param outages: When the service is away.
    :param gateway: The gateway, or None.
    """

    outages: tuple[Outage, ...] = ()
    gateway: Gateway | None = None
    sent: list[Sent] = field(default_factory=list)
    # Times of the requests that the gateway has passed on.
    _passed: list[float] = field(default_factory=list)

    def receive(
        self, call: Call[Any], at: float, latency: float, timeout: float, pass_on: Callable[[], Outcome]
    ) -> tuple[float, Outcome]:
        """
        Answer a request, and return the seconds until the outcome, and the outcome.

        :param call: The request.
        :param at: Seconds from the beginning of the task.
        :param latency: Seconds that the service takes.
        :param timeout: Response timeout of the client.
        :param pass_on: Gives the request to the service, and returns its response.
        """
        number = len(self.sent)
        sent = Sent(call, at, at, None, is_received=False)
        self.sent.append(sent)
        seconds, sent.outcome, sent.is_received = self._outcome(call, number, at, latency, timeout, pass_on)
        sent.until = at + seconds
        return seconds, sent.outcome

    def _outcome(
        self, call: Call[Any], number: int, at: float, latency: float, timeout: float, pass_on: Callable[[], Outcome]
    ) -> Answered:
        for outage in self.outages:
            if outage.start <= at < outage.end:
                return _away(outage, timeout)
        gateway = self.gateway
        if gateway and self._is_stopped(gateway, call, number, at):
            return 0.01, gateway.page.response, False
        outcome = pass_on()
        for outage in self.outages:
            if at < outage.start < at + latency:
                # The service has the request, and its reply is lost or late.
                if outage.kind in {"silent", "no route"} and outage.end - at < timeout:
                    return outage.end - at, outcome, True
                if outage.kind in {"silent", "no route"}:
                    return timeout, _failure("timeout", f"no complete answer within {timeout:g} s", sent=True), True
                return outage.start - at, _failure("connection", "Connection reset by peer", sent=True), True
        return latency, outcome, True

    def _is_stopped(self, gateway: Gateway, call: Call[Any], number: int, at: float) -> bool:
        if gateway.scope == "word":
            return BLOCKED_WORD in content_of(call)
        if gateway.scope == "all":
            return number >= gateway.first
        if len([time for time in self._passed if time > at - 1.0]) >= gateway.per_second:
            return True
        self._passed.append(at)
        return False


def _away(outage: Outage, timeout: float) -> Answered:
    kind = outage.kind
    if kind in NOT_SENT:
        seconds, detail = NOT_SENT[str(kind)]
        proxy = PROXY if kind in {"no proxy", "tunnel"} else None
        return seconds, TransportFailure("connection", detail, sent=False, host=HOST, proxy=proxy), False
    if kind == "reset":
        return 0.01, _failure("connection", "ClientOSError: Connection reset by peer", sent=True), False
    if kind == "silent":
        return timeout, _failure("timeout", f"TimeoutError: no complete answer within {timeout:g} s", sent=True), False
    return 0.05, Page(int(kind), "nginx", f"{kind} Gateway trouble").response, False


def _failure(kind: Literal["connection", "timeout"], detail: str, *, sent: bool) -> TransportFailure:
    return TransportFailure(kind, detail, sent=sent, host=HOST)


def content_of(call: Call[Any]) -> str:
    """Return what a firewall reads of a request."""
    if call.upload:
        with call.upload.open() as file:
            return file.read().decode(errors="replace")
    return " ".join(map(str, (call.json or {}).values()))


# -- generation ------------------------------------------------------------------------------------

KINDS: st.SearchStrategy[Kind] = st.sampled_from(
    ["refused", "no name", "no proxy", "tunnel", "no route", "reset", "silent", 502, 503, 504]
)
OUTAGES = st.builds(
    Outage,
    start=st.one_of(st.just(0.0), st.floats(0.0, 20.0).map(lambda start: round(start, 2))),
    seconds=st.one_of(st.integers(1, 60).map(float), st.sampled_from([1.0, 2.5, 5.0, 30.0, 59.0])),
    kind=KINDS,
)
