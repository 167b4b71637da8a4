"""Counts and findings of many ratings."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_assistant.feedback.ratings import REPEATED, Rating
from airflow_provider_assistant.loading.findings import LOGGED, Finding, Kind
from airflow_provider_assistant.sending.batch import Result

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RatingCounts:
    """
    Counts of ratings by outcome; ``sent``, ``already_sent``, ``repeated`` and ``failed`` add up to all ratings.

    :param repeated: Ratings that the service did not accept, because their chat request had been rated before.
    :param failed: Ratings without an acknowledgement: refused, ambiguous or not attempted.
    :param possibly_duplicated: Ratings of ``sent`` with an earlier ambiguous attempt.
    :param by_rating: Count of ``sent`` and ``already_sent`` by rating.
    """

    sent: int = 0
    already_sent: int = 0
    repeated: int = 0
    failed: int = 0
    possibly_duplicated: int = 0
    by_rating: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON types, for XCom."""
        return {**asdict(self), "by_rating": dict(self.by_rating)}

    def add(self, results: Iterable[Result]) -> list[Finding]:
        """Count the ratings that were sent, and return those that a person should look at."""
        findings = []
        for result in results:
            found = self._count(result)
            if found is None:
                continue
            kind, reason = found
            rating: Rating = result.item.row
            findings.append(Finding(kind, rating.key, f"{rating.word}: {reason}", document_ids=[rating.request_id]))
            if len(findings) <= LOGGED:
                log.warning("Rating of %r: %s", rating.key, reason)
        return findings

    def _count(self, result: Result) -> tuple[Kind, str] | None:
        """Count the outcome of a rating, and return kind and reason of its finding."""
        item, outcome, reply = result
        if reply is None:
            return "ambiguous" if outcome.state == "ambiguous" else "failed", outcome.error or ""
        if outcome.state == "rejected":
            self.repeated += 1
            return "repeated", REPEATED
        self.sent += 1
        self.by_rating[item.row.word] += 1
        if item.is_repeat or item.ambiguous:
            self.possibly_duplicated += 1
            return "possibly_duplicated", "an earlier attempt may have been received as well"
        return None
