"""Requests, responses and transport failures as plain values."""

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
    Status, attempts, duration and JSON text of a successful call.

    :param status: HTTP status of the response.
    :param attempts: Number of attempts, at least 1. Default: 1.
    :param ambiguous: Number of failed attempts that may have taken effect as well. Default: 0.
    :param seconds: Seconds from the first attempt to the response, including waits. Default: 0.
    :param raw_json: The body as JSON text, with every digit. Default: None, the body was empty.
    :param link: The ``Link`` header of the response. Default: None.
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
    :param json: JSON object to send as the body. Default: None, no body.
    :param upload: File to send as the body. Default: None, no file.
    :param idempotent: Whether sending the call twice has the same effect as once, although its method does not say so.
        Default: False.
    :param private: Whether the path identifies a user, so that no message repeats a text from outside. Default: False.
    :param timeout_field: Field of the connection with the response timeout of this call. Default: ``timeout``.
    :param resend_after_timeout: Whether a create may be sent again after it timed out. False if the service may still
        be answering it. Default: True.
    :param existing: Function that builds the reply from a 409 to a call that was sent again: an earlier attempt has
        had its effect. Default: None, a 409 is an error.
    :param existing_statuses: Statuses that mean so. Default: 409.
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

    :param status: HTTP status.
    :param headers: Values by header name in lower case.
    :param body: The decompressed body; only its beginning if there is a defect.
    :param defect: Reason why the body cannot be read, to follow "a body that …", such as ``is larger than …``. Default:
        None, the body is complete.
    :param sent_status: HTTP status of a response whose body says that the call failed; ``status`` is the one that the
        body means. Default: None, ``status`` is the HTTP status.
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
        Return the body, decoded from JSON.

        :return: The JSON text and its value; None if the body is empty, which the API allows.
        :raises AssistantResponseError: The body is not JSON (such as a proxy's web page), too large, truncated, nested
            too deeply, or has too many values.
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


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """
    A request without a complete HTTP response.

    :param kind: ``timeout`` if the response timeout passed, else ``connection``.
    :param detail: Text of the error, with the API key redacted.
    :param sent: Whether the service may have received the request.
    :param is_answered: Whether there was a response that cannot be read; a retry would get it again. Default: False.
    :param host: ``host:port`` of the service. Default: ``the service``.
    :param proxy: ``host:port`` of the proxy. Default: None, there is none.
    :param proxy_status: Status with which the proxy refused to forward the request, or to open a tunnel for it.
        Default: None, it did not refuse.
    :param todo: What to do. Default: empty, nothing more is known than the detail says.
    """

    kind: Literal["connection", "timeout"]
    detail: str
    sent: bool
    is_answered: bool = False
    host: str = "the service"
    proxy: str | None = None
    proxy_status: int | None = None
    todo: str = ""
