"""A single request: claimed, sent and recorded like a group of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger.claims import Claim, ClaimOutcome, ScopeLedger, outcome_of

T = TypeVar("T", bound=ApiReply)


def send_once(ledger: ScopeLedger, claim: Claim, send: Callable[[], T]) -> T:
    """
    Claim a key, send its request and record the outcome.

    If the outcome cannot be recorded, it is recorded when the ledger is closed.

    :raises AssistantLedgerError: The claim cannot be recorded; nothing was sent.
    """
    claim = claim_one(ledger, claim)
    try:
        reply = send()
        ledger.record(outcome_of_reply(claim, reply))
    except AssistantError as error:
        ledger.record(outcome_of_error(claim, error))
        raise
    finally:
        ledger.release()
    return reply


def claim_one(ledger: ScopeLedger, claim: Claim) -> Claim:
    """
    Claim a key, also if its entry has changed since it was read.

    :return: The claim, with the entry that the ledger had before.
    :raises AssistantLedgerError: The claim cannot be recorded; nothing may be sent.
    """
    for _ in range(2):
        claimed_keys = ledger.commit_and_claim((), [claim])
        if claim.key in claimed_keys:
            return claim
        # The entry has changed: read it again, and claim the key once more.
        entries = ledger.entries([claim.key])
        claim = claim._replace(entry=entries.get(claim.key))
    raise AssistantLedgerError(
        f"other tasks claim {claim.label} at the same time",
        safe=NOTHING_SENT,
        todo="A retry of the task reads what became of it.",
    )


def outcome_of_reply(claim: Claim, reply: ApiReply) -> ClaimOutcome:
    """Return the outcome of a successful request; a single one's key identifies its content."""
    info = reply.call_info
    return ClaimOutcome(
        claim=claim,
        outcome="created",
        content_hash=claim.key,
        created_id=reply.created_id,
        http_status=info.status,
        attempts=info.attempts,
        ambiguous=info.ambiguous,
    )


def outcome_of_error(claim: Claim, error: AssistantError) -> ClaimOutcome:
    """Return the outcome of a request that failed."""
    outcome = outcome_of(error)
    return ClaimOutcome(
        claim=claim,
        outcome=outcome,
        content_hash=claim.key,
        # Not every error has an HTTP response.
        http_status=getattr(error, "status", None),
        ambiguous=int(outcome == "ambiguous"),
        error=str(error),
    )
