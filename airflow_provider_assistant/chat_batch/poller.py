"""Poll many async chat requests at once, when :mod:`.schedule` plans it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest
from airflow_provider_assistant.chat_batch.schedule import DuePoll, PollSchedule
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantError
from airflow_provider_assistant.observability import tracing
from airflow_provider_assistant.texts import time_of_day

log = logging.getLogger(__name__)

# Seconds between two progress messages in the log.
PROGRESS = 30.0


@dataclass(kw_only=True, eq=False)
class Poller:
    """
    Poll chat requests until all have ended or the deadline passes (``GET …/chat/requests/{request_id}``).

    :param client: Client to send with; a shared client also applies its shared limits.
    :param interval: Maximum time between two polls of one chat request, in seconds.
    :param deadline: Time at which to stop polling, in seconds since the epoch; each chat request is polled at least
        once.
    :param on_finished: Called with the result of every chat request that ends.
    :ivar unanswered_since: After :meth:`run`, the time since which no poll was answered, in seconds since the epoch;
        None if polls were answered until the end.
    """

    client: AssistantClient
    site_id: str
    interval: float
    deadline: float
    max_concurrency: int
    on_finished: Callable[[FinishedRequest], None]
    unanswered_since: float | None = field(default=None, init=False)
    _in_flight: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _poll_done: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _logged_statuses: set[str] = field(default_factory=set, init=False)
    _fatal_error: BaseException | None = field(default=None, init=False)

    async def run(self, pending: Iterable[PendingRequest]) -> PollSchedule:
        """
        Poll until all chat requests have ended or the deadline passes.

        Polling ends one response timeout after the deadline if no poll is answered any more.

        :return: The schedule with its counts: ``finished`` by state, ``open``, ``polls`` and ``failed_polls``.
        :raises AssistantAPIError: The service answered a poll with 401 or 403, so further polls would fail as well.
        """
        # The event loop's clock goes on steadily, even if the wall clock is set.
        self._epoch = self.client.now() - asyncio.get_running_loop().time()
        schedule = PollSchedule(pending, interval=self.interval, deadline=self.deadline, now=self._now())
        self._started = self._now()
        with tracing.span("wait", site_id=self.site_id, requests=schedule.open) as span:
            progress = asyncio.create_task(_log_progress(schedule))
            try:
                while schedule.next_due is not None or self._in_flight:
                    await self._step(schedule)
                    if self._fatal_error:
                        raise self._fatal_error
            finally:
                for task in (progress, *self._in_flight):
                    task.cancel()
                await asyncio.gather(progress, *self._in_flight, return_exceptions=True)
                span.set_attributes({"assistant.open": schedule.open, "assistant.polls": schedule.polls})
                log.info("%s", schedule)
        self.unanswered_since = schedule.unanswered_since(self._now())
        if self.unanswered_since is not None:
            log.warning("No poll was answered since %s.", time_of_day(self.unanswered_since))
        return schedule

    def _now(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    async def _step(self, schedule: PollSchedule) -> None:
        """Start the polls that are due, then wait until another is due or one is done."""
        now = self._now()
        self._poll_done.clear()
        while len(self._in_flight) < self.max_concurrency and (poll := schedule.take(now)):
            task = asyncio.create_task(self._poll(schedule, poll))
            self._in_flight.add(task)
            task.add_done_callback(self._on_done)
        now = self._now()
        # After the deadline, polling goes on as long as polls are answered.
        response_timeout = min(self.client.settings.timeout, flow.LAST_POLL)
        end = max(self._started, self.deadline, schedule.answered_at) + response_timeout
        if now >= end:
            schedule.give_up()
            for task in self._in_flight:
                task.cancel()
            if self._in_flight:
                await asyncio.wait(self._in_flight)
            return
        wake_up = end
        next_due = schedule.next_due
        if next_due is not None and len(self._in_flight) < self.max_concurrency:
            wake_up = min(end, next_due)
        await self._wait_for_poll(wake_up - now)

    async def _wait_for_poll(self, seconds: float) -> None:
        """Wait at most ``seconds`` until a poll is done."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._poll_done.wait()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._poll_done.set()
        if task.cancelled():
            return
        error = task.exception()
        # run() raises the first error.
        if error and not self._fatal_error:
            self._fatal_error = error

    async def _poll(self, schedule: PollSchedule, poll: DuePoll) -> None:
        request = poll.request
        words = self.client.settings.words
        call = endpoints.get_chat_request(self.site_id, request.request_id, words)
        steps = flow.poll(call, since=request.submitted_at, now=self._now, due=poll.due)
        try:
            reply_or_error = await self.client.arun(steps)
        except AssistantAPIError as error:
            reply_or_error = error
        if isinstance(reply_or_error, AssistantError):
            finished = schedule.on_error(poll, reply_or_error, now=self._now())
            if not finished and schedule.failed_polls == 1:
                log.warning(flow.POLLING_GOES_ON, reply_or_error)
        else:
            finished = schedule.on_state(poll, reply_or_error, now=self._now())
            status = reply_or_error.status
            if not finished and status not in self._logged_statuses:
                self._logged_statuses.add(status)
                log.info("Status %r is taken for still going.", status)
        if finished:
            self.on_finished(finished)


async def _log_progress(schedule: PollSchedule) -> None:
    while True:
        await asyncio.sleep(PROGRESS)
        log.info("%s", schedule)
