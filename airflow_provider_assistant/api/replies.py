"""
Replies, which are read leniently.

The API's specification defines almost no response fields. Replies therefore keep the service's JSON in ``raw``, and no
property fails if a field is missing, unknown or of an unexpected type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.confidence import confidence_level, confidence_score
from airflow_provider_assistant.api.document_state import (
    DEFAULT_WORDS,
    DocumentState,
    DocumentWords,
    document_state,
    status_word,
)
from airflow_provider_assistant.api.json_objects import (
    ENVELOPES,
    document_id_of,
    first_text,
    is_acknowledgement,
    nested_objects,
    reply_objects,
    text_of,
)
from airflow_provider_assistant.api.status import State, StatusMapping

# Maximum length of a status word, because it is written to logs and to the ledger.
STATUS_LENGTH = 100


@dataclass(frozen=True, slots=True)
class ApiReply:
    """
    A successful reply; base class of all other replies.

    :param raw: The JSON value; None if the body was empty. See :class:`.strict_json.Document` for what is replaced.
    :param call_info: Status, number of attempts and duration of the call.
    """

    raw: Any
    call_info: CallInfo

    @property
    def raw_json(self) -> str | None:
        """The JSON text, with every digit; None if the body was empty."""
        return self.call_info.raw_json

    @property
    def created_id(self) -> str | None:
        """Id of the object that the call created; None if it creates nothing or the reply has no id."""
        return None

    @property
    def has_result(self) -> bool:
        """Whether a reply with an error has a result nevertheless, so that the error is only a warning."""
        if not isinstance(self.raw, dict):
            return False
        # A number such as that of ``"deleted": 0`` does not count as a result.
        return any(value and name not in ERROR_REPLY_FIELDS for name, value in self.raw.items())

    @property
    def has_sure_result(self) -> bool:
        """Whether a reply that says that the call failed has a result nevertheless."""
        return self.has_result

    def as_dict(self) -> dict[str, Any]:
        """
        Return the reply as plain JSON types, for XCom.

        :return: ``raw``, see :func:`xcom_value`.
        """
        return {"raw": xcom_value(self.raw)}


@dataclass(frozen=True, slots=True)
class CreatedDocument(ApiReply):
    """
    Reply of ``POST …/documents``, ``…/documents/text`` and ``…/documents/qa``.

    :param raw: The JSON as received; None if the body was empty.
    :param call_info: Status, number of attempts and duration of the call.
    :param words: Status words of documents. Default: common ones.
    :param status_field: Field with the status of a document. Default: common ones.
    :param id_field: Field with the id of a document, or the path to it. Default: common ones.
    """

    words: DocumentWords = DEFAULT_WORDS
    status_field: str | None = None
    id_field: str | None = None

    @property
    def document_id(self) -> str | None:
        """Id of the new document; None if the reply has none."""
        if self.id_field is not None:
            document_id = _at_path(self.raw, self.id_field)
            if document_id:
                return document_id
        return document_id_of(self.raw)

    @property
    def created_id(self) -> str | None:
        """Id of the new document; None if the reply has none."""
        return self.document_id

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
        return document_state(self.raw, self.words, self.status_field)

    @property
    def status(self) -> str | None:
        """Status that decides on the state, as the service sent it; None if the reply has none."""
        return status_word(self.raw, self.status_field, self.words)

    def as_dict(self) -> dict[str, Any]:
        """
        Return the reply as plain JSON types, for XCom.

        :return: ``document_id``, ``state``, ``status`` and ``raw``.
        """
        return {
            "document_id": self.document_id,
            "state": self.state,
            "status": self.status,
            "raw": xcom_value(self.raw),
        }


@dataclass(frozen=True, slots=True)
class ChatAnswer(ApiReply):
    """
    Reply of ``POST …/chat``.

    :param raw: The JSON as received; None if the body was empty.
    :param call_info: Status, number of attempts and duration of the call.
    """

    @property
    def text(self) -> str | None:
        """Text of the answer; None if no field of the reply can be recognised as one."""
        return _answer_text(self.raw)

    @property
    def has_result(self) -> bool:
        """Whether the reply has an answer."""
        return self.text not in {None, error_text(self.raw)}

    @property
    def has_sure_result(self) -> bool:
        """Whether the reply has an answer in a field that cannot hold the text of an error."""
        return first_text(reply_objects(self.raw), OWN_ANSWER_FIELDS) is not None

    @property
    def confidence_level(self) -> str | None:
        """Confidence in the answer as a word, such as ``low``; None if the reply has none."""
        return confidence_level(self.raw)

    @property
    def confidence_score(self) -> float | None:
        """Confidence in the answer as a finite number; None if the reply has none."""
        return confidence_score(self.raw)

    @property
    def session_id(self) -> str | None:
        """Id of the session; None if the reply has none."""
        return first_text(reply_objects(self.raw), ("session_id",))

    @property
    def request_id(self) -> str | None:
        """Id of the chat request, which feedback needs; None if the reply has none."""
        return first_text(reply_objects(self.raw), ("request_id",))

    @property
    def created_id(self) -> str | None:
        """Id of the chat request; None if the reply has none."""
        return self.request_id

    def as_dict(self) -> dict[str, Any]:
        """
        Return the reply as plain JSON types, for XCom.

        :return: ``text``, ``confidence_level``, ``confidence_score``, ``session_id``, ``request_id``, ``seconds`` (from
            the first attempt to the answer) and ``raw``.
        """
        return {
            "text": self.text,
            "confidence_level": self.confidence_level,
            "confidence_score": self.confidence_score,
            "session_id": self.session_id,
            "request_id": self.request_id,
            "seconds": round(self.call_info.seconds, 3),
            "raw": xcom_value(self.raw),
        }


@dataclass(frozen=True, slots=True)
class SubmittedChat(ApiReply):
    """
    Reply of ``POST …/chat/async``.

    :param raw: The JSON as received.
    :param call_info: Status, number of attempts and duration of the call.
    :param request_id: Id of the chat request; the parser has checked that the reply has one. Empty if the reply reports
        an error instead.
    """

    request_id: str

    @property
    def has_result(self) -> bool:
        """Whether the reply has the id of the chat request."""
        return bool(self.request_id)

    @property
    def created_id(self) -> str:
        """Id of the chat request."""
        return self.request_id


@dataclass(frozen=True, slots=True)
class ChatRequest(ApiReply):
    """
    Reply of ``GET …/chat/requests/{request_id}``.

    :param raw: The JSON as received; None if the body was empty.
    :param call_info: Status, number of attempts and duration of the call.
    :param request_id: Id of the polled chat request.
    :param words: Status words that end polling. Default: the built-in ones.
    """

    request_id: str
    words: StatusMapping = StatusMapping()

    @property
    def status(self) -> str:
        """Status as the service sent it, cut to STATUS_LENGTH characters; empty if the reply has none."""
        return _status(self.raw, self.request_id)[:STATUS_LENGTH]

    @property
    def state(self) -> State:
        """
        Meaning of the status: ``pending``, ``complete`` or ``failed``.

        A complete request without an answer has failed if its reply has an error.
        """
        state = self.words.state(self.status)
        if state == "complete" and _answer_text(self.raw) is None and _has_error(self.raw):
            return "failed"
        return state

    @property
    def has_result(self) -> bool:
        """Whether the reply has a status of the chat request, and not only an error of the poll."""
        status = self.status
        return bool(status) and not status.isdecimal() and not is_acknowledgement(status)

    @property
    def has_sure_result(self) -> bool:
        """Whether the reply has a final status of the chat request."""
        return self.has_result and self.state != "pending"

    @property
    def text(self) -> str | None:
        """Text of the answer; None unless the request is complete."""
        return _answer_text(self.raw) if self.state == "complete" else None

    @property
    def confidence_level(self) -> str | None:
        """Confidence in the answer as a word, such as ``low``; None unless the request is complete and has one."""
        if self.state != "complete":
            return None
        return confidence_level(self.raw)

    @property
    def confidence_score(self) -> float | None:
        """Confidence in the answer as a finite number; None unless the request is complete and has one."""
        if self.state != "complete":
            return None
        return confidence_score(self.raw)

    @property
    def error(self) -> str | None:
        """Reason that the service gives for a failed request; None if it gives none or the request has not failed."""
        return error_text(self.raw) if self.state == "failed" else None

    def as_dict(self) -> dict[str, Any]:
        """
        Return the reply as plain JSON types, for XCom.

        :return: ``request_id``, ``state``, ``status``, ``text``, ``confidence_level``, ``confidence_score``, ``error``
            and ``raw``.
        """
        return {
            "request_id": self.request_id,
            "state": self.state,
            "status": self.status,
            "text": self.text,
            "confidence_level": self.confidence_level,
            "confidence_score": self.confidence_score,
            "error": self.error,
            "raw": xcom_value(self.raw),
        }


# The first name of each tuple that exists at any level counts, so the most specific names come first. The last name of
# an answer is ``message``, see NOTED_FIELDS.
ANSWER_FIELDS = ("answer", "reply", "response", "output", "result", "text", "content")
STATUS_FIELDS = ("request_status", "chat_status", "status", "state")
ERROR_FIELDS = ("error_message", "reason", "detail", "message", "title", "code")
# Number of errors of a list that are shown.
SHOWN_ERRORS = 3
# Words with which a reply, other than that to a poll, says that the call failed.
FAILURE_WORDS = frozenset({"failed", "failure", "fail", "error"})
# Fields of a reply that only says that a call failed.
ERROR_REPLY_FIELDS = frozenset(
    {"error", "errors", "success", "ok", "type", "instance", "path", "timestamp", "trace_id", "request_id"}
    | {"status", "state", "status_code", "statusCode", "meta", "results", "data", "documentation_url", "help"}
    | {"error_message", "error_code", "error_description", "reason", "detail", "details", "message", "title", "code"}
)
# Fields that hold an answer and nothing else.
OWN_ANSWER_FIELDS = ("answer", "reply")
# Names by which Airflow's serialization recognises its own objects.
RESERVED_NAMES = frozenset(
    {"__classname__", "__version__", "__data__", "__id__", "__cache__", "__type", "__source", "__var"}
)
# Fields that may hold an acknowledgement as well as an answer.
SHARED_FIELDS = frozenset({"response", "output", "result", "text", "content", "message"})
# Envelopes in which ``message`` may be the answer: in the object of the request, it is the question.
_AROUND_MESSAGE = (*ENVELOPES, "chat", "answer", "reply", "output")
# In an object with one of these fields, and in an envelope around it, ``message`` says how the request went, such as
# "Request completed", and is not the answer. To have no answer is noticed and counted, whereas a note that is taken for
# an answer would be scored.
NOTED_FIELDS = (*STATUS_FIELDS, "success", "ok", "code", "error", "errors")


def error_text(raw: Any) -> str | None:
    """
    Return the error message in a JSON body.

    :param raw: The decoded body.
    :return: The text of its ``error`` field, or else of another field that commonly holds one; None if it has none.
    """
    objects = nested_objects(raw)
    for json_object in objects:
        text = _text_of_error(json_object.get("error")) or _text_of_error(json_object.get("errors"))
        if text:
            return text
    return first_text(objects, ERROR_FIELDS)


def _text_of_error(error: Any, depth: int = 3) -> str | None:
    """Return the text of an error, of the first ones in a list, or of the fields that an object names."""
    if isinstance(error, Mapping):
        text = first_text(nested_objects(error), ERROR_FIELDS)
        if text or not depth:
            return text
        named = [(name, _text_of_error(value, depth - 1)) for name, value in list(error.items())[:SHOWN_ERRORS]]
        return "; ".join(f"{name}: {text}" for name, text in named if text) or None
    if isinstance(error, list) and depth:
        texts = [_text_of_error(item, depth - 1) for item in error[:SHOWN_ERRORS]]
        return "; ".join(text for text in texts if text) or None
    return text_of(error)


def _has_error(raw: Any) -> bool:
    return any(
        _text_of_error(json_object.get(name)) for json_object in reply_objects(raw) for name in ("error", "errors")
    )


def xcom_value(value: Any) -> Any:
    """
    Return a JSON value that Airflow's XCom passes on as it is.

    Airflow refuses some names in an object, or builds an object of Python from them: these get a leading underscore.
    The task's process sends XComs as MessagePack, whose integers have 64 bits: longer ones become text.

    :param value: The JSON value.
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


