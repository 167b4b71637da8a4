"""What goes over the wire and what comes back, as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, Literal, TypeVar

from airflow_provider_assistant.exceptions import AssistantResponseError

T = TypeVar("T")

# Far more than any answer needs, and far less than what Python's recursion, and so XCom, can bear.
MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Upload:
    """
    A file to send as the multipart part ``file``.

    :param open: Opens the content from its beginning; called once for every attempt.
    :param filename: Name the service sees.
    :param content_type: MIME type of the content.
    :param rewindable: False when ``open`` can give the content only once, which rules out a second attempt.
    """

    open: Callable[[], AbstractContextManager[BinaryIO]]
    filename: str
    content_type: str
    rewindable: bool = True


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    How a reply was obtained.

    :param status: HTTP status of the answer.
    :param attempts: How many times the request was sent, at least 1.
    :param ambiguous: How many earlier attempts may have taken effect as well.
    :param seconds: From the first attempt to the answer, waits included.
    """

    status: int
    attempts: int = 1
    ambiguous: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """
    One request to one endpoint.

    :param endpoint: Stable short name, used in messages and as a metric tag.
    :param method: HTTP method.
    :param path: Path below the base URL, already quoted.
    :param subject: What the call is about, for messages: ``site 'docs'``.
    :param parse: Reads the decoded body (None when it is empty) into the reply.
    :param json: JSON body, if any.
    :param upload: File to send, if any.
    """

    endpoint: str
    method: str
    path: str
    subject: str
    parse: Callable[[Any, Exchange], T]
    json: Mapping[str, Any] | None = None
    upload: Upload | None = None

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice has no more effect than sending it once."""
        return self.method in {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}

    def __str__(self) -> str:
        return f"{self.method} {self.endpoint} for {self.subject}"


@dataclass(frozen=True, slots=True)
class Response:
    """
    An HTTP answer.

    :param status: HTTP status.
    :param headers: Header names in lower case.
    :param body: The whole body; its beginning, where there is a flaw.
    :param flaw: Why the body cannot be read, as the end of a sentence about it: ``is larger than …``.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    flaw: str | None = None

    @property
    def is_success(self) -> bool:
        """Whether the status is one of the 2xx."""
        return 200 <= self.status < 300

    def decoded(self) -> Any:
        """
        Return the body as JSON, None when it is empty (specification, section 4, rule 4).

        :raises AssistantResponseError: The body is something else, such as the page of a proxy; it is larger or
            deeper than any answer should be, or broken.
        """
        if self.flaw:
            raise AssistantResponseError(f"status {self.status} with a body that {self.flaw}")
        if not self.body.strip():
            return None
        try:
            value = json.loads(self.body)
        except RecursionError:
            is_too_deep = True
        except ValueError:
            kind = self.headers.get("content-type", "no content type")[:100]
            raise AssistantResponseError(f"status {self.status} with a body that is not JSON ({kind})") from None
        else:
            is_too_deep = self.body.count(b"[") + self.body.count(b"{") > MAX_DEPTH and _is_deep(value)
        if is_too_deep:
            raise AssistantResponseError(
                f"status {self.status} with a body whose JSON is nested more than {MAX_DEPTH} levels deep"
            )
        return value


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """
    No HTTP answer.

    :param kind: What went wrong.
    :param detail: In words, without any secret.
    :param sent: Whether the service may have received the request.
    :param host: Who did not answer: ``host:port``, and through which proxy.
    """

    kind: Literal["connection", "timeout"]
    detail: str
    sent: bool
    host: str = "the service"


def _is_deep(value: Any) -> bool:
    """Whether JSON is nested deeper than MAX_DEPTH, found out without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
