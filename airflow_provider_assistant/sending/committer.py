"""The committing queue: one thread writes to the ledger whatever waits, in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import Claim, Outcome, ScopeLedger
from airflow_provider_assistant.texts import counted

# Renewals of the claims per lease: a lease survives three that fail.
RENEWALS = 4

log = logging.getLogger(__name__)


class Committer:
    """
    Claim rows and record outcomes for many workers.

    A worker records the outcome of its row and then claims the next one, so both are in one transaction, with those
    of the other workers that wait: a transaction costs as much as ten of its rows.

    :param on_error: Called with the error when the ledger cannot be written. Nothing is claimed from then on.
    :ivar unrecorded: Outcomes that are not in the ledger yet; at the end, those that it could not record.
    :ivar has_failed: Whether nothing can be claimed any more.
    """

    def __init__(self, ledger: ScopeLedger, on_error: Callable[[AssistantLedgerError], None]) -> None:
        self.unrecorded: list[Outcome] = []
        self.has_failed = False
        self._ledger = ledger
        self._on_error = on_error
        self._claims: list[tuple[Claim, asyncio.Future[bool]]] = []
        self._wakeup = asyncio.Event()
        self._is_stopped = False

    async def claim(self, claim: Claim) -> bool:
        """
        Claim a key.

        :return: Whether it is claimed. If not, another task was first, or the ledger cannot be written.
        """
        if self.has_failed:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims.append((claim, answer))
        self._wakeup.set()
        return await answer

    def record(self, outcome: Outcome) -> None:
        """Record an outcome with the next transaction."""
        self.unrecorded.append(outcome)
        self._wakeup.set()

    def stop(self) -> None:
        """End :meth:`run` once everything is written. No worker may wait for a claim."""
        self._is_stopped = True
        self._wakeup.set()

    async def run(self) -> None:
        """Write until :meth:`stop` is called, and renew the claims."""
        seconds = self._ledger.clock.lease.total_seconds() / RENEWALS
        loop = asyncio.get_running_loop()
        next_renewal = loop.time() + seconds
        try:
            with ThreadPoolExecutor(1, "ledger") as thread:
                while not self._is_stopped:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(next_renewal):
                            await self._wakeup.wait()
                    self._wakeup.clear()
                    if loop.time() >= next_renewal:
                        next_renewal = loop.time() + seconds
                        await self._renew(thread)
                    if not self.has_failed:
                        await self._write(thread)
                # The last try: the ledger may be back.
                await self._write(thread)
        finally:
            # After an unexpected error, no worker waits for ever.
            self._claim_nothing()

    async def _renew(self, thread: ThreadPoolExecutor) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self._ledger.renew)
        except AssistantLedgerError as error:
            log.warning("The claims of this task cannot be renewed now: %s", error)

    async def _write(self, thread: ThreadPoolExecutor) -> None:
        outcomes, waiting = self.unrecorded, self._claims
        self.unrecorded, self._claims = [], []
        claims = [claim for claim, answer in waiting if not answer.done()]
        if not outcomes and not claims:
            return
        won: set[str] = set()
        try:
            loop = asyncio.get_running_loop()
            won = await loop.run_in_executor(thread, self._ledger.commit, outcomes, claims)
        except AssistantLedgerError as error:
            self.unrecorded[:0] = outcomes
            if self.has_failed:
                log.error("%s cannot be recorded: %s", counted(len(outcomes), "last outcome"), error)  # noqa: TRY400
            else:
                self._claim_nothing()
                self._on_error(error)
        finally:
            _answer(waiting, won)

    def _claim_nothing(self) -> None:
        self.has_failed = True
        _answer(self._claims, set())
        self._claims = []


def _answer(claims: list[tuple[Claim, asyncio.Future[bool]]], won: set[str]) -> None:
    for claim, answer in claims:
        if not answer.done():
            answer.set_result(claim.key in won)


async def finished(task: asyncio.Task[None]) -> None:
    """
    Wait until a task has ended, also if the waiting task is cancelled meanwhile.

    A transaction cannot be abandoned: its outcomes are recorded then, and its claims need outcomes.
    """
    cancellation = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    task.result()
    if cancellation:
        raise cancellation