def find_request_id(raw: Any) -> str | None:
    """
    Return the ``request_id`` of a reply, at the top level or in an envelope.

    :param raw: The decoded body.
    :return: The id as text; None if the reply has none.
    """
    return first_text(reply_objects(raw), ("request_id",))


def _fields(
    objects: Sequence[Mapping[str, Any]],
    names: tuple[str, ...],
) -> Iterator[tuple[str, Any]]:
    """Yield names and values of fields, ordered by name as given, and then by level."""
    for name in names:
        for json_object in objects:
            if name in json_object:
                yield name, json_object[name]


def _status(raw: Any, request_id: str) -> str:
    """Return the status in the object with this request id, or else with any request id, or else in any object."""
    objects = sorted(reply_objects(raw), key=lambda json_object: _id_rank(json_object, request_id))
    first_word = ""
    for json_object in objects:
        for name in STATUS_FIELDS:
            word = text_of(json_object.get(name))
            if not word:
                continue
            # Some envelopes repeat the HTTP status: skip numbers.
            if not is_acknowledgement(word) and not word.isdecimal():
                return word
            first_word = first_word or word
    # No object has a better status than an acknowledgement or a number.
    return first_word


def _at_path(raw: Any, path: str) -> str | None:
    """Return the text at a path such as ``meta.key``, or else in a field with its last name."""
    names = path.split(".")
    objects = reply_objects(raw)
    for json_object in objects:
        value: Any = json_object
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        text = text_of(value)
        if text:
            return text
    return first_text(objects, (path, names[-1]))


def _id_rank(json_object: Mapping[str, Any], request_id: str) -> int:
    """Return 0 for an object with this request id, 1 with another request id, and 2 without any."""
    object_id = text_of(json_object.get("request_id"))
    if object_id is None:
        return 2
    return 0 if object_id == request_id else 1


def _is_noted(json_object: Mapping[str, Any]) -> bool:
    """Return whether an object, or one in its envelopes, says how the request went."""
    return any(inner.get(name) is not None for inner in reply_objects(json_object) for name in NOTED_FIELDS)


def _answer_text(raw: Any) -> str | None:
    if isinstance(raw, str):
        return raw
    objects = reply_objects(raw)
    messages = [
        ("message", json_object["message"])
        for json_object in reply_objects(raw, _AROUND_MESSAGE)
        if "message" in json_object and not _is_noted(json_object)
    ]
    first_acknowledgement = None
    for name, text in chain(_fields(objects, ANSWER_FIELDS), messages):
        if not isinstance(text, str) or not text:
            continue
        if name not in SHARED_FIELDS or not is_acknowledgement(text):
            return text
        first_acknowledgement = first_acknowledgement or text
    # The reply has no other text, so this is the answer: "ok" may answer a question.
    return first_acknowledgement
