"""Ledger entries of ratings."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from airflow_provider_assistant.api.ratings import RatingReply
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.claims import ScopeLedger
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.entries import LedgerEntry, key_of
from airflow_provider_assistant.ledger.outcomes import Claim, ClaimOutcome, outcome_of_reply
from airflow_provider_assistant.ledger.schema import NOT_CREATED, encoded_id, ratings

# Further columns of the claim of a rating.
RATING_COLUMNS = ("session_id", "request_id", "rating")
REPEATED = "the request had been rated before, and the service keeps its first rating"


def rating_key(session_id: str, request_id: str, rating: str) -> str:
    """Return the key of a rating; it is the same for every task that sends it."""
    return key_of(session_id, request_id, rating)


class RatingLedger(ScopeLedger):
    """Keep the ledger of the ratings of a site, see :class:`.ScopeLedger`."""

    def entries(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """
        Return the entries of these keys.

        A service that accepts a further rating of a request keeps only the latest one. So the state of a
        rating that was replaced by another one is ``none``: it has to be sent again. A rating that the
        service did not accept, because the request had been rated before, replaces none. A rating that
        another task is sending is ``ambiguous``, because sending it twice does no harm.
        """
        entries = super().entries(keys)
        created_keys = [key for key, entry in entries.items() if entry.state == "created"]
        replaced_keys = self._replaced(created_keys)
        for key, entry in entries.items():
            if key in replaced_keys:
                entries[key] = entry._replace(state="none", content_hash=None)
            elif entry.state == "leased":
                entries[key] = entry._replace(state="ambiguous")
        return entries

    def _replaced(self, keys: Sequence[str]) -> set[str]:
        """Return the keys of the ratings whose request has, or may have, a later rating."""
        c, other = ratings.c, ratings.alias()
        later_rating = sa.exists().where(
            other.c.scope == c.scope,
            other.c.session_id == c.session_id,
            other.c.request_id == c.request_id,
            other.c.key != c.key,
            other.c.outcome.not_in(NOT_CREATED),
            _time_of(other) >= _time_of(ratings),
        )
        query = sa.select(c.key).where(c.scope == self._scope, later_rating.correlate(ratings))
        # Four parameters of each query are not keys.
        keys_per_query = PARAMETERS - 4

        def read_replaced(connection: sa.Connection) -> set[str]:
            replaced_keys: set[str] = set()
            for start in range(0, len(keys), keys_per_query):
                has_key = c.key.in_(keys[start : start + keys_per_query])
                replaced_keys.update(connection.scalars(query.where(has_key)))
            return replaced_keys

        return transaction(self._connection, read_replaced)


def rating_claim(session_id: str, request_id: str, rating: str, entry: LedgerEntry | None) -> Claim:
    """Return the claim of a rating."""
    key = rating_key(session_id, request_id, rating)
    # In the order of RATING_COLUMNS.
    details = (session_id, encoded_id(request_id), rating)
    return Claim(key=key, label=session_id, entry=entry, details=details)


def is_repeated(reply: RatingReply, entry: LedgerEntry | None) -> bool:
    """
    Return whether the service did not accept a rating, because the request had been rated before.

    After an ambiguous attempt at the same rating, the earlier rating is that of this attempt.

    :param entry: Ledger entry of the rating before it was sent; None if there is none.
    """
    was_ambiguous = entry is not None and entry.state == "ambiguous"
    if was_ambiguous or reply.call_info.ambiguous:
        return False
    return reply.is_repeated


def outcome_of_rating(claim: Claim, reply: RatingReply) -> ClaimOutcome:
    """Return the outcome of a rating to which the service replied."""
    outcome = outcome_of_reply(claim, claim.key, reply)
    if is_repeated(reply, claim.entry):
        return outcome._replace(outcome="rejected", error=REPEATED)
    return outcome


def _time_of(table: sa.FromClause) -> sa.ColumnElement[object]:
    """Return when a rating was acknowledged, or when it was claimed if it has no outcome."""
    return sa.func.coalesce(table.c.recorded_at, table.c.claimed_at)
