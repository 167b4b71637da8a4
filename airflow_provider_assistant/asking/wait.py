"""A wait for chat requests: when to poll each, what a reply means, and what the polls have met. Without I/O."""

from __future__ import annotations

import logging
from collections import Counter

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.replies import ChatRequest
from airflow_provider_assistant.asking.state import Answer
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantGatewayError,
    AssistantInputError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.texts import counted, time_of_day

log = logging.getLogger(__name__)

# Share of the interval after which a request of a batch is polled first.
FIRST = 0.25
# A silence of fewer seconds is not worth mentioning.
SHORT_SILENCE = 10.0


class Wait:
    """
    Wait until chat requests have ended, or the deadline passes.

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
    :ivar unanswered: Number of polls since the last one that was answered.
    :ivar answered_at: Time of the last poll that was answered; at first, that of the beginning.
    :ivar reply: The last reply.
    :ivar error: Error of the last poll; None if it was answered, or if none has failed.
    """

    def __init__(self, *, interval: float, deadline: float, now: float, first: float | None = None) -> None:
        self.deadline = deadline
        self.ended: Counter[str] = Counter()
        self.open = self.polls = self.unanswered = 0
        self.answered_at = now
        self.reply: ChatRequest | None = None
        self.error: AssistantError | None = None
        self._interval = interval
        self._first = FIRST * interval if first is None else first
        self._failed_polls = 0
        self._pending_words: set[str] = set()

    def first_poll(self, request: Answer, now: float) -> float:
        """Add a request, and return the time of its first poll."""
        self.open += 1
        # After a deadline that has passed, each request is polled once.
        return min(now + max(0.0, self._first - _age(request, now)), max(now, self.deadline))

    def next_poll(self, request: Answer, now: float) -> float | None:
        """Return the time of the poll after one that found no end; None after the deadline."""
        if now >= self.deadline:
            return None
        # After a wait as long as its age, the age has doubled.
        wait = min(max(_age(request, now), self._first), self._interval)
        if self.error and self.error.retry_after:
            wait = max(wait, self.error.retry_after)
        return min(now + wait, self.deadline)

    def end_of(self, request: Answer, reply: ChatRequest | AssistantError, now: float) -> Answer | None:
        """
        Return the answer of a request that has ended; None if it has not: an outage that ends in time does no harm.

        The page of a gateway counts as an outage, because the request was submitted through the same gateway.

        :raises AssistantError: Further polls would get the same error.
        """
        self.polls += 1
        if isinstance(reply, AssistantError):
            end = self._after_error(request, reply, now)
        else:
            end = self._after_reply(request, reply, now)
        if end:
            self.open -= 1
            self.ended[end.status] += 1
        return end

    def _after_reply(self, request: Answer, reply: ChatRequest, now: float) -> Answer | None:
        self._answered(now)
        self.reply = reply
        if reply.state == "pending":
            if reply.status not in self._pending_words:
                self._pending_words.add(reply.status)
                log.info("Status %r is taken for still going.", reply.status)
            return None
        end = request.ended(reply.state, now, error=reply.error, reply=reply)
        metrics.async_completion(end.status, end.seconds or 0.0)
        return end

    def _after_error(self, request: Answer, error: AssistantError, now: float) -> Answer | None:
        if errors.is_refused(error) or isinstance(error, AssistantRateLimitError):
            self._answered(now)
        self.error = error
        if errors.is_lost(error):
            return request.ended("lost", now, error=str(error))
        # A proxy in front of the service, or this package itself, refuses the next poll as well.
        is_of_gateway = isinstance(error, AssistantGatewayError) and error.stops_all
        if errors.is_refused(error) or is_of_gateway or isinstance(error, AssistantInputError):
            raise error
        self._failed_polls += 1
        if self._failed_polls == 1:
            log.warning("Polling goes on after this: %s", error)
        return None

    def _answered(self, now: float) -> None:
        self.answered_at = now
        self.unanswered = 0
        self.error = None

    def silence(self, now: float) -> str | None:
        """Return that no poll was answered at the end; None if some were, or it is only a few seconds."""
        if not self.open or not self.unanswered or now - self.answered_at <= SHORT_SILENCE:
            return None
        reason = "the service did not reply, or its rate limit held the polls back"
        if self.error:
            reason = self.error.happened
        polls = counted(self.unanswered, "poll")
        return f"no poll was answered since {time_of_day(self.answered_at)} ({polls} failed): {reason}"

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {status}" for status, count in sorted(self.ended.items())) or "none"
        failed = f", {self._failed_polls} of them failed" if self._failed_polls else ""
        return f"Open: {counted(self.open, 'request')}; ended: {ended}; after {counted(self.polls, 'poll')}{failed}."


def _age(request: Answer, now: float) -> float:
    return max(0.0, now - (request.submitted_at or now))
