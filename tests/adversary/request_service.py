"""A scripted in-memory service with all endpoints except those of loads, and a journal of its requests."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from hypothesis import strategies as st

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.multipart import UploadBody
from tests.adversary.service import SECRET

SITE, TENANT, HOST = "docs", "acme", "assistant.test"
# Different JSON encodings.
ESCAPED_SECRET = "".join(f"\\u{ord(char):04x}" for char in SECRET)
# Ids that cannot be part of a path.
UNUSABLE = {"", ".", "..", " "}
Body = Literal[
    "good", "empty", "page", "truncated", "list", "number", "deep", "large", "typed", "echo", "infinite", "controls"
]


@dataclass(frozen=True)
class Answer:
    """
    The service's handling of one request.

    :param status: HTTP status of the response; 0 if the connection breaks.
    :param body: Kind of the body: ``good`` is a correct one, other kinds are faulty.
    :param identifier: Prefix of new ids; None for ordinary ids, ``""`` for empty ones.
    :param levels: Number of envelopes around a good body.
    :param envelope: Field of each envelope that contains the inner body.
    :param is_generic: Whether the answer is in a field that has other uses as well.
    :param word: Status word of an unfinished request.
    :param is_odd: Whether the final status words use unusual upper and lower case.
    :param retry_after: Value of the Retry-After header; None to omit it.
    :param latency: Seconds until the response; may exceed the client's timeout.
    :param stores: Whether the request takes effect in spite of a 5xx or a missing response.
    :param refuses: With status 0, whether the connection is refused.
    :param forgets: Whether the service loses all chat requests before this one.
    """

    status: int = 200
    body: Body = "good"
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
    def is_carried_out(self) -> bool:
        """Whether the request takes effect."""
        if self.refuses or 300 <= self.status < 500:
            return False  # a refused request has no effect
        return self.stores or 200 <= self.status < 300

    @property
    def is_well(self) -> bool:
        """Whether the client receives a usable response."""
        is_answered = 200 <= self.status < 300 and not self.refuses and self.latency < 20
        return is_answered and self.body == "good" and self.identifier not in {*UNUSABLE, "\ud800"}


WELL = Answer()


@dataclass
class Request:
    """An async chat request."""

    session_id: str
    message: str
    ends_after: int
    fails: bool = False
    polls: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether the request has ended after enough polls."""
        return self.polls > self.ends_after


@dataclass(frozen=True)
class Entry:
    """
    The journal entry of a request.

    :param endpoint: Name of the endpoint.
    :param item: Subject of the request: a message, a request id, a session id, a title or a file name.
    :param status: HTTP status; 0 without a response, 404 for an unknown chat request.
    :param is_done: Whether the request took effect.
    :param at: Virtual time in seconds.
    :param answered: Question whose answer reached the client, or None.
    :param is_late: Whether the client stopped waiting for the response.
    """

    endpoint: str
    item: str
    status: int
    is_done: bool
    at: float
    answered: str | None = None
    is_late: bool = False


