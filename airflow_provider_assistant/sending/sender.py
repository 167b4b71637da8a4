"""
Send rows: claim, send and record, for several workers.

A claim is committed before its request is sent, and its outcome after it. So after any interruption, the ledger has an
attempt for each request that may have had an effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.worker_pool import CircuitBreaker, for_each
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantBadRequestError,
    AssistantError,
    AssistantNotFoundError,
    AssistantPermissionError,
)
from airflow_provider_assistant.ledger import Outcome, ScopeLedger
from airflow_provider_assistant.sending.committer import Committer, finished
from airflow_provider_assistant.sending.outcomes import Item, NotSentError, outcome_of_error, outcome_of_reply

# Consecutive rows that fail, after which the circuit breaker opens; at least max_concurrency.
BREAKER = 25
STOPPED = "not sent: the task had stopped"


class Sender:
    """
    Send the rows of one task to one site.

    :param client: Client of the task; its throttle decides how many requests are in flight.
    :param on_outcome: Called once for each row that was claimed, with its outcome and the reply, None if it has none.
    :param on_lost: Called with each row that another task has claimed in the meantime.
    :param outcome_of: Returns the outcome of a reply. Default: that of a created document or chat request.
    :param refusals: Errors by which the service refuses one row. Default: a 400 or the like. All rows go to one site,
        so a 403 or a 404 concerns all of them, unless it is given here.
    :param stopped: Why a task that is cancelled ends, as a clause.
    :param logs_retries: Whether to log each retry. A load may have many thousands of them.
    :ivar cause: Error of the last request whose row failed or is ambiguous; None if there is none.
    """

    def __init__(
        self,
        ledger: ScopeLedger,
        client: AssistantClient,
        *,
        on_outcome: Callable[[Item, Outcome, ApiReply | None], None],
        on_lost: Callable[[Item], None],
        outcome_of: Callable[[Item, ApiReply], Outcome] = outcome_of_reply,
        refusals: tuple[type[AssistantAPIError], ...] = (AssistantBadRequestError,),
        stopped: str = "the task was ended from outside; a retry goes on with the others",
        logs_retries: bool = False,
    ) -> None:
        self.cause: AssistantError | None = None
        self._client = client
        self._on_outcome = on_outcome
        self._on_lost = on_lost
        self._outcome_of = outcome_of
        self._refusals = refusals
        self._logs_retries = logs_retries
        self.breaker = CircuitBreaker(
            max(BREAKER, client.settings.max_concurrency),
            *({AssistantPermissionError, AssistantNotFoundError} - set(refusals)),
            on_open=self._stop,
            waits=client.settings.retry.outage_seconds > 0,
        )
        self._committer = Committer(ledger, on_error=self.breaker.open)
        self._runner = CancellableRunner(stopped, grace=GRACE, on_cancel=self.breaker.open)

    @property
    def unrecorded(self) -> list[Outcome]:
        """Outcomes that the ledger could not record."""
        return self._committer.unrecorded

    def cancel(self) -> None:
        """Stop sending and end :meth:`run` within a few seconds. A signal handler may call this."""
        self._runner.cancel()

    async def run(self, items: Iterator[Item]) -> None:
        """
        Send rows until there are no more, or an error stops all of them, which is then :attr:`breaker`'s.

        :raises AssistantIncompleteError: :meth:`cancel` was called.
        :raises AssistantInputError: The settings of the client cannot be used.
        """
        await self._runner.arun(self._run(items))

    async def _run(self, items: Iterator[Item]) -> None:
        await self._client.prepare()
        committing = asyncio.create_task(self._committer.run())
        try:
            await for_each(
                _Claimed(items, self._committer, self.breaker, self._failed, self._on_lost),
                self._send,
                max_concurrency=self._client.settings.max_concurrency,
                breaker=self.breaker,
                on_error=self._failed,
                on_result=self._accepted,
            )
        finally:
            self._committer.stop()
            await finished(committing)

    async def _send(self, item: Item) -> ApiReply:
        try:
            return await self._client.asend(
                item.call, attempts=item.attempts, is_repeat=item.is_repeat, logs_retries=self._logs_retries
            )
        except asyncio.CancelledError:
            self._failed(item, NotSentError("not sent: the task had ended"))
            raise

    def _accepted(self, item: Item, reply: ApiReply) -> None:
        outcome = self._outcome_of(item, reply)
        self._on_outcome(item, outcome, reply)
        self._committer.record(outcome)

    def _failed(self, item: Item, error: AssistantError) -> None:
        item.error = error
        outcome, error = outcome_of_error(item, error, self._refusals)
        if outcome.state != "rejected" and not isinstance(error, NotSentError):
            self.cause = error
        self._on_outcome(item, outcome, None)
        self._committer.record(outcome)

    def _stop(self, _error: AssistantError) -> None:
        """Send no further rows; requests in flight may finish."""
        self._client.throttle.stop(NotSentError(STOPPED))


@dataclass
class _Claimed(AsyncIterator[Item]):
    """The claimed rows, for workers that ask for one at a time, until nothing may be sent any more."""

    items: Iterator[Item]
    committer: Committer
    breaker: CircuitBreaker
    on_error: Callable[[Item, AssistantError], None]
    on_lost: Callable[[Item], None]

    async def __anext__(self) -> Item:
        for item in self.items:
            is_claimed = await self.committer.claim(item.claim)
            is_over = self.breaker.is_open or self.committer.has_failed
            if is_claimed and not is_over:
                return item
            if is_claimed:
                self.on_error(item, NotSentError(STOPPED))
            elif not self.committer.has_failed:
                self.on_lost(item)
            if is_over:
                break
        raise StopAsyncIteration
