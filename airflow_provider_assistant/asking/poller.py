"""Poll async chat requests, one or ten thousand (``GET …/chat/requests/{request_id}``), when a :class:`.Wait` says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Self

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.asking.wait import Wait
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.sending.outcomes import NotSentError

log = logging.getLogger(__name__)

# Seconds between two progress messages in the log.
PROGRESS = 30.0
# Maximum seconds that a last poll may take after the deadline: less than the time that Airflow waits for a trigger.
LAST_POLL = 120.0


async def poll_until(
    client: AssistantClient,
    site_id: str,
    wait: Wait,
    requests: Iterable[Answer],
    *,
    on_end: Callable[[Answer], None],
    max_concurrency: int = 1,
) -> None:
    """
    Poll chat requests until all have ended or the deadline of the wait has passed.

    :param on_end: Called with the answer of each request.
    :param max_concurrency: Maximum number of polls in flight.
    :raises AssistantError: Further polls would get the same error, such as a 401.
    """
    async with Poller(client, site_id, wait, on_end=on_end, max_concurrency=max_concurrency) as poller:
        for request in requests:
            poller.add(request)
        await poller.finish()


def poll_once(client: AssistantClient, site_id: str, wait: Wait, request: Answer) -> Answer | None:
    """
    Send one poll at once, and return the answer of a request that has ended.

    :raises AssistantError: Further polls would get the same error.
    """
    wait.unanswered += 1
    try:
        reply: ChatRequest | AssistantError = client.send_once(_call(client, site_id, request))
    except AssistantError as error:
        reply = error
    return wait.end_of(request._replace(polls=request.polls + 1), reply, client.now())


class Poller:
    """
    Poll chat requests while others are still being submitted; the parameters are those of :func:`poll_until`.

    A task waits for each request. At the end of an ``async with`` block, all of them are cancelled. A shared client
    also applies its shared limits.

    :ivar client: Sends the next polls.
    :ivar open: The requests that have not ended, with the number of their polls.
    """

    def __init__(
        self,
        client: AssistantClient,
        site_id: str,
        wait: Wait,
        *,
        on_end: Callable[[Answer], None],
        max_concurrency: int,
    ) -> None:
        self.client = client
        self.wait = wait
        self.open: dict[str, Answer] = {}
        self._site_id = site_id
        self._on_end = on_end
        self._slots = asyncio.Semaphore(max_concurrency)
        # The event loop's clock goes on steadily, even if the wall clock is set.
        self._epoch = client.now() - asyncio.get_running_loop().time()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_changed = asyncio.Event()
        self._error: Exception | None = None

    def now(self) -> float:
        """Return the time by a clock that goes on steadily, in seconds since the epoch."""
        return self._epoch + asyncio.get_running_loop().time()

    def add(self, request: Answer) -> None:
        """Poll a request from now on."""
        task = asyncio.create_task(self._poll_until_end(request))
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    async def finish(self) -> None:
        """
        Wait until all requests have ended, or the deadline has passed.

        That is one response timeout after the deadline if no poll is answered any more, also if a long
        ``Retry-After`` holds them all back.

        :raises AssistantError: Further polls would get the same error, such as a 401.
        """
        wait = self.wait
        started = logged_at = self.now()
        response_timeout = min(self.client.settings.timeout, LAST_POLL)
        while self._tasks and not self._error:
            # After the deadline, polling goes on as long as polls are answered.
            left = max(started, wait.deadline, wait.answered_at) + response_timeout - self.now()
            if left <= 0:
                break
            self._has_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, PROGRESS)):
                    await self._has_changed.wait()
            # A single request has no progress: its line would be the same for days.
            if wait.open + sum(wait.ended.values()) > 1 and self.now() - logged_at >= PROGRESS:
                logged_at = self.now()
                log.info("%s", wait)
        if self._error:
            raise self._error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.wait.polls:
            log.info("%s", self.wait)

    async def _poll_until_end(self, request: Answer) -> None:
        self.open[request.question_id] = request
        due: float | None = self.wait.first_poll(request, self.now())
        try:
            while due is not None:
                await asyncio.sleep(due - self.now())
                async with self._slots:
                    if self._error:
                        return
                    request = await self._poll(request, due)
                if request.status != "open":
                    del self.open[request.question_id]
                    self._on_end(request)
                    return
                due = self.wait.next_poll(request, self.now())
        except Exception as error:  # noqa: BLE001 (finish() raises it)
            self._error = self._error or error

    async def _poll(self, request: Answer, due: float) -> Answer:
        """Poll a request, and return its answer; the request if it has not ended."""
        # Also a poll that is cancelled counts.
        polled = self.open[request.question_id] = request._replace(polls=request.polls + 1)
        self.wait.unanswered += 1
        try:
            reply: ChatRequest | AssistantError = await self.client.asend_once(
                _call(self.client, self._site_id, request)
            )
        except NotSentError:
            # The sender has stopped, whose client this is.
            self.wait.unanswered -= 1
            self.open[request.question_id] = request
            return request
        except AssistantError as error:
            reply = error
        metrics.poll_lag(self.now() - due)
        return self.wait.end_of(polled, reply, self.now()) or polled

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks or self._error:
            self._has_changed.set()


def _call(client: AssistantClient, site_id: str, request: Answer) -> Call[ChatRequest]:
    return endpoints.get_chat_request(site_id, str(request.request_id), client.settings.words)