@dataclass
class Service:
    """
    Handle requests one by one, with a state that persists over all tries of a night.

    :param ends_after: Number of polls after which a chat request ends.
    :param failing: Messages whose chat requests fail.
    """

    ends_after: int = 1
    failing: frozenset[str] = frozenset()
    journal: list[Entry] = field(default_factory=list)
    requests: dict[str, Request] = field(default_factory=dict)
    chats: Counter[tuple[str, str]] = field(default_factory=Counter)
    submitted: Counter[tuple[str, str]] = field(default_factory=Counter)
    ratings: list[tuple[str, str, str]] = field(default_factory=list)
    closed: Counter[str] = field(default_factory=Counter)
    # Sessions that are closed or may be, and the messages that were sent to one of them afterwards.
    closing: set[str] = field(default_factory=set)
    sent_to_closed: list[tuple[str, str]] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    documents: Counter[str] = field(default_factory=Counter)
    _ids: int = 0

    def receive(self, call: Call[Any], answer: Answer, at: float, timeout: float) -> tuple[int, bytes]:
        """
        Handle a request according to the script, and return status and body.

        The status is 0 if the client receives no response.
        """
        if answer.forgets:
            self.requests.clear()
        item, act = self._acts(call, answer)
        self._note_closing(call)
        said = None
        if answer.is_carried_out or call.method == "GET":
            said = act()
        status = 404 if said is None and 200 <= answer.status < 300 else answer.status
        is_late = not answer.refuses and answer.latency >= timeout
        if answer.refuses or is_late:
            status = 0
        is_done = answer.is_carried_out and said is not None
        answered = self._answered(call, item, said or {}) if 200 <= status < 300 and answer.body == "good" else None
        self.journal.append(Entry(call.endpoint, item, status, is_done, at, answered, is_late))
        return status, _body(answer, status, said)

    def _note_closing(self, call: Call[Any]) -> None:
        session = (call.json or {}).get("session_id", "")
        if call.endpoint == "session.close":
            self.closing.add(session)
        elif call.endpoint in {"chat", "chat.async"} and session in self.closing:
            self.sent_to_closed.append((session, call.json["message"]))

    def _answered(self, call: Call[Any], item: str, said: dict[str, Any]) -> str | None:
        if call.endpoint == "chat":
            return item
        return self.requests[item].message if call.endpoint == "chat.request" and "result" in said else None

    def _acts(self, call: Call[Any], answer: Answer) -> tuple[str, Callable[[], dict[str, Any] | None]]:
        sent: dict[str, Any] = dict(call.json or {})
        match call.endpoint:
            case "chat":
                return sent["message"], lambda: self._chat(sent, answer)
            case "chat.async":
                return sent["message"], lambda: self._submit(sent, answer)
            case "chat.request":
                request_id = unquote(call.path.rpartition("/")[2])
                return request_id, lambda: self._poll(request_id, answer)
            case "chat.feedback":
                rating = (sent["session_id"], sent["request_id"], sent["feedback"])
                return sent["request_id"], lambda: self._rate(rating)
            case "session.close":
                return sent["session_id"], lambda: self._close(sent["session_id"])
            case "documents.upload":
                return call.upload.filename if call.upload else "", lambda: self._upload(call)
            case "documents.qa":
                return sent["title"], lambda: self._create(sent["title"], answer)
            case _:
                site = unquote(call.path.split("/")[3])
                return site, lambda: {"name": site, "chats": {"total": 7, "share": 0.5}, "tags": ["a", None]}

    def _chat(self, sent: dict[str, Any], answer: Answer) -> dict[str, Any]:
        self.chats[sent["session_id"], sent["message"]] += 1
        name = "message" if answer.is_generic else "answer"
        return {"request_id": self._new_id(answer), "session_id": sent["session_id"], name: answer_to(sent["message"])}

    def _submit(self, sent: dict[str, Any], answer: Answer) -> dict[str, Any]:
        self.submitted[sent["session_id"], sent["message"]] += 1
        request_id = self._new_id(answer)
        fails = sent["message"] in self.failing
        self.requests[str(request_id)] = Request(sent["session_id"], sent["message"], self.ends_after, fails)
        return {"request_id": request_id, "status": "queued"}

    def _poll(self, request_id: str, answer: Answer) -> dict[str, Any] | None:
        request = self.requests.get(request_id)
        if request is None:
            return None
        request.polls += 1
        state = "state" if answer.is_generic else "status"
        if not request.has_ended:
            return {"request_id": request_id, state: answer.word}
        word = "failed" if request.fails else "complete"
        word = f" {word.title()} " if answer.is_odd else word
        if request.fails:
            return {"request_id": request_id, state: word, "error": {"message": "no idea"}}
        name = "text" if answer.is_generic else "answer"
        return {"request_id": request_id, state: word, "result": {name: answer_to(request.message)}}

    def _rate(self, rating: tuple[str, str, str]) -> dict[str, Any]:
        self.ratings.append(rating)
        return {"received": True}

    def _close(self, session_id: str) -> dict[str, Any]:
        self.closed[session_id] += 1
        return {}

    def _upload(self, call: Call[Any]) -> dict[str, Any]:
        assert call.upload is not None
        with call.upload.open() as content:
            form = UploadBody(content, call.upload.filename, call.upload.content_type).read()
        assert form is not None
        self.files.append((call.upload.filename, form.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]))
        return {"document_id": f"d{len(self.files)}"}

    def _create(self, title: str, answer: Answer) -> dict[str, Any]:
        self.documents[title] += 1
        return {"document_id": self._new_id(answer)}

    def _new_id(self, answer: Answer) -> str | int:
        self._ids += 1
        if answer.identifier is None:
            return f"r{self._ids}"
        if isinstance(answer.identifier, int):
            return answer.identifier * 1000 + self._ids
        return answer.identifier if answer.identifier in UNUSABLE else f"{answer.identifier}{self._ids}"


