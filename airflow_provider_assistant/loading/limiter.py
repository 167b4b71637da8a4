"""
How fast a load may go: one limiter for all requests of a task, that learns from what the service says.

Three things are limited together. *Concurrency* goes up by one for every round of successes and is cut when
the service is overloaded. A *pause* that a 429 asks for holds back every worker. And the *pace*, in requests
per second, is learned from the 429s themselves: a service that admits a burst and then so many per second is
a token bucket, and what it accepted before it refused says which one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable

from airflow_provider_assistant import metrics

log = logging.getLogger(__name__)

# Accepted requests are counted in bins this wide, in seconds: short beside the second that a service lets
# pass before it admits more, and long beside the answers' jitter.
BIN = 0.02
# A sleep is not more exact than this, in seconds: who is closer to his turn goes at once.
SLACK = 0.004
# The pace, while only one refusal has been seen, starts at so many per second or at a quarter of what was
# accepted before it, and doubles in so many seconds: soon enough refused again, but not within the bucket.
START = 40.0
DOUBLING = 0.25
# A learned pace starts just below the limit, and grows each second by this share of the bucket: looking for more
# costs a pause, which a large bucket makes up for.
MARGIN = 0.99
PROBE = 0.02
# Others share the limit where it fits less than this share of the pace learned before, or where a learned pace
# is refused again within so many seconds; once may be chance.
ALONE = 0.85
SOON = 5.0
# A few slow answers look like a bucket that refills within hours. Below this rate, in requests per second, only the
# pauses that the service asks for hold requests back.
SLOWEST = 1.0
# A rate that no task reaches, in requests per second: growing further would mean nothing, and overflow in the end.
FASTEST = 1e6
DOUBLINGS = 64
# Enough bins to show how a bucket runs dry, and few enough to be fitted within milliseconds.
MOST_BINS = 1024
# Where the limit is shared, additive increase and multiplicative decrease let the loaders converge, as TCP does.
# The increase, in requests per second and second, is this times the root of the pace.
SHARED_PROBE = 10.0
SHARED_DECREASE = 0.5


class Accepted:
    """
    When requests were accepted, as counts in bins.

    Only bins with requests are kept. When there are too many, the bins become twice as wide. Memory and the time of a
    fit therefore stay constant, however long the time and however many the requests.
    """

    def __init__(self) -> None:
        self.total = 0
        self._width = BIN
        self._counts: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Count a request that was accepted so many seconds after the beginning; the seconds never decrease."""
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
        Return the rate, per second, of the token bucket that was full at first and would just have run dry now.

        :param total: Requests that such a bucket accepts.
        :param elapsed: Seconds in which it accepts them.
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


class Pace:
    """
    A learned number of requests per second.

    Until the first refusal there is none. After it the pace doubles quickly from a first guess until it is
    refused again; that is enough to fit the token bucket, and from then on the pace stays close to its rate. A
    bucket that others draw from as well cannot be fitted; there the pace goes up and down as TCP's does.

    An epoch is the time from the first accepted request after a pause to the next refusal.

    :param now: A monotonic clock, in seconds.
    """

    def __init__(self, now: float) -> None:
        self.rate = math.inf
        # Accepted requests and seconds of the epoch that shows the bucket best: the one with the fewest.
        self._first: tuple[float, float] | None = None
        self._learned = 0.0
        self._shared = False
        self._early = 0
        self._epoch = now
        self._grown = now
        self._next = now
        self._accepted = Accepted()

    def delay(self, now: float) -> float:
        """Return the seconds to wait before the next request may go, and count it as gone."""
        if math.isinf(self.rate):
            return 0.0
        self._grow(now)
        self._next = max(self._next, now - SLACK) + 1.0 / self.rate
        wait = self._next - now
        return wait if wait > SLACK else 0.0

    def accepted(self, now: float) -> None:
        """Count a request that the service accepted."""
        if not self._accepted.total:
            self._epoch = max(self._epoch, now)
        self._accepted.add(max(0.0, now - self._epoch))

    def refused(self, now: float, resume: float) -> None:
        """
        Learn from the first 429 after a pause.

        :param now: When it came.
        :param resume: When requests may go again.
        """
        elapsed, accepted = now - self._epoch, self._accepted.total
        if not accepted:
            # Others have emptied the bucket before it was this one's turn.
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


class Limiter:
    """
    Slots for the requests of one task.

    :param max_concurrency: The most requests in flight.
    :param now: A monotonic clock, in seconds.
    :param sleep: Waits for seconds.
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
        self.pace = Pace(now())
        self._now = now
        self._sleep = sleep
        self._resume = -math.inf
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._stopped: Exception | None = None
        metrics.in_flight_limit(max_concurrency)

    async def acquire(self) -> None:
        """
        Wait for a slot, a pause to end, and the pace.

        :raises Exception: What :meth:`stop` was given.
        """
        try:
            await self._turn()
        except BaseException:
            # Who leaves lets the next one in, who may have waited for his turn only.
            self._wake()
            raise

    async def _turn(self) -> None:
        while True:
            if self._stopped:
                raise self._stopped
            pause = self._resume - self._now()
            if pause > 0:
                await self._sleep(pause)
            elif self.in_flight >= max(1, int(self.limit)):
                turn = asyncio.get_running_loop().create_future()
                self._waiting.append(turn)
                await turn
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
            await self._turn()

    def release(self) -> None:
        """Give a slot back."""
        self.in_flight -= 1
        self._wake()

    def accepted(self) -> None:
        """Count a request that the service accepted: a little more concurrency."""
        self.pace.accepted(self._now())
        if self.limit < self.max_concurrency:
            self._limit_to(min(self.max_concurrency, self.limit + 1.0 / self.limit))
            self._wake()

    def refused(self, seconds: float) -> None:
        """
        Take note of a 429: nobody sends until its pause is over.

        :param seconds: The pause, jitter included.
        """
        self.throttled += 1
        now = self._now()
        if now >= self._resume:
            # The others that were in flight are refused with this one; they teach nothing more.
            self._limit_to(max(1.0, self.limit / 2))
            self.pace.refused(now, now + seconds)
            metrics.pause(seconds)
            log.info(
                "The service asked for a pause of %.1f s; then at most %.0f requests/s, %d at a time.",
                seconds,
                self.pace.rate,
                int(self.limit),
            )
        self._resume = max(self._resume, now + seconds)

    def failed(self) -> None:
        """Take note of a 5xx or a missing answer: less concurrency."""
        self._limit_to(max(1.0, self.limit / 2))

    def stop(self, error: Exception) -> None:
        """Let everybody who waits, or comes to wait, have this error."""
        self._stopped = error
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def _limit_to(self, limit: float) -> None:
        if int(limit) != int(self.limit):
            metrics.in_flight_limit(int(limit))
        self.limit = limit

    def _wake(self) -> None:
        free = max(1, int(self.limit)) - self.in_flight
        while free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
