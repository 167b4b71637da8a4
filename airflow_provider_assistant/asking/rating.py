"""Send many ratings at a time, each once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.models import Feedback, checked
from airflow_provider_assistant.client import ClientSettings
from airflow_provider_assistant.evaluation.ratings import Rating
from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantIncompleteLoad,
    AssistantLedgerError,
    AssistantPermissionError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.ledger import Ledger, RunRef, is_superseded, key_of, outcome_of, ratings
from airflow_provider_assistant.ledger.schema import Outcome
from airflow_provider_assistant.loading.interruptible import Interruptible
from airflow_provider_assistant.loading.limited import LimitedClient
from airflow_provider_assistant.loading.report import LOGGED, Findings, Kind

# Consecutive transient failures, each after all its retries, after which the rest is not sent.
BREAKER = 25
# These concern the key, or the ledger, and so every rating.
FATAL = (AssistantAuthenticationError, AssistantPermissionError, AssistantRateLimitError, AssistantLedgerError)
# What is in flight when a task has to end gets so long, in seconds. Airflow kills five seconds after it asked.
GRACE = 2.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RatingCounts:
    """
    What became of the ratings: ``sent``, ``already_sent`` and ``failed`` add up to them.

    :param sent: Sent, as the service acknowledged.
    :param already_sent: Sent by an earlier run, and still the latest rating of its request.
    :param failed: Not sent as far as is known: refused, in doubt, or not come to.
    :param possibly_duplicated: Sent, after an attempt that may have been received as well.
    :param by_rating: How many were sent now or before, by word.
    """

    sent: int = 0
    already_sent: int = 0
    failed: int = 0
    possibly_duplicated: int = 0
    by_rating: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON types, fit for XCom."""
        return {**asdict(self), "by_rating": dict(self.by_rating)}


