"""
What is sent, checked before it is sent, and what comes back, read with tolerance.

Field names are those of the specification, section 2. Replies keep the service's JSON in ``raw``:
the specification shows almost no response fields, so nothing here fails on one that is missing,
unknown or of another type than expected.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Number
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from airflow_provider_assistant.api.call import Exchange
from airflow_provider_assistant.api.verdict import State, StatusWords
from airflow_provider_assistant.exceptions import AssistantInputError

# A status goes into logs and into the ledger.
STATUS_LENGTH = 100
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
EMAIL = re.compile(r"[^@\s,;<>]+@[^@\s,;<>.]+(\.[^@\s,;<>.]+)*")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def _language_code(code: str) -> str:
    if not LANGUAGE_CODE.fullmatch(code):
        raise ValueError("must be a language code such as 'en' or 'pt-BR'")
    return code


def _email(address: str) -> str:
    if len(address) > 254 or not EMAIL.fullmatch(address):
        raise ValueError("must be one e-mail address")
    return address


Text = Annotated[str, StringConstraints(strict=True), AfterValidator(_not_blank)]
LanguageCode = Annotated[str, StringConstraints(strict=True), AfterValidator(_language_code)]
Email = Annotated[str, StringConstraints(strict=True), AfterValidator(_email)]


class Payload(BaseModel):
    """A JSON body of the API."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def body(self) -> dict[str, Any]:
        """Return the JSON object to send; fields that are not set are left out."""
        return self.model_dump(exclude_none=True)


class TextDocument(Payload):
    """Input of endpoint 3; the specification does not say which fields it requires."""

    title: Text | None = None
    content: Text
    category: Text | None = None


class QADocument(Payload):
    """Input of endpoint 4; the specification does not say which fields it requires."""

    title: Text | None = None
    question: Text
    answer: Text
    category: Text | None = None


class ChatMessage(Payload):
    """Input of endpoints 5 and 6."""

    session_id: Text
    message: Text
    email: Email | None = None
    response_language: LanguageCode | None = None


class Feedback(Payload):
    """Input of endpoint 8; ``feedback`` is a rating word, ``good`` being the one the specification shows."""

    session_id: Text
    request_id: Text
    feedback: Text


class SessionClose(Payload):
    """Input of endpoint 9."""

    session_id: Text


P = TypeVar("P", bound=Payload)


def checked(model: type[P], fields: Mapping[str, Any], *, names: Mapping[str, str] | None = None) -> P:
    """
    Build a payload, or say which of its fields cannot be sent.

    :param model: The payload's class.
    :param fields: Its fields.
    :param names: What users call the fields, for the message: ``column 'reply'``.
    :raises AssistantInputError: Names the first bad field and lists all of them.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as invalid:
        known = names or {}
        problems = [(".".join(map(str, error["loc"])), _problem(error)) for error in invalid.errors()]
        listed = "; ".join(f"{known.get(field, field)} {problem}" for field, problem in problems)
        prefix = "" if names else f"{model.__name__}: "
        raise AssistantInputError(f"{prefix}{listed}", field=problems[0][0]) from None


def _problem(error: Any) -> str:
    # The input itself stays out of the message: it may be personal data.
    match error["type"]:
        case "missing":
            return "is missing"
        case "string_type":
            return "is empty" if error["input"] is None else f"must be text, not {_kind(error['input'])}"
        case "extra_forbidden":
            return "is not a field of this document"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            return str(error["msg"])


def _kind(value: Any) -> str:
    """Return what a value is, in words that are not Python's."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Number):
        return "a number"
    return {"list": "a list", "dict": "an object", "bytes": "bytes"}.get(type(value).__name__, type(value).__name__)


@dataclass(frozen=True, slots=True)
class ApiReply:
    """
    A reply of any endpoint.

    :param raw: The JSON as received; None when the body was empty.
    :param exchange: Status, attempts and seconds.
    """

    raw: Any
    exchange: Exchange

    @property
    def created_id(self) -> str | None:
        """The id of what the call made, if it makes something and the reply shows it."""
        return None

    def as_dict(self) -> dict[str, Any]:
        """Return the reply as plain JSON types, fit for XCom."""
        return {"raw": self.raw}


@dataclass(frozen=True, slots=True)
class CreatedDocument(ApiReply):
    """Reply of endpoints 2, 3 and 4."""

    @property
    def document_id(self) -> str | None:
        """The new document's id, if the reply shows one."""
        return _first_text(self.raw, ("document_id",)) or _document_id(self.raw)

    @property
    def created_id(self) -> str | None:
        """The document's id."""
        return self.document_id

    def as_dict(self) -> dict[str, Any]:
        """Return the reply as plain JSON types, fit for XCom."""
        return {"document_id": self.document_id, "raw": self.raw}


@dataclass(frozen=True, slots=True)
class ChatAnswer(ApiReply):
    """Reply of endpoint 5."""

    @property
    def text(self) -> str | None:
        """The assistant's answer, or None when the reply has no text that can be recognised as one."""
        return _answer_text(self.raw)

    @property
    def session_id(self) -> str | None:
        """The conversation, if the reply repeats it."""
        return _first_text(self.raw, ("session_id",))

    @property
    def request_id(self) -> str | None:
        """The request's id, if the reply shows one; feedback needs it."""
        return _first_text(self.raw, ("request_id",))

    @property
    def created_id(self) -> str | None:
        """The request's id."""
        return self.request_id

    def as_dict(self) -> dict[str, Any]:
        """Return the reply as plain JSON types, fit for XCom."""
        return {
            "text": self.text,
            "session_id": self.session_id,
            "request_id": self.request_id,
            "seconds": round(self.exchange.seconds, 3),
            "raw": self.raw,
        }


