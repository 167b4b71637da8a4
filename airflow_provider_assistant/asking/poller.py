"""Poll async chat requests, one or ten thousand (``GET …/chat/requests/{request_id}``), when :mod:`.schedule` says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.asking.schedule import DuePoll, Schedule
from airflow_provider_assistant.asking.state import End, Request
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.sending.decide import NotSentError

log = logging.getLogger(__name__)

# Seconds between two progress messages in the log.
PROGRESS = 30.0
# Maximum seconds that a last poll may take after the deadline: less than the time that Airflow waits for a trigger.
LAST_POLL = 120.0


async def poll_until(
    client: AssistantClient,
    site_id: str,
    schedule: Schedule,
    requests: Iterable[Request],
    *,
    on_end: Callable[[End], None],
    max_concurrency: int = 1,
) -> None:
    """
    Poll chat requests until all have ended or the deadline of the schedule has passed.

    :param on_end: Called with the end of each request.
    :param max_concurrency: Maximum number of polls in flight.
    :raises AssistantError: Further polls would get the same error, such as a 401.
    """
    poller = Poller(client, site_id, schedule, on_end=on_end, max_concurrency=max_concurrency)
    poller.close()
    await poller.run(requests)


def poll_now(client: AssistantClient, site_id: str, schedule: Schedule) -> End | None:
    """
    Send the next poll of a schedule at once, due or not, and return the end of its request.

    :raises AssistantError: Further polls would get the same error.
    """
    poll = schedule.take(math.inf)
    if poll is None:
        raise ValueError("no request is open")
    try:
        reply: ChatRequest | AssistantError = client.send_once(_call(client, site_id, poll))
    except AssistantError as error:
        reply = error
    return _end_of(schedule, poll, reply, client.now())


class Poller:
    """
    Poll chat requests while others are still being submitted; the parameters are those of :func:`poll_until`.

    A shared client also applies its shared limits.
    """

    def __init__(
        self,
        client: AssistantClient,
        site_id: str,
        schedule: Schedule,
        *,
        on_end: Callable[[End], None],
        max_concurrency: int,
    ) -> None:
        self.schedule = schedule
        self._client = client
        self._site_id = site_id
        self._on_end = on_end
        self._max_concurrency = max_concurrency
        # The event loop's clock goes on steadily, even if the wall clock is set.
        self._epoch = client.now() - asyncio.get_running_loop().time()
        self._started = self._logged_at = self.now()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._has_changed = asyncio.Event()
        self._fatal_error: BaseException | None = None
        self._takes_more = True
        self._is_stopped = False

    def add(self, request: Request) -> None:
        """Poll a request, also while :meth:`run` runs."""
        self.schedule.add(request, self.now())
        self._has_changed.set()

    def use(self, client: AssistantClient) -> None:
        """Send further polls with another client."""
        self._client = client

    def close(self) -> None:
        """Let :meth:`run` end when the requests that it has have ended."""
        self._takes_more = False
        self._has_changed.set()

    def stop(self) -> None:
        """Send no further polls. :meth:`run` ends when those on their way are answered."""
        self._is_stopped = True
        self._has_changed.set()

    async def run(self, requests: Iterable[Request]) -> None:
        """
        Poll until :meth:`close` is called, and all requests have ended or the deadline has passed.

        Polling ends one response timeout after the deadline if no poll is answered any more, also if a long
        ``Retry-After`` holds them all back.

        :raises AssistantError: Further polls would get the same error, such as a 401.
        """
        for request in requests:
            self.add(request)
        try:
            while self._in_flight or self._has_work():
                await self._step()
                if self._fatal_error:
                    raise self._fatal_error
        finally:
            await self._cancel_polls()
            if self.schedule.polls:
                log.info("%s", self.schedule)

    def now(self) -> float:
        """Return the time by a clock that goes on steadily, in seconds since the epoch."""
        return self._epoch + asyncio.get_running_loop().time()

    def _has_work(self) -> bool:
        return not self._is_stopped and (self._takes_more or self.schedule.next_due is not None)

    def _may_send(self) -> bool:
        return not self._is_stopped and len(self._in_flight) < self._max_concurrency

    async def _step(self) -> None:
        """Start the polls that are due, then wait until another is due or one is done."""
        schedule = self.schedule
        now = self.now()
        self._has_changed.clear()
        while self._may_send() and (poll := schedule.take(now)):
            task = asyncio.create_task(self._poll(poll))
            self._in_flight.add(task)
            task.add_done_callback(self._on_done)
        # After the deadline, polling goes on as long as polls are answered.
        response_timeout = min(self._client.settings.timeout, LAST_POLL)
        end = max(self._started, schedule.deadline, schedule.answered_at) + response_timeout
        if now >= end and not self._takes_more:
            schedule.give_up()
            await self._cancel_polls()
            return
        self._log_progress(now)
        wake_ups = [] if self._takes_more else [end]
        if schedule.next_due is not None and self._may_send():
            wake_ups.append(schedule.next_due)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(wake_ups) - self.now() if wake_ups else None):
                await self._has_changed.wait()

    def _log_progress(self, now: float) -> None:
        # A single request has no progress: its line would be the same for days.
        if self.schedule.is_many and now - self._logged_at >= PROGRESS:
            self._logged_at = now
            log.info("%s", self.schedule)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._has_changed.set()
        if not task.cancelled() and not self._fatal_error:
            # run() raises the first error.
            self._fatal_error = task.exception()

    async def _cancel_polls(self) -> None:
        polls = list(self._in_flight)
        for task in polls:
            task.cancel()
        await asyncio.gather(*polls, return_exceptions=True)

    async def _poll(self, poll: DuePoll) -> None:
        call = _call(self._client, self._site_id, poll)
        try:
            reply: ChatRequest | AssistantError = await self._client.asend_once(call)
        except NotSentError:
            # The sender has stopped, whose client this is.
            self.schedule.postpone(poll, self.now())
            return
        except AssistantError as error:
            reply = error
        metrics.poll_lag(self.now() - poll.due)
        end = _end_of(self.schedule, poll, reply, self.now())
        if end:
            self._on_end(end)


def _call(client: AssistantClient, site_id: str, poll: DuePoll) -> Call[ChatRequest]:
    return endpoints.get_chat_request(site_id, str(poll.request.request_id), client.settings.words)


def _end_of(schedule: Schedule, poll: DuePoll, reply: ChatRequest | AssistantError, now: float) -> End | None:
    end = schedule.end_of(poll, reply, now)
    if end and end.status != "lost":
        metrics.async_completion(end.status, end.seconds or 0.0)
    return end
