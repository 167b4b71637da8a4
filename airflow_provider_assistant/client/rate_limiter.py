"""
The adaptive rate limiter that all requests of a task share.

It limits three things. *Concurrency* increases by one per round of successes and is halved when the service is
overloaded. A *pause* that a 429 asks for applies to every worker. The *rate*, in requests per second, is learned
from the 429s: a service that admits a burst and then a constant rate is a token bucket, and the requests that it
accepted before a refusal determine the bucket's size and rate.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable

from airflow_provider_assistant.observability import metrics

log = logging.getLogger(__name__)

# Accepted requests are counted in bins of this width: shorter than the refill interval of a service (typically one
# second), and longer than the jitter of the response times.
BIN_SECONDS = 0.02
# Enough bins to show how a bucket runs dry, and few enough to fit within milliseconds.
MAX_BINS = 1024
# A request that would wait for less goes at once, because a sleep is not more precise.
SLEEP_PRECISION_SECONDS = 0.004
# Rates are in requests per second. After the first refusal, the rate starts at FIRST_RATE, or at a quarter of the
# requests accepted before it if that is more. It then doubles: the next refusal comes soon, but only from an empty
# bucket.
FIRST_RATE = 40.0
DOUBLING_SECONDS = 0.25
MAX_DOUBLINGS = 64
# A fitted rate starts at FIT_SHARE of the limit, and grows every second by PROBE_SHARE of the bucket size: exceeding
# the limit costs a pause, which a large bucket compensates for.
FIT_SHARE = 0.99
PROBE_SHARE = 0.02
# Other clients share the limit if a new fit is below SHARED_FIT_SHARE of the previous one, or of the requests accepted
# per second since the last refusal, or if a fitted rate is refused within EARLY_REFUSAL_SECONDS more than once. Then
# additive increase and multiplicative decrease make the rates of the clients converge, as in TCP. Every second, the
# rate grows by SHARED_INCREASE times its square root.
SHARED_FIT_SHARE = 0.85
EARLY_REFUSAL_SECONDS = 5.0
SHARED_INCREASE = 10.0
SHARED_DECREASE = 0.5
# A few slow responses look like a bucket that refills within hours. Below this rate, only the pauses that the service
# asks for delay requests.
LOWEST_RATE = 1.0
# A rate that no task reaches. Without this cap, growth would overflow.
HIGHEST_RATE = 1e6


class AcceptedRequests:
    """
    Count accepted requests over time, in bins.

    Only bins with requests are kept. When there are more than MAX_BINS, the bins become twice as wide. Memory and the
    duration of a fit are therefore bounded.
    """

    def __init__(self) -> None:
        self.total = 0
        self._width = BIN_SECONDS
        self._counts: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """
        Count an accepted request.

        :param seconds: Seconds since the start of the epoch; must not decrease from call to call.
        """
        position = int(seconds / self._width)
        self._counts[position] = self._counts.get(position, 0) + 1
        self.total += 1
        if len(self._counts) > MAX_BINS:
            self._widen()

    def _widen(self) -> None:
        finer, self._counts = self._counts, {}
        self._width *= 2
        for position, count in finer.items():
            self._counts[position // 2] = self._counts.get(position // 2, 0) + count

    def rate_of_bucket(self, total: float, elapsed: float) -> float:
        """
        Fit the refill rate of a token bucket that was full at the start of the epoch and has just run dry.

        :param total: Number of requests that the bucket accepts in ``elapsed`` seconds.
        :param elapsed: Duration in seconds.
        :return: Tokens per second.
        """
        low, high = 0.0, max(self._counts.values()) / self._width
        for _ in range(30):
            rate = (low + high) / 2
            if self._runs_dry(rate, max(1.0, total - rate * elapsed)):
                low = rate
            else:
                high = rate
        return high

    def _runs_dry(self, rate: float, burst: float) -> bool:
        tokens, last, refill = burst, -1, rate * self._width
        for position, count in self._counts.items():
            tokens = min(burst, tokens + refill * (position - last - 1))
            tokens = min(burst, tokens + refill - count)
            if tokens < 0.0:
                return True
            last = position
        return False


class RateEstimator:
    """
    Learn the request rate that the service allows.

    Until the first refusal, the rate is unlimited. After it, the rate starts low and doubles until the second refusal.
    Two refusals suffice to fit the token bucket, and from then on the rate stays close to the bucket's. A bucket that
    other clients use as well cannot be fitted; there the rate follows additive increase and multiplicative decrease,
    as in TCP.

    An epoch lasts from the first accepted request after a pause to the next refusal.
    """

    def __init__(self) -> None:
        self.rate = math.inf
        # Accepted requests and duration of the epoch with the fewest requests, which shows the bucket best.
        self._smallest_epoch: tuple[int, float] | None = None
        self._fitted_rate = 0.0
        self._is_shared = False
        self._early_refusals = 0
        # Times on the monotonic clock: start of the epoch, last growth of the rate, next request, last refusal.
        self._epoch = self._grown = self._next = -math.inf
        self._last_refusal = -math.inf
        self._accepted = AcceptedRequests()

    def delay(self, now: float) -> float:
        """
        Schedule the next request and return how long it has to wait.

        :param now: Current time on the monotonic clock, in seconds.
        :return: Delay in seconds; 0 if the request may go at once.
        """
        if math.isinf(self.rate):
            return 0.0
        self._grow(now)
        self._next = max(self._next, now - SLEEP_PRECISION_SECONDS) + 1.0 / self.rate
        wait = self._next - now
        return wait if wait > SLEEP_PRECISION_SECONDS else 0.0

    def accepted(self, now: float) -> None:
        """
        Count a request that the service accepted.

        :param now: Time of the response on the monotonic clock, in seconds.
        """
        if not self._accepted.total:
            self._epoch = max(self._epoch, now)
        self._accepted.add(max(0.0, now - self._epoch))

    def refused(self, now: float, resume: float) -> None:
        """
        Adjust the rate to the first 429 after a pause.

        :param now: Time of the 429 on the monotonic clock, in seconds.
        :param resume: Time at which requests may go again.
        """
        elapsed, accepted = now - self._epoch, self._accepted.total
        if not accepted:
            # Other clients have emptied the bucket.
            self.rate = FIRST_RATE if math.isinf(self.rate) else max(LOWEST_RATE, self.rate * SHARED_DECREASE)
        elif self._smallest_epoch is None:
            self._smallest_epoch = (accepted, elapsed)
            self.rate = max(FIRST_RATE, accepted / 4)
        else:
            self._smallest_epoch = min(self._smallest_epoch, (accepted, elapsed))
            self._learn(self._smallest_epoch, elapsed, accepted / (now - self._last_refusal))
        self._epoch = self._grown = self._next = resume
        self._last_refusal = now
        self._accepted = AcceptedRequests()

    def _learn(self, smallest_epoch: tuple[int, float], elapsed: float, accepted_rate: float) -> None:
        fitted = self._accepted.rate_of_bucket(*smallest_epoch)
        # Alone, a bucket accepts no more than it refills: it was empty at the last refusal.
        self._is_shared = self._is_shared or fitted < SHARED_FIT_SHARE * max(self._fitted_rate, accepted_rate)
        if self._fitted_rate:
            self._early_refusals += elapsed < EARLY_REFUSAL_SECONDS
            self._is_shared = self._is_shared or self._early_refusals > 1
        if self._is_shared:
            self.rate = max(LOWEST_RATE, self.rate * SHARED_DECREASE)
        else:
            self.rate = max(LOWEST_RATE, min(self.rate, FIT_SHARE * fitted))
            self._fitted_rate = fitted

    def _grow(self, now: float) -> None:
        step = now - self._grown
        if step <= 0:
            return
        self._grown = now
        if self._is_shared:
            self.rate += SHARED_INCREASE * math.sqrt(self.rate) * step
        elif self._fitted_rate and self._smallest_epoch:
            self.rate += PROBE_SHARE * self._smallest_epoch[0] * step
        else:
            self.rate *= 2.0 ** min(step / DOUBLING_SECONDS, MAX_DOUBLINGS)
        self.rate = min(self.rate, HIGHEST_RATE)


class AdaptiveRateLimiter:
    """
    Limit the concurrency and the rate of the requests of one task.

    :param max_concurrency: Maximum number of requests in flight.
    :param now: Monotonic clock in seconds. Default: the clock of the running event loop.
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
        self._now = now
        self._resume = -math.inf
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._stopped: Exception | None = None
        metrics.in_flight_limit(max_concurrency)

    def acquire_now(self) -> bool:
        """
        Take a slot if that needs no wait, which is cheaper than :meth:`acquire`.

        :return: Whether a slot was taken; call :meth:`release` afterwards. False after the first refusal, because the
            rate and pauses may require a wait from then on.
        """
        is_limited = self._stopped or not math.isinf(self.estimator.rate)
        if is_limited or self.in_flight >= max(1, int(self.limit)):
            return False
        self.in_flight += 1
        return True

    async def acquire(self) -> None:
        """
        Take a slot: wait until one is free, pauses are over and the rate allows the next request.

        Call :meth:`release` afterwards.

        :raises Exception: The error that :meth:`stop` was called with.
        """
        try:
            await self._wait_for_slot()
        except BaseException:
            # A cancelled waiter may have been the one that was woken: wake the next one.
            self._wake()
            raise

    async def _wait_for_slot(self) -> None:
        while True:
            if self._stopped:
                raise self._stopped
            pause = self._resume - self._now()
            if pause > 0:
                await asyncio.sleep(pause)
            elif self.in_flight >= max(1, int(self.limit)):
                waiter = asyncio.get_running_loop().create_future()
                self._waiting.append(waiter)
                await waiter
            else:
                break
        self.in_flight += 1
        try:
            if delay := self.estimator.delay(self._now()):
                await asyncio.sleep(delay)
        except BaseException:
            self.release()
            raise
        if delay and self._resume > self._now():
            self.release()
            await self._wait_for_slot()

    def release(self) -> None:
        """Free a slot."""
        self.in_flight -= 1
        self._wake()

    def accepted(self) -> None:
        """Count a request that the service accepted, and increase the concurrency slightly."""
        self.estimator.accepted(self._now())
        if self.limit < self.max_concurrency:
            self._limit_to(min(self.max_concurrency, self.limit + 1.0 / self.limit))
            self._wake()

    def refused(self, seconds: float) -> None:
        """
        Count a 429 and pause all requests.

        :param seconds: Length of the pause in seconds, jitter included.
        """
        self.throttled += 1
        now = self._now()
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
        self._resume = max(self._resume, now + seconds)

    def failed(self) -> None:
        """Halve the concurrency after a 5xx or a missing response."""
        self._limit_to(max(1.0, self.limit / 2))

    def stop(self, error: Exception) -> None:
        """
        Make all current and later calls of :meth:`acquire` raise an error.

        :param error: The error.
        """
        self._stopped = error
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _limit_to(self, limit: float) -> None:
        if int(limit) != int(self.limit):
            metrics.in_flight_limit(int(limit))
        self.limit = limit

    def _wake(self) -> None:
        free = max(1, int(self.limit)) - self.in_flight
        while free > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1
