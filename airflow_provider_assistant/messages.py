"""Table of error messages: what each error means, what is safe, and what to do. The runbook is generated from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowNotFoundException, AirflowSensorTimeout

from airflow_provider_assistant import exceptions as errors
from airflow_provider_assistant.api.errors import ERROR_TABLE, REFUSED, SERVER_ERROR, UNEXPECTED
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.provider_info import DOCUMENTATION

RUNBOOK: Final = f"{DOCUMENTATION}en/stable/operations/runbook.html"

_RECORDED = "What was created before is recorded in the ledger and is not sent again."
_AS_BEFORE = f"The refused request changed nothing. {_RECORDED}"
_NOTHING = "Nothing was sent."


@dataclass(frozen=True, slots=True)
class Message:
    """
    One row of the table.

    :param error: The exception class.
    :param happened: What happened, as a short sentence.
    :param meaning: What causes the error.
    :param safe: What is not lost; used if the task has no counts.
    :param todo: What to do about the error.
    :param status: HTTP status, if the advice depends on it. Default: None.
    """

    error: type[Exception]
    happened: str
    meaning: str
    safe: str
    todo: str
    status: int | None = None

    @property
    def title(self) -> str:
        """Heading of the error's section in the runbook."""
        return self.error.__name__ + (f" ({self.status})" if self.status else "")

    @property
    def anchor(self) -> str:
        """Anchor of the error's section in the runbook."""
        return self.title.lower().replace(" ", "-").replace("(", "").replace(")", "")

    @property
    def is_final(self) -> bool:
        """Whether Airflow fails the task without a retry."""
        return issubclass(self.error, AirflowFailException | AirflowSensorTimeout)


