"""The package's Airflow metrics: every name, in one place (specification, section 7, suggested observation)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Final

REQUESTS: Final = "assistant.requests"
REQUEST_DURATION: Final = "assistant.request_duration"
RETRIES: Final = "assistant.retries"
RATE_LIMITED: Final = "assistant.rate_limited"
SERVER_ERRORS: Final = "assistant.server_errors"
COMPLETION_DURATION: Final = "assistant.async_completion_duration"
POLL_LAG: Final = "assistant.poll_lag"
PAUSE_DURATION: Final = "assistant.pause_duration"
IN_FLIGHT_LIMIT: Final = "assistant.in_flight_limit"
ROWS: Final = "assistant.rows"
QUESTIONS: Final = "assistant.questions"
EXPORTED_ROWS: Final = "assistant.exported_rows"
EVALUATION_SCORE: Final = "assistant.evaluation_score"
EVALUATION_COVERAGE: Final = "assistant.evaluation_coverage"
EVALUATION_PASS_RATE: Final = "assistant.evaluation_pass_rate"  # noqa: S105 (not a password)
EVALUATION_PASSED: Final = "assistant.evaluation_passed"

# Exchanges with the same tags that get packets of their own.
SENT_EACH_SECOND: Final = 100


class Requests:
    """
    Counts and measures the exchanges of one client.

    Every exchange is counted. Where there are very many, not each gets packets of its own, because a quick load would
    feel that: of those with the same tags, the first hundred of a second are sent as they come; the others of that
    second are counted together, and their durations are left out.

    :param now: A monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._seconds: dict[tuple[str, str], _Second] = {}

    def add(self, endpoint: str, status: str, seconds: float) -> None:
        """
        Count one exchange.

        :param endpoint: Name of the endpoint.
        :param status: HTTP status, or ``connection`` or ``timeout`` when there was no answer.
        :param seconds: From sending to the whole answer.
        """
        now = self._now()
        with self._lock:
            second = self._seconds.get((endpoint, status))
            if second is None or now - second.began >= 1.0:
                held = second.held if second else 0
                second = self._seconds[endpoint, status] = _Second(now)
                _exchanges(endpoint, status, held)
            if second.sent >= SENT_EACH_SECOND:
                second.held += 1
                return
            second.sent += 1
        _exchanges(endpoint, status, 1)
        # A timedelta, because a plain number means milliseconds to one backend and seconds to another.
        tags = {"endpoint": endpoint, "status": status}
        _stats().timing(REQUEST_DURATION, timedelta(seconds=seconds), tags=tags)

    def flush(self) -> None:
        """Send what is only counted so far."""
        with self._lock:
            for (endpoint, status), second in self._seconds.items():
                _exchanges(endpoint, status, second.held)
                second.held = 0


@dataclass(slots=True)
class _Second:
    began: float
    sent: int = 0
    held: int = 0


@cache
def _stats() -> Any:
    # Not at the top: on Airflow 3.2 this import takes as long as all of a DAG file's others.
    from airflow.providers.common.compat.sdk import Stats

    return Stats


def _exchanges(endpoint: str, status: str, count: int) -> None:
    if not count:
        return
    tags = {"endpoint": endpoint, "status": status}
    _stats().incr(REQUESTS, count, tags=tags)
    if status == "429":
        _stats().incr(RATE_LIMITED, count, tags={"endpoint": endpoint})
    elif status.startswith("5"):
        _stats().incr(SERVER_ERRORS, count, tags=tags)


def retry(endpoint: str) -> None:
    """Count one request that is about to be repeated."""
    _stats().incr(RETRIES, tags={"endpoint": endpoint})


def async_completion(state: str, seconds: float) -> None:
    """
    Measure one async chat request that has ended.

    :param state: ``complete`` or ``failed``.
    :param seconds: From submission to the poll that noticed.
    """
    _stats().timing(COMPLETION_DURATION, timedelta(seconds=seconds), tags={"state": state})


def poll_lag(seconds: float) -> None:
    """
    Measure one poll of an async chat request.

    :param seconds: From the moment it was due to its answer.
    """
    # The clock is the wall's, and may be set back meanwhile.
    _stats().timing(POLL_LAG, timedelta(seconds=max(0.0, seconds)), tags={})


def pause(seconds: float) -> None:
    """Measure one pause that the service asked for, and that holds back all requests that share a limiter."""
    _stats().timing(PAUSE_DURATION, timedelta(seconds=seconds), tags={})


def in_flight_limit(limit: int) -> None:
    """Show how many requests a limiter lets be in flight from now on."""
    _stats().gauge(IN_FLIGHT_LIMIT, limit, tags={})


def rows(kind: str, ends: Mapping[str, int]) -> None:
    """
    Count the rows of one try of a load.

    :param kind: What they become: ``qa``, ``text`` or ``file``.
    :param ends: How many came to which end.
    """
    _count(ROWS, "outcome", ends, kind=kind)


def questions(ends: Mapping[str, int]) -> None:
    """
    Count the questions of a batch.

    :param ends: How many came to which end.
    """
    _count(QUESTIONS, "outcome", ends)


def exported_rows(dataset: str, count: int) -> None:
    """Count the rows that were written to a dataset."""
    _count(EXPORTED_ROWS, "dataset", {dataset: count})


def evaluation(
    name: str, verdict: str, *, means: Mapping[str, float | None], coverage: float, pass_rate: float | None
) -> None:
    """
    Show what an evaluation came to.

    :param name: Its name.
    :param verdict: ``passed``, ``failed`` or ``none``; the last, without a gate, is not shown.
    :param means: By scorer; what has none is not shown.
    :param coverage: Share of the questions that have an answer.
    :param pass_rate: Share of the judged ones that pass; None is not shown.
    """
    tags = {"evaluation": _tag(name)}
    for scorer, mean in means.items():
        if mean is not None:
            _stats().gauge(EVALUATION_SCORE, mean, tags={**tags, "scorer": _tag(scorer)})
    _stats().gauge(EVALUATION_COVERAGE, coverage, tags=tags)
    if pass_rate is not None:
        _stats().gauge(EVALUATION_PASS_RATE, pass_rate, tags=tags)
    if verdict != "none":
        _stats().gauge(EVALUATION_PASSED, int(verdict == "passed"), tags=tags)


def _count(name: str, tag: str, counts: Mapping[str, int], **tags: str) -> None:
    for value, count in counts.items():
        if count:
            _stats().incr(name, count, tags={**tags, tag: value})


def _tag(value: str) -> str:
    """Return a value that users chose as every backend takes it: StatsD cannot escape, and is ASCII."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", value)[:100]
