"""
Retries and timeouts as generators that do no input or output.

A flow is a generator. It yields a step (send a call, wait), receives the outcome of the step, and returns its result.
:mod:`airflow_provider_assistant.client.client` runs flows over HTTP, with or without asyncio. So the rules exist once
for both, and tests run them without a socket.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import Call, CallInfo, Response, TransportFailure
from airflow_provider_assistant.api.gateways import gateway_reply
from airflow_provider_assistant.api.outage import Outage, is_unanswered
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.api.reported_errors import reported_error
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantRateLimitError,
    AssistantResponseError,
)
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

T = TypeVar("T")

# Jitter only lengthens a wait: a request is never sent before the time in ``Retry-After``, and clients that received
# the same ``Retry-After`` do not return at once. It is a share of the wait, but at least LEAST_JITTER seconds.
JITTER = 0.1
LEAST_JITTER = 0.1
# Minimum wait in seconds, at its largest, after repeated 429s whose ``Retry-After`` is 0. ``Retry-After`` is in whole
# seconds, so a value of 1 or more is followed exactly.
LONGEST_UNASKED = 1.0
# Exponent limit of the backoff, which avoids an overflow: 2**64 times any first pause exceeds every ``max_backoff``.
MOST_DOUBLINGS = 64
# For each retry, a call waits for the end of an outage 40 times as long as its first pause: 20 s by default. The pauses
# double until they are ten times as long as the first one: 5 s by default.
OUTAGE_PER_RETRY = 40
LONGEST_IN_OUTAGE = 10
# What to do about a body that nothing of the API sends.
CHECK_BASE_URL = "Check the base URL in the Airflow connection."


@dataclass(frozen=True, slots=True)
class Send:
    """
    Step: send a call; the outcome is a Response or a TransportFailure.

    :param call: The call.
    """

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """
    Step: wait before a retry.

    :param seconds: Seconds to wait.
    :param retry_of: Call that is retried afterwards.
    :param reason: Error that causes the retry.
    :param ambiguous: Whether the failed call may have taken effect nevertheless.
    """

    seconds: float
    retry_of: Call[Any] | None = None
    reason: AssistantError | None = None
    ambiguous: bool = False


Step: TypeAlias = Send | Wait
Outcome: TypeAlias = Response | TransportFailure | None
Flow: TypeAlias = Generator[Step, Outcome, T]
Clock: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """
    Limits for the retries of one call.

    :param attempts: Maximum number of attempts, at least 1; with 1 nothing is retried. A 429 does not count: it is
        retried until the waits after 429s add up to ``max_backoff``. These waits grow even if the service asks for
        none, which also limits the number of requests. Default: 5.
    :param max_backoff: Maximum wait in seconds, for one ``Retry-After`` and for all 429s together. If the service asks
        for more, the error is raised with ``retry_after`` instead of blocking a worker slot. Default: 60.
    :param retry_ambiguous: Whether to retry a call that creates something and may already have done so. Default: True.
    :param initial_backoff: Seconds to wait after the first failure; the wait doubles with each further failure.
        Default: 0.5.
    :param gateway_refusals: Statuses with which the gateway in front of the service refuses a request that it has not
        forwarded, so that it is not ambiguous. Default: none.

    While the service answers nothing at all, further failures of a call do not count as attempts. Instead,
    ``outage_seconds`` limits the time. A create that may have been carried out is sent at most ``attempts`` times even
    then; if ``attempts`` is 2, three times: twice within a second, and once at the end.
    """

    attempts: int = 5
    max_backoff: float = 60.0
    retry_ambiguous: bool = True
    initial_backoff: float = 0.5
    gateway_refusals: frozenset[int] = frozenset()

    @property
    def outage_seconds(self) -> float:
        """Seconds for which an outage is waited for: 20 for each retry, so 80 by default, and 0 without retries."""
        return (self.attempts - 1) * OUTAGE_PER_RETRY * min(self.initial_backoff, self.max_backoff)

    def pause_in_outage(self, tries: int) -> float:
        """
        Return the seconds to wait in an outage before the next try, without jitter.

        :param tries: Number of tries so far that were not answered, from 1.
        """
        if self.attempts == 1:
            return 0.0
        return min(self._doubled(tries), LONGEST_IN_OUTAGE * self.initial_backoff, self.max_backoff)

    def time_of_try(self, tries: int) -> float:
        """
        Return the seconds of an outage after which a create is sent again that may have been carried out.

        The retries are spread over the time for which an outage is waited for, so that no more of them are sent than
        the rule allows without an outage.

        :param tries: Number of tries so far that were not answered, from 1.
        """
        share = min(1.0, tries / (self.attempts - 1))
        return self.outage_seconds * share**3

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """
        Return the seconds to wait after a failed attempt, without jitter.

        :param attempt: Number of the failed attempt, from 1.
        :param retry_after: Seconds in ``Retry-After``, or None.
        :return: ``retry_after``, or else the exponential backoff, at most ``max_backoff``.
        """
        if retry_after is not None:
            return retry_after
        return min(self._doubled(attempt), self.max_backoff)

    def pause_of_refusal(self, refusal: int, retry_after: float | None) -> float:
        """
        Return the seconds to wait after a 429, without jitter.

        :param refusal: Number of the 429, from 1. The ``Retry-After`` of the first is followed exactly.
        :param retry_after: Seconds in ``Retry-After``, or None.
        :return: ``retry_after``, but at least a short backoff from the second 429 on; without ``retry_after``, the
            exponential backoff.
        """
        if retry_after is None:
            return self._doubled(refusal)
        if refusal == 1:
            return retry_after
        minimum = min(self._doubled(refusal - 1), LONGEST_UNASKED)
        return max(retry_after, minimum)

    def _doubled(self, times: int) -> float:
        return self.initial_backoff * 2.0 ** min(times - 1, MOST_DOUBLINGS)


def jittered(pause: float, rng: random.Random) -> float:
    """
    Return a wait with jitter added, in seconds.

    :param pause: Wait without jitter, in seconds.
    :param rng: Random generator.
    :return: ``pause`` plus up to a tenth of it, or plus up to 0.1 s if that is more.
    """
    return pause + rng.uniform(0.0, max(JITTER * pause, LEAST_JITTER))


def perform(
    call: Call[T],
    rule: RetryPolicy,
    *,
    now: Clock,
    rng: random.Random,
    is_final: Callable[[AssistantError], bool] = lambda _: False,
    is_repeat: bool = False,
    outage: Outage | None = None,
) -> Flow[T]:
    """
    Send one call, retry it as the rule allows, and return its reply.

    A failed connection attempt and a 429 are retried for every call. A 5xx and a missing answer are retried only if the
    call is idempotent, or if the rule accepts that a create may happen twice; never after a timeout of a call that the
    service may still be answering. While the service answers nothing, the
    call is tried until the rule's ``outage_seconds`` have passed.

    :param call: The call.
    :param rule: Limits for the retries.
    :param now: Clock, returning seconds since the epoch.
    :param rng: Random generator of the jitter.
    :param is_final: Whether an ambiguous error is not retried, although the rule retries such
        errors. Default: none is.
    :param is_repeat: Whether an earlier call with the same body may have taken effect. If so, or if
        an earlier attempt of this call may have, a 409 to it means that it has. Default: False.
    :param outage: What is known from the other requests of the client. Default: None, there are none.
    :return: The reply that the call's parser builds.
    :raises AssistantAPIError: The service answered with an error status; the subclass depends on the status.
    :raises AssistantConnectionError: The connection cannot be opened, or it broke.
    :raises AssistantTimeoutError: No complete response came within the response timeout.
    :raises AssistantAmbiguousError: The call creates something, failed, and may have taken effect nevertheless.
    :raises AssistantResponseError: The status is a success, but the body cannot be used.
    """
    started = now()
    ambiguous = failures = refusals = 0
    # Error of the last attempt that may have taken effect.
    ambiguous_reason: AssistantError | None = None
    # Seconds of the pauses after all 429s so far.
    refusal_pauses = 0.0
    waiting = _Waiting(rule, outage)
    may_exist = is_repeat
    for attempt in count(1):
        outcome = _answered((yield Send(call)))
        # If the clock was set back, the difference would be negative.
        taken = _taken(call, outcome, attempt, ambiguous, max(0.0, now() - started))
        if isinstance(taken, _Taken):
            return taken.reply
        outcome = taken
        if call.existing and may_exist and _shows_effect(outcome, call):
            seconds = max(0.0, now() - started)
            return call.existing(outcome.readable_value(), CallInfo(outcome.status, attempt, 0, seconds))
        error = _error(call, outcome, now)
        is_ambiguous = errors.may_have_happened(call, outcome, rule.gateway_refusals)
        may_exist = may_exist or errors.may_have_arrived(outcome, rule.gateway_refusals)
        if is_ambiguous:
            ambiguous += 1
            ambiguous_reason = error
        retry_after = getattr(error, "retry_after", None)
        if isinstance(error, AssistantRateLimitError):
            refusals += 1
            pause = rule.pause_of_refusal(refusals, retry_after)
            refusal_pauses += pause
            is_within_limits = rule.attempts > 1 and refusal_pauses <= rule.max_backoff
        else:
            tries = waiting.tries_after(outcome)
            failures += tries == 1
            pause = rule.pause(failures, retry_after)
            if tries > 1:
                pause = waiting.pause(retry_after, is_ambiguous=is_ambiguous)
            is_within_limits = failures < rule.attempts and (retry_after or 0.0) <= rule.max_backoff
            if waiting.is_over:
                is_within_limits = False
                error = waiting.given_up(error)
        may_create_again = rule.retry_ambiguous and not errors.is_still_answering(call, error) and not is_final(error)
        may_repeat = not is_ambiguous or may_create_again
        has_body_again = call.upload is None or call.upload.rewindable
        may_help = is_within_limits and errors.is_transient(error)
        if not (may_help and may_repeat and has_body_again):
            if ambiguous_reason:
                raise ambiguous_error(call, ambiguous_reason, error, attempt) from error
            raise error
        yield Wait(jittered(pause, rng), call, error, is_ambiguous)
    raise AssertionError("unreachable: count() does not end")


class _Waiting:
    """How long one call has waited for the end of an outage."""

    def __init__(self, rule: RetryPolicy, outage: Outage | None) -> None:
        self._rule = rule
        self._outage = outage
        # Number of answers to all requests at the last failure of this call.
        self._answers: int | None = None
        # Failures of this call that count as attempts.
        self._counted = 0
        # Failures of this call since the last answer, and the seconds of the pauses between them.
        self._tries = 0
        self._paused = 0.0

    def tries_after(self, outcome: Response | TransportFailure) -> int:
        """Count a failure, and return how many there were in this outage; 1 if it counts as an attempt of the call."""
        answers = self._outage.answers if self._outage else 0
        is_same = answers == self._answers and is_unanswered(outcome) and self._rule.outage_seconds > 0
        self._answers = answers
        # A call that fails again while others are answered is itself the cause.
        if not is_same or self._counted > 1:
            self._counted += 1
            self._tries = 0
            self._paused = 0.0
        self._tries += 1
        return self._tries

    def pause(self, retry_after: float | None, *, is_ambiguous: bool) -> float:
        """Return the seconds until the next try, without jitter."""
        pause = self._rule.pause_in_outage(self._tries) if retry_after is None else retry_after
        if is_ambiguous:
            # Each try may create a duplicate.
            left = self._rule.outage_seconds - self.seconds
            pause = max(pause, min(self._rule.time_of_try(self._tries) - self._paused, left))
        self._paused += pause
        return pause

    @property
    def seconds(self) -> float:
        """Seconds without an answer. The pauses count as well, in case the clock is set back."""
        return max(self._outage.seconds if self._outage else 0.0, self._paused)

    @property
    def is_over(self) -> bool:
        """Whether the outage has lasted as long as it is waited for."""
        limit = self._rule.outage_seconds
        return 0.0 < limit <= self.seconds

    def given_up(self, error: AssistantError) -> AssistantError:
        """Return the error of the last try, which says how long nothing was answered."""
        happened = f"{error.happened}. Nothing was answered for {self.seconds:.0f} s"
        return replace(error, happened=happened, outage_seconds=self.seconds)


def once(call: Call[T], *, now: Clock) -> Flow[T]:
    """Send a call once, and return its reply, or raise its error."""
    outcome = _answered((yield Send(call)))
    taken = _taken(call, outcome)
    if isinstance(taken, _Taken):
        return taken.reply
    raise _error(call, taken, now)


def _answered(outcome: Outcome) -> Response | TransportFailure:
    if outcome is None:
        raise TypeError("a Send step must be resumed with a Response or a TransportFailure")
    return outcome


def _is_usable(outcome: Response | TransportFailure) -> TypeGuard[Response]:
    """Return whether the outcome is a success of the service."""
    return isinstance(outcome, Response) and outcome.is_success and gateway_reply(outcome) is None


def _shows_effect(outcome: Response | TransportFailure, call: Call[Any]) -> TypeGuard[Response]:
    """Return whether a response to a call that was sent again says that an earlier attempt has had its effect."""
    if not isinstance(outcome, Response) or outcome.status not in call.existing_statuses:
        return False
    return gateway_reply(outcome) is None


def _error(call: Call[Any], outcome: Response | TransportFailure, now: Clock) -> AssistantError:
    if isinstance(outcome, Response):
        return errors.from_response(call, outcome, now())
    return errors.from_failure(call, outcome)


@dataclass(frozen=True, slots=True)
class _Taken(Generic[T]):
    """The reply to a call."""

    reply: T


def _taken(
    call: Call[T],
    outcome: Response | TransportFailure,
    attempts: int = 1,
    ambiguous: int = 0,
    seconds: float = 0.0,
) -> _Taken[T] | Response | TransportFailure:
    """
    Return the reply to a call, or else the response or failure that is its error.

    If the body of a success says that the call failed, the response has the status that the body means.
    """
    if not _is_usable(outcome):
        return outcome
    try:
        reply = _parsed(call, outcome, attempts, ambiguous, seconds)
        status = _status_of_error(reply)
    except AssistantResponseError as error:
        happened = f"{call}: {error.happened}"
        if not call.repeatable:
            happened += ". The status says that it was carried out; a retry may create a duplicate"
        raise AssistantResponseError(happened, todo=error.todo or CHECK_BASE_URL) from None
    if status is None:
        return _Taken(reply)
    return replace(outcome, status=status, sent_status=outcome.status)


def _parsed(call: Call[T], response: Response, attempts: int, ambiguous: int, seconds: float) -> T:
    document = response.document()
    value = text = None
    if document:
        value = document.value
        text = document.text
    call_info = CallInfo(
        status=response.status,
        attempts=attempts,
        ambiguous=ambiguous,
        seconds=seconds,
        raw_json=text,
        link=response.headers.get("link"),
    )
    return call.parse(value, call_info)


def _status_of_error(reply: object) -> int | None:
    """
    Return the status that the body of a success means; None unless it reports an error and has no result.

    :raises AssistantResponseError: It says that the call failed, and not why.
    """
    if not isinstance(reply, ApiReply):
        return None
    reported = reported_error(reply.raw)
    if reported is None or reply.has_result:
        return None
    if reported.status is None:
        raise AssistantResponseError(
            f"status {reply.call_info.status} with a body that says that the call failed, and not why",
            todo="Ask the owner of the service what this reply means.",
        )
    return reported.status


def ambiguous_error(
    call: Call[Any], reason: AssistantError, error: AssistantError, attempts: int
) -> AssistantAmbiguousError:
    """
    Return the error for a call that creates something, failed, and may have taken effect nevertheless.

    :param call: The call.
    :param reason: Error of the last attempt that may have taken effect.
    :param error: Error of the last attempt.
    :param attempts: Number of attempts.
    :return: The error, with ``endpoint``, ``attempts`` and ``retry_after`` set.
    """
    todo = AssistantAmbiguousError.default_todo
    happened = reason.happened
    if error is not reason:
        happened += f". The last attempt did not change that: {errors.short_reason(error)}"
    return AssistantAmbiguousError(
        f"Ambiguous after {counted(attempts, 'attempt')}: {happened}. The service has no way to ask "
        f"whether {call} happened; sending it again may create a duplicate",
        todo=f"{error.todo} {todo}" if error.todo else todo,
        endpoint=call.endpoint,
        attempts=attempts,
        retry_after=getattr(error, "retry_after", None),
    )
