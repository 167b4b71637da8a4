"""
An outage: the time in which nothing of the service is answered.

All requests of a client share one :class:`Outage`. While it lasts, one request at a time tries whether the service is
back, with growing pauses, and the others wait. Nothing here does input or output.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from http import HTTPStatus

from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.errors import FINAL_5XX
from airflow_provider_assistant.api.gateways import gateway_reply
from airflow_provider_assistant.texts import counted

log = logging.getLogger(__name__)

# Statuses of gateways whose service does not answer; 520 to 530 are those of content delivery networks.
NOBODY_BEHIND = frozenset({502, 503, 504, *range(520, 528), 530})
# Seconds without any request after which a failure begins another outage.
IDLE_SECONDS = 60.0
# Seconds between two messages about one outage.
MESSAGE_SECONDS = 10.0
# Tries without a pause: a service that answers most requests with success should not be slowed down.
QUICK_TRIES = 2
# Jitter only lengthens a pause. It is a share of the pause.
JITTER = 0.1


def is_unanswered(outcome: Response | TransportFailure) -> bool:
    """
    Return whether the service itself has not answered: no connection, no response, or a gateway's 502, 503 or 504.

    :param outcome: Outcome of a request.
    """
    if isinstance(outcome, TransportFailure):
        # A certificate does not get better by waiting.
        return "CERTIFICATE_VERIFY_FAILED" not in outcome.detail
    return outcome.status in NOBODY_BEHIND


class Outage:
    """
    Know since when the service has answered nothing, and when the next request may try.

    :param pause: Function that returns the seconds to wait, given the number of failed tries.
    :param now: Clock in seconds.
    :param rng: Random generator of the jitter.
    :ivar answers: Number of answers so far.
    :ivar is_proven: Whether the service itself has ever answered, with something else than a 401. Until then, requests
        go one at a time, so that a wrong key or address meets the service once.
    :ivar next_try: Time at which the next request may go.
    :ivar tries: Number of failures after the first one of this outage; 0 without an outage.
    """

    def __init__(self, pause: Callable[[int], float], now: Callable[[], float], rng: random.Random) -> None:
        self.answers = 0
        self.is_proven = False
        self.next_try = -math.inf
        self.now = now
        self._pause = pause
        self._rng = rng
        self._since: float | None = None
        self._last_failure = 0.0
        self.tries = 0
        self._reason = ""
        self._next_message = 0.0
        self._has_message = False

    @property
    def is_on(self) -> bool:
        """Whether the last request that ended got no answer."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """Seconds from the first failure to the last one; 0 without an outage."""
        return 0.0 if self._since is None else max(0.0, self._last_failure - self._since)

    def record(self, outcome: Response | TransportFailure, sent_at: float) -> None:
        """
        Learn from the outcome of a request.

        :param outcome: The outcome.
        :param sent_at: Time at which the request was sent.
        """
        if isinstance(outcome, TransportFailure) and outcome.is_answered:
            self.is_proven = False
        elif isinstance(outcome, TransportFailure) or (outcome.status >= 500 and outcome.status not in FINAL_5XX):
            self._failed(outcome, sent_at)
        elif gateway_reply(outcome) is None:
            self._answered(outcome.status)
        else:
            # The gateway may refuse the others as well, so they go one at a time until the service answers one.
            self.is_proven = False

    def _answered(self, status: int) -> None:
        self.answers += 1
        self.is_proven |= status != HTTPStatus.UNAUTHORIZED
        if self._since is None:
            return
        if self._has_message:
            seconds = self.now() - self._since
            log.info("The service answers again, after %.0f s and %s.", seconds, counted(self.tries, "failure"))
        self._since = None
        self.tries = 0

    def _failed(self, outcome: Response | TransportFailure, sent_at: float) -> None:
        now = self.now()
        is_idle = sent_at - self._last_failure > IDLE_SECONDS
        self._reason = _reason(outcome)
        self._last_failure = now
        if self._since is None or is_idle:
            self._since = now
            self.tries = 0
            self._has_message = False
            self._next_message = now + MESSAGE_SECONDS
            # Another request may try at once: only this one may have failed.
            self.next_try = now
        elif sent_at >= self._since:
            self.tries += 1
            pause = 0.0
            if self.tries > QUICK_TRIES:
                pause = self._pause(self.tries - QUICK_TRIES)
            self.next_try = now + pause + self._rng.uniform(0.0, JITTER * pause)

    def report(self, progress: str = "", pause: float | None = None) -> None:
        """
        Log that the outage lasts, at most every ten seconds.

        :param progress: What is done so far, such as ``5 of 30 rows are done``. Default: empty.
        :param pause: Seconds until the next try. Default: None, until ``next_try``.
        """
        now = self.now()
        if self._since is None or now < self._next_message:
            return
        self._has_message = True
        self._next_message = now + MESSAGE_SECONDS
        trying = "waiting for the answer to another try"
        if pause is None:
            pause = self.next_try - now
        if pause > 0:
            trying = f"trying again in {pause:.0f} s"
        log.warning(
            "The service has not answered for %.0f s (%s); %s%s.",
            now - self._since,
            self._reason,
            trying,
            f"; {progress}" if progress else "",
        )

    def unsent(self) -> TransportFailure:
        """Return the outcome of a request that is not sent, because the outage has lasted too long."""
        detail = f"not sent, because the service had not answered for {self.seconds:.0f} s ({self._reason})"
        return TransportFailure(kind="connection", detail=detail, sent=False)


def _reason(outcome: Response | TransportFailure) -> str:
    if isinstance(outcome, Response):
        return f"status {outcome.status}"
    return "no complete answer in time" if outcome.kind == "timeout" else outcome.detail