def answer_to(message: str) -> str:
    """Return the assistant's answer."""
    return f"About {message}"


ODD_BODIES: dict[str, bytes] = {
    "empty": b"",
    "page": b"<html><title>Maintenance</title>",
    "truncated": b'{"request_id": "r',
    "list": b"[1, null]",
    "number": b"1e400",
    "deep": b"[" * 5000,
    "large": b'"' + b"x" * 1_000_000 + b'"',
    "typed": b'{"request_id": {}, "status": 7, "answer": [], "error": null, "document_id": false}',
    "infinite": b'{"name": 1e400, "answer": -1e400, "document_id": NaN, "request_id": Infinity, "chats": [1e400]}',
    "controls": b'{"name": "\\u001b[2J\\u0007", "answer": "\\u001b]0;\\u202e\\r\\n \\ud800", "request_id": "\\u0000"}',
    "echo": f'{{"error": "bad key {SECRET}, {ESCAPED_SECRET}", "{SECRET}": 1}}'.encode(),
}


def _body(answer: Answer, status: int, said: dict[str, Any] | None) -> bytes:
    if answer.body != "good":
        return ODD_BODIES[answer.body]
    if not 200 <= status < 300:
        said = {"error": {"message": f"status {status}"}}
    return json.dumps(_in_envelopes(said or {}, answer)).encode()


def _in_envelopes(said: dict[str, Any], answer: Answer) -> dict[str, Any]:
    for _ in range(answer.levels):
        said = {"status": "success", "message": "OK", "code": 200, answer.envelope: said}
    return said


# -- generation ------------------------------------------------------------------------------------

