"""A single request: claimed, sent and recorded like a group of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger.claims import ScopeLedger
from airflow_provider_assistant.ledger.outcomes import (
    Claim,
    ClaimOutcome,
    outcome_of,
    outcome_of_error,
    outcome_of_reply,
)

T = TypeVar("T", bound=ApiReply)


def send_once(
    ledger: ScopeLedger,
    claim: Claim,
    send: Callable[[], T],
    on_reply: Callable[[Claim, T], ClaimOutcome] | None = None,
) -> T:
    """
    Claim a key, send its request and record the outcome.

    If the outcome cannot be recorded, it is recorded when the ledger is closed.

    :param on_reply: Returns the outcome of a reply. Default: :func:`outcome_of_reply`.
    :raises AssistantLedgerError: The claim cannot be recorded; nothing was sent.
    """
    claim = claim_one(ledger, claim)
    try:
        reply = send()
        if on_reply:
            outcome = on_reply(claim, reply)
        else:
            # The key of a single request identifies its content.
            outcome = outcome_of_reply(claim, claim.key, reply)
        ledger.record(outcome)
    except AssistantError as error:
        ledger.record(outcome_of_error(claim, claim.key, error, outcome_of(error)))
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
        todo="Run the task again: it reads what the other tasks recorded.",
    )
