"""
Group commit: claim rows and record their outcomes, both in small groups, in one transaction per group.

A claim is committed before the request of its row, and its outcome after it. The number of claims without an outcome
never exceeds ``max_concurrency``, so a killed load leaves at most that many ambiguous rows. The only exception are two
more rows, which show whether a gateway that has refused all of these rows refuses others as well.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.ledger import Claim, ClaimOutcome, ScopeLedger
from airflow_provider_assistant.loading.rows import PreparedRow
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# The ledger is written once max_concurrency / GROUP outcomes are waiting, or GROUP_DELAY seconds after the first one.
# A transaction costs as much as ten of its rows, so groups pay off; but a row that waits for the transaction keeps
# its slot from the next row: of a reply that takes 100 ms, each millisecond is a hundredth.
GROUP = 2
GROUP_DELAY = 0.001


@dataclass(slots=True)
class Attempt:
    """
    Hold a row that is to be claimed, claimed or in flight.

    :param ambiguous: Number of requests that may have created its document.
    :param sent_error: Error of the last of these requests, or else of the last one that was retried. None if there is
        none.
    """

    row: PreparedRow
    claim: Claim
    ambiguous: int = 0
    sent_error: AssistantError | None = None


class LedgerWriter(AsyncIterator[Attempt]):
    """
    Claim rows, hand them out to the workers that iterate over it, and record their outcomes.

    :param ledger: None claims every row and records nothing.
    :param max_concurrency: Maximum number of claims without an outcome.
    :param on_lost: Called with each row that another task has claimed in the meantime.
    :param on_unsent: Called with each row that is claimed but will not be handed out; it must record an outcome.
    :param on_taken_over: Called with outcomes that cannot be recorded, because the lease of this load had expired and
        another run has taken their rows over.
    """

    def __init__(
        self,
        ledger: ScopeLedger | None,
        max_concurrency: int,
        *,
        on_lost: Callable[[Attempt], None],
        on_unsent: Callable[[Attempt], None],
        on_taken_over: Callable[[list[ClaimOutcome]], None],
    ) -> None:
        self._ledger = ledger
        self._max_concurrency = max_concurrency
        self._on_lost = on_lost
        self._on_unsent = on_unsent
        self._on_taken_over = on_taken_over
        self._group_size = max(1, max_concurrency // GROUP) if ledger else 1
        self._ready: asyncio.Queue[Attempt | None] = asyncio.Queue()
        self._outcomes: list[ClaimOutcome] = []
        self._wakeup = asyncio.Event()
        self._in_flight = 0
        # Rows in flight that wait for what becomes of others.
        self._held = 0
        self._is_stopped = False

    async def __anext__(self) -> Attempt:
        """Return the next claimed row; several workers may wait for one."""
        attempt = await self._ready.get()
        if attempt is None:
            # stop() puts one None per worker.
            raise StopAsyncIteration
        return attempt

    def record(self, outcome: ClaimOutcome) -> None:
        """Record the outcome of a row that was handed out, with the next group."""
        self._outcomes.append(outcome)
        if self._is_group_full:
            self._wakeup.set()
        elif len(self._outcomes) == 1:
            asyncio.get_running_loop().call_later(GROUP_DELAY, self._wakeup.set)

    def hold(self, rows: int) -> None:
        """
        Take the number of rows whose outcome depends on that of other rows.

        :param rows: The number of rows, out of those that were handed out.
        """
        self._held = rows
        if self._is_idle:
            self._wakeup.set()

    def stop(self) -> None:
        """Claim and hand out no further rows, and end the iteration of the workers."""
        if self._is_stopped:
            return
        self._is_stopped = True
        while not self._ready.empty():
            attempt = self._ready.get_nowait()
            if attempt is not None:
                self._on_unsent(attempt)
        # One None for each worker ends its iteration.
        for _ in range(self._max_concurrency):
            self._ready.put_nowait(None)

    async def drained(self) -> None:
        """Wait until every claimed row has an outcome, which may not be recorded yet."""
        while self._in_flight > len(self._outcomes):
            self._wakeup.clear()
            await self._wakeup.wait()

    def record_remaining(self) -> list[ClaimOutcome]:
        """
        Record the outcomes that are still waiting when the load ends.

        :return: Outcomes that the ledger could not record.
        """
        outcomes = self._outcomes
        self._outcomes = []
        taken_over: list[ClaimOutcome] = []
        if not outcomes or self._ledger is None:
            return []
        try:
            self._ledger.commit_and_claim(outcomes, (), on_taken_over=taken_over.append)
        except AssistantError as error:
            # Without its traceback: the load ends with this error or an earlier one.
            log.error("%s cannot be recorded: %s", counted(len(outcomes), "last outcome"), error)  # noqa: TRY400
            return outcomes
        if taken_over:
            self._on_taken_over(taken_over)
        return []

    async def run(self, attempts: AsyncIterator[Attempt], thread: Executor) -> None:
        """
        Claim rows and record outcomes until every row has an outcome.

        :param thread: A single thread for the ledger, so that a slow commit does not delay requests.
        :raises AssistantError: The source or the ledger cannot be used.
        """
        to_claim: list[Attempt] = []
        is_exhausted = False
        while True:
            # Both may change while this waits for an attempt.
            while not self._is_stopped and len(to_claim) < self._free_claims:
                attempt = await anext(attempts, None)
                if attempt is None:
                    is_exhausted = True
                    break
                to_claim.append(attempt)
            if is_exhausted and not to_claim and self._is_idle:
                # No row follows, so the workers decide about those that are held.
                self.stop()
            if self._is_stopped:
                to_claim = []
            if not to_claim and not self._in_flight:
                break
            await self._wait_for_group(len(to_claim))
            await self._commit(to_claim, thread)
            to_claim = []
        self.stop()

    @property
    def _free_claims(self) -> int:
        """Number of rows that may be claimed in the transaction that records the waiting outcomes."""
        free = self._max_concurrency - self._in_flight + len(self._outcomes)
        return max(free, 1) if self._is_idle else free

    @property
    def _is_idle(self) -> bool:
        """Whether all rows without an outcome are held."""
        return self._in_flight - len(self._outcomes) == self._held

    @property
    def _is_group_full(self) -> bool:
        waiting = len(self._outcomes)
        return waiting == self._in_flight or waiting >= self._group_size

    async def _wait_for_group(self, to_claim: int) -> None:
        """Wait until a group of outcomes is complete, or GROUP_DELAY seconds after its first outcome."""
        if self._is_group_full:
            return
        self._wakeup.clear()
        if self._outcomes or to_claim:
            asyncio.get_running_loop().call_later(GROUP_DELAY, self._wakeup.set)
        await self._wakeup.wait()

    async def _commit(self, to_claim: list[Attempt], thread: Executor) -> None:
        outcomes = self._outcomes
        self._outcomes = []
        if self._ledger is None:
            self._hand_out(to_claim, len(outcomes))
            return
        claims = [attempt.claim for attempt in to_claim]
        taken_over: list[ClaimOutcome] = []
        commit = functools.partial(self._ledger.commit_and_claim, outcomes, claims, on_taken_over=taken_over.append)
        transaction = asyncio.get_running_loop().run_in_executor(thread, commit)
        cancellation = await _wait_for(transaction)
        try:
            claimed_keys = transaction.result()
        except BaseException:
            # Put the outcomes back, before those that have arrived meanwhile: record_remaining() tries again.
            self._outcomes[:0] = outcomes
            raise
        if taken_over:
            self._on_taken_over(taken_over)
        claimed: list[Attempt] = []
        for attempt in to_claim:
            if attempt.claim.key in claimed_keys:
                claimed.append(attempt)
            else:
                # Another task has claimed the row in the meantime.
                self._on_lost(attempt)
        self._hand_out(claimed, len(outcomes))
        if cancellation:
            raise cancellation

    def _hand_out(self, claimed: list[Attempt], recorded: int) -> None:
        self._in_flight += len(claimed) - recorded
        for attempt in claimed:
            if self._is_stopped:
                self._on_unsent(attempt)
            else:
                self._ready.put_nowait(attempt)


async def _wait_for(transaction: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """
    Wait for a transaction, and return the cancellation that arrived meanwhile.

    A transaction cannot be abandoned: its outcomes are recorded then, and its claims need outcomes.
    """
    cancellation = None
    while not transaction.done():
        try:
            await asyncio.wait([transaction])
        except asyncio.CancelledError as error:
            cancellation = error
    return cancellation
