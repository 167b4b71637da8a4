"""Ratings in the ledger: a request is the key, and its rating is the content."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_assistant.api.ratings import RatingReply
from airflow_provider_assistant.ledger import Claim, Known, Outcome, hash_of, key_of
from airflow_provider_assistant.sending.decide import Item, outcome_of_reply

REPEATED = "the request had been rated before, and the service keeps its first rating"


def rating_key(session_id: str, request_id: str) -> str:
    """Return the key of the rating of a request; it is the same for every task that rates it."""
    return key_of(session_id, request_id)


def rating_claim(session_id: str, request_id: str, rating: str, attempts: Sequence[Known]) -> Claim:
    """
    Return the claim of a rating.

    :param attempts: Attempts of its key, earliest first.
    """
    return Claim(
        rating_key(session_id, request_id),
        session_id,
        attempts[-1].number + 1 if attempts else 1,
        hash_of(rating),
        details={"session_id": session_id, "remote_id": request_id, "rating": rating},
    )


def is_sent(attempts: Sequence[Known], rating: str) -> bool:
    """Return whether this is the latest rating of a request that the service has, as far as the ledger knows."""
    effects = [attempt for attempt in attempts if attempt.state in {"created", "claimed", "ambiguous"}]
    return bool(effects) and effects[-1].state == "created" and effects[-1].content_hash == hash_of(rating)


def may_be_sent(attempts: Sequence[Known], rating: str) -> bool:
    """Return whether an earlier attempt at this rating may have been received."""
    unresolved = [attempt for attempt in attempts if attempt.state in {"claimed", "ambiguous"}]
    return any(attempt.content_hash == hash_of(rating) for attempt in unresolved)


def is_repeated(reply: RatingReply, *, may_be_earlier: bool) -> bool:
    """
    Return whether the service did not accept a rating, because the request had been rated before.

    :param may_be_earlier: Whether the earlier rating may be an attempt at the same one.
    """
    return reply.is_repeated and not may_be_earlier and not reply.call_info.ambiguous


def outcome_of_rating(item: Item, reply: RatingReply) -> Outcome:
    """Return the outcome of a rating to which the service replied."""
    outcome = outcome_of_reply(item, reply)
    if not is_repeated(reply, may_be_earlier=item.is_repeat):
        return outcome
    return Outcome(item.claim, "rejected", requests=item.requests, http_status=outcome.http_status, error=REPEATED)
