"""
Create documents concurrently, each exactly once.

One asyncio task writes the ledger: it claims rows and records outcomes, both in small groups. Workers send the
claimed rows. The number of claims without an outcome never exceeds ``max_concurrency``, so a killed load leaves
at most that many ambiguous rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NoReturn, TypeAlias

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.models import ApiReply
from airflow_provider_assistant.client.cancellation import on_interruption
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousPermanentError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger import RENEWAL, BatchLedger, Claim, ClaimOutcome, LedgerEntry
from airflow_provider_assistant.loading.guards import check_extent, check_owner
from airflow_provider_assistant.loading.preflight import LoadPlan, RowAction, plan_load
from airflow_provider_assistant.loading.report import PROGRESS, Counts, Findings, LoadReport, report_progress
from airflow_provider_assistant.loading.rows import PreparedRow, Rows

log = logging.getLogger(__name__)

OnAmbiguous: TypeAlias = Literal["retry", "skip", "fail"]
OnChange: TypeAlias = Literal["create", "skip", "fail"]
OnMissing: TypeAlias = Literal["stale", "ignore"]

# The ledger is written once max_concurrency / GROUP outcomes are waiting, or GATHER seconds after the first one.
# A transaction costs as much as ten of its rows, so groups pay off; but a row that waits for the transaction keeps
# its slot from the next row.
GROUP = 2
GATHER = 0.003
# Rows looked up in the ledger per query. The lookup may be outdated by the time of the claim; the claim checks again.
LOOK_AHEAD = 200
# Consecutive failures that stop a load.
BREAKER = 25
# Seconds that requests in flight get to finish when a load has to end. Airflow kills a task five seconds after SIGTERM.
GRACE = 2.0
# These errors concern the connection, the site or the tenant, and so every row: the first one stops the load.
# Any other error may concern one row only: BREAKER of them in a row stop the load.
STOPPING = (
    AssistantAuthenticationError,
    AssistantPermissionError,
    AssistantNotFoundError,
    AssistantRateLimitError,
    AssistantLedgerError,
)
ELSEWHERE = "another task is loading this row"
RESOLVE_FIRST = (
    "Check on the site whether it was created, record the result with `airflow assistant ledger resolve`, then clear "
    "the task."
)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """
    Options of a load.

    :param max_concurrency: Maximum number of requests in flight.
    :param max_backoff: Longest pause that the load waits out after a 429, in seconds. Default: 300.
    :param on_ambiguous: What to do with an ambiguous row: ``retry`` sends it again, ``skip`` does not send it, and
        ``fail`` stops the load. Default: ``retry``.
    :param on_change: What to do with a key whose content hash has changed: ``create`` creates another document,
        ``skip`` does not send the row, and ``fail`` stops the load. Default: ``create``.
    :param adopt: Whether to take over keys that belong to other sources. Default: False.
    :param allow_mass_change: Whether the load may replace, or leave stale, more than half of the source's documents.
        Default: False.
    """

    max_concurrency: int
    max_backoff: float = 300.0
    on_ambiguous: OnAmbiguous = "retry"
    on_change: OnChange = "create"
    adopt: bool = False
    allow_mass_change: bool = False


@dataclass(slots=True)
class _Attempt:
    """A row that is claimed or in flight; ``ambiguous`` counts requests that may have created its document."""

    item: PreparedRow
    claim: Claim
    ambiguous: int = 0


# Rows, each with its ledger entry.
_Group: TypeAlias = "list[tuple[PreparedRow, LedgerEntry | None]]"


class Load:
    """
    Load one source once.

    :param client: Client that sends the requests.
    :param rows: Rows to load.
    :param options: Options of the load.
    :param ledger: Ledger of the scope that is loaded. None sends every row and records nothing.
    :param findings: File that lists the rows that a person should look at.
    :param limiter: Rate limiter. Default: a new one for ``options.max_concurrency``.
    :param judge_stale: Whether the source is complete, so that documents missing from it are stale. Default: True.
    :param on_created: Called with the row and the reply each time the service acknowledges a row.
    :param rng: Random generator for the jitter. Default: a new, unseeded one.
    """

    def __init__(
        self,
        client: AssistantClient,
        rows: Rows,
        options: LoadOptions,
        *,
        ledger: BatchLedger | None,
        findings: Findings,
        limiter: AdaptiveRateLimiter | None = None,
        judge_stale: bool = True,
        on_created: Callable[[PreparedRow, ApiReply], None] = lambda _, __: None,
        rng: random.Random | None = None,
    ) -> None:
        self.counts = Counts()
        self._tally = LoadReport(self.counts, findings)
        self._client = client
        self._rows = rows
        self._options = options
        self._ledger = ledger
        self._limiter = limiter or AdaptiveRateLimiter(options.max_concurrency)
        self._on_created = on_created
        self._judge_stale = judge_stale and ledger is not None
        self._rule = flow.RetryPolicy(
            attempts=client.settings.retry.attempts,
            max_backoff=options.max_backoff,
            retry_ambiguous=options.on_ambiguous == "retry",
        )
        self._rng = rng or random.Random()  # noqa: S311 (jitter is no secret)
        self._ready: asyncio.Queue[_Attempt] = asyncio.Queue()
        self._outcomes: list[ClaimOutcome] = []
        self._wakeup = asyncio.Event()
        self._group_size = max(1, options.max_concurrency // GROUP) if ledger else 1
        self._in_flight = 0
        self._failures = 0
        self._last_report = time.monotonic()
        self._stopped: AssistantError | None = None
        self._fatal: BaseException | None = None
        self._pending: Iterator[_Attempt] = iter(())
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> Counts:
        """
        Load the rows and return their counts by outcome.

        :return: The counts, also available as :attr:`counts` while the load runs and after it failed.
        :raises AssistantInputError: The source as a whole cannot be loaded; nothing was sent.
        :raises AssistantError: An error stopped the load. :attr:`counts` and the ledger contain everything up to
            that point.
        """
        with _gc_frozen():
            return await self._run()

    async def _run(self) -> Counts:
        started = time.monotonic()
        self._loop = asyncio.get_running_loop()
        on_interruption(self._loop, self._break)
        preflight = plan_load(self._rows, self._ledger, tick=self._report_preflight)
        self.counts.rows = preflight.rows
        # An empty source does not make every document stale.
        self._judge_stale = self._judge_stale and preflight.rows > 0
        self.counts.unchanged = preflight.count(RowAction.UNCHANGED) + preflight.count(RowAction.DUPLICATE)
        try:
            if self._ledger:
                self._check(preflight, self._ledger)
                self._tally.doubled(self._ledger.possible_duplicates())
            if preflight.count(RowAction.SEND):
                await self._send_all(preflight, started)
            if self._stopped is None and self._ledger and self._options.adopt:
                self._adopt(self._ledger, preflight)
            if self._stopped is None and self._judge_stale and self._ledger:
                self._tally.stale(self._ledger.stale(preflight.has))
        finally:
            # A stopped load counts the rows that it did not reach as failed.
            self.counts.failed += preflight.rows - self.counts.done
            self.counts.throttled = self._limiter.throttled
            self.counts.seconds = time.monotonic() - started
        if self._stopped:
            raise self._stopped
        return self.counts

    def _check(self, preflight: LoadPlan, ledger: BatchLedger) -> None:
        """Refuse a load that would replace documents of other sources or most of this source's documents."""
        if not self._options.adopt:
            check_owner(ledger.source, preflight.foreign)
        if self._options.allow_mass_change:
            return
        changed = preflight.changed if self._options.on_change == "create" else 0
        if not changed and not self._judge_stale:
            return
        documents = ledger.size()
        # A document is kept, changed or missing.
        missing = documents - preflight.kept - preflight.changed if self._judge_stale else 0
        check_extent(ledger.source, documents=documents, changed=changed, missing=max(0, missing))

    def _adopt(self, ledger: BatchLedger, preflight: LoadPlan) -> None:
        """Assign keys of other sources that are also in this source to this source."""
        if count := ledger.adopt(preflight.has):
            log.warning("%d keys of other sources now belong to source %r.", count, ledger.source)

    def end(self) -> None:
        """Stop sending and end the load within a few seconds. A signal handler may call this."""
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        done, rows = self.counts.done, self.counts.rows
        error = AssistantIncompleteError(
            f"the load was ended from outside after {done} of {rows} rows; a retry goes on with the others"
        )
        self._stop(error)
        asyncio.get_running_loop().call_later(GRACE, self._break, error)

    def _break(self, error: BaseException) -> None:
        """End the load without waiting for requests in flight."""
        self._fatal = error
        self._wakeup.set()

    async def _send_all(self, preflight: LoadPlan, started: float) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(self._options.max_concurrency)]
        watchers = [*workers, asyncio.create_task(report_progress(self.counts, self._limiter, started))]
        try:
            # The ledger has a separate thread, so that a slow commit does not delay requests.
            with ThreadPoolExecutor(1, "ledger") as thread:
                await self._claim_and_record(self._with_entries(preflight), thread)
        except AssistantError as error:
            self._stop(error)
            if error is not self._fatal:
                await self._drain()
            raise
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
            while not self._ready.empty():
                self._outcomes.append(self._not_created(self._ready.get_nowait(), _NotSent("not sent: the load ended")))
            self._record_remaining()

    async def _drain(self) -> None:
        """Wait up to GRACE seconds for requests in flight, so that their outcomes are recorded and listed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while self._in_flight > len(self._outcomes):
                    self._wakeup.clear()
                    await self._wakeup.wait()

    async def _claim_and_record(self, groups: Iterator[_Group], thread: ThreadPoolExecutor) -> None:
        to_claim: list[_Attempt] = []
        while True:
            while (
                not self._stopped and len(to_claim) < self._free_slots and (attempt := await self._next(groups, thread))
            ):
                to_claim.append(attempt)
            if self._stopped:
                to_claim = []
            if not to_claim and not self._in_flight:
                return
            await self._wait_for_group(len(to_claim))
            if self._fatal:
                raise self._fatal
            outcomes, self._outcomes = self._outcomes, []
            claimed = await self._write_to_ledger(thread, outcomes, to_claim)
            to_claim = []
            self._in_flight += len(claimed) - len(outcomes)
            for attempt in claimed:
                self._ready.put_nowait(attempt)

    @property
    def _free_slots(self) -> int:
        """Number of rows that may be claimed in the transaction that records the waiting outcomes."""
        return self._options.max_concurrency - self._in_flight + len(self._outcomes)

    async def _wait_for_group(self, to_claim: int) -> None:
        """Wait until a group of outcomes is complete, GATHER seconds have passed, or claims must be renewed."""
        if self._fatal or self._group_is_full:
            return
        self._wakeup.clear()
        if self._outcomes or to_claim:
            asyncio.get_running_loop().call_later(GATHER, self._wakeup.set)
        # Rows that wait out a long pause keep their claims only if these are renewed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RENEWAL.total_seconds()):
                await self._wakeup.wait()

    @property
    def _group_is_full(self) -> bool:
        waiting = len(self._outcomes)
        return waiting == self._in_flight or waiting >= self._group_size

    def _wake_writer(self) -> None:
        """Wake the task that writes the ledger: now if the group is full, otherwise after GATHER seconds."""
        if self._fatal or self._group_is_full:
            self._wakeup.set()
        elif len(self._outcomes) == 1:
            asyncio.get_running_loop().call_later(GATHER, self._wakeup.set)

    async def _write_to_ledger(
        self, thread: ThreadPoolExecutor, outcomes: list[ClaimOutcome], to_claim: list[_Attempt]
    ) -> list[_Attempt]:
        if self._ledger is None:
            return to_claim
        try:
            claims = [attempt.claim for attempt in to_claim]
            keys = await asyncio.get_running_loop().run_in_executor(
                thread, self._ledger.commit_and_claim, outcomes, claims
            )
        except BaseException:
            self._outcomes = outcomes + self._outcomes
            raise
        for attempt in to_claim:
            if attempt.claim.key not in keys:
                self._tally.skipped(attempt.item, ELSEWHERE)
        return [attempt for attempt in to_claim if attempt.claim.key in keys]

    async def _next(self, groups: Iterator[_Group], thread: ThreadPoolExecutor) -> _Attempt | None:
        """
        Return the next row to claim, or None after the last one.

        The ledger's thread reads the source and the ledger, so that reading does not delay requests.
        """
        while (attempt := next(self._pending, None)) is None and not self._stopped:
            group = await asyncio.get_running_loop().run_in_executor(thread, next, groups, None)
            if group is None:
                return None
            self._pending = self._select(group)
        return attempt

    def _claims(self, preflight: LoadPlan) -> Iterator[_Attempt]:
        """Yield the rows to claim; count all others by their outcome."""
        for group in self._with_entries(preflight):
            yield from self._select(group)

    def _with_entries(self, preflight: LoadPlan) -> Iterator[_Group]:
        """Yield groups of LOOK_AHEAD rows to send, each row with its ledger entry."""
        items = iter(self._rows.items(preflight.to_send))
        while group := list(islice(items, LOOK_AHEAD)):
            entries = self._ledger.entries([item.digest.key for item in group]) if self._ledger else {}
            yield [(item, entries.get(item.digest.key)) for item in group]

    def _select(self, group: _Group) -> Iterator[_Attempt]:
        for item, entry in group:
            if self._decide(item, entry):
                yield _Attempt(item, Claim(item.digest.key, item.label, entry))
            if self._stopped:
                return

    def _decide(self, item: PreparedRow, entry: LedgerEntry | None) -> bool:
        """Return whether to send a row; count it if not."""
        if item.problem:
            self._tally.rejected(item, item.problem)
        elif entry is None or entry.state == "none":
            return True
        elif entry.state == "leased":
            self._tally.skipped(item, ELSEWHERE)
        elif entry.state == "ambiguous":
            return self._decide_ambiguous(item)
        elif entry.content_hash == item.digest.content:
            self.counts.unchanged += 1
        elif self._options.on_change == "create":
            return True
        elif self._options.on_change == "skip":
            self._tally.skipped(item, "its content has changed since it was loaded", entry.created_id)
        else:
            what = f"row {item.number} ({item.label}) has changed, and on_change is 'fail'"
            self._stop(AssistantInputError(what, field="on_change"))
        return False

    def _decide_ambiguous(self, item: PreparedRow) -> bool:
        if self._options.on_ambiguous == "retry":
            return True
        reason = "an earlier attempt may or may not have created it"
        self._tally.ambiguous(item, reason)
        if self._options.on_ambiguous == "fail":
            what = f"row {item.number} ({item.label}): {reason}, and on_ambiguous is 'fail'. {RESOLVE_FIRST}"
            self._stop(AssistantAmbiguousPermanentError(what))
        return False

    async def _work(self) -> NoReturn:
        while True:
            attempt = await self._ready.get()
            try:
                settlement = await self._send(attempt)
                self._outcomes.append(settlement)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._fatal = error
                raise
            finally:
                self._wake_writer()

    async def _send(self, attempt: _Attempt) -> ClaimOutcome:
        """Send one row and return its outcome for the ledger."""
        item = attempt.item
        if item.call is None:
            raise TypeError("an item without a call is never sent")
        slot = _Slot(self._limiter)
        steps = flow.perform(item.call, self._rule, now=self._client.now, rng=self._rng)
        try:
            await slot.take()
            reply = await self._client.arun(steps, pause=lambda wait: self._pause(attempt, slot, wait))
        except _NotSent as error:
            return self._not_created(attempt, error)
        except AssistantError as error:
            # An input error precedes the request: the file has changed or can no longer be opened.
            self.counts.requests += not isinstance(error, AssistantInputError)
            return self._handle_error(attempt, error)
        except asyncio.CancelledError:
            self.counts.requests += slot.is_held
            attempt.ambiguous += slot.is_held
            self._outcomes.append(self._not_created(attempt, _NotSent("the load ended before there was an answer")))
            raise
        finally:
            slot.give_back()
        self._limiter.accepted()
        self._failures = 0
        self.counts.requests += 1
        self._tally.created(item, reply, attempt.claim.entry)
        self._on_created(item, reply)
        sends = reply.call_info
        return ClaimOutcome(
            attempt.claim,
            "created",
            item.digest.content,
            reply.created_id,
            sends.status,
            sends.attempts,
            sends.ambiguous,
        )

    async def _pause(self, attempt: _Attempt, slot: _Slot, wait: flow.Wait) -> None:
        """Wait before a retry without holding a slot; after a 429, all workers wait."""
        self.counts.requests += 1
        attempt.ambiguous += wait.ambiguous
        slot.give_back()
        if isinstance(wait.reason, AssistantRateLimitError):
            self._limiter.refused(wait.seconds)
        else:
            self._failed(wait.reason or AssistantError("no answer"))
            await asyncio.sleep(wait.seconds)
        await slot.take()

    def _handle_error(self, attempt: _Attempt, error: AssistantError) -> ClaimOutcome:
        """Return the outcome of a row whose request failed; stop the load if the error concerns all rows."""
        cause = error.__cause__ if isinstance(error.__cause__, AssistantError) else error
        if isinstance(cause, AssistantBadRequestError):
            # The service works; only this row is bad.
            self._limiter.accepted()
        elif isinstance(cause, STOPPING):
            self._stop(error)
        elif not isinstance(cause, AssistantInputError):
            self._failed(error)
        if isinstance(error, AssistantInputError) and not attempt.ambiguous:
            # Nothing was sent: the file existed at the preflight and can no longer be opened.
            self._tally.rejected(attempt.item, str(error))
            return ClaimOutcome(attempt.claim, "rejected", attempt.item.digest.content, error=str(error))
        if isinstance(error, AssistantBadRequestError):
            self._tally.rejected(attempt.item, error.detail or str(error))
            return ClaimOutcome(
                attempt.claim, "rejected", attempt.item.digest.content, http_status=error.status, error=str(error)
            )
        if isinstance(error, AssistantAmbiguousError | AssistantResponseError):
            attempt.ambiguous += 1
            if self._options.on_ambiguous == "fail":
                what = f"{error} on_ambiguous is 'fail', so it is not sent again. {RESOLVE_FIRST}"
                self._stop(AssistantAmbiguousPermanentError(what))
        return self._not_created(attempt, error)

    def _not_created(self, attempt: _Attempt, error: AssistantError) -> ClaimOutcome:
        """Count a row without an acknowledgement as ambiguous or failed, and return that outcome."""
        content, status = attempt.item.digest.content, getattr(error, "status", None)
        if attempt.ambiguous:
            self._tally.ambiguous(attempt.item, str(error))
            return ClaimOutcome(
                attempt.claim, "ambiguous", content, http_status=status, ambiguous=attempt.ambiguous, error=str(error)
            )
        self._tally.failed(attempt.item, str(error))
        return ClaimOutcome(attempt.claim, "failed", content, http_status=status, error=str(error))

    def _failed(self, error: AssistantError) -> None:
        self._limiter.failed()
        self._failures += 1
        if self._failures >= max(BREAKER, self._options.max_concurrency):
            self._stop(error)

    def _stop(self, error: AssistantError) -> None:
        """Send no further rows; requests in flight may finish."""
        if self._stopped is None:
            self._stopped = error
            self._limiter.stop(_NotSent("not sent: the load had stopped"))

    def _record_remaining(self) -> None:
        """Record the outcomes that are still waiting when the load ends."""
        outcomes, self._outcomes = self._outcomes, []
        if not outcomes or self._ledger is None:
            return
        try:
            self._ledger.commit_and_claim(outcomes, ())
        except AssistantError:
            created = [settlement for settlement in outcomes if settlement.outcome == "created"]
            log.exception("%d documents were created, but the ledger could not record them.", len(created))
            self._tally.unrecorded(created)

    def _report_preflight(self, rows: int) -> None:
        now = time.monotonic()
        if now - self._last_report >= PROGRESS:
            self._last_report = now
            log.info("Looked at %d rows so far; nothing has been sent yet.", rows)


@contextlib.contextmanager
def _gc_frozen() -> Iterator[None]:
    """Exclude existing objects, such as Airflow's several hundred thousand, from garbage collection."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _NotSent(AssistantError):
    """The reason why a row was not sent."""


class _Slot:
    """A limiter's slot that is released at most once."""

    def __init__(self, limiter: AdaptiveRateLimiter) -> None:
        self._limiter = limiter
        self.is_held = False

    async def take(self) -> None:
        await self._limiter.acquire()
        self.is_held = True

    def give_back(self) -> None:
        if self.is_held:
            self.is_held = False
            self._limiter.release()
