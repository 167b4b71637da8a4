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
        self._due = []
        for position, request in enumerate(pending):
            due = min(max(now, self._next(request, now=0.0)), latest)
            self._due.append(DuePoll(due=due, number=1, position=position, request=request))
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
        retry_after: float | None = getattr(error, "retry_after", None)
        if retry_after is None:
            retry_after = 0.0
        self._plan_next(poll, now, retry_after)
        return None

    def give_up(self) -> None:
        """Plan no further polls."""
        self._due.clear()

    def _plan_next(self, poll: DuePoll, now: float, retry_after: float = 0.0) -> None:
        if now < self.deadline:
            earliest = now + retry_after
            due = min(max(self._next(poll.request, now), earliest), self.deadline)
            heapq.heappush(self._due, poll._replace(due=due, number=poll.number + 1))

    def _next(self, request: PendingRequest, now: float) -> float:
        """Return when to send the first or the next poll of a chat request."""
        age = max(0.0, now - request.submitted_at)
        # After a wait as long as its age, the age has doubled.
        wait = min(max(age, FIRST * self._interval), self._interval)
        return max(now, request.submitted_at) + wait

    def _finish(
        self, poll: DuePoll, status: State, error: str | None, now: float, reply: ChatRequest | None = None
    ) -> FinishedRequest:
        self.open -= 1
        self.finished[status] += 1
        request = poll.request
        # Round to microseconds, like the output file, so that an answer that is read back from it is equal.
        noticed_after = round(max(0.0, now - request.submitted_at), 6)
        text = raw = latency = None
        seconds = noticed_after
        if reply:
            text, raw = reply.text, reply.raw_json
            if reply.service_seconds is not None:
                # Prefer the service's own times, which do not depend on the polls, but cap them
                # at the time of the wait.
                latency = min(round(reply.service_seconds, 6), noticed_after)
                seconds = latency
        return FinishedRequest(
            question_id=request.question_id,
            request_id=request.request_id,
            status=status,
            text=text,
            error=error,
            raw=raw,
            ended_at=round(request.submitted_at + seconds, 6),
            seconds=seconds,
            polls=poll.number,
            latency=latency,
            noticed_after=noticed_after,
        )

    def __str__(self) -> str:
        ended = "none"
        if self.finished:
            counts = sorted(self.finished.items())
            ended = ", ".join(f"{count} {status}" for status, count in counts)
        failed = ""
        if self.failed_polls:
            failed = f", {self.failed_polls} of them failed"
        return f"{self.open} requests are open, ended are {ended}, after {self.polls} polls{failed}."
