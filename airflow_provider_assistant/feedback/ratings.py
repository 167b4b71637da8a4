"""Ratings in the ledger: a request is the key, and its rating is the content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import Feedback, checked
from airflow_provider_assistant.api.ratings import RatingReply
from airflow_provider_assistant.ledger import Claim, Known, Outcome, hash_of, key_of
from airflow_provider_assistant.sending.outcomes import Item, outcome_of_reply

REPEATED = "the request had been rated before, and the service keeps its first rating"
_EFFECTS = frozenset({"created", "claimed", "ambiguous"})


class Rating(NamedTuple):
    """
    The rating of an answer.

    :param word: Such as ``good``.
    :param key: Key of the question, for people.
    """

    session_id: str
    request_id: str
    word: str
    key: str = ""

    @property
    def ledger_key(self) -> str:
        """Key in the ledger; it is the same for every task that rates the request."""
        return key_of(self.session_id, self.request_id)

    def item(self, site_id: str, attempts: Sequence[Known]) -> Item | None:
        """
        Return the row to send; None if this is the latest rating of the request that the service has.

        :param attempts: Attempts of its key, earliest first.
        """
        content_hash = hash_of(self.word)
        effects = [attempt for attempt in attempts if attempt.state in _EFFECTS]
        if effects and effects[-1].state == "created" and effects[-1].content_hash == content_hash:
            return None
        fields = {"session_id": self.session_id, "request_id": self.request_id, "feedback": self.word}
        details = {"session_id": self.session_id, "remote_id": self.request_id, "rating": self.word}
        number = attempts[-1].number + 1 if attempts else 1
        same = [attempt for attempt in effects if attempt.content_hash == content_hash]
        return Item(
            Claim(self.ledger_key, self.session_id, number, content_hash, details=details),
            endpoints.send_feedback(site_id, checked(Feedback, fields)),
            is_repeat=any(attempt.state != "created" for attempt in same),
            row=self,
        )


def is_repeated(item: Item, reply: RatingReply) -> bool:
    """Return whether the service kept an earlier rating, which is not an attempt at this one."""
    return reply.is_repeated and not item.is_repeat and not reply.call_info.ambiguous


def outcome_of_rating(item: Item, reply: RatingReply) -> Outcome:
    """Return the outcome of a rating to which the service replied."""
    outcome = outcome_of_reply(item, reply)
    if not is_repeated(item, reply):
        return outcome
    return Outcome(item.claim, "rejected", requests=item.attempts.sent, http_status=outcome.http_status, error=REPEATED)