@dataclass(frozen=True, slots=True)
class SubmittedChat(ApiReply):
    """Reply of endpoint 6; its parser has made sure that there is a ``request_id``."""

    request_id: str

    @property
    def created_id(self) -> str:
        """The request's id."""
        return self.request_id


@dataclass(frozen=True, slots=True)
class ChatRequest(ApiReply):
    """
    Reply of endpoint 7.

    :param request_id: The request that was polled.
    :param words: The status words that end polling.
    """

    request_id: str
    words: StatusWords = StatusWords()

    @property
    def status(self) -> str:
        """The status as sent, as far as it is a word; an empty string when the reply has none."""
        return _status(self.raw, self.request_id)[:STATUS_LENGTH]

    @property
    def state(self) -> State:
        """What the status means: ``pending``, ``complete`` or ``failed``."""
        return self.words.state(self.status)

    @property
    def text(self) -> str | None:
        """The answer of a complete request."""
        return _answer_text(self.raw) if self.state == "complete" else None

    @property
    def error(self) -> str | None:
        """Why a failed request failed, if the service says so."""
        return error_text(self.raw) if self.state == "failed" else None

    @property
    def service_seconds(self) -> float | None:
        """Seconds from creation to end by the service's own clock, if the reply has both times."""
        for part in _objects(self.raw):
            began, ended = (_moment(part, names) for names in (BEGIN_FIELDS, END_FIELDS))
            if began is not None and ended is not None and ended >= began:
                return ended - began
        return None

    def as_dict(self) -> dict[str, Any]:
        """Return the reply as plain JSON types, fit for XCom."""
        return {
            "request_id": self.request_id,
            "state": self.state,
            "status": self.status,
            "text": self.text,
            "error": self.error,
            "raw": self.raw,
        }


# How many objects deep a field is looked for: a reply and envelopes around it.
LEVELS = 5
# Of each list, the first name that is found at any level counts: the most specific names come first.
ANSWER_FIELDS = ("answer", "reply", "response", "output", "result", "text", "content", "message")
STATUS_FIELDS = ("request_status", "chat_status", "status", "state")
ERROR_FIELDS = ("error_message", "reason", "detail", "message", "title", "code")
BEGIN_FIELDS = ("created_at", "submitted_at", "queued_at")
END_FIELDS = ("completed_at", "finished_at", "ended_at")
# Words of an envelope that say how the HTTP call went: nothing of the answer, or of a request's status.
ACKNOWLEDGEMENTS = frozenset({"ok", "success", "successful", "true"})
# In these fields an acknowledgement is as likely as an answer.
SHARED_FIELDS = frozenset({"response", "output", "result", "text", "content", "message"})


def error_text(raw: Any) -> str | None:
    """Return what a body says went wrong: its ``error`` or a field that commonly explains one."""
    for part in _objects(raw):
        said = part.get("error")
        text = _first_text(said, ERROR_FIELDS) if isinstance(said, Mapping) else _text(said)
        if text:
            return text
    return _first_text(raw, ERROR_FIELDS)


def find_request_id(raw: Any) -> str | None:
    """Return the ``request_id`` of a reply, in whatever envelopes it comes."""
    return _first_text(raw, ("request_id",))


def _objects(raw: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON object itself, then the objects in it, level by level."""
    level = [raw] if isinstance(raw, Mapping) else []
    for _ in range(LEVELS):
        yield from level
        level = [value for part in level for value in part.values() if isinstance(value, Mapping)]


def _text(value: Any) -> str | None:
    """Return a JSON scalar that identifies or says something; ids are sometimes numbers."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def _fields(raw: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield names and values of fields: by name as the names are ordered, and then level by level."""
    parts = list(_objects(raw))
    for name in names:
        yield from ((name, part[name]) for part in parts if name in part)


def _first_text(raw: Any, names: tuple[str, ...]) -> str | None:
    return next((text for _, value in _fields(raw, names) if (text := _text(value))), None)


def _document_id(raw: Any) -> str | None:
    """Return the id of an object that is called a document, or else of any object."""
    document = next((part["document"] for part in _objects(raw) if isinstance(part.get("document"), Mapping)), None)
    return _first_text(document, ("id", "uuid")) or _first_text(raw, ("id", "uuid"))


def _moment(part: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """Return the first of some fields that holds a time in ISO 8601, in seconds since the epoch."""
    for value in filter(None, map(part.get, names)):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


def _is_acknowledgement(word: str) -> bool:
    return word.strip().casefold() in ACKNOWLEDGEMENTS


def _status(raw: Any, request_id: str) -> str:
    """Return the status beside the request's id, or else beside any request id, or else of any object."""
    parts = list(_objects(raw))
    ids = [_text(part.get("request_id")) for part in parts]
    nearest = sorted(range(len(parts)), key=lambda at: (ids[at] != request_id, ids[at] is None))
    words = [text for at in nearest for name in STATUS_FIELDS if (text := _text(parts[at].get(name)))]
    # A number is the HTTP status, which some envelopes repeat.
    said = [word for word in words if not (_is_acknowledgement(word) or word.isdecimal())]
    return next(iter(said or words), "")


def _answer_text(raw: Any) -> str | None:
    if isinstance(raw, str):
        return raw
    found = [(name, text) for name, text in _fields(raw, ANSWER_FIELDS) if isinstance(text, str) and text]
    said = [text for name, text in found if name not in SHARED_FIELDS or not _is_acknowledgement(text)]
    return next(iter(said or [text for _, text in found]), None)
