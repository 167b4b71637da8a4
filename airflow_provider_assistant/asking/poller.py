"""Poll many async chat requests at once, when :mod:`.schedule` plans it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.asking.schedule import LAST_POLL, DuePoll, Schedule
from airflow_provider_assistant.asking.state import End, Request
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.sending.decide import NotSentError

log = logging.getLogger(__name__)

# Seconds between two progress messages in the log.
PROGRESS = 30.0


class Poller:
    """
    Poll chat requests until all have ended or the deadline passes (``GET …/chat/requests/{request_id}``).

    :param client: Client to send with; a shared client also applies its shared limits.
    :param interval: Maximum time between two polls of one request, in seconds.
    :param deadline: Time at which to stop polling, in seconds since the epoch; each request is polled at least once.
    :param on_end: Called with the end of each request.
    """

    def __init__(
        self,
        client: AssistantClient,
        site_id: str,
        *,
        interval: float,
        deadline: float,
        on_end: Callable[[End], None],
        max_concurrency: int,
    ) -> None:
        self._client = client
        self._site_id = site_id
        self._on_end = on_end
        self._max_concurrency = max_concurrency
        # The event loop's clock goes on steadily, even if the wall clock is set.
        self._epoch = client.now() - asyncio.get_running_loop().time()
        self._started = self.now()
        self.schedule = Schedule(interval=interval, deadline=deadline, now=self._started)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._has_changed = asyncio.Event()
        self._logged_statuses: set[str] = set()
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

        Polling ends one response timeout after the deadline if no poll is answered any more.

        :raises AssistantAPIError: The service answered a poll with 401 or 403, so further polls would fail as well.
        """
        for request in requests:
            self.add(request)
        progress = asyncio.create_task(self._log_progress())
        try:
            while self._in_flight or (
                not self._is_stopped and (self._takes_more or self.schedule.next_due is not None)
            ):
                await self._step()
                if self._fatal_error:
                    raise self._fatal_error
        finally:
            for task in (progress, *self._in_flight):
                task.cancel()
            await asyncio.gather(progress, *self._in_flight, return_exceptions=True)
            if self.schedule.polls:
                log.info("%s", self.schedule)

    def now(self) -> float:
        """Return the time by a clock that goes on steadily, in seconds since the epoch."""
        return self._epoch + asyncio.get_running_loop().time()

    async def _step(self) -> None:
        """Start the polls that are due, then wait until another is due or one is done."""
        schedule = self.schedule
        now = self.now()
        self._has_changed.clear()
        while not self._is_stopped and len(self._in_flight) < self._max_concurrency and (poll := schedule.take(now)):
            task = asyncio.create_task(self._poll(poll))
            self._in_flight.add(task)
            task.add_done_callback(self._on_done)
        # After the deadline, polling goes on as long as polls are answered.
        response_timeout = min(self._client.settings.timeout, LAST_POLL)
        end = max(self._started, schedule.deadline, schedule.answered_at) + response_timeout
        if now >= end and not self._takes_more:
            schedule.give_up()
            for task in self._in_flight:
                task.cancel()
            if self._in_flight:
                await asyncio.wait(self._in_flight)
            return
        wake_ups = [] if self._takes_more else [end]
        if schedule.next_due is not None and not self._is_stopped and len(self._in_flight) < self._max_concurrency:
            wake_ups.append(schedule.next_due)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(wake_ups) - self.now() if wake_ups else None):
                await self._has_changed.wait()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._has_changed.set()
        if not task.cancelled() and not self._fatal_error:
            # run() raises the first error.
            self._fatal_error = task.exception()

    async def _poll(self, poll: DuePoll) -> None:
        request = poll.request
        call = endpoints.get_chat_request(self._site_id, str(request.request_id), self._client.settings.words)
        try:
            reply = await self._client.asend_once(call)
        except NotSentError:
            # The sender has stopped, whose client this is.
            self.schedule.postpone(poll, self.now())
            return
        except AssistantError as error:
            end = self.schedule.on_error(poll, error, self.now())
            if not end and self.schedule.failed_polls == 1:
                log.warning("Polling goes on after this: %s", error)
        else:
            end = self.schedule.on_reply(poll, reply, self.now())
            if not end and reply.status not in self._logged_statuses:
                self._logged_statuses.add(reply.status)
                log.info("Status %r is taken for still going.", reply.status)
        if end:
            self._on_end(end)

    async def _log_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS)
            log.info("%s", self.schedule)
