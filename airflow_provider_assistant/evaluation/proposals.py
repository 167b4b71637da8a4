"""Propose cases for a golden set: questions whose answers were rated bad."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from airflow_provider_assistant.evaluation.extra import require_extra
from airflow_provider_assistant.evaluation.golden_set import NEAR
from airflow_provider_assistant.evaluation.text import normalise
from airflow_provider_assistant.exceptions import AssistantInputError

# Columns of a proposal. A person fills in the expectations, and in ``human`` whether ``human_answer`` is right.
COLUMNS = (
    "key",
    "message",
    "expected",
    "must_include",
    "must_not_include",
    "expected_url",
    "expect_no_answer",
    "tags",
    "human_answer",
    "human",
    "rating",
    "rated_at",
    "rated_request_id",
)
# Reasons why a rating does not become a case.
SKIPPED = (
    "replaced",
    "other_ratings",
    "without_answer",
    "later_turns",
    "in_golden_set",
    "duplicates",
    "over_limit",
)


class Rating(NamedTuple):
    """
    A row of the dataset ``feedback``.

    :param rating: The word that was sent.
    :param sent_at: When it was sent: a time, or its text in ISO 8601.
    """

    session_id: str
    request_id: str
    rating: str
    sent_at: datetime | str

    @property
    def request(self) -> tuple[str, str]:
        """The rated chat request, with its session."""
        return self.session_id, self.request_id

    @property
    def moment(self) -> str:
        """
        When it was sent, in UTC and ISO 8601, so that texts sort by time.

        :raises AssistantInputError: ``sent_at`` is not a time.
        """
        sent_at = self.sent_at
        if isinstance(sent_at, str):
            try:
                sent_at = datetime.fromisoformat(sent_at)
            except ValueError:
                problem = f"sent_at must be a time in ISO 8601, not {sent_at!r}"
                raise AssistantInputError(
                    f"rating of request {self.request_id!r}: {problem}",
                    field="sent_at",
                ) from None
        if sent_at.tzinfo is None:
            # A time without a time zone is in UTC.
            sent_at = sent_at.replace(tzinfo=UTC)
        return sent_at.astimezone(UTC).isoformat()


class Answered(NamedTuple):
    """
    A question of a chat batch with its answer.

    :param turn: Number of the question in its conversation, from 1.
    """

    message: str
    answer: str
    turn: int


@dataclass(frozen=True, slots=True)
class Proposals:
    """
    Proposed cases, and the counts of the other ratings.

    :param rows: The cases, newest rating first; each is a mapping with ``COLUMNS``.
    :param ratings: Number of ratings. The number of cases and the counts of ``skipped`` add up to it.
    :param skipped: Counts by reason, for each of ``SKIPPED``: ``replaced``, a later rating of the same answer exists;
        ``other_ratings``, the answer is not rated bad; ``without_answer``, the answers do not contain it;
        ``later_turns``, the question continues a conversation; ``in_golden_set`` and ``duplicates``, the golden set or
        a newer proposal has the same question or one that is at least 95 % similar; ``over_limit``.
    """

    rows: Sequence[Mapping[str, Any]]
    ratings: int
    skipped: Mapping[str, int]


def bad_requests(ratings: Iterable[Rating], words: Iterable[str]) -> tuple[list[Rating], Counter[str]]:
    """Return the latest ratings of the chat requests that are rated bad, newest first, and counts of the others."""
    all_ratings = list(ratings)
    latest_by_request: dict[tuple[str, str], Rating] = {}
    for rating in all_ratings:
        earlier = latest_by_request.get(rating.request)
        if earlier is None or rating.moment > earlier.moment:
            latest_by_request[rating.request] = rating
    bad_words = set(words)
    bad = [rating for rating in latest_by_request.values() if rating.rating in bad_words]
    # Ratings of the same time are in the order of their requests, because the sort is stable.
    bad.sort(key=lambda rating: rating.request)
    bad.sort(key=lambda rating: rating.moment, reverse=True)
    skipped = Counter(
        replaced=len(all_ratings) - len(latest_by_request),
        other_ratings=len(latest_by_request) - len(bad),
    )
    return bad, skipped


def propose(
    ratings: Iterable[Rating],
    answers: Mapping[tuple[str, str], Answered],
    golden: Iterable[str],
    *,
    words: Iterable[str],
    limit: int,
) -> Proposals:
    """
    Propose the questions whose answers were rated bad as cases of a golden set.

    :param ratings: The ratings, in any order. Only the latest one of a chat request counts.
    :param answers: The answers by session and chat request.
    :param golden: The questions of the golden set.
    :param words: Words that mean that an answer is bad.
    """
    bad, skipped = bad_requests(ratings, words)
    golden_texts = [normalise(message) for message in golden]
    proposed_texts: list[str] = []
    rows: list[dict[str, Any]] = []
    for rating in bad:
        answered = answers.get(rating.request)
        if answered is None:
            skipped["without_answer"] += 1
            continue
        text = normalise(answered.message)
        if answered.turn > 1:
            skipped["later_turns"] += 1
        elif _is_similar_to_any(text, golden_texts):
            skipped["in_golden_set"] += 1
        elif _is_similar_to_any(text, proposed_texts):
            skipped["duplicates"] += 1
        elif len(rows) == limit:
            # Older questions that are similar to this one count as duplicates, whatever the limit.
            proposed_texts.append(text)
            skipped["over_limit"] += 1
        else:
            proposed_texts.append(text)
            rows.append(_row(rating, answered, text))
    counts = {reason: skipped[reason] for reason in SKIPPED}
    total = len(rows) + sum(counts.values())
    return Proposals(rows=rows, ratings=total, skipped=counts)


def _is_similar_to_any(text: str, others: Sequence[str]) -> bool:
    process = require_extra("rapidfuzz.process")
    ratio = require_extra("rapidfuzz.fuzz").ratio
    most_similar = process.extractOne(text, others, scorer=ratio, score_cutoff=NEAR)
    return most_similar is not None


def _row(rating: Rating, answered: Answered, text: str) -> dict[str, Any]:
    # The key is a hash of the question, so it is the same in every file of proposals.
    question_hash = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    key = f"feedback.{question_hash}"
    # The other columns stay empty, for a person to fill in.
    return dict.fromkeys(COLUMNS, "") | {
        "key": key,
        "message": answered.message,
        "human_answer": answered.answer,
        "rating": rating.rating,
        "rated_at": rating.moment,
        "rated_request_id": rating.request_id,
    }
