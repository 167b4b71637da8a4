"""
What to do, in which order, without doing it.

A flow is a generator. It yields a step (send this, wait that long, measure this), is resumed with the
step's outcome, and returns its result; :mod:`airflow_provider_assistant.client` drives it, with or
without asyncio. Retries, deadlines and polling therefore exist once, and are tested without a socket.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias, TypeVar

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import Call, Exchange, Response, TransportFailure
from airflow_provider_assistant.api.models import ChatRequest
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantRateLimitError,
    AssistantRequestTimeout,
    AssistantResponseError,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

# Jitter only ever adds: a service that names a time is never asked earlier, and clients that were told the
# same time do not return together. It is a share of the pause, but at least so many seconds.
JITTER = 0.1
LEAST_JITTER = 0.1
# A service that answers one 429 after another and asks for no pause gets one nevertheless, of up to so many seconds.
# ``Retry-After`` counts in whole seconds: whoever asks for one or more is obeyed exactly.
LONGEST_UNASKED = 1.0
# 2 to this power times any first pause is longer than every ``max_pause``.
MOST_DOUBLINGS = 64
# Seconds after a deadline in which a last poll may still be answered: shorter than Airflow waits for a trigger.
LAST_POLL = 120.0
# What is logged of an error that a poll returned.
POLLING_GOES_ON = "Polling goes on after this: %s"


@dataclass(frozen=True, slots=True)
class Send:
    """Send a call; the outcome is a Response or a TransportFailure."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """
    Do nothing for a while.

    :param seconds: How long.
    :param retry_of: The call that is repeated afterwards; None when polling.
    :param reason: The error that made it necessary; None when polling.
    :param ambiguous: Whether the call may nevertheless have taken effect.
    """

    seconds: float
    retry_of: Call[Any] | None = None
    reason: AssistantError | None = None
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """
    An async chat request has ended.

    :param state: ``complete`` or ``failed``.
    :param seconds: From its submission, as far as it is known, to the poll that noticed.
    """

    state: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Polled:
    """
    A poll that was due at some moment has its answer, or failed.

    :param lag: Seconds since it was due.
    """

    lag: float


Step: TypeAlias = Send | Wait | Measured | Polled
Outcome: TypeAlias = Response | TransportFailure | None
Flow: TypeAlias = Generator[Step, Outcome, T]
Clock: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class RetryRule:
    """
    How often and how long one call is repeated.

    :param attempts: How often a request may fail, at least 1; with 1 nothing is repeated. A 429 does not count as a
        failure: it is repeated until its pauses add up to ``max_pause``. These pauses grow even if the service asks
        for none, so that the number of requests is bounded as well.
    :param max_pause: The longest wait for a service that asks to wait, and the longest for its 429s together,
        in seconds. One that asks for more gets its error raised, with ``retry_after``, instead of holding a
        worker slot.
    :param retry_ambiguous: Whether a create that may already have happened is sent again.
    :param first_pause: Wait after the first failure, in seconds; it doubles with each further one.
    """

    attempts: int = 5
    max_pause: float = 60.0
    retry_ambiguous: bool = True
    first_pause: float = 0.5

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """
        Return the seconds to wait after the given failed attempt.

        :param attempt: Number of the attempt, from 1.
        :param retry_after: Seconds that the service asked to wait, or None.
        """
        if retry_after is not None:
            return retry_after
        return min(self._doubled(attempt), self.max_pause)

    def pause_of_refusal(self, refusal: int, retry_after: float | None) -> float:
        """
        Return the seconds to wait after a 429.

        :param refusal: Number of the 429, from 1. The first one is obeyed exactly.
        :param retry_after: Seconds that the service asked to wait, or None.
        """
        if retry_after is None:
            return self._doubled(refusal)
        unasked = min(self._doubled(refusal - 1), LONGEST_UNASKED) if refusal > 1 else 0.0
        return max(retry_after, unasked)

    def _doubled(self, times: int) -> float:
        return self.first_pause * 2.0 ** min(times - 1, MOST_DOUBLINGS)


def jittered(pause: float, rng: random.Random) -> float:
    """Return a pause in seconds with some jitter on top."""
    return pause + rng.uniform(0.0, max(JITTER * pause, LEAST_JITTER))


def perform(call: Call[T], rule: RetryRule, *, now: Clock, rng: random.Random) -> Flow[T]:
    """
    Send one call, repeating it as the rule allows, and return its reply.

    A connection that never came about and a 429 are repeated for every call; a 5xx and a missing answer
    only where repeating is safe, or where the rule accepts that a create may happen twice.

    :param call: The request.
    :param rule: How often and how long.
    :param now: Seconds since the epoch.
    :param rng: Source of the jitter.
    :raises AssistantAPIError: The service refused (its subclass says how).
    :raises AssistantConnectionError: No connection.
    :raises AssistantTimeout: No answer in time.
    :raises AssistantAmbiguousError: The call creates something, and may have done so.
    :raises AssistantResponseError: Success was reported with an unusable body.
    """
    started = now()
    ambiguous = failures = refusals = 0
    held_back = 0.0
    for attempt in count(1):
        outcome = _answered((yield Send(call)))
        if isinstance(outcome, Response) and outcome.is_success:
            # A clock that is set back must not make it negative.
            exchange = Exchange(outcome.status, attempt, ambiguous, max(0.0, now() - started))
            return _parsed(call, outcome, exchange)
        error = _error(call, outcome, now)
        unclear = errors.may_have_happened(call, outcome)
        ambiguous += unclear
        retry_after = getattr(error, "retry_after", None)
        if isinstance(error, AssistantRateLimitError):
            refusals += 1
            pause = rule.pause_of_refusal(refusals, retry_after)
            held_back += pause
            in_bounds = rule.attempts > 1 and held_back <= rule.max_pause
        else:
            failures += 1
            pause = rule.pause(failures, retry_after)
            in_bounds = failures < rule.attempts and pause <= rule.max_pause
        again = (
            in_bounds
            and errors.is_transient(error)
            and (rule.retry_ambiguous or not unclear)
            and (call.upload is None or call.upload.rewindable)
        )
        if not again:
            if ambiguous:
                raise ambiguous_error(call, error, attempt) from error
            raise error
        yield Wait(jittered(pause, rng), call, error, unclear)
    raise AssertionError("unreachable: count() does not end")


def poll(
    call: Call[ChatRequest], *, since: float, now: Clock, due: float | None = None
) -> Flow[ChatRequest | AssistantError]:
    """
    Ask once for an async chat request; an error that may pass is returned, for the caller to report, not raised.

    What a proxy answers counts as one: a redirect, or a success with the page of a proxy as its body.

    :param call: The request of endpoint 7.
    :param since: When the chat was submitted, or first looked for, in seconds since the epoch.
    :param now: Seconds since the epoch.
    :param due: When this poll was to be sent, if there was such a moment.
    :raises AssistantAPIError: A 4xx that does not pass: polling on would not help.
    """
    outcome = _answered((yield Send(call)))
    if due is not None:
        yield Polled(max(0.0, now() - due))
    if not (isinstance(outcome, Response) and outcome.is_success):
        error = _error(call, outcome, now)
        if errors.is_refused(error):
            raise error
        return error
    try:
        request = _parsed(call, outcome, Exchange(outcome.status))
    except AssistantResponseError as error:
        return error
    if request.state != "pending":
        yield Measured(request.state, max(0.0, now() - since))
    return request


def wait_for(
    call: Call[ChatRequest], *, since: float, deadline: float, interval: float, now: Clock
) -> Flow[tuple[ChatRequest, int]]:
    """
    Poll an async chat request until it ends, and return it with the number of polls.

    Transient errors are part of waiting: an outage shorter than the deadline does no harm. The deadline is wall-clock,
    so that a flow that starts again after a restart keeps it. Within one flow the pauses are added up as well: a clock
    that is set back makes the wait no longer. A driver that cannot send for so long throws a TimeoutError into the
    flow, which then ends as it does at its deadline.

    :param call: The request of endpoint 7.
    :param since: When the chat was submitted, or first looked for, in seconds since the epoch.
    :param deadline: When to give up, in seconds since the epoch; at least one poll is made.
    :param interval: Seconds between polls; a longer Retry-After is honoured.
    :param now: Seconds since the epoch.
    :raises AssistantRequestTimeout: The deadline passed.
    :raises AssistantAPIError: A 4xx that does not pass.
    """
    status = request_id = ""
    last = "requests are held back, and it was not its turn"
    polls = 0
    left = deadline - now()
    due: float | None = None
    with contextlib.suppress(TimeoutError):
        while True:
            request = yield from poll(call, since=since, now=now, due=due)
            polls += 1
            pause = interval
            if isinstance(request, AssistantError):
                log.warning(POLLING_GOES_ON, request)
                last = str(request)
                pause = max(interval, getattr(request, "retry_after", None) or 0.0)
            elif request.state == "pending":
                last = f"the last status was {request.status!r}"
                request_id = request.request_id
                if request.status != status:
                    log.info("%s: status %r, so still going", call, request.status)
                    status = request.status
            else:
                return request, polls
            remaining = min(left, deadline - (seen := now()))
            if remaining <= 0:
                break
            pause = min(pause, remaining)
            left -= pause
            due = seen + pause
            yield Wait(pause)
    raise _timed_out(call, polls, now() - since, last, request_id=request_id, status=status)


def _timed_out(
    call: Call[Any], polls: int, seconds: float, last: str, *, request_id: str, status: str
) -> AssistantRequestTimeout:
    return AssistantRequestTimeout(
        f"Chat did not end within {seconds:.0f} s and {polls} polls; {last.rstrip('.')} ({call}). It may still "
        "complete: wait longer by running the task again. If that status is final, add it to the status words of the "
        "Airflow connection.",
        request_id=request_id,
        status=status,
    )


def _answered(outcome: Outcome) -> Response | TransportFailure:
    if outcome is None:
        raise TypeError("a Send step must be resumed with a Response or a TransportFailure")
    return outcome


def _error(call: Call[Any], outcome: Response | TransportFailure, now: Clock) -> AssistantError:
    if isinstance(outcome, Response):
        return errors.from_response(call, outcome, now())
    return errors.from_failure(call, outcome)


def _parsed(call: Call[T], response: Response, exchange: Exchange) -> T:
    try:
        return call.parse(response.decoded(), exchange)
    except AssistantResponseError as error:
        done = "" if call.repeatable else " By its status it was carried out; sending it again may create a duplicate."
        raise AssistantResponseError(f"{call}: {error}.{done} Check the base URL in the Airflow connection.") from None


def ambiguous_error(call: Call[Any], error: AssistantError, attempts: int) -> AssistantAmbiguousError:
    """
    Return the error of a call that creates something and may have done so.

    :param call: The call.
    :param error: How it failed last.
    :param attempts: How many times it was sent.
    """
    return AssistantAmbiguousError(
        f"Ambiguous after {attempts} attempt(s): {error} The service has no way to ask whether {call} happened; "
        "sending it again may create a duplicate.",
        endpoint=call.endpoint,
        attempts=attempts,
        retry_after=getattr(error, "retry_after", None),
    )
