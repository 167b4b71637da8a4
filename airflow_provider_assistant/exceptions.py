"""
All exceptions of this package.

::

    AssistantError
    ├── AssistantInputError            invalid input, refused before any request: a field, an option, a connection   *
    ├── AssistantAPIError              the service answered with an error status
    │   ├── AssistantBadRequestError       400, and any 4xx not listed here   *
    │   ├── AssistantAuthenticationError   401   *
    │   ├── AssistantPermissionError       403   *
    │   ├── AssistantNotFoundError         404   *
    │   ├── AssistantRateLimitError        429
    │   └── AssistantServerError           5xx
    ├── AssistantResponseError         a success status whose body cannot be used
    ├── AssistantConnectionError       no connection, or a broken connection
    ├── AssistantTimeoutError               no complete response within the connection's timeout
    ├── AssistantAmbiguousError        a create request that may or may not have taken effect
    │   └── AssistantAmbiguousPermanentError  with on_ambiguous="fail": the task is not retried          *
    ├── AssistantIncompleteError        rows failed or are ambiguous; a retry sends them
    │   └── AssistantIncompletePermanentError  the service refused these rows: a retry cannot help        *
    ├── AssistantIncompleteExportError      some sites could not be read; the others are written
    │   └── AssistantIncompleteExportPermanentError  the service refused these sites: a retry cannot help     *
    ├── AssistantRequestFailedError         an async chat request ended with the status failed
    │   └── AssistantRequestFailedPermanentError  the same in a task that only polls: a retry cannot help     *
    ├── AssistantRequestTimeoutError        an async chat request did not end within its timeout
    ├── AssistantRequestLostError           the service no longer knows an async chat request
    ├── AssistantStorageError          a file cannot be written; also an OSError
    ├── AssistantWarehouseError        the warehouse cannot be opened or written; it was not changed
    ├── AssistantGateFailedError            an evaluation did not pass its gate; its files are written      *
    ├── AssistantJudgeLimitError            the judges have used max_judge_tokens; their verdicts are kept      *
    └── AssistantLedgerError           the ledger's database is unreachable, locked or full: a retry may help
        └── AssistantLedgerPermanentError  wrong settings, no permission or a newer version: a retry cannot help   *

    * also an AirflowFailException: a retry would fail the same way, so Airflow does not retry the task.
"""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_assistant.texts import escaped


class AssistantError(AirflowException):
    """
    Base class of all exceptions of this package.

    Control characters in the message are escaped, so that it is always one line.

    :param message: What happened, where, and what to do.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(escaped(message))


class AssistantInputError(AssistantError, AirflowFailException):
    """
    Raised for invalid input, before any request is sent.

    :param message: What is wrong, where, and what to do.
    :param field: Name of the invalid field, option or column. Default: None.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class AssistantAPIError(AssistantError):
    """
    Raised when the service answers with an error status.

    :param message: What happened, on which site or tenant, and what to do.
    :param status: HTTP status of the response.
    :param endpoint: Name of the endpoint, as in :mod:`~airflow_provider_assistant.api.endpoints`.
    :param detail: Error message in the response body, shortened; empty if the body has no readable message.
    :param retry_after: Seconds to wait, as requested by the service (``Retry-After``), or None.
    :param request_id: The service's id of the HTTP request (``X-Request-Id``), or None.
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
    """Raised for 400 and any other 4xx without a class here: the service refuses this request. It is not retried."""


class AssistantAuthenticationError(AssistantAPIError, AirflowFailException):
    """Raised for 401: the API key is wrong, or authentication is not set up."""


class AssistantPermissionError(AssistantAPIError, AirflowFailException):
    """Raised for 403: the plan, the access rights or a missing capability do not permit the call."""


class AssistantNotFoundError(AssistantAPIError, AirflowFailException):
    """Raised for 404: the tenant, site or resource does not exist or belongs to another tenant."""


class AssistantRateLimitError(AssistantAPIError):
    """Raised for 429: too many requests, and the requested pause is longer than the longest allowed one."""


class AssistantServerError(AssistantAPIError):
    """Raised for 5xx: the service still fails after all retries."""


class AssistantResponseError(AssistantError):
    """Raised when the service reports success, but the body is not JSON or lacks the requested data."""


class AssistantConnectionError(AssistantError):
    """Raised when no connection can be made, or when it breaks before the response is complete."""


class AssistantTimeoutError(AssistantError):
    """Raised when the response is not complete within the connection's timeout."""