class Rater:
    """
    Sends the ratings of one task.

    :param settings: Of the connection; ``max_concurrency`` bounds how many are in flight.
    :param site_id: The site.
    :param scope: What the ledger knows the site as.
    :param run: The task instance.
    :param ledger: Remembers what was sent; None sends everything.
    :param findings: Where to list what wants attention.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        site_id: str,
        scope: str,
        run: RunRef,
        ledger: Ledger | None,
        findings: Findings,
    ) -> None:
        self.counts = RatingCounts()
        self._settings = settings
        self._site_id = site_id
        self._scope = scope
        self._run = run
        self._ledger = ledger
        self._findings = findings
        self._work = Interruptible("the task was ended from outside; a retry sends the other ratings", grace=GRACE)
        self._waiting: deque[Rating] = deque()
        self._unclear: set[str] = set()
        self._failures = 0
        self._refused = 0
        self._stopped: AssistantError | None = None

    def send(self, wanted: Sequence[Rating]) -> None:
        """
        Send what was not sent before.

        :raises AssistantError: What stopped it; the counts say how far it came.
        """
        outcomes = self._outcomes(wanted)
        self._unclear = {key for key, outcome in outcomes.items() if outcome in {"intended", "ambiguous"}}
        for rating in wanted:
            if outcomes.get(_key(rating)) == "done":
                self.counts.already_sent += 1
                self.counts.by_rating[rating.word] += 1
            else:
                self._waiting.append(rating)
        try:
            if self._waiting:
                self._work.run(self._send_all())
        finally:
            # What a stopped task did not come to is among the failed.
            self.counts.failed = len(wanted) - self.counts.sent - self.counts.already_sent
        if self._stopped:
            raise self._stopped
        if self._work.is_ended and self._waiting:
            raise AssistantIncompleteLoad("the task was ended from outside; a retry sends the other ratings")

    @property
    def is_final(self) -> bool:
        """Whether the service refused every rating that is missing, so that a retry would change nothing."""
        return self._refused == self.counts.failed

    def end(self) -> None:
        """Send nothing more, and end within a few seconds; may be called by a signal handler."""
        self._work.end()

    def _outcomes(self, wanted: Sequence[Rating]) -> dict[str, Outcome]:
        if self._ledger is None:
            return {}
        keys = [_key(one) for one in wanted]
        return self._ledger.outcomes(ratings, self._scope, keys, again_if=is_superseded())

    async def _send_all(self) -> None:
        # The ledger's own thread: a slow commit holds up no request.
        with ThreadPoolExecutor(1, "ledger") as thread:
            async with LimitedClient(self._settings) as client:
                await client.prepare()
                workers = min(len(self._waiting), self._settings.max_concurrency)
                await asyncio.gather(*(self._keep_sending(client, thread) for _ in range(workers)))

    async def _keep_sending(self, client: LimitedClient, thread: ThreadPoolExecutor) -> None:
        while self._waiting and not self._stopped and not self._work.is_ended:
            rating = self._waiting.popleft()
            try:
                await self._send(client, thread, rating)
            except AssistantError as error:
                self._failed(rating, error)
            else:
                self._failures = 0
                self.counts.sent += 1
                self.counts.by_rating[rating.word] += 1

    async def _send(self, client: LimitedClient, thread: ThreadPoolExecutor, rating: Rating) -> None:
        fields = {"session_id": rating.session_id, "request_id": rating.request_id, "feedback": rating.word}
        call = endpoints.send_feedback(self._site_id, checked(Feedback, fields))
        is_unclear = _key(rating) in self._unclear
        await self._book(
            thread,
            lambda ledger: ledger.intend(
                ratings,
                self._scope,
                _key(rating),
                self._run,
                site_id=self._site_id,
                session_id=rating.session_id,
                request_id=rating.request_id,
                rating=rating.word,
            ),
        )
        try:
            reply = await client.asend(call)
        except AssistantError as error:
            # That this attempt was refused does not clear up an earlier one.
            facts: dict[str, Any] = {"outcome": "ambiguous" if is_unclear else outcome_of(error), "error": str(error)}
            await self._book(thread, lambda ledger: self._settle(ledger, rating, **facts))
            raise
        await self._book(thread, lambda ledger: self._settle(ledger, rating, "done"))
        if is_unclear or reply.exchange.ambiguous:
            self.counts.possibly_duplicated += 1
            self._find("possibly_duplicated", rating, "an earlier attempt may have been received as well")

    def _settle(self, ledger: Ledger, rating: Rating, outcome: Outcome, error: str | None = None) -> None:
        ledger.settle(ratings, self._scope, _key(rating), outcome, error=error)

    async def _book(self, thread: ThreadPoolExecutor, write: Callable[[Ledger], None]) -> None:
        if self._ledger:
            await asyncio.get_running_loop().run_in_executor(thread, write, self._ledger)

    def _failed(self, rating: Rating, error: AssistantError) -> None:
        is_refused = errors.is_refused(error)
        self._refused += is_refused
        self._failures += not is_refused
        kind: Kind = "ambiguous" if outcome_of(error) == "ambiguous" else "failed"
        self._find(kind, rating, str(error))
        if self._findings.count <= LOGGED:
            log.warning("The answer to %r is not rated: %s", rating.key, error)
        if isinstance(error.__cause__ if isinstance(error.__cause__, AssistantError) else error, FATAL):
            self._stopped = self._stopped or error
        elif self._failures >= BREAKER:
            self._stopped = self._stopped or AssistantIncompleteLoad(
                f"{self._failures} ratings in a row could not be sent, and the others were not tried: {error}"
            )

    def _find(self, kind: Kind, rating: Rating, reason: str) -> None:
        self._findings.add(kind, rating.key, f"{rating.word}: {reason}", document_ids=[rating.request_id])


def _key(rating: Rating) -> str:
    """Return what the ledger knows a rating by: the same whether it is sent alone or with others."""
    return key_of(rating.session_id, rating.request_id, rating.word)
