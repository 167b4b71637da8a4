"""Poll many async chat requests at once, with few polls per request."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.api import endpoints, errors, flow
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError
from airflow_provider_assistant.observability import tracing

log = logging.getLogger(__name__)

State: TypeAlias = Literal["complete", "failed", "lost"]

# The first poll of a chat request comes after this share of the interval, further polls whenever its age has doubled,
# and from then on one per interval. So quick answers are found quickly, and slow ones cost few polls.
FIRST = 0.25
# Seconds between two progress messages in the log.
PROGRESS = 30.0


@dataclass(frozen=True, slots=True)
class Pending:
    """
    An open chat request.

    :param request_id: Id of the chat request.
    :param submitted_at: Time of its submission, in seconds since the epoch.
    """

    request_id: str
    submitted_at: float


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """
    The result of one question.

    :param asked_as: Identity of the question in the batch state: the id of its chat request, or a hash of the question
        if there is no id.
    :param request_id: Id of the chat request; None if the service returned none.
    :param status: ``complete``; ``failed``; or ``lost``, if the service no longer knows the chat request.
    :param text: Text of the answer, or None.
    :param error: Reason why there is no answer, or None.
    :param raw: The last reply as received.
    :param ended_at: Time of the end by the service's own times, or else of the poll that found it, in seconds since the
        epoch.
    :param seconds: Seconds from the submission to ``ended_at``.
    :param polls: Number of polls; 0 in sync mode.
    :param latency: Seconds that the service took, by its own times or, in sync mode, by the round trip. Default: None,
        unknown.
    :param noticed_after: Seconds from the submission to the poll that found the end. Default: None, in sync mode.
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
    Poll chat requests until all have ended or a deadline passes (``GET …/chat/requests/{request_id}``).

    While it runs, ``ended`` counts the ended chat requests by state, ``open`` the others, and ``polls`` the polls.

    :param client: Client to send with; a shared client also applies its shared limits.
    :param site_id: Site of the chat requests.
    :param interval: Maximum time between two polls of one chat request, in seconds.
    :param deadline: Time at which to stop polling, in seconds since the epoch; each chat request is polled at least
        once.
    :param max_concurrency: Maximum number of polls in flight.
    :param on_end: Function that is called with the result of every chat request that ends.
    """

    def __init__(
        self,
        client: AssistantClient,
        *,
        site_id: str,
        interval: float,
        deadline: float,
        max_concurrency: int,
        on_end: Callable[[FinishedRequest], None],
    ) -> None:
        self.ended: Counter[str] = Counter()
        self.polls = 0
        self.open = 0
        self._client = client
        # Offset of the event loop's clock, in seconds since the epoch. The poller uses that clock, because the wall
        # clock may be set while it waits.
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
        Poll until all chat requests have ended or the deadline passes; then :attr:`open` counts those without a result.

        :param pending: The open chat requests.
        :raises AssistantAPIError: The service answered a poll with 401 or 403, so further polls would fail as well.
        """
        self._epoch = self._client.now() - asyncio.get_running_loop().time()
        now = self._now()
        # If the deadline has passed already, poll each chat request once.
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
        """Return seconds since the epoch by a monotonic clock."""
        return self._epoch + asyncio.get_running_loop().time()

    async def _step(self) -> None:
        """Start the polls that are due, then wait until another is due or one has finished."""
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
            # No poll has finished for a whole response timeout after the deadline, so a Retry-After holds them back.
            self._due.clear()
            for task in self._flying:
                task.cancel()
            await asyncio.wait(self._flying)

    async def _news_before(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for a poll to finish, and return whether one did."""
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
        """Return when to send the first or the next poll of a chat request, in seconds since the epoch."""
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
        # Round to microseconds, like the output file, so that an answer that is read back from it is equal.
        noticed = round(max(0.0, self._now() - pending.submitted_at), 6)
        # Prefer the service's own times, which do not depend on the polls, but cap them at the time of the wait.
        latency = None if took is None else min(round(took, 6), noticed)
        seconds = noticed if latency is None else latency
        ended_at = round(pending.submitted_at + seconds, 6)
        request_id = pending.request_id
        ended = FinishedRequest(
            request_id, request_id, status, text, error, raw, ended_at, seconds, polls, latency, noticed
        )
        self._on_end(ended)

    def _note(self, status: str) -> None:
        """Log each status word that means "pending" once."""
        if status not in self._words:
            self._words.add(status)
            log.info("Status %r is taken for still going.", status)

    def _trouble(self, error: AssistantError) -> None:
        """Log the first failed poll; progress messages count the others."""
        self._troubles += 1
        if self._troubles == 1:
            log.warning(flow.POLLING_GOES_ON, error)

    async def _report(self) -> None:
        """Log the progress every PROGRESS seconds."""
        while True:
            await asyncio.sleep(PROGRESS)
            log.info("%s", self)

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {status}" for status, count in sorted(self.ended.items())) or "none"
        troubles = f", {self._troubles} of them failed" if self._troubles else ""
        return f"{self.open} requests are open, ended are {ended}, after {self.polls} polls{troubles}."
