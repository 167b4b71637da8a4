"""When to poll each open chat request, and what a reply means; without I/O, tasks and clocks."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from typing import Any, NamedTuple

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.gateways import ONLY_GATEWAYS
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.asking.state import End, Request, Status
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError, AssistantRateLimitError
from airflow_provider_assistant.texts import counted, time_of_day

log = logging.getLogger(__name__)

# Share of the interval after which a request of a batch is polled first.
FIRST = 0.25
# A silence of fewer seconds is not worth mentioning.
SHORT_SILENCE = 10.0


class DuePoll(NamedTuple):
    """The next poll of a request; earlier polls sort first, and the position makes the order definite."""

    due: float
    position: int
    request: Request


class Silence(NamedTuple):
    """
    Polls without an answer at the end of a wait.

    :param since: Time of the last answer.
    :param error: Error of the last poll; None if it had no reply at all.
    """

    since: float
    polls: int
    error: str | None

    def __str__(self) -> str:
        reason = self.error or "the service did not reply, or its rate limit held the polls back"
        return f"no poll was answered since {time_of_day(self.since)} ({counted(self.polls, 'poll')} failed): {reason}"


class Schedule:
    """
    Decide when to poll each request, until it has ended or the deadline passes.

    A request is polled when its age is ``first``, then whenever its age has doubled, and from then on once per
    interval. So quick answers are found quickly, and slow ones cost few polls. All times are in seconds since the
    epoch, and durations in seconds.

    :param interval: Maximum time between two polls of one request.
    :param first: Age of a request at its first poll, and minimum time between two polls. Default: None, a quarter of
        the interval.
    :ivar deadline: Time at which polling stops. Each request is polled at least once.
    :ivar ended: Number of ended requests by status.
    :ivar open: Number of requests that have not ended.
    :ivar polls: Number of polls that were answered or failed.
    :ivar answered_at: Time of the last poll that was answered; at first, that of the beginning.
    :ivar reply: The last reply.
    :ivar error: Error of the last poll; None if it was answered, or if none has failed.
    """

    def __init__(self, *, interval: float, deadline: float, now: float, first: float | None = None) -> None:
        self.deadline = deadline
        self.ended: Counter[str] = Counter()
        self.open = self.polls = 0
        self.answered_at = now
        self.reply: ChatRequest | None = None
        self.error: AssistantError | None = None
        self._interval = interval
        self._first = FIRST * interval if first is None else first
        self._due: list[DuePoll] = []
        self._added = self._failed_polls = 0
        # Polls that were sent since the last answer.
        self._silent_polls = 0
        self._pending_words: set[str] = set()

    def add(self, request: Request, now: float) -> None:
        """Plan the first poll of a request."""
        self.open += 1
        self._added += 1
        age = max(0.0, now - request.submitted_at)
        # After a deadline that has passed, each request is polled once.
        due = min(now + max(0.0, self._first - age), max(now, self.deadline))
        heapq.heappush(self._due, DuePoll(due, self._added, request))

    @property
    def is_many(self) -> bool:
        """Whether there was more than one request."""
        return self._added > 1

    @property
    def next_due(self) -> float | None:
        """Time of the next poll; None if no poll is planned."""
        return self._due[0].due if self._due else None

    @property
    def waiting(self) -> list[Request]:
        """The requests whose next poll is planned, with the number of their polls."""
        return [poll.request for poll in self._due]

    def take(self, now: float) -> DuePoll | None:
        """Remove and return the next poll, which the caller has to send; None if none is due."""
        if not self._due or self._due[0].due > now:
            return None
        self._silent_polls += 1
        return heapq.heappop(self._due)

    def end_of(self, poll: DuePoll, reply: ChatRequest | AssistantError, now: float) -> End | None:
        """
        Return the end of a request, or plan its next poll: an outage that ends in time does no harm.

        The page of a gateway counts as an outage, because the request was submitted through the same gateway.

        :raises AssistantError: Further polls would get the same error.
        """
        self.polls += 1
        poll = poll._replace(request=poll.request._replace(polls=poll.request.polls + 1))
        if isinstance(reply, AssistantError):
            return self._on_error(poll, reply, now)
        self._answered(now)
        self.reply = reply
        if reply.state != "pending":
            return self._end(
                poll,
                now,
                reply.state,
                answer=reply.text,
                error=reply.error,
                raw=reply.raw_json,
                confidence_level=reply.confidence_level,
                confidence_score=reply.confidence_score,
            )
        if reply.status not in self._pending_words:
            self._pending_words.add(reply.status)
            log.info("Status %r is taken for still going.", reply.status)
        self._plan_next(poll, now)
        return None

    def postpone(self, poll: DuePoll, now: float) -> None:
        """Plan a poll again that was not sent."""
        self._silent_polls -= 1
        self._plan_next(poll, now)

    def silence(self, now: float) -> Silence | None:
        """Return that no poll was answered at the end; None if some were, or it is only a few seconds."""
        if not self.open or not self._silent_polls or now - self.answered_at <= SHORT_SILENCE:
            return None
        return Silence(self.answered_at, self._silent_polls, self.error.happened if self.error else None)

    def give_up(self) -> None:
        """Plan no further polls."""
        self._due.clear()

    def _on_error(self, poll: DuePoll, error: AssistantError, now: float) -> End | None:
        if errors.is_refused(error) or isinstance(error, AssistantRateLimitError):
            self._answered(now)
        self.error = error
        if errors.is_lost(error):
            return self._end(poll, now, "lost", error=str(error))
        # A proxy in front of the service, or this package itself, refuses the next poll as well.
        is_refused_before = getattr(error, "status", None) in ONLY_GATEWAYS or isinstance(error, AssistantInputError)
        self._plan_next(poll, now, getattr(error, "retry_after", None) or 0.0)
        if errors.is_refused(error) or is_refused_before:
            raise error
        self._failed_polls += 1
        if self._failed_polls == 1:
            log.warning("Polling goes on after this: %s", error)
        return None

    def _answered(self, now: float) -> None:
        self.answered_at = now
        self._silent_polls = 0
        self.error = None

    def _plan_next(self, poll: DuePoll, now: float, retry_after: float = 0.0) -> None:
        if now < self.deadline:
            age = max(0.0, now - poll.request.submitted_at)
            # After a wait as long as its age, the age has doubled.
            wait = max(min(max(age, self._first), self._interval), retry_after)
            heapq.heappush(self._due, poll._replace(due=min(now + wait, self.deadline)))

    def _end(self, poll: DuePoll, now: float, status: Status, **fields: Any) -> End:
        self.open -= 1
        self.ended[status] += 1
        request = poll.request
        return request.end(status, max(0.0, now - request.submitted_at), polls=request.polls, **fields)

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {status}" for status, count in sorted(self.ended.items())) or "none"
        failed = f", {self._failed_polls} of them failed" if self._failed_polls else ""
        return f"Open: {counted(self.open, 'request')}; ended: {ended}; after {counted(self.polls, 'poll')}{failed}."
