"""
All exceptions of this package.

The runbook is generated from the classes: the first line of a docstring is what happened, its second paragraph is what
that means, and ``default_safe`` and ``default_todo`` say the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_assistant.error import RECORDED
from airflow_provider_assistant.error import AssistantError as AssistantError  # noqa: PLC0414 (importable from here)

NOTHING_SENT = "Nothing was sent."
NOTHING_CHANGED = "Nothing was changed."
# What to do about a file that several instances of a mapped task would replace.
OWN_PATH = "Give each instance its own file, such as with '{{{{ ti.map_index }}}}' in {name}."


@dataclass(eq=False, repr=False, kw_only=True)
class AssistantInputError(AssistantError):
    """
    A parameter, a source or the connection cannot be used.

    The package rejected it before the first request. If too many rows are invalid, the message gives counts.

    :param field: Name of the invalid field, option or column. Default: None.
    """

    default_retryable = False
    default_safe = NOTHING_SENT
    # The message itself says what to correct.
    default_todo = ""
    field: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class AssistantAPIError(AssistantError):
    """
    The service answered with an unexpected status.

    It is below 200, or 408 or 425 in spite of retries. Usually the base URL leads to another program.

    :param status: HTTP status of the response.
    :param endpoint: Name of the endpoint, as in :mod:`~airflow_provider_assistant.api.endpoints`.
    :param detail: Error message in the body, shortened; empty if there is none.
    :param request_id: The service's id of the HTTP request (``X-Request-Id``), or None.
    """

    default_safe = f"The refused request changed nothing. {RECORDED}"
    default_todo = "Check the base URL in the Airflow connection."
    status: int = 0
    endpoint: str = ""
    detail: str = ""
    request_id: str | None = None


class AssistantGatewayError(AssistantAPIError):
    """
    A gateway or proxy refused the request, and the service did not judge it.

    The response is a web page, a redirect or a login, or its status is one that only proxies send, such as 407. The row
    counts as failed, and a load stops if no row passes.
    """

    default_todo = (
        "Check the base URL in the Airflow connection. If it is right, ask the owner of the gateway or proxy to let "
        "the requests of this machine pass. If it refuses single rows only, their text matches a rule of its firewall: "
        "change these rows, or ask for an exception."
    )


class AssistantBadRequestError(AssistantAPIError):
    """
    The service refused the request.

    The status is 400, or a 4xx that no other section describes.
    """

    default_retryable = False
    default_todo = "Fix the payload; the same request would be refused again. The service's message may name the field."


class AssistantAuthenticationError(AssistantAPIError):
    """
    The service does not accept the API key.

    The status is 401: the API key is wrong, was rotated or revoked, or authentication is not set up.
    """

    default_retryable = False
    default_stops_all = True
    default_todo = "Fix the API key in the Airflow connection's password. 'airflow assistant read limits' tests it."


class AssistantPermissionError(AssistantAPIError):
    """
    The API key is not allowed to do this.

    The status is 403: the plan, the access rights or a missing capability do not permit the call.
    """

    default_retryable = False
    default_todo = "Check the plan, access and capabilities of this API key."


class AssistantNotFoundError(AssistantAPIError):
    """
    The service does not know the tenant, the site or the object.

    The status is 404: it does not exist, or belongs to another tenant. Or it is 405: another program answered.
    """

    default_retryable = False
    default_todo = (
        "Check the identifiers, that this API key owns them, and the base URL: any web server answers 404. 'airflow "
        "assistant read limits' tests the connection."
    )


class AssistantRateLimitError(AssistantAPIError):
    """
    The service asks for a longer wait than the task allows.

    The status is 429: too many requests. Another task may use the same limit.
    """

    default_stops_all = True
    default_todo = (
        "Retry later, lower the concurrency, or raise the tenant's limits. With deferrable=True, the task "
        "waits that long; with retries on Airflow 3.3 or newer, its next try does."
    )


class AssistantServerError(AssistantAPIError):
    """
    The service failed.

    The status is 5xx. All retries within the task failed as well.
    """

    default_safe = RECORDED
    default_todo = "Run the task again later. If it persists, alert the service's owner."


class AssistantResponseError(AssistantError):
    """
    The service reported success, but its response cannot be read.

    The body is not JSON, lacks the field that the call needs, or is larger or deeper than allowed.
    """

    default_safe = "The request was probably carried out. A load lists such a row as ambiguous."
    default_todo = (
        "Check the base URL in the Airflow connection: a login page or a proxy may have answered. Then check "
        "at the service what was created."
    )


class AssistantConnectionError(AssistantError):
    """
    The service could not be reached, or the connection broke.

    The name, the port, the network or TLS is wrong, or the service is down.
    """

    default_todo = (
        "Check the base URL in the Airflow connection, and from the worker that the host can be reached. "
        "Then run the task again."
    )


class AssistantTimeoutError(AssistantError):
    """
    The service did not answer in time.

    The timeout runs from the end of the request to the last byte of the response: ``chat_timeout`` of the connection
    for a ``POST …/chat``, which waits for the answer, and ``timeout`` for all other requests.
    """

    default_todo = (
        "Run the task again. If the service is only slow, raise the timeout that the message names in the Airflow "
        "connection."
    )


@dataclass(eq=False, repr=False, kw_only=True)
class AssistantAmbiguousError(AssistantError):
    """
    A request may or may not have been carried out.

    The request was sent, and the service answered with a 5xx, with an unreadable response, or not at all. With
    manage_documents in the connection, a load looks for its document in the list of the site. The last failure is the
    exception's ``__cause__``.

    :param endpoint: Name of the endpoint.
    :param attempts: Number of times the request was sent.
    """

    default_safe = f"{RECORDED} The request itself is recorded as ambiguous."
    default_todo = (
        "A retry sends it again, unless on_ambiguous forbids it. 'airflow assistant ledger list --state unresolved' "
        "shows such requests, and 'ledger resolve' records their outcome."
    )
    endpoint: str = ""
    attempts: int = 1


class AssistantIncompleteError(AssistantError):
    """
    Some rows, questions or ratings were not sent.

    They are valid, but the service failed or the task was stopped.
    """

    default_safe = "All others have been processed and recorded."
    default_todo = "Run the task again: it sends only the missing ones. The findings give a reason for each."


class AssistantGateFailedError(AssistantError):
    """
    The evaluation did not pass its gate.

    A rule of the gate does not hold. The service and the task work.
    """

    default_retryable = False
    default_safe = "The scores, the summary and the report are written."
    default_todo = (
        "Open the report and read the worst answers. Correct the knowledge base and ask again, or change the gate."
    )


class AssistantJudgeLimitError(AssistantError):
    """
    The judges of an evaluation have used max_judge_tokens.

    The questions are more, or longer, than the limit allows. The evaluation has no scores yet.
    """

    default_retryable = False
    default_safe = "The verdicts so far are saved in verdicts.parquet. A retry does not pay for them again."
    default_todo = "Raise max_judge_tokens, or evaluate fewer questions."


@dataclass(eq=False, repr=False, kw_only=True)
class AssistantRequestFailedError(AssistantError):
    """
    The service could not answer a chat.

    The chat request ended in the failed status. In a batch, most of the unanswered questions did.

    :param request_id: Id of the chat request.
    :param status: Last status word of the service, or an empty string.
    """

    default_safe = "Answers that were received are kept."
    default_todo = "Read the service's reason, then run the task again: it submits the failed questions again."
    request_id: str = ""
    status: str = ""


@dataclass(eq=False, repr=False, kw_only=True)
class AssistantRequestTimeoutError(AssistantError):
    """
    A chat was not answered within the task's timeout.

    The service is still processing it, or its queue is full. In a batch, most unanswered questions are pending.

    :param request_id: Id of the chat request.
    :param status: Last status word of the service, or an empty string.
    """

    default_safe = "The request stays open at the service, and answers that were received are kept."
    default_todo = (
        "Run the task again: it waits for the same requests. If answers always take longer, raise the task's timeout."
    )
    request_id: str = ""
    status: str = ""


class AssistantRequestLostError(AssistantError):
    """
    The service no longer knows a chat that it had accepted.

    The service answers polls of the request with 404, 400 or 410. It has lost or deleted the request.
    """

    default_safe = "Answers that were received are kept."
    default_todo = "Run the task again: it submits the question again."


class AssistantDocumentsFailedError(AssistantError):
    """
    The service could not process documents.

    The list of the site shows them with a status such as failed. Waiting does not change it.
    """

    default_retryable = False
    default_safe = "Nothing was changed: a sensor only reads."
    default_todo = (
        "Read the reason at the service. Correct the documents in the source and load them again, "
        "then clear the sensor."
    )


class AssistantLedgerError(AssistantError):
    """
    The ledger is not available.

    Its database cannot be reached, is locked, is full, or closed the connection for more than 20 seconds.
    """

    default_stops_all = True
    default_safe = (
        "What the ledger has recorded is not sent again. What was sent and could not be recorded is in the findings or "
        "in the log."
    )
    default_todo = "Run the task again once the database is back."


class AssistantWarehouseError(AssistantError):
    """
    The warehouse cannot be opened or written.

    Another process has locked it, it cannot be reached, or it rejects the rows.
    """

    default_safe = "The rows of the warehouse are unchanged."
    default_todo = "Close other writers of the database or correct its connection, then run the task again."


@dataclass(eq=False, repr=False, kw_only=True)
class AssistantStorageError(AssistantError, OSError):
    """
    A file could not be written, or an object storage could not be read.

    The disk is full or read-only, a permission is missing, or the object storage failed or cannot be reached.

    :param errno: Error number of the operating system, or None.
    """

    default_safe = f"Files are replaced as a whole: readers see the old file or the new one. {RECORDED}"
    default_todo = "Free some space or correct the path in the message, then run the task again."
    errno: int | None = None
