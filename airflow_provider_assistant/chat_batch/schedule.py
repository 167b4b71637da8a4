"""When to poll each open chat request, and what a result means; without I/O, tasks and clocks."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest, State
from airflow_provider_assistant.exceptions import AssistantError

# The first poll of a chat request comes after this share of the interval, further polls whenever its age has doubled,
# and from then on one per interval. So quick answers are found quickly, and slow ones cost few polls.
FIRST = 0.25


class DuePoll(NamedTuple):
    """
    The next poll of a chat request; earlier polls sort first.

    :param due: Time of the poll, in seconds since the epoch.
    :param number: Number of this poll of the chat request, from 1.
    :param position: Position of the chat request, which makes the order definite.
    """

    due: float
    number: int
    position: int
    request: PendingRequest


class PollSchedule:
    """
    Decide when to poll each chat request, until it has ended or the deadline passes.

    ``finished`` counts the ended chat requests by state, ``open`` the others, ``polls`` the polls, and ``failed_polls``
    those without a usable response. All times are in seconds since the epoch.

    :param interval: Maximum time between two polls of one chat request, in seconds.
    :param deadline: Time at which to stop polling; each chat request is polled at least once.
    """

    def __init__(self, pending: Iterable[PendingRequest], *, interval: float, deadline: float, now: float) -> None:
        self.finished: Counter[str] = Counter()
        self.polls = self.failed_polls = 0
        self.deadline = deadline
        self._interval = interval
        # If the deadline has passed already, poll each chat request once.
        latest = max(now, deadline)
        self._due = [
            DuePoll(min(max(now, self._next(one, 0.0)), latest), 1, position, one)
            for position, one in enumerate(pending)
        ]
        heapq.heapify(self._due)
        self.open = len(self._due)

    @property
    def next_due(self) -> float | None:
        """Time of the next poll; None if no poll is planned."""
        return self._due[0].due if self._due else None

    def take(self, now: float) -> DuePoll | None:
        """Remove and return the next poll, which the caller has to send; None if none is due."""
        if not self._due or self._due[0].due > now:
            return None
        self.polls += 1
        return heapq.heappop(self._due)

    def on_state(self, poll: DuePoll, reply: ChatRequest, *, now: float) -> FinishedRequest | None:
        """Return the result if the chat request has ended; otherwise plan its next poll."""
        if reply.state == "pending":
            self._plan_next(poll, now)
            return None
        return self._finish(poll, reply.state, reply.error, now, reply)

    def on_error(self, poll: DuePoll, error: AssistantError, *, now: float) -> FinishedRequest | None:
        """
        Return the result if the chat request is lost; plan its next poll after a transient error.

        :raises AssistantError: Further polls would get the same error.
        """
        if errors.is_lost(error):
            return self._finish(poll, "lost", str(error), now)
        if errors.is_refused(error):
            raise error
        self.failed_polls += 1
        self._plan_next(poll, now, getattr(error, "retry_after", None) or 0.0)
        return None

    def give_up(self) -> None:
        """Plan no further polls."""
        self._due.clear()

    def _plan_next(self, poll: DuePoll, now: float, retry_after: float = 0.0) -> None:
        if now < self.deadline:
            due = min(max(self._next(poll.request, now), now + retry_after), self.deadline)
            heapq.heappush(self._due, poll._replace(due=due, number=poll.number + 1))

    def _next(self, request: PendingRequest, now: float) -> float:
        """Return when to send the first or the next poll of a chat request."""
        age = max(0.0, now - request.submitted_at)
        return max(now, request.submitted_at) + min(max(age, FIRST * self._interval), self._interval)

    def _finish(
        self, poll: DuePoll, status: State, error: str | None, now: float, reply: ChatRequest | None = None
    ) -> FinishedRequest:
        self.open -= 1
        self.finished[status] += 1
        question_id, request_id, submitted_at = poll.request
        # Round to microseconds, like the output file, so that an answer that is read back from it is equal.
        noticed = round(max(0.0, now - submitted_at), 6)
        # Prefer the service's own times, which do not depend on the polls, but cap them at the time of the wait.
        took = reply.service_seconds if reply else None
        latency = None if took is None else min(round(took, 6), noticed)
        seconds = noticed if latency is None else latency
        return FinishedRequest(
            question_id,
            request_id,
            status,
            text=reply.text if reply else None,
            error=error,
            raw=reply.raw_json if reply else None,
            ended_at=round(submitted_at + seconds, 6),
            seconds=seconds,
            polls=poll.number,
            latency=latency,
            noticed_after=noticed,
        )

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {status}" for status, count in sorted(self.finished.items())) or "none"
        failed = f", {self.failed_polls} of them failed" if self.failed_polls else ""
        return f"{self.open} requests are open, ended are {ended}, after {self.polls} polls{failed}."
