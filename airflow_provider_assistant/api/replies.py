"""
Replies, which are read leniently.

The API's specification defines almost no response fields. Replies therefore keep the service's JSON in ``raw``, and no
property fails if a field is missing, unknown or of an unexpected type. :mod:`.fields` says where a field may be.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.confidence import finite
from airflow_provider_assistant.api.document_state import (
    DEFAULT_WORDS,
    DocumentState,
    DocumentWords,
    document_id_of,
    status_word,
)
from airflow_provider_assistant.api.fields import (
    ENVELOPES,
    REASONS,
    error_in,
    find,
    find_as,
    is_acknowledgement,
    layers,
    reason_of,
    text_of,
)
from airflow_provider_assistant.api.status import State, StatusMapping

# Maximum length of a status word and of a confidence level, because they are columns and in logs.
WORD_LENGTH = 100
# Maximum length of a body that stands for its reason.
SHOWN_CHARACTERS = 300
CHAT_ENVELOPES = ("chat", "request", "answer", *ENVELOPES)
# A ``message`` is never the answer: it may be the question, or a note such as "Request completed". To have no answer is
# noticed and counted, whereas a note that is taken for an answer would be scored.
ANSWER_FIELDS = ("answer", "reply")
# Fields that hold an answer, or else a note about the request.
SHARED_FIELDS = ("response", "result", "output", "text", "content")
# Fields of a reply that only says that a call failed.
ERROR_REPLY_FIELDS = frozenset(
    {*REASONS, "success", "ok", "type", "instance", "path", "timestamp", "trace_id", "request_id", "status", "state"}
    | {"status_code", "statusCode", "meta", "results", "data", "documentation_url", "help", "error_code"}
    | {"errorType", "stackTrace", "trace", "requestId"}
)
# Names by which Airflow's serialization recognises its own objects.
RESERVED_NAMES = frozenset(
    {"__classname__", "__version__", "__data__", "__id__", "__cache__", "__type", "__source", "__var"}
)


@dataclass(frozen=True, slots=True)
class ApiReply:
    """
    A successful reply; base class of all other replies.

    :param raw: The JSON value; None if the body was empty. See :class:`.strict_json.Document` for what is replaced.
    """

    # The properties in as_dict, and the one with the id of the object that the call creates.
    SHOWN: ClassVar[tuple[str, ...]] = ()
    CREATED_ID: ClassVar[str] = ""

    raw: Any
    call_info: CallInfo

    @property
    def raw_json(self) -> str | None:
        """The JSON text, with every digit; None if the body was empty."""
        return self.call_info.raw_json

    @property
    def created_id(self) -> str | None:
        """Id of the object that the call created; None if it creates nothing or the reply has no id."""
        created_id: str | None = getattr(self, self.CREATED_ID) if self.CREATED_ID else None
        return created_id

    @property
    def has_result(self) -> bool:
        """Whether a reply that reports an error has a result nevertheless, so that the error is only a warning."""
        if not isinstance(self.raw, dict):
            return False
        # A number such as that of ``"deleted": 0`` does not count as a result.
        return any(value and name not in ERROR_REPLY_FIELDS for name, value in self.raw.items())

    def as_dict(self) -> dict[str, Any]:
        """Return the properties in SHOWN, and ``raw``, as plain JSON types for XCom; see :func:`xcom_value`."""
        return {name: getattr(self, name) for name in self.SHOWN} | {"raw": xcom_value(self.raw)}


@dataclass(frozen=True, slots=True)
class CreatedDocument(ApiReply):
    """
    Reply of ``POST …/documents``, ``…/documents/text`` and ``…/documents/qa``.

    :param words: Status words of documents. Default: common ones.
    :param status_field: Field with the status of a document. Default: the usual ones.
    """

    SHOWN = ("document_id", "state", "status")
    CREATED_ID = "document_id"

    words: DocumentWords = DEFAULT_WORDS
    status_field: str | None = None

    @property
    def document_id(self) -> str | None:
        """Id of the new document; None if the reply has none."""
        return document_id_of(self.raw)

    @property
    def has_result(self) -> bool:
        """Whether the reply has the id of the document."""
        return self.document_id is not None

    @property
    def existed(self) -> bool:
        """Whether an earlier attempt had created the document: the service answered 409."""
        return self.call_info.status == HTTPStatus.CONFLICT

    @property
    def state(self) -> DocumentState:
        """Whether the document is in use (``active``); ``unknown`` if the reply has no status of it."""
        return "unknown" if self.status is None else self.words.state(self.status)

    @property
    def status(self) -> str | None:
        """Status of the document, as the service sent it; None if the reply has none."""
        return status_word(self.raw, self.status_field)


class ChatAnswer(ApiReply):
    """Reply of ``POST …/chat``."""

    SHOWN = ("text", "confidence_level", "confidence_score", "session_id", "request_id", "seconds")
    CREATED_ID = "request_id"

    @property
    def text(self) -> str | None:
        """Text of the answer; None if no field of the reply can be recognised as one."""
        return answer_of(self.raw)

    @property
    def has_result(self) -> bool:
        """Whether the reply has an answer in a field that holds nothing else, and that does not repeat its error."""
        answer = find_as(_text, self.raw, *ANSWER_FIELDS, envelopes=CHAT_ENVELOPES)
        return answer not in {None, reason_of(self.raw, CHAT_ENVELOPES)}

    @property
    def confidence_level(self) -> str | None:
        """Confidence in the answer as a word, such as ``low``; None if the reply has none."""
        return find_as(_level, self.raw, "confidence_level", "confidence", envelopes=CHAT_ENVELOPES)

    @property
    def confidence_score(self) -> float | None:
        """Confidence in the answer as a finite number; None if the reply has none."""
        return find_as(finite, self.raw, "confidence_score", "confidence", envelopes=CHAT_ENVELOPES)

    @property
    def session_id(self) -> str | None:
        """Id of the session; None if the reply has none."""
        return find(self.raw, "session_id", "sessionId", envelopes=CHAT_ENVELOPES)

    @property
    def request_id(self) -> str | None:
        """Id of the chat request, which feedback needs; None if the reply has none."""
        return find_request_id(self.raw)

    @property
    def seconds(self) -> float:
        """Seconds from the first attempt to the answer."""
        return round(self.call_info.seconds, 3)


@dataclass(frozen=True, slots=True)
class SubmittedChat(ApiReply):
    """
    Reply of ``POST …/chat/async``.

    :param request_id: Id of the chat request; empty if the reply reports an error instead.
    """

    CREATED_ID = "request_id"

    request_id: str

    @property
    def has_result(self) -> bool:
        """Whether the reply has the id of the chat request."""
        return bool(self.request_id)


@dataclass(frozen=True, slots=True)
class ChatRequest(ApiReply):
    """
    Reply of ``GET …/chat/requests/{request_id}``.

    :param request_id: Id of the polled chat request.
    :param words: Status words that end polling. Default: the built-in ones.
    """

    SHOWN = ("request_id", "state", "status", "text", "confidence_level", "confidence_score", "error")

    request_id: str
    words: StatusMapping = StatusMapping()

    @property
    def status(self) -> str:
        """Status as the service sent it, cut to WORD_LENGTH characters; empty if the reply has none."""
        names = ("status", "state")
        objects = layers(self.raw, CHAT_ENVELOPES)
        of_request = next((json_object for json_object in objects if json_object.get("request_id")), None)
        found = find_as(_status, of_request, *names, envelopes=())
        found = found or find_as(_status, self.raw, *names, envelopes=CHAT_ENVELOPES) or find(self.raw, *names)
        return (found or "")[:WORD_LENGTH]

    @property
    def state(self) -> State:
        """
        Meaning of the status: ``pending``, ``complete`` or ``failed``.

        A complete request without an answer has failed if its reply has an error.
        """
        state = self.words.state(self.status)
        if state == "complete" and answer_of(self.raw) is None and any(map(error_in, layers(self.raw, CHAT_ENVELOPES))):
            return "failed"
        return state

    @property
    def has_result(self) -> bool:
        """Whether the reply has a status of the chat request, and not only an error of the poll."""
        return _status(self.status) is not None

    @property
    def text(self) -> str | None:
        """Text of the answer; None unless the request is complete."""
        return answer_of(self.raw) if self.state == "complete" else None

    @property
    def confidence_level(self) -> str | None:
        """Confidence in the answer as a word, such as ``low``; None unless the request is complete and has one."""
        return self._answer().confidence_level

    @property
    def confidence_score(self) -> float | None:
        """Confidence in the answer as a finite number; None unless the request is complete and has one."""
        return self._answer().confidence_score

    @property
    def error(self) -> str | None:
        """Reason that the service gives for a failed request; None if it gives none or the request has not failed."""
        return reason_of(self.raw, CHAT_ENVELOPES) if self.state == "failed" else None

    def _answer(self) -> ChatAnswer:
        return ChatAnswer(self.raw if self.state == "complete" else None, self.call_info)


def xcom_value(value: Any) -> Any:
    """
    Return a JSON value that Airflow's XCom passes on as it is.

    Airflow refuses some names in an object, or builds an object of Python from them: these get a leading underscore.
    The task's process sends XComs as MessagePack, whose integers have 64 bits: longer ones become text.
    """
    if isinstance(value, dict):
        items = {}
        for name, item in value.items():
            xcom_name = f"_{name}" if name in RESERVED_NAMES else name
            items[xcom_name] = xcom_value(item)
        return items
    if isinstance(value, list):
        return [xcom_value(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def error_text(raw: Any) -> str | None:
    """Return the reason of an error, or else the beginning of its JSON text; None if it is empty."""
    return reason_of(raw) or (json.dumps(raw, ensure_ascii=False)[:SHOWN_CHARACTERS] if raw else None)


def find_request_id(raw: Any) -> str | None:
    """Return the ``request_id`` of a reply to a chat; None if it has none."""
    return find(raw, "request_id", "requestId", envelopes=CHAT_ENVELOPES)


def answer_of(raw: Any) -> str | None:
    """Return the answer in a reply to a chat; None if it has none. A reply that is a text is the answer."""
    if isinstance(raw, str):
        return raw or None
    answer = find_as(_text, raw, *ANSWER_FIELDS, envelopes=CHAT_ENVELOPES)
    return answer or find_as(_note, raw, *SHARED_FIELDS, envelopes=CHAT_ENVELOPES)


def _text(value: Any) -> str | None:
    return value or None if isinstance(value, str) else None


def _note(value: Any) -> str | None:
    """Return a text that does not only acknowledge the request."""
    text = _text(value)
    return None if text is None or is_acknowledgement(text) else text


def _status(value: Any) -> str | None:
    """Return a status of a chat request, but not one of the HTTP request, such as ``ok`` or 200."""
    word = text_of(value)
    if word is None or word.strip().isdecimal() or is_acknowledgement(word):
        return None
    return word


def _level(value: Any) -> str | None:
    """Return a text that is not a number, which would be a score."""
    if isinstance(value, str) and value.strip() and finite(value) is None:
        return value.strip()[:WORD_LENGTH]
    return None
