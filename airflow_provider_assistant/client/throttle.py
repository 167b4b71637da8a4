"""
When the requests of a client may be sent: how many at a time, how fast, after which pause, and when no more.

A service that answers nothing is tried by one request at a time, with growing pauses, while the others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_assistant.exceptions import AssistantConnectionError, AssistantError
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from airflow_provider_assistant.client.retry import RetryPolicy

log = logging.getLogger(__name__)

# Seconds without any request after which a failure begins another outage.
IDLE_SECONDS = 60.0
# Seconds between two messages about one outage.
MESSAGE_SECONDS = 10.0
# Tries without a pause: a service that answers most requests with success should not be slowed down.
QUICK_TRIES = 2
# The first request goes alone until it is answered, so that a wrong key or address meets the service once; for at most
# these seconds if its answer may take a minute, as that of a chat.
FIRST_SECONDS = 1.0
# Jitter only lengthens a wait: a request is never sent before the time in ``Retry-After``, and clients that received
# the same ``Retry-After`` do not return at once. It is a share of the wait, and after an answer at least LEAST_JITTER.
JITTER = 0.1
LEAST_JITTER = 0.1
# Pause after a 429 without Retry-After.
DEFAULT_PAUSE_SECONDS = 1.0
# A request that would wait for less goes at once, because a sleep is not more precise.
SLEEP_PRECISION_SECONDS = 0.004


class Rate:
    """
    The number of requests per second that the service allows, learned from its refusals.

    A service that admits a burst and then a constant rate has no tokens left at a refusal. So the requests that it
    accepts from one refusal to the next show its limit. After the first refusal, the rate begins low and doubles until
    the second one; from then on it grows slowly, so that a limit that was raised is found.
    """

    # Requests per second after the first refusal, unless the burst before it was smaller or much larger.
    FIRST = 40.0
    DOUBLING_SECONDS = 0.25
    # Share of the limit at which the rate begins after a refusal, and its least decrease, which lets other loads in.
    SHARE = 0.97
    DECREASE = 0.95
    # Increase per second: it grows by ACCELERATION every second, but a slow service gets LOW times the square.
    INCREASE, ACCELERATION, LOW = 1.0, 0.2, 0.003

    def __init__(self) -> None:
        self.per_second = math.inf
        self._is_starting = True
        # Requests accepted before the first refusal, and since the last one.
        self._burst = self._accepted = 0
        self._first_accepted = self._refused = self._resumed = self._grown = self._next = -math.inf

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent."""
        wait = self._next - now
        return wait if wait > SLEEP_PRECISION_SECONDS else 0.0

    def sent(self, now: float) -> None:
        """Plan the request after the one that is sent now."""
        if math.isinf(self.per_second):
            return
        seconds, self._grown = max(0.0, now - self._grown), max(now, self._grown)
        if self._is_starting:
            self.per_second *= 2.0 ** min(seconds / self.DOUBLING_SECONDS, 64)
        else:
            increase = self.INCREASE + self.ACCELERATION * (now - self._resumed)
            self.per_second += min(increase, self.LOW * self.per_second * max(1.0, self.per_second)) * seconds
        self.per_second = min(self.per_second, 1e6)
        self._next = max(self._next, now - SLEEP_PRECISION_SECONDS) + 1.0 / self.per_second

    def accepted(self, now: float) -> None:
        """Count a request that the service accepted."""
        if now >= self._resumed:
            self._first_accepted = self._first_accepted if self._accepted else now
            self._accepted += 1

    def refused(self, now: float, resume: float) -> None:
        """Learn from the first refusal after a pause; requests go on at the time ``resume``."""
        if math.isinf(self.per_second):
            self._burst = self._accepted
            self.per_second = max(min(self.FIRST, 2.0 * self._burst or self.FIRST), self._burst / 4)
        else:
            limit = (self._accepted + 1) / (now - self._refused)
            # What a burst that is full before the pause ends would have got is lost: it does not count.
            beyond_burst = self._accepted - self._burst
            if beyond_burst >= 10:
                limit = max(limit, beyond_burst / (now - self._first_accepted))
            below = math.sqrt(self.per_second * limit) if self._is_starting else limit
            self.per_second = max(0.5, min(self.DECREASE * self.per_second, self.SHARE * below))
            self._is_starting = False
        self._refused, self._accepted = now, 0
        self._resumed = self._grown = self._next = resume