MESSAGES: Final[tuple[Message, ...]] = (
    # -- the service answered ----------------------------------------------------------------------
    Message(
        errors.AssistantBadRequestError,
        "The service refused the request.",
        f"The status is 400, or a 4xx that no other section describes: {REFUSED.condition}.",
        _AS_BEFORE,
        f"{REFUSED.handling} The service's message may name the field.",
        400,
    ),
    Message(
        errors.AssistantBadRequestError,
        "The service found a conflict.",
        "An object with this name or in this state already exists.",
        _AS_BEFORE,
        "Check the object at the service, then change the row or skip it.",
        409,
    ),
    Message(
        errors.AssistantBadRequestError,
        "The service refused the request as too large.",
        "One text, message or file is larger than the service allows.",
        _AS_BEFORE,
        "Split the row or the file into smaller ones.",
        413,
    ),
    Message(
        errors.AssistantBadRequestError,
        "The service does not accept this type of file.",
        "The service judges a file by its name or its content type.",
        _AS_BEFORE,
        "Convert the file to a type that the service accepts, or leave it out.",
        415,
    ),
    Message(
        errors.AssistantBadRequestError,
        "The service refused the values of the request.",
        "The JSON is well-formed, but a field has a value that the service does not allow.",
        _AS_BEFORE,
        "Fix the field that the service names in its reply.",
        422,
    ),
    Message(
        errors.AssistantAuthenticationError,
        "The service does not accept the API key.",
        f"The status is 401: {ERROR_TABLE[401].condition}. The key may have been rotated or revoked.",
        _AS_BEFORE,
        f"{ERROR_TABLE[401].handling} 'airflow connections test' checks it.",
        401,
    ),
    Message(
        errors.AssistantPermissionError,
        "The API key is not allowed to do this.",
        f"The status is 403: {ERROR_TABLE[403].condition}. The plan of the key may not include this part of the API.",
        _AS_BEFORE,
        ERROR_TABLE[403].handling,
        403,
    ),
    Message(
        errors.AssistantNotFoundError,
        "The service does not know the tenant, the site or the object.",
        f"The status is 404: {ERROR_TABLE[404].condition}.",
        _AS_BEFORE,
        f"{ERROR_TABLE[404].handling} 'airflow connections test' lists the sites of the key.",
        404,
    ),
    Message(
        errors.AssistantRateLimitError,
        "The service asks for a longer wait than the task allows.",
        f"The status is 429: {ERROR_TABLE[429].condition}. Another task may use the same limit.",
        _AS_BEFORE,
        f"{ERROR_TABLE[429].handling} With deferrable=True or AssistantRetryPolicy, the task waits that long.",
        429,
    ),
    Message(
        errors.AssistantServerError,
        "The service failed.",
        f"The status is 5xx: {SERVER_ERROR.condition}. All retries within the task failed as well.",
        _RECORDED,
        f"Run the task again later. {SERVER_ERROR.handling}",
    ),
    Message(
        errors.AssistantAPIError,
        "The service answered with an unexpected status.",
        "The status is below 200 or a redirect (3xx). Usually the base URL points to a web page or a proxy.",
        _RECORDED,
        UNEXPECTED.handling,
    ),
    Message(
        errors.AssistantResponseError,
        "The service reported success, but its response cannot be read.",
        "The body is not JSON, lacks the field that the call needs, or is larger or deeper than allowed.",
        "The request was probably carried out. A load lists such a row as ambiguous.",
        "Check the base URL in the Airflow connection: a login page or a proxy may have answered. "
        "Then check at the service what was created.",
    ),
    # -- the service did not answer ----------------------------------------------------------------
    Message(
        errors.AssistantConnectionError,
        "The service could not be reached, or the connection broke.",
        "The name, the port, the network or TLS is wrong, or the service is down.",
        _RECORDED,
        "Check the base URL in the Airflow connection, and from the worker that the host can be reached. "
        "Then run the task again.",
    ),
    Message(
        errors.AssistantTimeoutError,
        "The service did not answer in time.",
        "The timeout of the connection runs from the end of the request to the last byte of the response.",
        _RECORDED,
        "Run the task again. If the service is only slow, raise the timeout in the Airflow connection.",
    ),
    Message(
        errors.AssistantAmbiguousError,
        "A request may or may not have been carried out.",
        "The request was sent, and the service answered with a 5xx, with an unreadable response, or not at all. "
        "The API has no way to look up the outcome.",
        f"{_RECORDED} The request itself is recorded as ambiguous.",
        "A retry sends it again, unless on_ambiguous forbids it. "
        "'airflow assistant ledger ambiguous' lists such requests, and 'ledger resolve' records their outcome.",
    ),
    Message(
        errors.AssistantAmbiguousPermanentError,
        "A request may or may not have been carried out, and is not sent again.",
        'The parameter on_ambiguous is "fail".',
        f"{_RECORDED} The request itself is recorded as ambiguous.",
        "Check at the service whether the request was carried out, record it with 'airflow assistant ledger resolve', "
        "then clear the task.",
    ),
    # -- a task with many items --------------------------------------------------------------------
    Message(
        errors.AssistantIncompleteError,
        "Some rows, questions or ratings were not sent.",
        "They are valid, but the service failed or the task was stopped.",
        "All others have been processed and recorded.",
        "Run the task again: it sends only the missing ones. The findings give a reason for each.",
    ),
    Message(
        errors.AssistantIncompletePermanentError,
        "The service refused every rating that is missing.",
        "A retry would be refused as well.",
        "All other ratings are sent and recorded.",
        "Read the reasons in the findings. Usually the session or the request no longer exists.",
    ),
    Message(
        errors.AssistantIncompleteExportError,
        "More sites than max_failed_sites could not be read.",
        "The message names each site and its error.",
        "The sites that could be read are written. If none could, the day is unchanged.",
        "Run the task again: it reads all sites and replaces the day.",
    ),
    Message(
        errors.AssistantIncompleteExportPermanentError,
        "The service refused more sites than max_failed_sites.",
        "A retry would be refused as well.",
        "The sites that could be read are written. If none could, the day is unchanged.",
        "Correct site_ids or the API key, or raise max_failed_sites.",
    ),
    Message(
        errors.AssistantGateFailedError,
        "The evaluation did not pass its gate.",
        "A rule of the gate does not hold. The service and the task work.",
        "The scores, the summary and the report are written.",
        "Open the report and read the worst answers. Correct the knowledge base and ask again, or change the gate.",
    ),
    Message(
        errors.AssistantJudgeLimitError,
        "The judges of an evaluation have used max_judge_tokens.",
        "The questions are more, or longer, than the limit allows. The evaluation has no scores yet.",
        "The verdicts so far are saved in verdicts.parquet. A retry does not pay for them again.",
        "Raise max_judge_tokens, or evaluate fewer questions.",
    ),
    # -- async chats -------------------------------------------------------------------------------
    Message(
        errors.AssistantRequestFailedError,
        "The service could not answer a chat.",
        "The chat request ended in the failed status. In a batch, most of the unanswered questions did.",
        "Answers that were received are kept.",
        "Read the service's reason, then run the task again: it submits the failed questions again.",
    ),
    Message(
        errors.AssistantRequestFailedPermanentError,
        "The service could not answer a chat.",
        "The chat request ended in the failed status, and this task only waits for it.",
        "Nothing was changed: a sensor only reads.",
        "Clear the task that submitted the chat: it submits the question again.",
    ),
    Message(
        errors.AssistantRequestTimeoutError,
        "A chat was not answered within the task's timeout.",
        "The service is still processing it, or its queue is full. In a batch, most unanswered questions are pending.",
        "The request stays open at the service, and answers that were received are kept.",
        "Run the task again: it waits for the same requests. If answers always take longer, raise the task's timeout.",
    ),
    Message(
        AirflowSensorTimeout,
        "A chat was not answered within the sensor's timeout.",
        "The service is still processing it, or its queue is full.",
        "The request stays open at the service: a sensor only reads.",
        "Clear the sensor: it waits for the same request. If answers always take longer, raise its timeout.",
    ),
    Message(
        errors.AssistantRequestLostError,
        "The service no longer knows a chat that it had accepted.",
        "The service answers polls of the request with 404, 400 or 410. It has lost or deleted the request.",
        "Answers that were received are kept.",
        "Run the task again: it submits the question again.",
    ),
    # -- this side ---------------------------------------------------------------------------------
    Message(
        errors.AssistantInputError,
        "A parameter, a source or the connection cannot be used.",
        "The package rejected it before the first request. If there are more invalid rows than max_rejected or "
        "max_failed allows, the message gives counts.",
        _NOTHING,
        "Correct what the message names.",
    ),
    Message(
        errors.AssistantLedgerError,
        "The ledger is not available.",
        "Its database cannot be reached, is locked, is full, or closed the connection for more than 20 seconds.",
        "Every outcome is recorded in the ledger, or listed in the findings if the ledger could not be written.",
        "Run the task again once the database is back.",
    ),
    Message(
        errors.AssistantLedgerPermanentError,
        "The ledger cannot be used.",
        "It is newer than this package, read-only, not a ledger database, or its connection is wrong. Or it is a file, "
        "and a distributed executor runs tasks on machines that do not share it.",
        _NOTHING,
        "Correct the connection that the message names, the permissions or the version of the package. With a "
        "distributed executor, set [assistant] ledger_conn_id.",
    ),
    Message(
        errors.AssistantWarehouseError,
        "The warehouse cannot be opened or written.",
        "Another process has locked it, it cannot be reached, or it rejects the rows.",
        "The transaction was rolled back: the warehouse is unchanged.",
        "Close other writers of the database or correct its connection, then run the task again.",
    ),
    Message(
        AirflowNotFoundException,
        "Airflow has no connection of this name.",
        "This process finds it in no environment variable, secrets backend or metadata database.",
        _NOTHING,
        "Create the connection, or correct the parameter that names it.",
    ),
    Message(
        errors.AssistantStorageError,
        "A file could not be written.",
        "The disk is full or read-only, a permission is missing, or the object storage failed.",
        f"Files are replaced as a whole: readers see the old file or the new one. {_RECORDED}",
        "Free some space or correct the path in the message, then run the task again.",
    ),
    Message(
        OSError,
        "A file or a storage could not be read or written.",
        "The disk is full, a path or a permission is wrong, or the object storage failed.",
        f"Files are replaced as a whole: readers see the old file or the new one. {_RECORDED}",
        "Free some space or correct the path in the message, then run the task again.",
    ),
    Message(
        AssistantError,
        "The task failed for a reason that no other section describes.",
        "An event of a trigger cannot be used, or a worker and a triggerer have different versions of this package.",
        _RECORDED,
        "Install the same version on all workers and triggerers, then run the task again.",
    ),
    Message(
        Exception,
        "An unexpected error.",
        "Another library or a callable of the DAG raised it, or this package has a bug.",
        _RECORDED,
        "Read the traceback below. If it shows this package as the cause, report it with the traceback.",
    ),
)
_ROWS = {(message.error, message.status): message for message in MESSAGES}
_COMMON = {message.error: message for message in reversed(MESSAGES)}


def message_of(error: Exception) -> Message:
    """
    Return the message for an error.

    :param error: The error.
    :return: The row of its class and HTTP status, or else of its class, or else of its nearest base class.
    """
    status = getattr(error, "status", None)
    for kind in type(error).__mro__:
        if found := _ROWS.get((kind, status)) or _COMMON.get(kind):
            return found
    raise AssertionError("Exception has a row")
