"""
Every error of the package, one tree.

::

    AssistantError
    ├── AssistantInputError            refused before any request: a field, an option, a connection   *
    ├── AssistantAPIError              the service answered with an error status (specification, 7)
    │   ├── AssistantBadRequestError       400, and any 4xx not listed here   *
    │   ├── AssistantAuthenticationError   401   *
    │   ├── AssistantPermissionError       403   *
    │   ├── AssistantNotFoundError         404   *
    │   ├── AssistantRateLimitError        429
    │   └── AssistantServerError           5xx
    ├── AssistantResponseError         a success status whose body cannot be used
    ├── AssistantConnectionError       no connection, or a connection that broke
    ├── AssistantTimeout               no answer within the connection's timeout
    ├── AssistantAmbiguousError        a create that may or may not have happened
    │   └── AssistantAmbiguousErrorForGood the same, where on_ambiguous says not to send it again      *
    ├── AssistantIncompleteLoad        rows were not created although nothing is wrong with them
    │   └── AssistantIncompleteLoadForGood  the same, and sending them again would not help           *
    ├── AssistantIncompleteExport      sites could not be read; the others are written
    │   └── AssistantIncompleteExportForGood  the same, and reading them again would not help        *
    ├── AssistantRequestFailed         an async chat request that ended failed
    │   └── AssistantRequestFailedForGood  the same, where only polling it again is left              *
    ├── AssistantRequestTimeout        an async chat request that did not end before its deadline
    ├── AssistantRequestLost           an async chat request that the service no longer knows
    ├── AssistantStorageError          a file cannot be written; it is also an OSError
    ├── AssistantWarehouseError        the warehouse cannot be opened or written; it is as it was
    ├── AssistantGateFailed            an evaluation did not pass its gate; all its files are written      *
    └── AssistantLedgerError           the ledger's database is away, locked or full: a retry may help
        └── AssistantLedgerErrorForGood    a retry cannot help: its settings, its permissions, a newer version   *

    * also an AirflowFailException: the same attempt would fail again, so Airflow does not retry the task.
"""

from __future__ import annotations

import unicodedata

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

# Control characters for the writing direction: a line reads differently from how it is written.
BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escaped(text: str, kept: str = "") -> str:
    """
    Return a text with its control characters escaped, so that it is safe in a log and on a terminal.

    A newline could forge a log line, and an escape sequence could move the cursor.

    :param text: A text of unknown origin.
    :param kept: Control characters that are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(char if char in kept or not _steers(char) else _spelled_out(char) for char in text)


def _steers(char: str) -> bool:
    return char in BIDI or unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}


def _spelled_out(char: str) -> str:
    return char.encode("unicode_escape").decode()


class AssistantError(AirflowException):
    """
    Base of all errors of this package; catching it catches every one of them.

    Its message is one line without control characters, whatever the service said.

    :param message: What happened, where, and what to do.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(escaped(message))


class AssistantInputError(AssistantError, AirflowFailException):
    """
    Input that was refused before any request was sent.

    :param message: What is wrong, where, and what to do.
    :param field: Name of the offending field, option or column, if there is one.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class AssistantAPIError(AssistantError):
    """
    The service answered with an error status (specification, section 7).

    :param message: What happened, on which site or tenant, and what to do.
    :param status: HTTP status of the answer.
    :param endpoint: Name of the endpoint, as in :mod:`~airflow_provider_assistant.api.endpoints`.
    :param detail: What the body said, shortened; empty when it said nothing readable.
    :param retry_after: Seconds the service asked to wait, or None.
    :param request_id: The service's own id of the HTTP exchange (``X-Request-Id``), or None.
    """

    # Every field has a default, so that an instance survives pickling, which passes the message alone.
    def __init__(
        self,
        message: str = "",
        *,
        status: int = 0,
        endpoint: str = "",
        detail: str = "",
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.endpoint = endpoint
        self.detail = detail
        self.retry_after = retry_after
        self.request_id = request_id


class AssistantBadRequestError(AssistantAPIError, AirflowFailException):
    """400, or a 4xx that the specification does not list: this request is refused. Never repeated unchanged."""


class AssistantAuthenticationError(AssistantAPIError, AirflowFailException):
    """401: the API key is wrong or authentication is not set up."""


class AssistantPermissionError(AssistantAPIError, AirflowFailException):
    """403: plan, access or capability does not permit the call."""


class AssistantNotFoundError(AssistantAPIError, AirflowFailException):
    """404: tenant, site or resource not found, or not owned by the caller."""


class AssistantRateLimitError(AssistantAPIError):
    """429: too many requests, for longer than this process was willing to wait."""


class AssistantServerError(AssistantAPIError):
    """5xx: server-side failure that outlasted the bounded retries."""


class AssistantResponseError(AssistantError):
    """The service reported success, but its body is not JSON or lacks what the call exists for."""


class AssistantConnectionError(AssistantError):
    """No connection could be made, or it broke before the answer was complete."""


class AssistantTimeout(AssistantError):
    """No answer within the connection's timeout."""


