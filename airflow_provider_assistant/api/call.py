"""Requests and responses as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, Literal, TypeVar

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.exceptions import AssistantResponseError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Upload:
    """
    A file to send as the multipart part ``file``.

    :param open: Function that opens the content at its beginning; it is called once per attempt.
    :param filename: File name to send.
    :param content_type: MIME type of the content.
    :param rewindable: Whether ``open`` works more than once; if not, the call is never retried. Default: True.
    """

    open: Callable[[], AbstractContextManager[BinaryIO]]
    filename: str
    content_type: str
    rewindable: bool = True


@dataclass(frozen=True, slots=True)
class CallInfo:
    """
    How a call went that succeeded.

    :param status: HTTP status of the response.
    :param attempts: Number of attempts, at least 1.
    :param ambiguous: Number of failed attempts that may have taken effect as well.
    :param seconds: Seconds from the first attempt to the response, including waits.
    :param raw_json: The body as JSON text, with every digit; None if it was empty.
    :param link: The ``Link`` header of the response.
    """

    status: int
    attempts: int = 1
    ambiguous: int = 0
    seconds: float = 0.0
    raw_json: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """
    One API call: a request and the parser of its reply.

    :param endpoint: Stable short name of the route, such as ``chat.async``; used in messages and as a metric tag.
    :param method: HTTP method.
    :param path: Path below the base URL, already percent-encoded.
    :param subject: Object of the call for messages, such as ``site 'docs'``.
    :param parse: Function that builds the reply from the decoded body (None if it is empty) and the call_info.
    :param json: JSON object to send as the body.
    :param upload: File to send as the body.
    :param idempotent: Whether sending the call twice has the same effect as once, although its method does not say so.
    :param private: Whether the path identifies a user, so that no message repeats a text from outside.
    :param timeout_field: Field of the connection with the response timeout of this call.
    :param resend_after_timeout: Whether a create may be sent again after it timed out. False if the service may still
        be answering it.
    :param existing: Function that builds the reply from a 409 to a call that was sent again: an earlier attempt has
        had its effect. None: a 409 is an error.
    :param existing_statuses: Statuses that mean so.
    """

    endpoint: str
    method: str
    path: str
    subject: str
    parse: Callable[[Any, CallInfo], T]
    json: Mapping[str, Any] | None = None
    upload: Upload | None = None
    idempotent: bool = False
    private: bool = False
    timeout_field: Literal["timeout", "chat_timeout"] = "timeout"
    resend_after_timeout: bool = True
    existing: Callable[[Any, CallInfo], T] | None = None
    existing_statuses: frozenset[int] = frozenset({409})

    @property
    def repeatable(self) -> bool:
        """Whether sending the call twice has the same effect as sending it once."""
        return self.idempotent or self.method in {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}

    def __str__(self) -> str:
        return f"{self.method} {self.endpoint} for {self.subject}"


@dataclass(frozen=True, slots=True)
class Response:
    """
    An HTTP response.

    :param headers: Values by header name in lower case.
    :param body: The decompressed body; only its beginning if there is a defect.
    :param defect: Reason why the body cannot be read, to follow "a body that …", such as ``is larger than …``.
    :param sent_status: HTTP status of a response whose body says that the call failed; ``status`` is the one that the
        body means. None: ``status`` is the HTTP status.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    defect: str | None = None
    sent_status: int | None = None

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def document(self) -> strict_json.Document | None:
        """
        Return the JSON text of the body and its value; None if it is empty, which the API allows.

        :raises AssistantResponseError: The body is not JSON, too large, truncated, or too deep.
        """
        if self.defect:
            raise AssistantResponseError(f"status {self.status} with a body that {self.defect}")
        if not self.body.strip():
            return None
        try:
            return strict_json.read(self.body)
        except strict_json.LimitError as error:
            raise AssistantResponseError(f"status {self.status} with a body whose JSON is {error}") from None
        except ValueError:
            kind = self.headers.get("content-type", "no content type")[:100]
            raise AssistantResponseError(f"status {self.status} with a body that is not JSON ({kind})") from None

    def readable_value(self) -> Any:
        """Return the JSON value of the body; None if it is empty or cannot be read."""
        try:
            document = self.document()
        except AssistantResponseError:
            return None
        return document.value if document else None
