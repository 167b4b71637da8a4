"""
The adaptive rate limiter that all requests of a task share.

It limits three things. *Concurrency* increases by one per round of successes and is halved when the service is
overloaded. A *pause* that a 429 asks for applies to every worker. The *rate*, in requests per second, follows additive
increase and multiplicative decrease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable

from airflow_provider_assistant.api.outage import MESSAGE_SECONDS, Outage
from airflow_provider_assistant.observability import metrics

log = logging.getLogger(__name__)

# A request that would wait for less goes at once, because a sleep is not more precise.
SLEEP_PRECISION_SECONDS = 0.004
# Rates are in requests per second. After the first refusal, the rate starts at twice the number of requests accepted
# before it, at most FIRST_RATE, or at a quarter of them if that is more. It then doubles until the second refusal.
FIRST_RATE = 40.0
DOUBLING_SECONDS = 0.25
MAX_DOUBLINGS = 64
# From the second refusal on, the rate starts at DECREASE of the limit that the accepted requests show. Its increase per
# second is INCREASE, and grows by ACCELERATION every second, so that a limit that was raised is found. A slow service
# gets a smaller one, LOW_INCREASE times the square of the rate: each refusal costs it more requests.
DECREASE = 0.97
INCREASE = 1.0
ACCELERATION = 0.2
LOW_INCREASE = 0.003
# Fewer accepted requests than this say little about the limit.
FEW_REQUESTS = 10
# Other clients share the limit if a rate is refused that was accepted before, or more than once within
# EARLY_REFUSAL_SECONDS. Then larger steps make the rates of the clients converge, as in TCP.
ACCEPTED_BEFORE = 0.85
EARLY_REFUSAL_SECONDS = 5.0
SHARED_DECREASE = 0.5
SHARED_INCREASE = 10.0
# Below the lowest rate, only the pauses that the service asks for delay requests. No task reaches the highest rate.
LOWEST_RATE = 0.5
HIGHEST_RATE = 1e6


class RateEstimator:
    """
    Learn the request rate that the service allows.

    Until the first refusal, the rate is unlimited. A service that admits a burst and then a constant rate has no
    tokens left at a refusal. So the requests that it accepts between two refusals show its limit: alone, a client gets
    no more of them than the limit allows.
    """

    def __init__(self) -> None:
        self.rate = math.inf
        self._is_starting = True
        self._is_shared = False
        self._early_refusals = 0
        # Requests accepted before the first refusal, and since the last pause; highest rate accepted between refusals.
        self._burst = 0
        self._accepted = 0
        self._accepted_rate = 0.0
        # Times on the monotonic clock.
        self._first_accepted = self._last_refusal = -math.inf
        self._resumed = self._grown = self._next = -math.inf

    def wait(self, now: float) -> float | None:
        """
        Return how long the next request has to wait.

        :param now: Current time on the monotonic clock, in seconds.
        :return: Seconds; None if the request may go at once.
        """
        if math.isinf(self.rate):
            return None
        self._grow(now)
        wait = self._next - now
        return wait if wait > SLEEP_PRECISION_SECONDS else None

    def sent(self, now: float) -> None:
        """
        Schedule the request after the one that is sent now.

        :param now: Current time on the monotonic clock, in seconds.
        """
        if not math.isinf(self.rate):
            self._next = max(self._next, now - SLEEP_PRECISION_SECONDS) + 1.0 / self.rate

    def accepted(self, now: float) -> None:
        """
        Count a request that the service accepted.

        :param now: Time of the response on the monotonic clock, in seconds.
        """
        if now < self._resumed:
            return
        if not self._accepted:
            self._first_accepted = now
        self._accepted += 1

    def refused(self, now: float, resume: float) -> None:
        """
        Adjust the rate to the first 429 after a pause.

        :param now: Time of the 429 on the monotonic clock, in seconds.
        :param resume: Time at which requests may go again.
        """
        # Refusals say nothing about the rate before the first request is accepted.
        if math.isinf(self.rate) or not (self._burst or self._accepted):
            self._burst = self._accepted
            # Without any accepted request, other clients have used the limit up.
            first = min(FIRST_RATE, 2.0 * self._burst) if self._burst else FIRST_RATE
            self.rate = max(first, self._burst / 4)
        else:
            self._look_for_others(now)
            self.rate = max(LOWEST_RATE, self._decreased(now))
            self._is_starting = False
        self._resumed = self._grown = self._next = resume
        self._last_refusal = now
        self._accepted = 0

    def _look_for_others(self, now: float) -> None:
        """Notice that other clients share the limit."""
        is_early = now - self._resumed < EARLY_REFUSAL_SECONDS
        if self._accepted >= FEW_REQUESTS and is_early and not self._is_starting:
            self._early_refusals += 1
        if self._early_refusals > 1 or self.rate < ACCEPTED_BEFORE * self._accepted_rate:
            self._is_shared = True
        if self._accepted >= FEW_REQUESTS:
            accepted_rate = self._accepted / (now - self._last_refusal)
            self._accepted_rate = max(self._accepted_rate, accepted_rate)

    def _decreased(self, now: float) -> float:
        if self._is_shared:
            return self.rate * SHARED_DECREASE
        limit = (self._accepted + 1) / (now - self._last_refusal)
        # A burst that is smaller than what is refilled in a pause is full after it, and what is refilled is lost.
        beyond_burst = self._accepted - self._burst
        if beyond_burst >= FEW_REQUESTS:
            limit = max(limit, beyond_burst / (now - self._first_accepted))
        if self._is_starting:
            # The rate was below the limit at first and is above it now.
            return DECREASE * math.sqrt(self.rate * limit)
        return min(self.rate, DECREASE * limit)

    def _grow(self, now: float) -> None:
        step = now - self._grown
        if step <= 0:
            return
        self._grown = now
        if self._is_starting:
            self.rate *= 2.0 ** min(step / DOUBLING_SECONDS, MAX_DOUBLINGS)
        elif self._is_shared:
            self.rate += min(SHARED_INCREASE * math.sqrt(self.rate), self.rate / 2) * step
        else:
            increase = INCREASE + ACCELERATION * (now - self._resumed)
            self.rate += min(increase, LOW_INCREASE * self.rate * max(1.0, self.rate)) * step
        self.rate = min(self.rate, HIGHEST_RATE)


class OutageError(Exception):
    """The service has answered nothing for longer than a request waits."""


class AdaptiveRateLimiter:
    """
    Limit the concurrency and the rate of the requests of one task.

    Until the service has answered the first request, and in an outage, one request goes at a time.

    :param max_concurrency: Maximum number of requests in flight.
    :param now: Monotonic clock in seconds. Default: the clock of the running event loop.
    :ivar progress: Function that returns what is done so far, for the log during an outage.
    """

    def __init__(
        self,
        max_concurrency: int,
        *,
        now: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self.max_concurrency = max_concurrency
        self.limit = float(max_concurrency)
        self.in_flight = 0
        self.throttled = 0
        self.estimator = RateEstimator()
        self.progress: Callable[[], str] = str
        self.now = now
        self._outage: Outage | None = None
        self._outage_limit = math.inf
        # Requests in flight that were sent when only one may go.
        self._alone = 0
        self._resume = -math.inf
        # The request that goes next waits alone, so no request is scheduled before a pause and sent after it.
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._changed = asyncio.Event()
        self._stopped: Exception | None = None

    def wait_in(self, outage: Outage, limit: float) -> None:
        """
        Make requests wait in an outage.

        :param outage: What the requests have shown; its clock is that of the limiter.
        :param limit: Seconds after which requests do not wait any longer, unless they are patient; 0 for no limit.
        """
        self._outage = outage
        self._outage_limit = limit or math.inf

    def acquire_now(self) -> bool:
        """
        Take a slot if that needs no wait, which is cheaper than :meth:`acquire`.

        :return: Whether a slot was taken; call :meth:`release` afterwards. False after the first refusal, because the
            rate and pauses may require a wait from then on.
        """
        is_limited = self._stopped or not math.isinf(self.estimator.rate) or self._is_one_at_a_time
        # Not before a request that waits already.
        if is_limited or self._waiting or self._is_full:
            return False
        self.in_flight += 1
        return True

    async def acquire(self, *, is_patient: bool = True) -> bool:
        """
        Take a slot: wait until one is free, pauses and outages are over and the rate allows the next request.

        Call :meth:`release` afterwards.

        :param is_patient: Whether to wait for the end of an outage, however long it takes. Default: True.
        :return: Whether the request goes alone, for :meth:`release`.
        :raises OutageError: The outage lasts longer than the limit.
        :raises Exception: The error that :meth:`stop` was called with.
        """
        self._waiting += 1
        try:
            async with self._turn:
                await self._wait_until_free(is_patient=is_patient)
        finally:
            self._waiting -= 1
        self.estimator.sent(self.now())
        self.in_flight += 1
        is_alone = self._is_one_at_a_time
        self._alone += is_alone
        return is_alone

    async def _wait_until_free(self, *, is_patient: bool) -> None:
        while True:
            if self._stopped:
                raise self._stopped
            pause = max(self._resume, self._next_try) - self.now()
            if pause > 0:
                if not is_patient and self._is_outage_too_long:
                    raise OutageError
                await self._wait_for_change(pause)
            elif self._is_full:
                await self._wait_for_change(MESSAGE_SECONDS if self._is_one_at_a_time else None)
            elif wait := self.estimator.wait(self.now()):
                await asyncio.sleep(wait)
            else:
                return

    async def _wait_for_change(self, seconds: float | None) -> None:
        """Wait until a request has ended, or until the seconds have passed; None for no limit."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        if self._outage:
            self._outage.report(self.progress())

    @property
    def _is_one_at_a_time(self) -> bool:
        return self._outage is not None and (self._outage.is_on or not self._outage.is_proven)

    @property
    def _next_try(self) -> float:
        if self._outage is None or not self._outage.is_on:
            return -math.inf
        return self._outage.next_try

    @property
    def _is_outage_too_long(self) -> bool:
        return self._outage is not None and self._outage.seconds >= self._outage_limit

    @property
    def _is_full(self) -> bool:
        if self._is_one_at_a_time:
            return self._alone > 0
        return self.in_flight >= max(1, int(self.limit))

    def release(self, *, is_alone: bool = False) -> None:
        """
        Free a slot.

        :param is_alone: What :meth:`acquire` has returned. Default: False.
        """
        self.in_flight -= 1
        self._alone -= is_alone
        self._changed.set()

    def accepted(self) -> None:
        """Count a request that the service accepted, and increase the concurrency slightly."""
        self.estimator.accepted(self.now())
        if self.limit < self.max_concurrency:
            self._limit_to(min(self.max_concurrency, self.limit + 1.0 / self.limit))
            self._changed.set()

    def refused(self, seconds: float) -> None:
        """
        Count a 429 and pause all requests.

        :param seconds: Length of the pause in seconds, jitter included.
        """
        self.throttled += 1
        now = self.now()
        if now >= self._resume:
            # Only the first 429 after a pause counts: the requests in flight with it are refused for the same reason.
            self._limit_to(max(1.0, self.limit / 2))
            self.estimator.refused(now, now + seconds)
            metrics.pause(seconds)
            log.info(
                "The service asked for a pause of %.1f s; after it, at most %.0f requests/s and %d in flight.",
                seconds,
                self.estimator.rate,
                int(self.limit),
            )
        self.hold(seconds)

    def hold(self, seconds: float) -> None:
        """
        Pause all requests.

        :param seconds: Length of the pause in seconds.
        """
        self._resume = max(self._resume, self.now() + seconds)

    def failed(self) -> None:
        """Halve the concurrency after a 5xx or a missing response."""
        self._limit_to(max(1.0, self.limit / 2))

    def stop(self, error: Exception) -> None:
        """
        Make all current and later calls of :meth:`acquire` raise an error.

        :param error: The error.
        """
        self._stopped = error
        self._changed.set()

    def _limit_to(self, limit: float) -> None:
        self.limit = limit