class AssistantAmbiguousError(AssistantError):
    """
    A create met a 5xx, or was sent and got no usable answer: it may or may not have happened.

    The last failure is its ``__cause__``.

    :param message: What happened, and what a repetition may do.
    :param endpoint: Name of the endpoint.
    :param attempts: How many times the request was sent.
    :param retry_after: Seconds the service asked to wait, or None.
    """

    def __init__(
        self,
        message: str = "",
        *,
        endpoint: str = "",
        attempts: int = 1,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.endpoint = endpoint
        self.attempts = attempts
        self.retry_after = retry_after


class AssistantAmbiguousErrorForGood(AssistantAmbiguousError, AirflowFailException):
    """The same, where ``on_ambiguous="fail"``: Airflow does not retry the task, and nothing is sent twice."""


class AssistantIncompleteLoad(AssistantError):
    """A load ended with rows that failed or are ambiguous; a retry sends those and no others."""


class AssistantIncompleteLoadForGood(AssistantIncompleteLoad, AirflowFailException):
    """The same, where the service refused every missing item: it would refuse them again."""


class AssistantIncompleteExport(AssistantError):
    """More sites than allowed could not be read; the others are written, and a retry reads all of them again."""


class AssistantIncompleteExportForGood(AssistantIncompleteExport, AirflowFailException):
    """The same, where the service refused every one of these sites: it would refuse them again."""


class AssistantRequestFailed(AssistantError):
    """
    An async chat request ended in the failed status, as the poll resource reports it.

    :param message: What the service said.
    :param request_id: The chat request.
    :param status: The status word as sent.
    """

    def __init__(self, message: str = "", *, request_id: str = "", status: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id
        self.status = status


class AssistantRequestFailedForGood(AssistantRequestFailed, AirflowFailException):
    """A failed request in a task that did not submit it: polling it again would end the same way."""


class AssistantRequestTimeout(AssistantError):
    """
    An async chat request did not end before its deadline; it may still complete later.

    :param message: How long was waited and what was last seen.
    :param request_id: The chat request.
    :param status: The last status word seen, or an empty string.
    """

    def __init__(self, message: str = "", *, request_id: str = "", status: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id
        self.status = status


class AssistantRequestLost(AssistantError):
    """Async chat requests that the service accepted and no longer knows; they have to be submitted again."""


class AssistantStorageError(AssistantError, OSError):
    """
    A file cannot be written: the disk is full or read-only, or the object storage is away. A retry may help.

    :param message: Which file, why, and what became of the one that was there before.
    :param code: Number of the operating system's error, or None.
    """

    def __init__(self, message: str = "", *, code: int | None = None) -> None:
        super().__init__(message)
        self.errno = code

    def __str__(self) -> str:
        return str(self.args[0])


class AssistantWarehouseError(AssistantError):
    """The warehouse cannot be opened, is locked for too long or cannot take the rows; it is as it was."""


class AssistantGateFailed(AssistantError, AirflowFailException):
    """An evaluation did not pass its gate: the same answers would fail it again."""


class AssistantLedgerError(AssistantError):
    """The ledger cannot be used for now: its database is unreachable, locked or full, or dropped the connection."""


class AssistantLedgerErrorForGood(AssistantLedgerError, AirflowFailException):
    """
    The ledger cannot be used, and a retry would fail the same way.

    It has a newer version than this package, is read-only or not a database, denies access, or its connection id is
    wrong.
    """
