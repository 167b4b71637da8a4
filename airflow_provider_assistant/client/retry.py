"""Whether and when one call is sent again after an error. Nothing here sends or waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.client.throttle import Throttle
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantError,
    AssistantGatewayError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.texts import counted

# Longest wait in seconds that is added after repeated 429s whose ``Retry-After`` is 0.
LONGEST_UNASKED = 1.0
# Exponent limit of the backoff, which avoids an overflow.
MOST_DOUBLINGS = 64
# For each retry, a call waits for the end of an outage 40 times as long as its first pause: 20 s by default. The pauses
# double until they are ten times as long as the first one: 5 s by default.
OUTAGE_PER_RETRY = 40
LONGEST_IN_OUTAGE = 10


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """
    Limits for the retries of one call.

    While the service answers nothing at all, ``outage_seconds`` limits the time instead of ``attempts``. A create that
    may have been carried out is sent at most ``attempts`` times even then.

    :param attempts: Maximum number of attempts; with 1 nothing is retried. A 429 does not count.
    :param max_backoff: Maximum wait in seconds, for one ``Retry-After`` and for all 429s of a call together. If the
        service asks for more, the error is raised instead of blocking a worker slot.
    :param retry_ambiguous: Whether to send a create again that may have been carried out.
    :param initial_backoff: Seconds to wait after the first failure; the wait doubles with each further one.
    """

    attempts: int = 5
    max_backoff: float = 60.0
    retry_ambiguous: bool = True
    initial_backoff: float = 0.5

    @property
    def outage_seconds(self) -> float:
        """Seconds for which an outage is waited for: 20 for each retry, so 80 by default, and 0 without retries."""
        return (self.attempts - 1) * OUTAGE_PER_RETRY * min(self.initial_backoff, self.max_backoff)

    def backoff(self, failures: int) -> float:
        """Return the seconds to wait after a number of failures, from 1."""
        return self.initial_backoff * 2.0 ** min(failures - 1, MOST_DOUBLINGS)

    def pause_in_outage(self, tries: int) -> float:
        """Return the seconds between two tries of an outage, after a number of tries from 1."""
        return min(self.backoff(tries), LONGEST_IN_OUTAGE * self.initial_backoff, self.max_backoff)


@dataclass(slots=True)
class Attempts:
    """
    What was sent of one call.

    :ivar sent: Number of requests.
    :ivar maybe_done: Number of them that failed and may have created something.
    :ivar may_have_arrived: Whether one that failed may have been carried out.
    :ivar reason: Error of the last of these, or else of the last request that was sent again.
    """

    sent: int = 0
    maybe_done: int = 0
    may_have_arrived: bool = False
    reason: AssistantError | None = None

    def failed(self, error: AssistantError) -> None:
        """Count a request that failed."""
        if error.maybe_done or not self.maybe_done:
            self.reason = error
        self.maybe_done += error.maybe_done


@dataclass(slots=True)
class Retries:
    """The retries of one call."""

    call: Call[Any]
    policy: RetryPolicy
    throttle: Throttle
    # Failures that count as attempts, and those since the last answer to any request of the client.
    failures: int = 0
    tries: int = 0
    paused: float = 0.0
    # 429s, and the seconds of their pauses.
    refusals: int = 0
    refused: float = 0.0
    answers: int | None = None

    def pause_after(self, error: AssistantError) -> float:
        """
        Return the seconds after which to send the call again.

        :raises AssistantError: It is not sent again; the error says how long an outage was waited for.
        """
        pause = self._refusal(error) if isinstance(error, AssistantRateLimitError) else self._failure(error)
        if not self._may_repeat(error):
            raise error
        return self.throttle.jittered(pause)

    def _may_repeat(self, error: AssistantError) -> bool:
        # The reply to a refused key, of a gateway, or one that cannot be read, would be the same.
        is_same = isinstance(error, AssistantAuthenticationError | AssistantGatewayError | AssistantResponseError)
        if not error.retryable or is_same or self.policy.attempts == 1:
            return False
        if self.call.upload and not self.call.upload.rewindable:
            return False
        # The service may still be answering a chat that timed out.
        is_answering = isinstance(error, AssistantTimeoutError) and not self.call.resend_after_timeout
        return not error.maybe_done or (self.policy.retry_ambiguous and not is_answering)

    def _refusal(self, error: AssistantError) -> float:
        """Return the pause after a 429; they end when the service has asked for ``max_backoff`` in all."""
        pause = error.retry_after
        if pause is None:
            pause = self.policy.backoff(self.refusals + 1)
        elif self.refusals:
            # The service may ask for no pause at all, each time.
            pause = max(pause, min(self.policy.backoff(self.refusals), LONGEST_UNASKED))
        self.refusals += 1
        self.refused += pause
        if self.refused > self.policy.max_backoff:
            raise error
        return pause

    def _failure(self, error: AssistantError) -> float:
        is_same_outage = self.throttle.answers == self.answers and self.throttle.is_down and self.failures < 2
        self.answers = self.throttle.answers
        if not is_same_outage or not self.policy.outage_seconds:
            # A call that fails while others are answered is itself the cause.
            self.failures += 1
            self.tries = 1
            self.paused = 0.0
            if self.failures >= self.policy.attempts or (error.retry_after or 0.0) > self.policy.max_backoff:
                raise error
            pause = min(self.policy.backoff(self.failures), self.policy.max_backoff)
            return pause if error.retry_after is None else error.retry_after
        self.tries += 1
        return self._outage(error)

    def _outage(self, error: AssistantError) -> float:
        # The pauses count as well, in case the clock is set back.
        lasted, longest = max(self.throttle.silence, self.paused), self.policy.outage_seconds
        if lasted >= longest:
            raise replace(error, happened=f"{error.happened}. Nothing was answered for {lasted:.0f} s", stops_all=True)
        pause = self.policy.pause_in_outage(self.tries) if error.retry_after is None else error.retry_after
        if error.maybe_done:
            # Each try may create a duplicate: no more of them than without an outage, spread over its time.
            share = min(1.0, self.tries / (self.policy.attempts - 1))
            pause = max(pause, min(longest * share**3 - self.paused, longest - lasted))
        self.paused += pause
        return pause


def ambiguous(
    call: Call[Any], attempts: Attempts, error: AssistantError, *, retryable: bool
) -> AssistantAmbiguousError:
    """Return the error of a call that failed, and may have been carried out nevertheless."""
    reason = attempts.reason or error
    happened = reason.happened
    if error is not reason:
        happened += f". The last attempt did not change that: {error.happened}"
    todo = AssistantAmbiguousError.default_todo
    if not retryable:
        todo = (
            "It is not sent again. Check at the service whether the request was carried out, record it with 'airflow "
            "assistant ledger resolve', then clear the task."
        )
    return AssistantAmbiguousError(
        f"Ambiguous after {counted(attempts.sent, 'attempt')}: {happened}. The service has no way to ask whether "
        f"{call} happened; sending it again may create a duplicate",
        todo=f"{error.todo} {todo}" if error.todo else todo,
        retryable=retryable,
        maybe_done=True,
        stops_all=error.stops_all,
        retry_after=error.retry_after,
        endpoint=call.endpoint,
        attempts=attempts.sent,
    )
