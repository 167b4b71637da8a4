"""Send many ratings concurrently, each once (``POST …/chat/feedback``)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.payloads import Feedback, checked
from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import AssistantError, AssistantIncompleteError, AssistantPermissionError
from airflow_provider_assistant.feedback.rules import Rating
from airflow_provider_assistant.ledger import (
    REPEATED,
    LedgerEntry,
    RatingLedger,
    claim_one,
    is_repeated,
    outcome_of,
    outcome_of_error,
    outcome_of_rating,
    rating_claim,
    rating_key,
)
from airflow_provider_assistant.loading.findings import LOGGED, Finding, FindingsFile, Kind
from airflow_provider_assistant.texts import counted

# Consecutive transient failures, each after all its retries, after which the circuit breaker opens.
BREAKER = 25
CANCELLED = "the task was ended from outside; a retry sends the other ratings"

T = TypeVar("T")

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
    :param ledger: None sends every rating and records nothing.
    :param findings: Gets the ratings that a person should look at.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        site_id: str,
        ledger: RatingLedger | None,
        findings: FindingsFile,
    ) -> None:
        self.counts = RatingCounts()
        self._settings = settings
        self._site_id = site_id
        self._ledger = ledger
        self._findings = findings
        self._runner = CancellableRunner(CANCELLED, grace=GRACE)
        # All ratings of a task go to one site, so a 403 concerns all of them.
        self._breaker = CircuitBreaker(BREAKER, AssistantPermissionError)
        self._waiting: deque[Rating] = deque()
        # Ledger entries of the ratings, by key.
        self._entries: dict[str, LedgerEntry] = {}
        self._refused = 0

    def send(self, wanted: Sequence[Rating]) -> None:
        """
        Send the ratings that no earlier run has sent; :attr:`counts` has the result.

        :raises AssistantError: An error that further ratings would meet as well stopped the run, the circuit breaker
            opened, or the task was terminated.
        """
        if self._ledger:
            self._entries = self._ledger.entries([_key(rating) for rating in wanted])
        for rating in wanted:
            entry = self._entries.get(_key(rating))
            if entry and entry.state == "created":
                self.counts.already_sent += 1
                self.counts.by_rating[rating.word] += 1
            else:
                self._waiting.append(rating)
        try:
            if self._waiting:
                self._runner.run(self._send_all())
        finally:
            # Ratings that a stopped run did not attempt count as failed.
            counts = self.counts
            counts.failed = len(wanted) - counts.sent - counts.already_sent - counts.repeated
        error = self._breaker.error
        if error:
            # A fatal error, such as a missing permission, concerns every rating.
            if self._breaker.is_fatal(error):
                raise error
            raise AssistantIncompleteError(
                f"{counted(self._breaker.failures, 'rating')} in a row could not be sent, the others were not tried: "
                f"{error.happened}",
                todo=error.todo,
            )
        if self._runner.is_cancelled and self._waiting:
            raise AssistantIncompleteError(CANCELLED)

    @property
    def is_final(self) -> bool:
        """Whether the service refused every failed rating, so that a retry would fail as well."""
        return self._refused == self.counts.failed

    def cancel(self) -> None:
        """Stop sending, and make :meth:`send` return within a few seconds. A signal handler may call this."""
        self._runner.cancel()

    async def _send_all(self) -> None:
        # Write to the ledger in a separate thread, so that a slow commit does not delay requests.
        with ThreadPoolExecutor(1, "ledger") as thread:
            async with RateLimitedClient(self._settings) as client:
                await client.prepare()
                await for_each(
                    self._ratings(),
                    partial(self._send, client, thread),
                    max_concurrency=min(len(self._waiting), self._settings.max_concurrency),
                    breaker=self._breaker,
                    on_error=self._record_failure,
                )

    def _ratings(self) -> Iterator[Rating]:
        while self._waiting and not self._runner.is_cancelled:
            yield self._waiting.popleft()

    async def _send(self, client: RateLimitedClient, thread: ThreadPoolExecutor, rating: Rating) -> None:
        fields = {"session_id": rating.session_id, "request_id": rating.request_id, "feedback": rating.word}
        call = endpoints.send_feedback(self._site_id, checked(Feedback, fields))
        key = _key(rating)
        entry = self._entries.get(key)
        claim = rating_claim(rating.session_id, rating.request_id, rating.word, entry)
        if self._ledger:
            claim = await self._run_in(thread, claim_one, self._ledger, claim)
        try:
            reply = await client.asend(call)
        except AssistantError as error:
            if self._ledger:
                outcome = outcome_of_error(claim, key, error, outcome_of(error))
                await self._run_in(thread, self._ledger.record, outcome)
            raise
        if self._ledger:
            await self._run_in(thread, self._ledger.record, outcome_of_rating(claim, reply))
        if is_repeated(reply, claim.entry):
            self.counts.repeated += 1
            self._add_finding("repeated", rating, REPEATED)
            return
        self.counts.sent += 1
        self.counts.by_rating[rating.word] += 1
        was_ambiguous = entry is not None and entry.state == "ambiguous"
        if was_ambiguous or reply.call_info.ambiguous:
            self.counts.possibly_duplicated += 1
            self._add_finding("possibly_duplicated", rating, "an earlier attempt may have been received as well")

    async def _run_in(self, thread: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)

    def _record_failure(self, rating: Rating, error: AssistantError) -> None:
        if errors.is_refused(error):
            self._refused += 1
        kind: Kind = "failed"
        if outcome_of(error) == "ambiguous":
            kind = "ambiguous"
        self._add_finding(kind, rating, str(error))
        if self._findings.count <= LOGGED:
            log.warning("The answer to %r could not be rated: %s", rating.key, error)

    def _add_finding(self, kind: Kind, rating: Rating, reason: str) -> None:
        reason = f"{rating.word}: {reason}"
        self._findings.add(Finding(kind, rating.key, reason, document_ids=[rating.request_id]))


def _key(rating: Rating) -> str:
    """Return the ledger key of a rating; it is the same for a single rating and for many."""
    return rating_key(rating.session_id, rating.request_id, rating.word)