class Throttle:
    """
    Know when a request may be sent.

    :param most: Maximum number of requests in flight.
    :param policy: How long waiting requests wait for the end of an outage, and of a pause after a 429.
    :ivar answers: Number of answers of the service.
    :ivar tries: Number of failures after the first one of an outage.
    :ivar progress: Returns what is done so far, for the log of an outage.
    """

    def __init__(self, most: int, policy: RetryPolicy, *, now: Callable[[], float], rng: random.Random) -> None:
        self.most = most
        self.limit = float(most)
        self.in_flight = self.answers = self.refusals = self.tries = 0
        self.rate = Rate()
        self.progress: Callable[[], str] = str
        self.stopped: AssistantError | None = None
        self.now = now
        self._policy = policy
        self._patience = policy.outage_seconds or math.inf
        self._rng = rng
        # Whether the API has answered at all, with something else than a 401.
        self._is_proven = False
        self._resume = self._next_try = -math.inf
        # Without a proof, the time until which one request goes alone.
        self._alone_until = math.inf
        # The error that asked for too long a pause.
        self._refusal: AssistantError | None = None
        # The outage: its first and its last failure.
        self._down_since: float | None = None
        self._last_failure = -math.inf
        self._reason = ""
        self._next_message = 0.0
        # First come, first served; patient requests do not hold up the others.
        self._turns = {True: asyncio.Lock(), False: asyncio.Lock()}
        self._changed = asyncio.Event()

    # -- what was learned ------------------------------------------------------------------------------

    @property
    def is_down(self) -> bool:
        """Whether the last request that ended got no answer."""
        return self._down_since is not None

    @property
    def silence(self) -> float:
        """Seconds from the first failure of an outage to the last one; 0 without an outage."""
        return 0.0 if self._down_since is None else max(0.0, self._last_failure - self._down_since)

    def answered(self, *, is_proof: bool = True) -> None:
        """Count an answer of the API, which may be a proof that address and key are right."""
        self.answers += 1
        self._is_proven |= is_proof
        if self._down_since is not None:
            if self._next_message > self._down_since + MESSAGE_SECONDS:
                seconds = self.now() - self._down_since
                log.info("The service answers again, after %.0f s and %s.", seconds, counted(self.tries, "failure"))
            self._down_since = None
            self.tries = 0
        self._changed.set()

    def accepted(self) -> None:
        """Count a request that the service accepted, and raise the concurrency slightly."""
        self.rate.accepted(self.now())
        if self.limit < self.most:
            self.limit = min(self.most, self.limit + 1.0 / self.limit)
            self._changed.set()

    def doubted(self) -> None:
        """Let requests go one at a time until the API answers one: something else has answered."""
        self._is_proven = False
        self._alone_until = math.inf

    def failed(self, error: AssistantError, sent_at: float) -> None:
        """Count a request without an answer that was sent at this time."""
        self.overloaded()
        now = self.now()
        is_idle = sent_at - self._last_failure > IDLE_SECONDS
        self._reason = error.happened.partition(" (")[0]
        self._last_failure = now
        if self._down_since is None or is_idle:
            # Another request may try at once: only this one may have failed.
            self._down_since = self._next_try = now
            self.tries = 0
            self._next_message = now + MESSAGE_SECONDS
        elif sent_at >= self._down_since:
            self.tries += 1
            pause = self._policy.pause_in_outage(self.tries - QUICK_TRIES) if self.tries > QUICK_TRIES else 0.0
            self._next_try = now + pause + self._rng.uniform(0.0, JITTER * pause)
        self._changed.set()

    def overloaded(self) -> None:
        """Halve the concurrency."""
        self.limit = max(1.0, self.limit / 2)
        self._changed.set()

    def refused(self, error: AssistantError) -> None:
        """Pause all requests after a 429, or fail those that wait if it asks for too long a pause."""
        pause = self.slow_down(error)
        if pause > self._policy.max_backoff:
            self._refusal = error

    def slow_down(self, error: AssistantError) -> float:
        """Pause all requests for as long as the service asked, and send fewer of them. Return the seconds."""
        pause = DEFAULT_PAUSE_SECONDS if error.retry_after is None else error.retry_after
        with_jitter = self.jittered(pause)
        now = self.now()
        self.refusals += 1
        if now >= self._resume:
            # Only the first 429 after a pause counts: those in flight with it are refused for the same reason.
            self.overloaded()
            self.rate.refused(now, now + with_jitter)
            metrics.pause(with_jitter)
            log.info(
                "The service asked for a pause of %.1f s; after it, at most %.0f requests/s and %d in flight.",
                pause,
                self.rate.per_second,
                int(self.limit),
            )
        self._resume = max(self._resume, now + with_jitter)
        self._changed.set()
        return pause

    def jittered(self, pause: float) -> float:
        """Return a wait with up to a tenth of it added, or up to 0.1 s if that is more."""
        return pause + self._rng.uniform(0.0, max(JITTER * pause, LEAST_JITTER))

    def hold(self, seconds: float) -> None:
        """Pause all requests."""
        self._resume = max(self._resume, self.now() + seconds)

    def stop(self, error: AssistantError) -> None:
        """Fail all requests that wait, and all later ones, with an error."""
        self.stopped = error
        self._changed.set()

    # -- when to send ----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def slot(self, *, is_patient: bool = False, is_slow: bool = False) -> AsyncIterator[None]:
        """
        Wait until a request may be sent, and count it as in flight for the ``async with`` block.

        :param is_patient: Whether to wait for the end of an outage or a pause, however long it takes.
        :param is_slow: Whether the answer may take long.
        :raises AssistantError: All requests are stopped, or this one would have to wait too long.
        """
        async with self._turns[is_patient]:
            while wait := self._seconds_to_wait(is_patient=is_patient):
                await self._wait(wait)
        # Nothing is awaited before the request counts as in flight: the next one must see it.
        now = self.now()
        self.rate.sent(now)
        if not self._is_proven and not self.in_flight:
            self._alone_until = now + FIRST_SECONDS if is_slow else math.inf
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._changed.set()

    def _seconds_to_wait(self, *, is_patient: bool) -> float:
        """Return the seconds after which to look again; 0 if a request may be sent now."""
        if self.stopped:
            raise self.stopped
        now = self.now()
        if not is_patient and self._refusal and now < self._resume:
            raise replace(self._refusal)
        if not is_patient and self.silence >= self._patience:
            raise AssistantConnectionError(
                f"Not sent, because the service had not answered for {self.silence:.0f} s ({self._reason})",
                stops_all=True,
            )
        pause = max(self._resume, self._next_try if self.is_down else -math.inf) - now
        if pause > 0:
            return pause
        if self.in_flight >= self._allowed(now):
            return MESSAGE_SECONDS if self.is_down else FIRST_SECONDS
        return self.rate.wait(now)

    def _allowed(self, now: float) -> int:
        is_first = not self._is_proven and now < self._alone_until
        return 1 if self.is_down or is_first else max(1, int(self.limit))

    async def _wait(self, seconds: float) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self.report()

    def report(self, pause: float | None = None) -> None:
        """Log that an outage lasts, at most every ten seconds, with the seconds until the next try."""
        now = self.now()
        if self._down_since is None or now < self._next_message:
            return
        self._next_message = now + MESSAGE_SECONDS
        if pause is None:
            pause = self._next_try - now
        trying = f"trying again in {pause:.0f} s" if pause > 0 else "waiting for the answer to another try"
        progress = self.progress()
        progress = f"; {progress}" if progress else ""
        seconds = now - self._down_since
        log.warning("The service has not answered for %.0f s (%s); %s%s.", seconds, self._reason, trying, progress)
