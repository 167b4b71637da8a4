"""Decide about rows: whether to send a row, and what a reply or an error means for it. Nothing here does I/O."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Literal, NamedTuple, TypeAlias

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousPermanentError,
    AssistantBadRequestError,
    AssistantError,
    AssistantInputError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger import LedgerEntry
from airflow_provider_assistant.loading.options import LoadOptions, OnAmbiguous, OnChange
from airflow_provider_assistant.loading.rows import PreparedRow

# Outcomes of a row that is not created. Each is also a kind of finding, except ``unchanged``.
NotCreated: TypeAlias = Literal["unchanged", "skipped", "rejected", "ambiguous", "failed"]

CLAIMED_ELSEWHERE = "another task is loading this row"
RESOLVE_FIRST = (
    "Check on the site whether it was created, record the result with `airflow assistant ledger resolve`, then clear "
    "the task."
)


class Decision(NamedTuple):
    """
    Hold what to do with a row before it is sent.

    :param outcome: Outcome of a row that is not sent; None if the row is sent, or if it only stops the load.
    :param error: Error that stops the load, or None.
    """

    outcome: NotCreated | None = None
    reason: str = ""
    document_id: str | None = None
    error: AssistantError | None = None

    @property
    def is_sent(self) -> bool:
        """Whether to send the row."""
        return self.outcome is None and self.error is None


SEND = Decision()
UNCHANGED = Decision("unchanged")


def decide(row: PreparedRow, entry: LedgerEntry | None, options: LoadOptions) -> Decision:
    """
    Decide whether to send a row.

    :param entry: None if the row's key has no entry.
    """
    if row.problem:
        return Decision("rejected", row.problem)
    if entry is None or entry.state == "none":
        return SEND
    if entry.state == "leased":
        return Decision("skipped", CLAIMED_ELSEWHERE)
    if entry.state == "ambiguous":
        return _decide_ambiguous(row, options.on_ambiguous)
    if entry.content_hash == row.fingerprint.content_hash:
        return UNCHANGED
    return _decide_changed(row, entry, options.on_change)


def _decide_ambiguous(row: PreparedRow, on_ambiguous: OnAmbiguous) -> Decision:
    if on_ambiguous == "retry":
        return SEND
    reason = "an earlier attempt may or may not have created it"
    error = None
    if on_ambiguous == "fail":
        error = AssistantAmbiguousPermanentError(
            f"row {row.number} ({row.readable_key}): {reason}, and on_ambiguous is 'fail'",
            todo=RESOLVE_FIRST,
        )
    return Decision("ambiguous", reason, error=error)


def _decide_changed(row: PreparedRow, entry: LedgerEntry, on_change: OnChange) -> Decision:
    if on_change in {"create", "replace"}:
        return SEND
    if on_change == "skip":
        return Decision(
            outcome="skipped",
            reason="its content has changed since it was loaded",
            document_id=entry.created_id,
        )
    changed = f"row {row.number} ({row.readable_key}) has changed, and on_change is 'fail'"
    return Decision(error=AssistantInputError(changed, field="on_change"))


def is_repeat(entry: LedgerEntry | None, content_hash: str) -> bool:
    """
    Return whether an earlier try may have created the document of a row with this content.

    :param entry: The ledger entry of the row's key before it is sent; None if it has none.
    :param content_hash: Content hash of the row.
    """
    return entry is not None and entry.state == "ambiguous" and entry.sent_hash == content_hash


class Failure(NamedTuple):
    """
    Hold what a failed request means for its row.

    :param ambiguous: Number of requests that may have created the document.
    :param error: Error that stops the load whatever the circuit breaker decides, or None.
    """

    outcome: Literal["rejected", "ambiguous", "failed"]
    reason: str
    ambiguous: int = 0
    error: AssistantError | None = None


class NotSentError(AssistantError):
    """The reason why a row was not sent, or not sent again."""


def error_of_row(error: AssistantError, sent: AssistantError | None, ambiguous: int) -> AssistantError:
    """
    Return the error to record for a row: if its last attempt was not sent, that of the attempt that was.

    :param error: Error of the last request, or the reason why there was none.
    :param sent: Error of the last request that was sent and may have created the document, or else of the last one that
        was sent and retried. None if there is none.
    :param ambiguous: Number of earlier requests for the row in this load that may have created its document.
    """
    is_settled = isinstance(error, AssistantAmbiguousError | AssistantResponseError)
    if sent is None or is_settled or not (ambiguous or isinstance(error, NotSentError)):
        return error
    reason = error.happened.removeprefix("not sent: ")
    return replace(sent, happened=f"{sent.happened}; it was not sent again: {reason}", safe=None, todo=None)


def classify(error: AssistantError, ambiguous: int, on_ambiguous: OnAmbiguous) -> Failure:
    """
    Return what an error means for the row whose request failed.

    :param error: Error of the last request, or the reason why there was none.
    :param ambiguous: Number of earlier requests for the row in this load that may have created its document.
    """
    if isinstance(error, AssistantInputError) and not ambiguous:
        # Nothing was sent: the file existed at the preflight and can no longer be opened.
        return Failure("rejected", str(error))
    if isinstance(error, AssistantBadRequestError):
        reason = error.detail or str(error)
        if error.status == HTTPStatus.CONFLICT:
            # The text of the service may not say that something exists.
            reason = error.happened
        return Failure("rejected", reason)
    reason = str(error)
    stopping_error = None
    if isinstance(error, AssistantAmbiguousError | AssistantResponseError):
        # Not the advice, which is the same for all ambiguous rows.
        reason = error.happened
        ambiguous += 1
        if on_ambiguous == "fail":
            stopping_error = AssistantAmbiguousPermanentError(
                f"{error.happened}. on_ambiguous is 'fail', so it is not sent again", todo=RESOLVE_FIRST
            )
    return Failure(
        outcome="ambiguous" if ambiguous else "failed",
        reason=reason,
        ambiguous=ambiguous,
        error=stopping_error,
    )
