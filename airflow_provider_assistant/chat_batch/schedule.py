"""When to poll each open chat request, and what a result means; without I/O, tasks and clocks."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from airflow_provider_assistant.api import errors, flow
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.chat_batch.requests import FinishedRequest, PendingRequest, State
from airflow_provider_assistant.exceptions import AssistantError, AssistantRateLimitError
from airflow_provider_assistant.texts import counted

# The first poll of a chat request comes after this share of the interval, further polls whenever its age has doubled,
# and from then on one per interval. So quick answers are found quickly, and slow ones cost few polls.
FIRST = 0.25
# The latency is unknown if the poll that found the end came too long after the last poll that found the
# request pending: more than this number of intervals, and also more than this number of seconds. This
# happens after the restart of a triggerer, and to the first questions of a batch that takes long to submit.
UNKNOWN_INTERVALS = 2.0
UNKNOWN_SECONDS = 10.0


class DuePoll(NamedTuple):
    """
    The next poll of a chat request; earlier polls sort first.

    :param due: Time of the poll, in seconds since the epoch.
    :param number: Number of this poll of the chat request, from 1.
    :param position: Position of the chat request, which makes the order definite.
    :param pending_at: Latest time at which the request is known to have been pending; None before the
        first poll that found it pending.
    :param sent_at: Time before which this poll was not sent.
    """

    due: float
    number: int
    position: int
    request: PendingRequest
    pending_at: float | None = None
    sent_at: float = 0.0


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
        # Time of the last poll that was answered; at first, that of the beginning.
        self.answered_at = now
        # Polls that were sent since then.
        self._sent_since = 0
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
        self._sent_since += 1
        return heapq.heappop(self._due)._replace(sent_at=now)

    def on_state(self, poll: DuePoll, reply: ChatRequest, *, now: float) -> FinishedRequest | None:
        """Return the result if the chat request has ended; otherwise plan its next poll."""
        self._answered(now)
        if reply.state == "pending":
            self._plan_next(poll._replace(pending_at=poll.sent_at), now)
            return None
        return self._finish(poll, reply.state, reply.error, now, reply)

    def on_error(self, poll: DuePoll, error: AssistantError, *, now: float) -> FinishedRequest | None:
        """
        Return the result if the chat request is lost; plan its next poll after a transient error.

        :raises AssistantError: Further polls would get the same error.
        """
        if errors.is_refused(error) or isinstance(error, AssistantRateLimitError):
            self._answered(now)
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

    def unanswered_since(self, now: float) -> float | None:
        """Return since when no poll was answered although some were sent; None if it is only a few seconds."""
        is_silent = self.open > 0 and self._sent_since > 0 and now - self.answered_at > flow.SHORT_SILENCE
        return self.answered_at if is_silent else None

    def _answered(self, now: float) -> None:
        self.answered_at = now
        self._sent_since = 0

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
        finished = FinishedRequest(
            question_id=request.question_id,
            request_id=request.request_id,
            status=status,
            text=None,
            error=error,
            raw=None,
            ended_at=round(request.submitted_at + noticed_after, 6),
            seconds=noticed_after,
            polls=poll.number,
            noticed_after=noticed_after,
        )
        if reply is None:
            return finished
        finished = finished._replace(
            text=reply.text,
            raw=reply.raw_json,
            confidence_level=reply.confidence_level,
            confidence_score=reply.confidence_score,
        )
        if reply.service_seconds is None:
            return self._measured(finished, poll)
        # Prefer the service's own times, which do not depend on the polls, but cap them
        # at the time of the wait.
        latency = min(round(reply.service_seconds, 6), noticed_after)
        return finished._replace(
            ended_at=round(request.submitted_at + latency, 6),
            seconds=latency,
            latency=latency,
            latency_source="service",
            latency_error=0.0,
        )

    def _measured(self, finished: FinishedRequest, poll: DuePoll) -> FinishedRequest:
        """Return a result with the latency by the polls, if the request was polled often enough."""
        noticed_after = finished.seconds
        pending_for = 0.0
        if poll.pending_at is not None:
            pending_for = max(0.0, poll.pending_at - poll.request.submitted_at)
        error = round(max(0.0, noticed_after - pending_for), 6)
        if error > max(UNKNOWN_INTERVALS * self._interval, UNKNOWN_SECONDS):
            return finished
        return finished._replace(
            latency=noticed_after,
            latency_source="measured",
            latency_error=error,
        )

    def __str__(self) -> str:
        ended = "none"
        if self.finished:
            counts = sorted(self.finished.items())
            ended = ", ".join(f"{count} {status}" for status, count in counts)
        failed = ""
        if self.failed_polls:
            failed = f", {self.failed_polls} of them failed"
        return f"Open: {counted(self.open, 'request')}; ended: {ended}; after {counted(self.polls, 'poll')}{failed}."
