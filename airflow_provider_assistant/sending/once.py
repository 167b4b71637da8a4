"""A single request: claimed, sent and recorded like a row of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger import Claim, Known, Outcome, ScopeLedger
from airflow_provider_assistant.sending.decide import Item, outcome_of_error, outcome_of_reply

T = TypeVar("T", bound=ApiReply)


def send_once(
    ledger: ScopeLedger,
    call: Call[T],
    claim_after: Callable[[Sequence[Known]], Claim],
    key: str,
    send: Callable[[], T],
    outcome_of: Callable[[Item, T], Outcome] = outcome_of_reply,
) -> T:
    """
    Claim a key, send its request and record the outcome.

    :param claim_after: Returns the claim; it takes the attempts that the ledger has for the key.
    :param outcome_of: Returns the outcome of a reply. Default: that of a created document or chat request.
    :raises AssistantLedgerError: The claim cannot be recorded, and nothing was sent.
    """
    item = Item(_claimed(ledger, claim_after, key), call)
    try:
        reply = send()
    except AssistantError as error:
        item.requests = getattr(error, "attempts", 0) or 1
        ledger.record(outcome_of_error(item, error)[0])
        raise
    item.requests = reply.call_info.attempts
    ledger.record(outcome_of(item, reply))
    return reply


def _claimed(ledger: ScopeLedger, claim_after: Callable[[Sequence[Known]], Claim], key: str) -> Claim:
    """Claim a key, also if another task has claimed it since it was read."""
    for _ in range(2):
        claim = claim_after(ledger.known([key]).get(key, ()))
        if ledger.commit([], [claim]):
            return claim
    raise AssistantLedgerError(
        f"other tasks claim {claim.label} at the same time",
        safe=NOTHING_SENT,
        todo="Run the task again: it reads what the other tasks recorded.",
    )
