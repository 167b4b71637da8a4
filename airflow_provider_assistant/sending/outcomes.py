"""What is sent for a row, and its outcome: what the reply or the error means for it. Nothing here does I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.client.retry import Attempts
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAPIError,
    AssistantBadRequestError,
    AssistantError,
    AssistantInputError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger import Claim, Outcome, State


@dataclass(slots=True)
class Item:
    """
    Hold a row that is to be claimed and sent.

    :param claim: What is recorded before the request.
    :param call: The request.
    :param is_repeat: Whether an earlier attempt may have created the same content.
    :param row: What the caller needs to know the row again.
    :ivar attempts: What was sent of it.
    :ivar error: Error with which it ended, as the client raised it. None if it has not failed.
    """

    claim: Claim
    call: Call[Any]
    is_repeat: bool = False
    row: Any = None
    attempts: Attempts = field(default_factory=Attempts)
    error: AssistantError | None = None


class NotSentError(AssistantError):
    """The reason why a row was not sent, or not sent again."""


def outcome_of_reply(item: Item, reply: ApiReply) -> Outcome:
    """Return the outcome of a row that the service has accepted."""
    status = reply.status if isinstance(reply, CreatedDocument) else None
    return Outcome(
        item.claim,
        "created",
        remote_id=reply.created_id,
        status=status,
        requests=item.attempts.sent,
        # A service that refuses repetitions has not created a second one.
        ambiguous=0 if has_existed(reply) else reply.call_info.ambiguous,
        http_status=reply.call_info.status,
    )


def has_existed(reply: ApiReply) -> bool:
    """Return whether an earlier attempt had created the document, so that the service refused to repeat it."""
    return isinstance(reply, CreatedDocument) and reply.existed


def outcome_of_error(
    item: Item, error: AssistantError, refusals: tuple[type[AssistantAPIError], ...] = (AssistantBadRequestError,)
) -> tuple[Outcome, AssistantError]:
    """
    Return the outcome of a row whose request failed.

    :param error: Error of the last request, or the reason why there was none.
    :param refusals: Errors by which the service refuses this row, and perhaps no other.
    :return: The outcome; and the error that explains it: if the last attempt was not sent, that of the attempt that
        was.
    """
    error = _error_of_row(error, item)
    ambiguous = item.attempts.maybe_done
    state: State
    if isinstance(error, AssistantInputError) and not ambiguous:
        # Nothing was sent: the file has changed, or can no longer be opened.
        state, reason = "rejected", str(error)
    elif isinstance(error, refusals):
        state, reason = "rejected", error.detail or str(error)
        if error.status == HTTPStatus.CONFLICT:
            # The text of the service may not say that something exists.
            reason = error.happened
    elif isinstance(error, AssistantAmbiguousError | AssistantResponseError):
        # Without the advice, which is the same for all ambiguous rows.
        state, reason = "ambiguous", error.happened
    else:
        state, reason = "ambiguous" if ambiguous else "failed", str(error)
    outcome = Outcome(
        item.claim,
        state,
        requests=item.attempts.sent,
        ambiguous=ambiguous,
        # Not every error has an HTTP response.
        http_status=getattr(error, "status", None),
        error=reason,
    )
    return outcome, error


def _error_of_row(error: AssistantError, item: Item) -> AssistantError:
    """Return the error to record for a row: if it was not sent again, that of the request before."""
    sent = item.attempts.reason
    if sent is None or not isinstance(error, NotSentError):
        return error
    reason = error.happened.removeprefix("not sent: ")
    return replace(sent, happened=f"{sent.happened}; it was not sent again: {reason}", safe=None, todo=None)
