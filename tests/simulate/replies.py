"""What a request meets in a night: an answer of the service, an outage of the network, or a page of a gateway."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.exceptions import AssistantConnectionError, AssistantError, AssistantTimeoutError

HOST, PROXY = "assistant.test", "proxy.test:3128"
SECRET = "canary-91f0c4e2b7a8"
# The same text in another encoding of JSON.
ESCAPED_SECRET = "".join(f"\\u{ord(char):04x}" for char in SECRET)
# Ids that cannot be part of a path.
UNUSABLE = {"", ".", "..", " "}
Outcome: TypeAlias = Response | AssistantError
Reset: TypeAlias = Literal["connection", "timeout"]


@dataclass(frozen=True)
class Answer:
    """
    How the service treats one request.

    :param status: status of the response; 0 if the connection breaks. None: that of the service.
    :param body: ``good`` is the body of the service, other kinds are faulty.
    :param identifier: prefix of a new id; None: the id of the service. ``""``: an empty id.
    :param levels: number of envelopes around a good body.
    :param envelope: field of each envelope that has the inner body.
    :param is_generic: whether the answer is in a field that has other uses as well.
    :param word: status word of an unfinished chat request; the default is that of the service.
    :param is_odd: whether status words have unusual upper and lower case.
    :param retry_after: value of the Retry-After header.
    :param latency: seconds until the response. They may exceed the client's timeout.
    :param stores: whether the request is carried out in spite of a 5xx or a missing response.
    :param refuses: whether the connection is refused.
    :param forgets: whether the service loses all chat requests before this one.
    """

    status: int | None = None
    body: str = "good"
    identifier: str | int | None = None
    levels: int = 0
    envelope: str = "data"
    is_generic: bool = False
    word: Any = "queued"
    is_odd: bool = False
    retry_after: str | None = None
    latency: float = 0.01
    stores: bool = False
    refuses: bool = False
    forgets: bool = False

    @property
    def is_success(self) -> bool:
        """Return whether the status is a success, or that of the service."""
        return self.status is None or 200 <= self.status < 300

    @property
    def is_carried_out(self) -> bool:
        """Return whether the service carries the request out. One that it refuses has no effect."""
        may_store = self.stores and (self.status == 0 or (self.status or 0) >= 500)
        # A success that reports an error is one: the service says what it has not done.
        reports_error = self.is_success and self.body == "echo"
        return not self.refuses and not reports_error and (self.is_success or may_store)

    @property
    def is_well(self) -> bool:
        """Return whether the client gets a usable response."""
        is_answered = self.is_success and not self.refuses and self.latency < 20 and not self.forgets
        return is_answered and self.body == "good" and self.identifier not in {*UNUSABLE, "\ud800"}

    def body_of(self, reply: Any, status: int) -> bytes:
        """Return the body of the response.

        :param reply: what the service answers; None if it did nothing.
        """
        if self.body != "good":
            return ODD_BODIES[self.body]
        if reply is None or not 200 <= status < 300:
            reply = reply or {"error": {"message": f"status {status}"}}
        elif isinstance(reply, dict):
            reply = self._in_another_shape(reply)
        for _ in range(self.levels):
            reply = {"status": "success", "message": "OK", "code": 200, self.envelope: reply}
        return json.dumps(reply).encode()

    def _in_another_shape(self, reply: dict[str, Any]) -> dict[str, Any]:
        reply = dict(reply)
        if "request_id" in reply and "status" in reply:
            word = reply.pop("status")
            if word in {"queued", "processing"}:
                word = word if self.word == "queued" else self.word
            elif self.is_odd:
                word = f" {word.title()} "
            reply["state" if self.is_generic else "status"] = word
        if self.is_generic and "answer" in reply:
            reply["result"] = {"text": reply.pop("answer")}
        return reply


WELL = Answer()
ODD_BODIES: dict[str, bytes] = {
    "empty": b"",
    "page": b"<html><title>Maintenance</title>",
    "truncated": b'{"request_id": "r',
    "list": b"[1, null]",
    "number": b"1e400",
    "deep": b"[" * 5000,
    "large": b'"' + b"x" * 300_000 + b'"',
    "typed": b'{"request_id": {}, "status": 7, "answer": [], "error": null, "document_id": false}',
    "infinite": b'{"name": 1e400, "answer": -1e400, "document_id": NaN, "request_id": Infinity}',
    "controls": b'{"name": "\\u001b[2J", "answer": "\\u001b]0;\\u202e\\r\\n \\ud800", "request_id": "\\u0000"}',
    "echo": f'{{"error": "bad key {SECRET}, {ESCAPED_SECRET}", "{SECRET}": 1}}'.encode(),
}

# -- between the client and the service ----------------------------------------------------------

CONNECT_TIMEOUT = 10.0
NOT_SENT = {
    "refused": (0.001, f"ClientConnectorError: Connection refused: nothing accepts connections at {HOST}"),
    "no name": (0.02, "ClientConnectorDNSError: Temporary failure in name resolution"),
    "no route": (CONNECT_TIMEOUT, f"TimeoutError: no connection within {CONNECT_TIMEOUT:g} s"),
    "no proxy": (0.001, "ClientProxyConnectionError: Cannot connect to the proxy (connection refused)"),
    "tunnel": (0.01, f"the proxy {PROXY} answered CONNECT with 503 Service Unavailable"),
}


@dataclass(frozen=True)
class Outage:
    """
    A time in which the service cannot be reached.

    :param start: seconds from the beginning of the try.
    :param seconds: duration.
    :param kind: what a request meets: a key of ``NOT_SENT``, ``reset``, ``silent``, or the status of a gateway's page.
    """

    start: float
    seconds: float
    kind: str | int

    @property
    def end(self) -> float:
        """Return the seconds from the beginning of the try to the end."""
        return self.start + self.seconds

    def outcome(self, timeout: float) -> tuple[float, Outcome]:
        """Return the seconds until the outcome of a request, and the outcome."""
        if self.kind in NOT_SENT:
            seconds, detail = NOT_SENT[str(self.kind)]
            host = f"{HOST} through the proxy {PROXY}" if self.kind in {"no proxy", "tunnel"} else HOST
            return seconds, AssistantConnectionError(f"No answer from {host}: {detail}")
        if self.kind == "reset":
            return 0.01, lost("connection", "ClientOSError: Connection reset by peer")
        if self.kind == "silent":
            return timeout, lost("timeout", f"TimeoutError: no complete answer within {timeout:g} s")
        return 0.05, Page(int(self.kind), "nginx", f"{self.kind} Gateway trouble").response


def lost(kind: Reset, detail: str) -> AssistantError:
    """Return the outcome of a request that the service may have received."""
    if kind == "timeout":
        return AssistantTimeoutError(f"No answer in time from {HOST}: {detail}", maybe_done=True)
    return AssistantConnectionError(f"No answer from {HOST}: {detail}", maybe_done=True)


@dataclass(frozen=True)
class Page:
    """The reply of a gateway that does not pass a request on; ``is_named``: a header names the gateway."""

    status: int
    name: str = "nginx"
    title: str = ""
    is_named: bool = True

    @property
    def response(self) -> Response:
        """Return the response."""
        text = f"<html>\r\n<head><title>{self.title}</title></head>\r\n<body><h1>{self.title}</h1>"
        headers = {"content-type": "text/html; charset=utf-8", **({"server": self.name} if self.is_named else {})}
        return Response(self.status, headers, f"{text}<hr>{self.name}</body></html>".encode())


# Replies that concern every request. The specification knows none of these.
STOPPING = (
    Page(407, "squid/5.7", "ERROR: Cache Access Denied"),
    Page(421, "Apache", "421 Misdirected Request"),
    Page(431, "nginx", "431 Request Header Fields Too Large"),
    Page(495, "nginx/1.22.1", "400 The SSL certificate error"),
    Page(496, "nginx/1.22.1", "400 No required SSL certificate was sent"),
    Page(497, "nginx/1.22.1", "400 The plain HTTP request was sent to HTTPS port"),
    Page(400, "nginx/1.22.1", "400 No required SSL certificate was sent"),
    Page(400, "Apache", "Bad Request: You're speaking plain HTTP to an SSL-enabled server port."),
    Page(511, "hotspot", "Network Authentication Required"),
)
# Replies that a gateway gives to all requests, or only to one with a suspicious content.
REFUSING = (
    Page(403, "nginx", "403 Forbidden"),
    Page(403, "cloudflare", "Attention Required! | Cloudflare"),
    Page(403, "", "Web Page Blocked!", is_named=False),
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
# A word in the content of rows that a firewall blocks.
BLOCKED_WORD = "DROP TABLE"


@dataclass(frozen=True)
class Gateway:
    """
    A gateway that answers with its own page.

    :param page: its reply.
    :param scope: ``all`` requests from the number ``first`` on, only those with the blocked ``word``, or those above
        the ``rate`` of ``per_second``.
    """

    page: Page
    scope: Literal["all", "word", "rate"] = "all"
    first: int = 0
    per_second: int = 5


# -- generation ----------------------------------------------------------------------------------

LISTED = (200, 201, 202, 204, 400, 401, 403, 404, 408, 410, 425, 429, 500, 502, 503, 504)
RETRY_AFTER = st.one_of(
    st.none(),
    st.sampled_from(["0", "-1", "0.5", "1", "3", "59", "3600", "99999999999", "soon", "", "\u0663", "1e3", "nan"]),
    st.sampled_from(["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]),
    st.just("Fri, 15 Jan 2027 08:00:10 GMT"),  # ten seconds after the start of the virtual clock
)
_LONG_IDS = ["x" * 251, "x" * 9_990, "Ω" * 300]
IDENTIFIERS = st.one_of(
    st.none(),
    st.none(),
    st.integers(1, 10**12),
    st.text(min_size=1, max_size=12),
    st.sampled_from(["", "\x00", "a\x00b", "\ud800", "../../", "a/b?c#d", ".", "..", " ", "\n", *_LONG_IDS]),
)
WORDS = st.sampled_from(["queued", "RUNNING", "archived", "", None, 7, "success", ["complete"], "x" * 150])
SHAPES: dict[str, st.SearchStrategy[Any]] = {
    "identifier": IDENTIFIERS,
    "levels": st.integers(0, 3),
    "envelope": st.sampled_from(["data", "result", "payload", "response", "chat"]),
    "is_generic": st.booleans(),
    "word": WORDS,
    "is_odd": st.booleans(),
}
_BODIES = ["good", "good", "good", "good", "empty", "page", "truncated", "list", "number", "deep", "large"]
ANSWERS = st.builds(
    Answer,
    status=st.one_of(st.sampled_from(LISTED), st.integers(200, 599), st.just(0)),
    body=st.sampled_from([*_BODIES, "typed", "echo"]),
    retry_after=RETRY_AFTER,
    latency=st.sampled_from([0.0, 0.01, 0.3, 5.0, 29.0, 31.0, 3600.0]),
    stores=st.booleans(),
    refuses=st.sampled_from([False, False, False, True]),
    forgets=st.sampled_from([False, False, False, False, False, True]),
    **SHAPES,
)
# Correct answers of many shapes.
SHAPED = st.builds(Answer, **SHAPES)
REFUSALS = st.builds(Answer, status=st.just(429), retry_after=RETRY_AFTER)
BROKEN = st.builds(Answer, status=st.sampled_from([0, 500, 503]), stores=st.booleans(), refuses=st.booleans())
# Successes with faulty bodies.
ODD = st.builds(Answer, status=st.sampled_from([200, 202]), body=st.sampled_from([*ODD_BODIES]))
SLOW = st.builds(Answer, latency=st.sampled_from([200.0, 300.0, 3000.0]))
OFTEN_WELL = st.one_of(st.just(WELL), SHAPED, ANSWERS, REFUSALS, BROKEN, ODD, SLOW)
# All requests are refused, without a pause.
NO_PAUSE = st.builds(
    Answer, status=st.just(429), retry_after=st.sampled_from(["0", "0.0", "Thu, 01 Jan 1970 00:00:00 GMT"])
)
THEN = st.one_of(st.just(WELL), st.just(WELL), SHAPED, ANSWERS, REFUSALS, NO_PAUSE, ODD)
OUTAGES = st.builds(
    Outage,
    start=st.one_of(st.just(0.0), st.floats(0.0, 20.0).map(lambda start: round(start, 2))),
    seconds=st.one_of(st.integers(1, 60).map(float), st.sampled_from([1.0, 2.5, 5.0, 30.0, 59.0])),
    kind=st.sampled_from([*NOT_SENT, "reset", "silent", 502, 503, 504]),
)
