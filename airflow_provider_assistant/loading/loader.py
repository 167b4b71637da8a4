"""
Creates documents, many at a time, each once.

One task keeps the books: it claims rows in the ledger and records outcomes, both in small groups. At no
moment are more rows claimed without an outcome than may be in flight, so that whoever is killed leaves at
most that many in doubt. The workers send what was claimed.
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
from airflow_provider_assistant.client import AssistantClient
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousErrorForGood,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantError,
    AssistantIncompleteLoad,
    AssistantInputError,
    AssistantLedgerError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger import RENEWAL, BatchLedger, Claim, Known, Settlement
from airflow_provider_assistant.loading.guards import check_extent, check_owner
from airflow_provider_assistant.loading.interruptible import on_interruption
from airflow_provider_assistant.loading.limiter import Limiter
from airflow_provider_assistant.loading.report import PROGRESS, Counts, Findings, Tally, report_progress
from airflow_provider_assistant.loading.rows import Item, Rows
from airflow_provider_assistant.loading.survey import Fate, Survey, survey

log = logging.getLogger(__name__)

OnAmbiguous: TypeAlias = Literal["retry", "skip", "fail"]
OnChange: TypeAlias = Literal["create", "skip", "fail"]
OnMissing: TypeAlias = Literal["stale", "ignore"]

# A group of the ledger is at least this share of what may be in flight, unless that takes longer than so many
# seconds: a transaction costs as much as ten of its rows, but a row that waits for one holds up another.
GROUP = 2
GATHER = 0.003
# So many rows are looked up in the ledger at a time; a claim is made sure of anyhow.
LOOK_AHEAD = 200
# Consecutive failures, with no success in between, that stop a load.
BREAKER = 25
# What is in flight when a load has to end gets so long, in seconds. Airflow kills five seconds after it asked.
GRACE = 2.0
# These concern the connection, the site or the tenant, and so every row. Any other error may concern one row alone:
# only BREAKER of them in a row stop the load.
STOPPING = (
    AssistantAuthenticationError,
    AssistantPermissionError,
    AssistantNotFoundError,
    AssistantRateLimitError,
    AssistantLedgerError,
)
ELSEWHERE = "another task is loading this row"
SETTLE_IT = "Look at the site, and record what you find with airflow assistant ledger resolve; then clear the task."


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """
    How to load.

    :param max_concurrency: The most requests in flight.
    :param max_pause: The longest pause, in seconds, that is waited for.
    :param on_ambiguous: What to do with a row that may have been created: send it ``retry``, leave it ``skip``,
        or stop the load ``fail``.
    :param on_change: What to do with a key whose content is new: ``create`` another document, ``skip`` it, or
        stop the load ``fail``.
    :param adopt: Whether to take over keys that belong to other sources.
    :param allow_mass_change: Whether more than half of the source's documents may be replaced or become stale.
    """

    max_concurrency: int
    max_pause: float = 300.0
    on_ambiguous: OnAmbiguous = "retry"
    on_change: OnChange = "create"
    adopt: bool = False
    allow_mass_change: bool = False


@dataclass(slots=True)
class _Sent:
    """An item under way."""

    item: Item
    claim: Claim
    unclear: int = 0


# Rows, each with what the ledger knows of it.
_Group: TypeAlias = "list[tuple[Item, Known | None]]"


class Load:
    """
    One load of one source.

    :param client: Sends.
    :param rows: What to load.
    :param options: How.
    :param memory: The ledger's documents; None posts every row and remembers nothing.
    :param findings: Where to list what wants attention.
    :param limiter: How fast; one of its own by default.
    :param judge_stale: Whether this source is whole, so that what it lacks is stale.
    :param on_created: Told of every reply that acknowledges a row.
    :param rng: Source of the jitter; by default one without a seed.
    """

    def __init__(
        self,
        client: AssistantClient,
        rows: Rows,
        options: LoadOptions,
        *,
        memory: BatchLedger | None,
        findings: Findings,
        limiter: Limiter | None = None,
        judge_stale: bool = True,
        on_created: Callable[[Item, ApiReply], None] = lambda _, __: None,
        rng: random.Random | None = None,
    ) -> None:
        self.counts = Counts()
        self._tally = Tally(self.counts, findings)
        self._client = client
        self._rows = rows
        self._options = options
        self._memory = memory
        self._limiter = limiter or Limiter(options.max_concurrency)
        self._on_created = on_created
        self._judge_stale = judge_stale and memory is not None
        self._rule = flow.RetryRule(
            attempts=client.settings.retry.attempts,
            max_pause=options.max_pause,
            retry_ambiguous=options.on_ambiguous == "retry",
        )
        self._rng = rng or random.Random()  # noqa: S311 (jitter is no secret)
        self._ready: asyncio.Queue[_Sent] = asyncio.Queue()
        self._settled: list[Settlement] = []
        self._news = asyncio.Event()
        self._group = max(1, options.max_concurrency // GROUP) if memory else 1
        self._open = 0
        self._failures = 0
        self._said = time.monotonic()
        self._stopped: AssistantError | None = None
        self._broken: BaseException | None = None
        self._decided: Iterator[_Sent] = iter(())
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> Counts:
        """
        Load, and return what became of the rows.

        :raises AssistantInputError: The source as a whole cannot be loaded; nothing was sent.
        :raises AssistantError: What stopped the load; :attr:`counts` says how far it came, and all of it is in the
            ledger.
        """
        with _heap_set_aside():
            return await self._run()

    async def _run(self) -> Counts:
        started = time.monotonic()
        self._loop = asyncio.get_running_loop()
        on_interruption(self._loop, self._break)
        seen = survey(self._rows, self._memory, tick=self._seen)
        self.counts.rows = seen.rows
        # An empty source says nothing about what it had.
        self._judge_stale = self._judge_stale and seen.rows > 0
        self.counts.unchanged = seen.count(Fate.UNCHANGED) + seen.count(Fate.DUPLICATE)
        try:
            if self._memory:
                self._check(seen, self._memory)
                self._tally.doubled(self._memory.doubled())
            if seen.count(Fate.SEND):
                await self._send_all(seen, started)
            if self._stopped is None and self._memory and self._options.adopt:
                self._adopt(self._memory, seen)
            if self._stopped is None and self._judge_stale and self._memory:
                self._tally.stale(self._memory.stale(seen.has))
        finally:
            # What a stopped load did not come to is among the failed.
            self.counts.failed += seen.rows - self.counts.done
            self.counts.throttled = self._limiter.throttled
            self.counts.seconds = time.monotonic() - started
        if self._stopped:
            raise self._stopped
        return self.counts

    def _check(self, seen: Survey, memory: BatchLedger) -> None:
        """Refuse a load that would do harm as a whole."""
        if not self._options.adopt:
            check_owner(memory.source, seen.foreign)
        if self._options.allow_mass_change:
            return
        changed = seen.changed if self._options.on_change == "create" else 0
        if not changed and not self._judge_stale:
            return
        documents = memory.size()
        # What is neither kept nor changed is missing.
        missing = documents - seen.kept - seen.changed if self._judge_stale else 0
        check_extent(memory.source, documents=documents, changed=changed, missing=max(0, missing))

    def _adopt(self, memory: BatchLedger, seen: Survey) -> None:
        """Take over the keys of other sources that this source has."""
        if count := memory.adopt(seen.has):
            log.warning("%d keys of other sources belong to source %r from now on.", count, memory.source)

    def end(self) -> None:
        """Send nothing more, and end within a few seconds; may be called by a signal handler."""
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        done, rows = self.counts.done, self.counts.rows
        error = AssistantIncompleteLoad(
            f"the load was ended from outside after {done} of {rows} rows; a retry goes on with the others"
        )
        self._stop(error)
        asyncio.get_running_loop().call_later(GRACE, self._break, error)

    def _break(self, error: BaseException) -> None:
        """Give up what is in flight."""
        self._broken = error
        self._news.set()

    async def _send_all(self, seen: Survey, started: float) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(self._options.max_concurrency)]
        watchers = [*workers, asyncio.create_task(report_progress(self.counts, self._limiter, started))]
        try:
            # The ledger's own thread: a slow commit holds up no request.
            with ThreadPoolExecutor(1, "ledger") as thread:
                await self._keep_books(self._looked_up(seen), thread)
        except AssistantError as error:
            self._stop(error)
            if error is not self._broken:
                await self._last_answers()
            raise
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
            while not self._ready.empty():
                self._settled.append(self._unsettled(self._ready.get_nowait(), _Stopped("not sent: the load ended")))
            self._record_rest()

    async def _last_answers(self) -> None:
        """Give what is in flight the time to end, so that it is known and listed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while self._open > len(self._settled):
                    self._news.clear()
                    await self._news.wait()

    async def _keep_books(self, groups: Iterator[_Group], thread: ThreadPoolExecutor) -> None:
        wanted: list[_Sent] = []
        while True:
            while not self._stopped and len(wanted) < self._free and (sent := await self._next(groups, thread)):
                wanted.append(sent)
            if self._stopped:
                wanted = []
            if not wanted and not self._open:
                return
            await self._gather(len(wanted))
            if self._broken:
                raise self._broken
            settled, self._settled = self._settled, []
            won = await self._exchange(thread, settled, wanted)
            wanted = []
            self._open += len(won) - len(settled)
            for sent in won:
                self._ready.put_nowait(sent)

    @property
    def _free(self) -> int:
        """How many rows may be claimed, once the outcomes at hand are recorded."""
        return self._options.max_concurrency - self._open + len(self._settled)

    async def _gather(self, wanted: int) -> None:
        """Wait until there is enough to write for one group of the ledger, or nothing else under way."""
        if self._broken or self._is_enough:
            return
        self._news.clear()
        if self._settled or wanted:
            asyncio.get_running_loop().call_later(GATHER, self._news.set)
        # While rows wait out a long pause, their claims have to be renewed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RENEWAL.total_seconds()):
                await self._news.wait()

    @property
    def _is_enough(self) -> bool:
        settled = len(self._settled)
        return settled == self._open or settled >= self._group

    def _tell(self) -> None:
        """Let the books be kept: at once where there is enough to write, otherwise a little later."""
        if self._broken or self._is_enough:
            self._news.set()
        elif len(self._settled) == 1:
            asyncio.get_running_loop().call_later(GATHER, self._news.set)

    async def _exchange(
        self, thread: ThreadPoolExecutor, settled: list[Settlement], wanted: list[_Sent]
    ) -> list[_Sent]:
        if self._memory is None:
            return wanted
        try:
            claims = [sent.claim for sent in wanted]
            keys = await asyncio.get_running_loop().run_in_executor(thread, self._memory.exchange, settled, claims)
        except BaseException:
            self._settled = settled + self._settled
            raise
        for sent in wanted:
            if sent.claim.key not in keys:
                self._tally.skipped(sent.item, ELSEWHERE)
        return [sent for sent in wanted if sent.claim.key in keys]

    async def _next(self, groups: Iterator[_Group], thread: ThreadPoolExecutor) -> _Sent | None:
        """
        Return the next row to claim, or None after the last one.

        The source and the ledger are read in the ledger's thread, so that they hold up no request.
        """
        while (sent := next(self._decided, None)) is None and not self._stopped:
            group = await asyncio.get_running_loop().run_in_executor(thread, next, groups, None)
            if group is None:
                return None
            self._decided = self._to_claim(group)
        return sent

    def _claims(self, seen: Survey) -> Iterator[_Sent]:
        """Yield the rows to claim; the outcome of all others is known here."""
        for group in self._looked_up(seen):
            yield from self._to_claim(group)

    def _looked_up(self, seen: Survey) -> Iterator[_Group]:
        """Yield the rows to send with what the ledger knows of them, some at a time."""
        items = iter(self._rows.items(seen.to_send))
        while group := list(islice(items, LOOK_AHEAD)):
            known = self._memory.known([item.digest.key for item in group]) if self._memory else {}
            yield [(item, known.get(item.digest.key)) for item in group]

    def _to_claim(self, group: _Group) -> Iterator[_Sent]:
        for item, known in group:
            if self._decide(item, known):
                yield _Sent(item, Claim(item.digest.key, item.label, known))
            if self._stopped:
                return

    def _decide(self, item: Item, known: Known | None) -> bool:
        """Return whether to send an item."""
        if item.problem:
            self._tally.rejected(item, item.problem)
        elif known is None or known.state == "absent":
            return True
        elif known.state == "elsewhere":
            self._tally.skipped(item, ELSEWHERE)
        elif known.state == "unclear":
            return self._decide_unclear(item)
        elif known.content_hash == item.digest.content:
            self.counts.unchanged += 1
        elif self._options.on_change == "create":
            return True
        elif self._options.on_change == "skip":
            self._tally.skipped(item, "its content has changed since it was loaded", known.document_id)
        else:
            what = f"row {item.number} ({item.label}) has changed, and on_change is 'fail'"
            self._stop(AssistantInputError(what, field="on_change"))
        return False

    def _decide_unclear(self, item: Item) -> bool:
        if self._options.on_ambiguous == "retry":
            return True
        reason = "an earlier attempt may or may not have created it"
        self._tally.ambiguous(item, reason)
        if self._options.on_ambiguous == "fail":
            what = f"row {item.number} ({item.label}): {reason}, and on_ambiguous is 'fail'. {SETTLE_IT}"
            self._stop(AssistantAmbiguousErrorForGood(what))
        return False

    async def _work(self) -> NoReturn:
        while True:
            sent = await self._ready.get()
            try:
                settlement = await self._settlement(sent)
                self._settled.append(settlement)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._broken = error
                raise
            finally:
                self._tell()

    async def _settlement(self, sent: _Sent) -> Settlement:
        """Send one row, and say what came of it."""
        item = sent.item
        if item.call is None:
            raise TypeError("an item without a call is never sent")
        slot = _Slot(self._limiter)
        steps = flow.perform(item.call, self._rule, now=self._client.now, rng=self._rng)
        try:
            await slot.take()
            reply = await self._client.arun(steps, pause=lambda wait: self._pause(sent, slot, wait))
        except _Stopped as error:
            return self._unsettled(sent, error)
        except AssistantError as error:
            # An input error comes before the request: a file that changed, or that cannot be opened any more.
            self.counts.requests += not isinstance(error, AssistantInputError)
            return self._unsuccessful(sent, error)
        except asyncio.CancelledError:
            self.counts.requests += slot.is_held
            sent.unclear += slot.is_held
            self._settled.append(self._unsettled(sent, _Stopped("the load ended before there was an answer")))
            raise
        finally:
            slot.give_back()
        self._limiter.accepted()
        self._failures = 0
        self.counts.requests += 1
        self._tally.created(item, reply, sent.claim.known)
        self._on_created(item, reply)
        sends = reply.exchange
        return Settlement(
            sent.claim, "done", item.digest.content, reply.created_id, sends.status, sends.attempts, sends.ambiguous
        )

    async def _pause(self, sent: _Sent, slot: _Slot, wait: flow.Wait) -> None:
        """Wait as a flow asks to, without holding a slot; a 429 makes all workers wait."""
        self.counts.requests += 1
        sent.unclear += wait.ambiguous
        slot.give_back()
        if isinstance(wait.reason, AssistantRateLimitError):
            self._limiter.refused(wait.seconds)
        else:
            self._failed(wait.reason or AssistantError("no answer"))
            await asyncio.sleep(wait.seconds)
        await slot.take()

    def _unsuccessful(self, sent: _Sent, error: AssistantError) -> Settlement:
        """Decide what an error means for its row and for the load."""
        cause = error.__cause__ if isinstance(error.__cause__, AssistantError) else error
        if isinstance(cause, AssistantBadRequestError):
            # The service is well; it is the row that is not.
            self._limiter.accepted()
        elif isinstance(cause, STOPPING):
            self._stop(error)
        elif not isinstance(cause, AssistantInputError):
            self._failed(error)
        if isinstance(error, AssistantInputError) and not sent.unclear:
            # Nothing was sent: a file that was there when it was checked cannot be opened any more.
            self._tally.rejected(sent.item, str(error))
            return Settlement(sent.claim, "refused", sent.item.digest.content, error=str(error))
        if isinstance(error, AssistantBadRequestError):
            self._tally.rejected(sent.item, error.detail or str(error))
            return Settlement(
                sent.claim, "refused", sent.item.digest.content, http_status=error.status, error=str(error)
            )
        if isinstance(error, AssistantAmbiguousError | AssistantResponseError):
            sent.unclear += 1
            if self._options.on_ambiguous == "fail":
                what = f"{error} on_ambiguous is 'fail', so it is not sent again. {SETTLE_IT}"
                self._stop(AssistantAmbiguousErrorForGood(what))
        return self._unsettled(sent, error)

    def _unsettled(self, sent: _Sent, error: AssistantError) -> Settlement:
        """Settle a row that was not created, as far as is known."""
        content, status = sent.item.digest.content, getattr(error, "status", None)
        if sent.unclear:
            self._tally.ambiguous(sent.item, str(error))
            return Settlement(
                sent.claim, "ambiguous", content, http_status=status, ambiguous=sent.unclear, error=str(error)
            )
        self._tally.failed(sent.item, str(error))
        return Settlement(sent.claim, "refused", content, http_status=status, error=str(error))

    def _failed(self, error: AssistantError) -> None:
        self._limiter.failed()
        self._failures += 1
        if self._failures >= max(BREAKER, self._options.max_concurrency):
            self._stop(error)

    def _stop(self, error: AssistantError) -> None:
        """Send nothing more; what is in flight comes to its end."""
        if self._stopped is None:
            self._stopped = error
            self._limiter.stop(_Stopped("not sent: the load had stopped"))

    def _record_rest(self) -> None:
        """Record what is known although the load ends before its time."""
        settled, self._settled = self._settled, []
        if not settled or self._memory is None:
            return
        try:
            self._memory.exchange(settled, ())
        except AssistantError:
            made = [settlement for settlement in settled if settlement.outcome == "done"]
            log.exception("%d documents were created that the ledger could not record.", len(made))
            self._tally.unrecorded(made)

    def _seen(self, rows: int) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS:
            self._said = now
            log.info("Looked at %d rows so far; nothing has been sent yet.", rows)


@contextlib.contextmanager
def _heap_set_aside() -> Iterator[None]:
    """Keep what is there already, Airflow's hundred thousands of objects, out of every search for garbage."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Stopped(AssistantError):
    """Why a row was not sent."""


class _Slot:
    """A limiter's slot that is given back once."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self.is_held = False

    async def take(self) -> None:
        await self._limiter.acquire()
        self.is_held = True

    def give_back(self) -> None:
        if self.is_held:
            self.is_held = False
            self._limiter.release()