LISTED = (200, 201, 202, 204, 400, 401, 403, 404, 408, 410, 425, 429, 500, 502, 503, 504)
RETRY_AFTER = st.one_of(
    st.none(),
    st.sampled_from(["0", "-1", "0.5", "1", "3", "59", "3600", "99999999999", "soon", "", "\u0663", "1e3", "nan"]),
    st.sampled_from(["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]),
    st.just("Fri, 15 Jan 2027 08:00:10 GMT"),  # ten seconds after the start of the virtual clock
)
IDENTIFIERS = st.one_of(
    st.none(),
    st.none(),
    st.integers(1, 10**12),
    st.text(min_size=1, max_size=12),
    st.sampled_from(
        ["", "\x00", "a\x00b", "\ud800", "../../", "a/b?c#d", ".", "..", " ", "\n", "x" * 251, "x" * 9_990, "Ω" * 300]
    ),
)
WORDS = st.sampled_from(["queued", "RUNNING", "archived", "", None, 7, "success", ["complete"], "x" * 150])
BODIES: st.SearchStrategy[Body] = st.sampled_from(
    ["good", "good", "good", "empty", "page", "truncated", "list", "number", "deep", "large", "typed", "echo"]
)
SHAPES: dict[str, st.SearchStrategy[Any]] = {
    "identifier": IDENTIFIERS,
    "levels": st.integers(0, 3),
    "envelope": st.sampled_from(["data", "result", "payload", "response", "chat"]),
    "is_generic": st.booleans(),
    "word": WORDS,
    "is_odd": st.booleans(),
}
ANSWERS = st.builds(
    Answer,
    status=st.one_of(st.sampled_from(LISTED), st.integers(200, 599), st.just(0)),
    body=BODIES,
    retry_after=RETRY_AFTER,
    latency=st.sampled_from([0.0, 0.01, 0.3, 5.0, 29.0, 31.0, 3600.0]),
    stores=st.booleans(),
    refuses=st.booleans(),
    forgets=st.sampled_from([False, False, False, True]),
    **SHAPES,
)
# Correct answers of many shapes.
SHAPED = st.builds(Answer, **SHAPES)
REFUSALS = st.builds(Answer, status=st.just(429), retry_after=RETRY_AFTER)
BROKEN = st.builds(Answer, status=st.sampled_from([0, 500, 503]), stores=st.booleans(), refuses=st.booleans())
# Successes with faulty bodies.
ODD: st.SearchStrategy[Answer] = st.builds(
    Answer, status=st.sampled_from([200, 202]), body=st.sampled_from([*ODD_BODIES])
)
OFTEN_WELL = st.one_of(st.just(WELL), SHAPED, ANSWERS, REFUSALS, BROKEN, ODD)
# Permanently answers 429 without a pause.
NO_PAUSE = st.builds(
    Answer, status=st.just(429), retry_after=st.sampled_from(["0", "0.0", "Thu, 01 Jan 1970 00:00:00 GMT"])
)
THEN = st.one_of(st.just(WELL), st.just(WELL), SHAPED, ANSWERS, REFUSALS, NO_PAUSE, ODD)


@dataclass(frozen=True)
class Try:
    """
    One try of a task.

    :param answers: Responses to the first requests.
    :param then: Response to all later requests.
    :param killed_at: Number of the request, from 0, at which the process is killed, or None. A killed triggerer is
        restarted; a killed worker ends the try.
    :param ledger_away: First failing statement of the ledger, and number of failures.
    :param disk_full: First file that cannot be written, and number of such files.
    :param jump: Request at which the clock jumps, and seconds by which it jumps.
    """

    answers: tuple[Answer, ...] = ()
    then: Answer = WELL
    killed_at: int | None = None
    ledger_away: tuple[int, float] | None = None
    disk_full: tuple[int, float] | None = None
    jump: tuple[int, float] | None = None

    @property
    def odd(self) -> list[Answer]:
        """The responses that are not usable."""
        return [answer for answer in (*self.answers, self.then) if not answer.is_well]

    @property
    def is_undisturbed(self) -> bool:
        """Whether all faults of the try are those of the service."""
        return self.killed_at is None and not (self.ledger_away or self.disk_full or self.jump)


def _rarely(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.none(), st.none(), strategy)


TIMES = st.sampled_from([1, 3, 9, math.inf])
TRIES = st.builds(
    Try,
    # A single call often ends with its first response: without a list of responses, all of them are the same.
    answers=st.one_of(st.just(()), st.lists(OFTEN_WELL, min_size=1, max_size=10).map(tuple)),
    then=THEN,
    killed_at=_rarely(st.integers(0, 8)),
    ledger_away=_rarely(st.tuples(st.integers(0, 12), TIMES)),
    disk_full=_rarely(st.tuples(st.integers(0, 6), TIMES)),
    jump=_rarely(st.tuples(st.integers(0, 5), st.sampled_from([-900.0, -30.0, 30.0, 7200.0, 864_000.0]))),
)
