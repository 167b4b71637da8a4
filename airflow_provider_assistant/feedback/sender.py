"""Send many ratings concurrently, each once (``POST …/chat/feedback``)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import Feedback, checked
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantBadRequestError,
    AssistantIncompleteError,
    AssistantNotFoundError,
)
from airflow_provider_assistant.feedback.ratings import (
    REPEATED,
    is_sent,
    may_be_sent,
    outcome_of_rating,
    rating_claim,
    rating_key,
)
from airflow_provider_assistant.feedback.rules import Rating
from airflow_provider_assistant.ledger import Outcome, ScopeLedger
from airflow_provider_assistant.loading.findings import LOGGED, Finding, FindingsFile, Kind
from airflow_provider_assistant.sending.client import SendingClient
from airflow_provider_assistant.sending.decide import Item
from airflow_provider_assistant.sending.sender import Sender
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RatingCounts:
    """
    Counts of ratings by outcome; ``sent``, ``already_sent``, ``repeated`` and ``failed`` add up to all ratings.

    :param sent: Ratings that this run sent and the service accepted.
    :param already_sent: Ratings that an earlier run sent and that are still the latest of their chat request.
    :param repeated: Ratings that the service did not accept, because their chat request had been rated
        before.
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


class FeedbackSender:
    """
    Send the ratings of one task, and record them in the ledger.

    :param settings: Settings of the client; ``max_concurrency`` limits the requests in flight.
    :param findings: Gets the ratings that a person should look at.
    """

    def __init__(self, settings: ClientSettings, *, site_id: str, ledger: ScopeLedger, findings: FindingsFile) -> None:
        self.counts = RatingCounts()
        self._site_id = site_id
        self._ledger = ledger
        self._findings = findings
        self._refused = 0
        self._client = SendingClient(
            settings, max_backoff=settings.retry.max_backoff, retry_ambiguous=settings.retry.retry_ambiguous
        )
        self._sender = Sender(
            ledger,
            self._client,
            on_outcome=self._count,
            on_lost=lambda _item: None,
            outcome_of=outcome_of_rating,  # type: ignore[arg-type]
            # A 404 may mean that the service does not know one request.
            refusals=(AssistantBadRequestError, AssistantNotFoundError),
            stopped="the task was ended from outside; a retry sends the other ratings",
        )

    def send(self, wanted: Sequence[Rating]) -> None:
        """
        Send the ratings that no earlier run has sent; :attr:`counts` has the result.

        :raises AssistantError: An error that further ratings would meet as well stopped the run, the circuit breaker
            opened, or the task was terminated.
        """
        counts = self.counts
        try:
            waiting = self._items(wanted)
            if waiting:
                run_coroutine(self._send(iter(waiting)))
        finally:
            # Ratings that a stopped run did not attempt count as failed.
            counts.failed = len(wanted) - counts.sent - counts.already_sent - counts.repeated
        breaker = self._sender.breaker
        if breaker.error is None:
            return
        # A fatal error, such as a missing permission, concerns every rating.
        if breaker.is_fatal(breaker.error):
            raise breaker.error
        raise AssistantIncompleteError(
            f"{counted(breaker.failures, 'rating')} in a row could not be sent, the others were not tried: "
            f"{breaker.error.happened}",
            todo=breaker.error.todo,
        )

    @property
    def is_final(self) -> bool:
        """Whether the service refused every failed rating, so that a retry would fail as well."""
        return self._refused == self.counts.failed

    def cancel(self) -> None:
        """Stop sending, and make :meth:`send` return within a few seconds. A signal handler may call this."""
        self._sender.cancel()

    def _items(self, wanted: Sequence[Rating]) -> list[Item]:
        """Return the ratings to send, and count those that were sent before."""
        known = self._ledger.known({rating_key(rating.session_id, rating.request_id) for rating in wanted})
        items = []
        for rating in wanted:
            attempts = known.get(rating_key(rating.session_id, rating.request_id), ())
            if is_sent(attempts, rating.word):
                self.counts.already_sent += 1
                self.counts.by_rating[rating.word] += 1
                continue
            fields = {"session_id": rating.session_id, "request_id": rating.request_id, "feedback": rating.word}
            call = endpoints.send_feedback(self._site_id, checked(Feedback, fields))
            claim = rating_claim(rating.session_id, rating.request_id, rating.word, attempts)
            items.append(Item(claim, call, is_repeat=may_be_sent(attempts, rating.word), row=rating))
        return items

    async def _send(self, items: Iterator[Item]) -> None:
        async with self._client:
            await self._sender.run(items)

    def _count(self, item: Item, outcome: Outcome, reply: ApiReply | None) -> None:
        """Count the outcome of a rating, and list it if a person should look at it."""
        rating: Rating = item.row
        if reply is None:
            self._refused += outcome.state == "rejected"
            kind: Kind = "ambiguous" if outcome.state == "ambiguous" else "failed"
            self._add_finding(kind, rating, outcome.error or "")
            if self._findings.count <= LOGGED:
                log.warning("The answer to %r could not be rated: %s", rating.key, outcome.error)
        elif outcome.state == "rejected":
            self.counts.repeated += 1
            self._add_finding("repeated", rating, REPEATED)
        else:
            self.counts.sent += 1
            self.counts.by_rating[rating.word] += 1
            if item.is_repeat or item.ambiguous:
                self.counts.possibly_duplicated += 1
                self._add_finding("possibly_duplicated", rating, "an earlier attempt may have been received as well")

    def _add_finding(self, kind: Kind, rating: Rating, reason: str) -> None:
        reason = f"{rating.word}: {reason}"
        self._findings.add(Finding(kind, rating.key, reason, document_ids=[rating.request_id]))
