"""The committing queue: one thread writes to the ledger whatever waits, in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import Claim, Outcome, ScopeLedger
from airflow_provider_assistant.texts import counted

T = TypeVar("T")

# Renewals of the claims per lease: a lease survives three that fail.
RENEWALS = 4

log = logging.getLogger(__name__)


class Committer:
    """
    Claim rows and record outcomes for many workers.

    A worker records the outcome of its row and then claims the next one, so both are in one transaction, with those
    of the other workers that wait: a transaction costs as much as ten of its rows.

    :param on_error: Called with the error when the ledger cannot be written. Nothing is claimed from then on.
    """

    def __init__(self, ledger: ScopeLedger, on_error: Callable[[AssistantLedgerError], None]) -> None:
        self.unrecorded: list[Outcome] = []
        """Outcomes that the ledger could not record."""
        self._ledger = ledger
        self._on_error = on_error
        self._outcomes: list[Outcome] = []
        self._claims: list[tuple[Claim, asyncio.Future[bool]]] = []
        self._wakeup = asyncio.Event()
        self._is_stopped = False
        self._has_failed = False

    async def claim(self, claim: Claim) -> bool:
        """
        Claim a key.

        :return: Whether it is claimed. If not, another task was first, or the ledger cannot be written.
        """
        if self._has_failed or self._is_stopped:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims.append((claim, answer))
        self._wakeup.set()
        return await answer

    def record(self, outcome: Outcome) -> None:
        """Record an outcome with the next transaction."""
        self._outcomes.append(outcome)
        self._wakeup.set()

    def stop(self) -> None:
        """End :meth:`run` once everything is written."""
        self._is_stopped = True
        self._wakeup.set()

    async def run(self) -> None:
        """
        Write until :meth:`stop` is called, and renew the claims.

        :raises BaseException: Another error than that of a ledger. Nothing is claimed from then on.
        """
        seconds = self._ledger.clock.lease.total_seconds() / RENEWALS
        now = asyncio.get_running_loop().time
        next_renewal = now() + seconds
        with ThreadPoolExecutor(1, "ledger") as thread, self._answering_claims():
            while True:
                try:
                    async with asyncio.timeout_at(next_renewal):
                        await self._wakeup.wait()
                except TimeoutError:
                    pass
                self._wakeup.clear()
                if now() >= next_renewal:
                    next_renewal = now() + seconds
                    await self._renew(thread)
                if self._claims or (self._outcomes and not self._has_failed):
                    await self._write(thread)
                if self._is_stopped and not self._claims:
                    break
            # The last try: the ledger may be back.
            if self._outcomes:
                await self._write(thread)
        self.unrecorded = self._outcomes

    @contextlib.contextmanager
    def _answering_claims(self) -> Iterator[None]:
        """Claim nothing after an unexpected error, so that no worker waits for ever."""
        try:
            yield
        except BaseException:
            self._has_failed = True
            self._claims = self._refuse(self._claims)
            raise

    async def _renew(self, thread: ThreadPoolExecutor) -> None:
        try:
            await _in(thread, self._ledger.renew)
        except AssistantLedgerError as error:
            log.warning("The claims of this task cannot be renewed now: %s", error)

    async def _write(self, thread: ThreadPoolExecutor) -> None:
        outcomes, claims = self._outcomes, self._claims
        self._outcomes, self._claims = [], []
        if self._has_failed:
            claims = self._refuse(claims)
        won: set[str] = set()
        try:
            won = await _in(thread, self._ledger.commit, outcomes, [claim for claim, _answer in claims])
        except AssistantLedgerError as error:
            self._outcomes[:0] = outcomes
            if not self._has_failed:
                self._has_failed = True
                self._on_error(error)
            else:
                log.error("%s cannot be recorded: %s", counted(len(outcomes), "last outcome"), error)  # noqa: TRY400
        finally:
            for claim, answer in claims:
                if not answer.done():
                    answer.set_result(claim.key in won)

    @staticmethod
    def _refuse(claims: list[tuple[Claim, asyncio.Future[bool]]]) -> list[Any]:
        for _claim, answer in claims:
            if not answer.done():
                answer.set_result(False)
        return []

    @property
    def has_failed(self) -> bool:
        """Whether the ledger could not be written."""
        return self._has_failed


async def _in(thread: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)


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
