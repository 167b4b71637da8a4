"""Counts and findings of many ratings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_assistant.feedback.ratings import REPEATED, Rating
from airflow_provider_assistant.ledger import Known, ScopeLedger
from airflow_provider_assistant.loading.findings import Finding, Kind
from airflow_provider_assistant.sending.batch import Result
from airflow_provider_assistant.sending.outcomes import Item
from airflow_provider_assistant.texts import counted

# What became of the row of an answer, and how the log says it.
OUTCOMES = {
    "sent": "rated by this try",
    "already_sent": "rated before",
    "repeated": "not accepted because of an earlier rating",
    "failed": "failed",
    "not_rated": "without a rating",
    "not_answered": "without an answer",
}


@dataclass(slots=True)
class RatingCounts:
    """
    Counts of the rows of an evaluation.

    :param outcomes: Number of rows by outcome: each row has one of ``OUTCOMES``. A rating that was refused, is
        ambiguous or was not attempted has ``failed``.
    :param by_rating: Number of the sent ratings, also of those before, by rating.
    :param possibly_duplicated: Ratings that were sent with an earlier ambiguous attempt.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    by_rating: Counter[str] = field(default_factory=Counter)
    possibly_duplicated: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON types, for XCom."""
        return {
            "rows": self.outcomes.total(),
            **{outcome: self.outcomes[outcome] for outcome in OUTCOMES},
            "possibly_duplicated": self.possibly_duplicated,
            "by_rating": dict(self.by_rating),
        }

    def __str__(self) -> str:
        parts = [f"{self.outcomes[outcome]:,} {text}" for outcome, text in OUTCOMES.items() if self.outcomes[outcome]]
        return f"{counted(self.outcomes.total(), 'question')}: {', '.join(parts)}"

    def items(self, ratings: Sequence[Rating], ledger: ScopeLedger, site_id: str) -> list[Item]:
        """Return the ratings to send; they count as failed until they are acknowledged. Count the others."""
        known = ledger.known([rating.ledger_key for rating in ratings])
        items = []
        for rating in ratings:
            attempts: Sequence[Known] = known.get(rating.ledger_key, ())
            item = rating.item(site_id, attempts)
            self.outcomes["failed" if item else "already_sent"] += 1
            if item:
                items.append(item)
            else:
                self.by_rating[rating.word] += 1
        return items

    def add(self, result: Result) -> Finding | None:
        """Count the outcome of a rating, and return a finding if a person should look at it."""
        item, outcome, reply = result
        rating: Rating = item.row
        kind: Kind = "ambiguous" if outcome.state == "ambiguous" else "failed"
        reason = outcome.error or ""
        if reply is not None:
            is_repeated = outcome.state == "rejected"
            self.outcomes["failed"] -= 1
            self.outcomes["repeated" if is_repeated else "sent"] += 1
            if is_repeated:
                kind, reason = "repeated", REPEATED
            else:
                self.by_rating[rating.word] += 1
                if not item.is_repeat and not item.attempts.maybe_done:
                    return None
                self.possibly_duplicated += 1
                kind, reason = "possibly_duplicated", "an earlier attempt may have been received as well"
        return Finding(kind, rating.key, f"{rating.word}: {reason}", document_ids=[rating.request_id])
