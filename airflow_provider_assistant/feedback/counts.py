"""Counts and findings of many ratings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_assistant.feedback.ratings import REPEATED, Rating
from airflow_provider_assistant.ledger import Known, ScopeLedger
from airflow_provider_assistant.loading.findings import Finding, Kind
from airflow_provider_assistant.sending.batch import Result
from airflow_provider_assistant.sending.decide import Item
from airflow_provider_assistant.texts import counted


@dataclass(slots=True)
class RatingCounts:
    """
    Counts of the rows of an evaluation by outcome. The first six add up to all rows.

    :param already_sent: Rows whose request has this rating already.
    :param repeated: Rows whose rating the service did not accept, because their request had been rated before.
    :param failed: Rows whose rating was refused, is ambiguous or was not attempted.
    :param possibly_duplicated: Ratings of ``sent`` with an earlier ambiguous attempt.
    :param by_rating: Count of ``sent`` and ``already_sent`` by rating.
    """

    sent: int = 0
    already_sent: int = 0
    repeated: int = 0
    failed: int = 0
    not_rated: int = 0
    not_answered: int = 0
    possibly_duplicated: int = 0
    by_rating: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return self.sent + self.already_sent + self.repeated + self.failed + self.not_rated + self.not_answered

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON types, for XCom."""
        return {"rows": self.rows, **asdict(self), "by_rating": dict(self.by_rating)}

    def __str__(self) -> str:
        numbers = {
            "rated by this try": self.sent,
            "rated before": self.already_sent,
            "not accepted because of an earlier rating": self.repeated,
            "failed": self.failed,
            "without a rating": self.not_rated,
            "without an answer": self.not_answered,
        }
        parts = [f"{number:,} {what}" for what, number in numbers.items() if number]
        return f"{counted(self.rows, 'question')}: {', '.join(parts)}"

    def items(self, ratings: Sequence[Rating], ledger: ScopeLedger, site_id: str) -> list[Item]:
        """Return the ratings to send; they count as failed until they are acknowledged. Count the others."""
        known = ledger.known([rating.ledger_key for rating in ratings])
        items = []
        for rating in ratings:
            attempts: Sequence[Known] = known.get(rating.ledger_key, ())
            item = rating.item(site_id, attempts)
            if item:
                items.append(item)
            else:
                self.already_sent += 1
                self.by_rating[rating.word] += 1
        self.failed = len(items)
        return items

    def add(self, result: Result) -> Finding | None:
        """Count the outcome of a rating, and return a finding if a person should look at it."""
        rating: Rating = result.item.row
        found = self._count(result)
        if found is None:
            return None
        kind, reason = found
        return Finding(kind, rating.key, f"{rating.word}: {reason}", document_ids=[rating.request_id])

    def _count(self, result: Result) -> tuple[Kind, str] | None:
        item, outcome, reply = result
        if reply is None:
            return "ambiguous" if outcome.state == "ambiguous" else "failed", outcome.error or ""
        self.failed -= 1
        if outcome.state == "rejected":
            self.repeated += 1
            return "repeated", REPEATED
        self.sent += 1
        self.by_rating[item.row.word] += 1
        if item.is_repeat or item.attempts.maybe_done:
            self.possibly_duplicated += 1
            return "possibly_duplicated", "an earlier attempt may have been received as well"
        return None
