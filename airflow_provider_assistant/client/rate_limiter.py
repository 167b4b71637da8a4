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
import time
from collections import deque
from collections.abc import Awaitable, Callable

from airflow_provider_assistant.observability import metrics

log = logging.getLogger(__name__)

# Width of the bins in which accepted requests are counted, in seconds: shorter than the refill interval of a service
# (typically one second), and longer than the jitter of the response times.
BIN = 0.02
# Precision of a sleep, in seconds: a request that would wait for less goes at once.
SLACK = 0.004
# After the first refusal, the rate starts at START requests per second, or a quarter of the requests accepted before
# it if that is more. It doubles every DOUBLING seconds: the next refusal comes soon, but only from an empty bucket.
START = 40.0
DOUBLING = 0.25
# A learned rate starts at this share of the limit. Every second it grows by PROBE times the bucket size: exceeding the
# limit costs a pause, which a large bucket compensates for.
MARGIN = 0.99
PROBE = 0.02
# Other clients share the limit if a new fit is below this share of the previous one, or if a learned rate is refused
# within SOON seconds more than once.
ALONE = 0.85
SOON = 5.0
# A few slow responses look like a bucket that refills within hours. Below this rate, in requests per second, only the
# pauses that the service asks for delay requests.
SLOWEST = 1.0
# A rate that no task reaches, in requests per second. Without this cap, growth would overflow.
FASTEST = 1e6
DOUBLINGS = 64
# Enough bins to show how a bucket runs dry, and few enough to fit within milliseconds.
MOST_BINS = 1024
# Where clients share the limit, additive increase and multiplicative decrease make their rates converge, as in TCP.
# The increase, in requests per second per second, is SHARED_PROBE times the square root of the rate.
SHARED_PROBE = 10.0
SHARED_DECREASE = 0.5


class Accepted:
    """
    Count accepted requests over time, in bins.

    Only bins with requests are kept. When there are more than MOST_BINS, the bins become twice as wide. LedgerReader
    use and the duration of a fit are therefore bounded.
    """

    def __init__(self) -> None:
        self.total = 0
        self._width = BIN
        self._counts: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """
        Count an accepted request.

        :param seconds: Seconds since the start of the epoch; must not decrease from call to call.
        """
        position = int(seconds / self._width)
        self._counts[position] = self._counts.get(position, 0) + 1
        self.total += 1
        if len(self._counts) > MOST_BINS:
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
        tokens, last = burst, -1
        for position, count in self._counts.items():
            refill = rate * self._width
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

    :param now: Current time on a monotonic clock, in seconds.
    """

    def __init__(self, now: float) -> None:
        self.rate = math.inf
        # Accepted requests and duration of the epoch with the fewest requests, which shows the bucket best.
        self._first: tuple[float, float] | None = None
        self._learned = 0.0
        self._shared = False
        self._early = 0
        self._epoch = now
        self._grown = now
        self._next = now
        self._accepted = Accepted()

    def delay(self, now: float) -> float:
        """
        Schedule the next request and return how long it has to wait.

        :param now: Current time on the monotonic clock, in seconds.
        :return: Delay in seconds; 0 if the request may go at once.
        """
        if math.isinf(self.rate):
            return 0.0
        self._grow(now)
        self._next = max(self._next, now - SLACK) + 1.0 / self.rate
        wait = self._next - now
        return wait if wait > SLACK else 0.0

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
            self.rate = START if math.isinf(self.rate) else max(SLOWEST, self.rate * SHARED_DECREASE)
        elif self._first is None:
            self._first = (accepted, elapsed)
            self.rate = max(START, accepted / 4)
        else:
            self._first = min(self._first, (accepted, elapsed))
            self._learn(elapsed)
        self._epoch = self._grown = self._next = resume
        self._accepted = Accepted()

    def _learn(self, elapsed: float) -> None:
        fitted = self._accepted.rate_of_bucket(*(self._first or (0.0, 0.0)))
        if self._learned:
            self._early += elapsed < SOON
            self._shared = self._shared or self._early > 1 or fitted < ALONE * self._learned
        if self._shared:
            self.rate = max(SLOWEST, self.rate * SHARED_DECREASE)
        else:
            self.rate = max(SLOWEST, min(self.rate, MARGIN * fitted))
            self._learned = fitted

    def _grow(self, now: float) -> None:
        step = now - self._grown
        if step <= 0:
            return
        self._grown = now
        accepted, _ = self._first or (0.0, 0.0)
        if self._shared:
            self.rate += SHARED_PROBE * math.sqrt(self.rate) * step
        elif self._learned:
            self.rate += PROBE * accepted * step
        else:
            self.rate *= 2.0 ** min(step / DOUBLING, DOUBLINGS)
        self.rate = min(self.rate, FASTEST)


class AdaptiveRateLimiter:
    """
    Limit the concurrency and the rate of the requests of one task.

    :param max_concurrency: Maximum number of requests in flight.
    :param now: Returns the time of a monotonic clock, in seconds. Default: :func:`time.monotonic`.
    :param sleep: Coroutine function that waits for a number of seconds. Default: :func:`asyncio.sleep`.
    """

    def __init__(
        self,
        max_concurrency: int,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.max_concurrency = max_concurrency
        self.limit = float(max_concurrency)
        self.in_flight = 0
        self.throttled = 0
        self.pace = RateEstimator(now())
        self._now = now
        self._sleep = sleep
        self._resume = -math.inf
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._stopped: Exception | None = None
        metrics.in_flight_limit(max_concurrency)

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
                await self._sleep(pause)
            elif self.in_flight >= max(1, int(self.limit)):
                waiter = asyncio.get_running_loop().create_future()
                self._waiting.append(waiter)
                await waiter
            else:
                break
        self.in_flight += 1
        try:
            if delay := self.pace.delay(self._now()):
                await self._sleep(delay)
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
        self.pace.accepted(self._now())
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
            self.pace.refused(now, now + seconds)
            metrics.pause(seconds)
            log.info(
                "The service asked for a pause of %.1f s; after it, at most %.0f requests/s and %d in flight.",
                seconds,
                self.pace.rate,
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
