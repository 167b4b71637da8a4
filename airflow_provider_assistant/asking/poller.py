"""Waits for many async chat requests at once, with few polls."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant import tracing
from airflow_provider_assistant.api import endpoints, errors, flow
from airflow_provider_assistant.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError

log = logging.getLogger(__name__)

State: TypeAlias = Literal["complete", "failed", "lost"]

# A request is polled first at this share of the interval, then whenever its age has doubled, and at last once in
# every interval: early answers are noticed early, and late ones cost few polls.
FIRST = 0.25
# Seconds between two lines of progress.
PROGRESS = 30.0


@dataclass(frozen=True, slots=True)
class Pending:
    """
    A request whose end is awaited.

    :param request_id: The request.
    :param submitted_at: When it was submitted, in seconds since the epoch.
    """

    request_id: str
    submitted_at: float


@dataclass(frozen=True, slots=True)
class Ended:
    """
    What became of a question.

    :param asked_as: What it was asked as: its request, or where there is none, a digest of the question.
    :param request_id: The request, where the service showed one.
    :param status: ``complete``; ``failed``; or ``lost``: the service no longer knows the request.
    :param text: The answer.
    :param error: Why there is none.
    :param raw: The last reply as received.
    :param ended_at: When it ended by the service's own times, if the reply has them, or else when that was noticed;
        in seconds since the epoch.
    :param seconds: From submission until then.
    :param polls: How often it was polled.
    :param latency: Seconds that the service took, by its own times or, without polls, by the round trip; None if that
        is not known.
    :param noticed_after: Seconds from submission to the poll that noticed the end; None without polls.
    """

    asked_as: str
    request_id: str | None
    status: State
    text: str | None
    error: str | None
    raw: Any
    ended_at: float
    seconds: float
    polls: int
    latency: float | None = None
    noticed_after: float | None = None


class Poller:
    """
    Polls requests until all of them have ended or a deadline passes.

    :param client: Sends; it is shared with others where the limit is.
    :param site_id: Site of the requests.
    :param interval: The longest time between two polls of one request, in seconds.
    :param deadline: When to give up, in seconds since the epoch; every request is polled at least once.
    :param max_concurrency: The most polls in flight.
    :param on_end: Told of every request that has ended.
    """

    def __init__(
        self,
        client: AssistantClient,
        *,
        site_id: str,
        interval: float,
        deadline: float,
        max_concurrency: int,
        on_end: Callable[[Ended], None],
    ) -> None:
        self.ended: Counter[str] = Counter()
        self.polls = 0
        self.open = 0
        self._client = client
        # Seconds since the epoch when the poller's own clock is at 0: a wall clock may be set while it waits.
        self._epoch = 0.0
        self._site_id = site_id
        self._interval = interval
        self._deadline = deadline
        self._max_concurrency = max_concurrency
        self._on_end = on_end
        self._due: list[tuple[float, int, int, Pending]] = []
        self._flying: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._words: set[str] = set()
        self._troubles = 0
        self._broken: BaseException | None = None

    async def run(self, pending: Iterable[Pending]) -> None:
        """
        Poll until the end; :attr:`open` says how many requests have not ended by then.

        :raises AssistantAPIError: 401 or 403: polling on would not help.
        """
        self._epoch = self._client.now() - asyncio.get_running_loop().time()
        now = self._now()
        # Whoever comes late, to requests of an earlier try, still polls each of them once.
        latest = max(now, self._deadline)
        self._due = [
            (min(max(now, self._next(one, 0.0)), latest), 0, number, one) for number, one in enumerate(pending)
        ]
        heapq.heapify(self._due)
        self.open = len(self._due)
        with tracing.span("wait", site_id=self._site_id, requests=self.open) as span:
            progress = asyncio.create_task(self._report())
            try:
                while self._due or self._flying:
                    await self._step()
                    if self._broken:
                        raise self._broken
            finally:
                for task in (progress, *self._flying):
                    task.cancel()
                await asyncio.gather(progress, *self._flying, return_exceptions=True)
                span.set_attributes({"assistant.open": self.open, "assistant.polls": self.polls})

    def _now(self) -> float:
        """Return seconds since the epoch by a clock that only goes forward, at its pace."""
        return self._epoch + asyncio.get_running_loop().time()

    async def _step(self) -> None:
        """Start what is due, or wait until something is."""
        now = self._now()
        self._news.clear()
        while self._due and self._due[0][0] <= now and len(self._flying) < self._max_concurrency:
            due, polls, number, pending = heapq.heappop(self._due)
            task = asyncio.create_task(self._poll(pending, polls + 1, number, due))
            self._flying.add(task)
            task.add_done_callback(self._landed)
        if not self._flying and not self._due:
            return
        now = self._now()
        is_full = not self._due or len(self._flying) >= self._max_concurrency
        last = max(now, self._deadline) + min(self._client.settings.timeout, flow.LAST_POLL)
        until = last if is_full else self._due[0][0]
        if not await self._news_before(until - now) and is_full:
            # Nothing has come for so long after the deadline: a pause that the service asked for lasts longer.
            self._due.clear()
            for task in self._flying:
                task.cancel()
            await asyncio.wait(self._flying)

    async def _news_before(self, seconds: float) -> bool:
        """Wait so long for a poll to have its answer, and return whether one had."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        return self._news.is_set()

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._flying.discard(task)
        self._news.set()
        if not task.cancelled() and (error := task.exception()):
            self._broken = self._broken or error

    async def _poll(self, pending: Pending, polls: int, number: int, due: float) -> None:
        self.polls += 1
        call = endpoints.get_chat_request(self._site_id, pending.request_id, self._client.settings.words)
        try:
            steps = flow.poll(call, since=pending.submitted_at, now=self._now, due=due)
            reply = await self._client.arun(steps)
        except AssistantAPIError as error:
            if not errors.is_lost(error):
                raise
            self._end(pending, polls, "lost", error=str(error))
            return
        if isinstance(reply, AssistantError):
            self._trouble(reply)
        elif reply.state != "pending":
            answer = {"text": reply.text, "error": reply.error, "raw": reply.raw}
            self._end(pending, polls, reply.state, took=reply.service_seconds, **answer)
            return
        else:
            self._note(reply.status)
        now = self._now()
        if now < self._deadline:
            pause = getattr(reply, "retry_after", None) or 0.0
            due = min(max(self._next(pending, now), now + pause), self._deadline)
            heapq.heappush(self._due, (due, polls, number, pending))

    def _next(self, pending: Pending, now: float) -> float:
        """Return when to poll a request again, or first."""
        age = max(0.0, now - pending.submitted_at)
        return max(now, pending.submitted_at) + min(max(age, FIRST * self._interval), self._interval)

    def _end(
        self,
        pending: Pending,
        polls: int,
        status: State,
        *,
        took: float | None = None,
        text: str | None = None,
        error: str | None = None,
        raw: Any = None,
    ) -> None:
        self.open -= 1
        self.ended[status] += 1
        # To the microsecond, as the output keeps it: an answer that is read from there is the same.
        noticed = round(max(0.0, self._now() - pending.submitted_at), 6)
        # The service's own times do not depend on when the request was polled; they cannot be longer than the wait.
        latency = None if took is None else min(round(took, 6), noticed)
        seconds = noticed if latency is None else latency
        ended_at = round(pending.submitted_at + seconds, 6)
        request_id = pending.request_id
        ended = Ended(request_id, request_id, status, text, error, raw, ended_at, seconds, polls, latency, noticed)
        self._on_end(ended)

    def _note(self, status: str) -> None:
        """Log every status word that means "still going" once."""
        if status not in self._words:
            self._words.add(status)
            log.info("Status %r is taken for still going.", status)

    def _trouble(self, error: AssistantError) -> None:
        """Log the first failing poll; the others are counted in the lines of progress."""
        self._troubles += 1
        if self._troubles == 1:
            log.warning(flow.POLLING_GOES_ON, error)

    async def _report(self) -> None:
        """Log now and then how far it is."""
        while True:
            await asyncio.sleep(PROGRESS)
            log.info("%s", self)

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {status}" for status, count in sorted(self.ended.items())) or "none"
        troubles = f", {self._troubles} of them failed" if self._troubles else ""
        return f"{self.open} requests are open, ended are {ended}, after {self.polls} polls{troubles}."