class AssistantAmbiguousError(AssistantError):
    """
    Raised when a create request may or may not have taken effect, after a 5xx or without a usable response.

    The last failure is its ``__cause__``.

    :param message: What happened, and what a repetition may do.
    :param endpoint: Name of the endpoint.
    :param attempts: Number of times the request was sent.
    :param retry_after: Seconds to wait, as requested by the service (``Retry-After``), or None.
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


class AssistantAmbiguousPermanentError(AssistantAmbiguousError, AirflowFailException):
    """Raised for an ambiguous request with ``on_ambiguous="fail"``: Airflow does not retry the task."""


class AssistantIncompleteError(AssistantError):
    """Raised when a load ends with failed or ambiguous rows; a retry sends only those."""


class AssistantIncompletePermanentError(AssistantIncompleteError, AirflowFailException):
    """Raised when a load is incomplete because the service refused every missing row; a retry would not help."""


class AssistantIncompleteExportError(AssistantError):
    """Raised when too many sites cannot be read; the others are written, and a retry reads all sites again."""


class AssistantIncompleteExportPermanentError(AssistantIncompleteExportError, AirflowFailException):
    """Raised when an export is incomplete because the service refused every missing site; a retry would not help."""


class AssistantRequestFailedError(AssistantError):
    """
    Raised when an async chat request ends with a status that means failed.

    :param message: Error message of the service.
    :param request_id: Id of the chat request.
    :param status: Status word of the service.
    """

    def __init__(self, message: str = "", *, request_id: str = "", status: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id
        self.status = status


class AssistantRequestFailedPermanentError(AssistantRequestFailedError, AirflowFailException):
    """Raised for a failed chat request in a task that only polls it: a retry would get the same result."""


class AssistantRequestTimeoutError(AssistantError):
    """
    Raised when an async chat request does not end within its timeout; it may still complete later.

    :param message: How long the task waited, and the last status.
    :param request_id: Id of the chat request.
    :param status: Last status word of the service, or an empty string.
    """

    def __init__(self, message: str = "", *, request_id: str = "", status: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id
        self.status = status


class AssistantRequestLostError(AssistantError):
    """Raised when the service no longer knows async chat requests that it accepted; submit them again."""


class AssistantStorageError(AssistantError, OSError):
    """
    Raised when a file cannot be written, because the storage is full, read-only or unreachable. A retry may help.

    :param message: Which file, why, and whether a previous version of it still exists.
    :param code: Error number of the operating system (``errno``), or None.
    """

    def __init__(self, message: str = "", *, code: int | None = None) -> None:
        super().__init__(message)
        self.errno = code

    def __str__(self) -> str:
        return str(self.args[0])


class AssistantWarehouseError(AssistantError):
    """Raised when the warehouse cannot be opened, stays locked or refuses the rows; it was not changed."""


class AssistantGateFailedError(AssistantError, AirflowFailException):
    """Raised when an evaluation does not pass its gate; a retry with the same answers would not help."""


class AssistantJudgeLimitError(AssistantError, AirflowFailException):
    """Raised when the judges of an evaluation have used ``max_judge_tokens``; their verdicts so far are kept."""


class AssistantLedgerError(AssistantError):
    """Raised when the ledger's database is unreachable, locked or full, or drops the connection. A retry may help."""


class AssistantLedgerPermanentError(AssistantLedgerError, AirflowFailException):
    """
    Raised when the ledger cannot be used and a retry would not help.

    The ledger has a newer version than this package, is read-only, is not a database, denies access, or its connection
    id is wrong.
    """
