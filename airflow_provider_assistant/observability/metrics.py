"""Names of the package's Airflow metrics, and functions that send them."""

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
BACKOFF_DURATION: Final = "assistant.backoff_duration"
IN_FLIGHT_LIMIT: Final = "assistant.in_flight_limit"
ROWS: Final = "assistant.rows"
DRAFTS: Final = "assistant.drafts"
QUESTIONS: Final = "assistant.questions"
EXPORTED_ROWS: Final = "assistant.exported_rows"
EVALUATION_SCORE: Final = "assistant.evaluation_score"
EVALUATION_COVERAGE: Final = "assistant.evaluation_coverage"
EVALUATION_PASS_RATE: Final = "assistant.evaluation_pass_rate"  # noqa: S105 (not a password)
EVALUATION_PASSED: Final = "assistant.evaluation_passed"

# Requests per second with the same tags whose metrics are sent one by one.
SENT_EACH_SECOND: Final = 100


class Requests:
    """
    Count and time the requests of one client.

    Every request is counted. To keep fast loads fast, only the first 100 requests per second with the same tags are
    sent one by one, with their duration. The others of that second are counted together, without durations.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        # The current second of each endpoint and status.
        self._seconds: dict[tuple[str, str], _Second] = {}

    def add(self, endpoint: str, status: str, seconds: float) -> None:
        """
        Count one request.

        :param endpoint: Short name of the route, such as ``chat.async``.
        :param status: HTTP status; ``connection`` or ``timeout`` if there was no response.
        :param seconds: Seconds from the start of the request to the end of the response.
        """
        now = self._now()
        with self._lock:
            second = self._seconds.get((endpoint, status))
            if second is None:
                second = self._seconds[endpoint, status] = _Second(began=now)
            elif now - second.began >= 1.0:
                # The second is over: send the requests that it held back.
                _count_requests(endpoint, status, second.held_back)
                second = self._seconds[endpoint, status] = _Second(began=now)
            if second.sent >= SENT_EACH_SECOND:
                second.held_back += 1
                return
            second.sent += 1
        _count_requests(endpoint, status, 1)
        # Send a timedelta: a plain number means milliseconds to one backend and seconds to another.
        tags = {"endpoint": endpoint, "status": status}
        airflow_stats().timing(REQUEST_DURATION, timedelta(seconds=seconds), tags=tags)

    def flush(self) -> None:
        """Send the counts that are held back."""
        with self._lock:
            for (endpoint, status), second in self._seconds.items():
                _count_requests(endpoint, status, second.held_back)
                second.held_back = 0


@dataclass(slots=True)
class _Second:
    """Number of requests within a second that are sent, or held back until its end."""

    began: float
    sent: int = 0
    held_back: int = 0


@cache
def airflow_stats() -> Any:
    """Return Airflow's client for metrics."""
    # Imported here, because on Airflow 3.2 it takes as long as all other imports of a DAG file together.
    from airflow.providers.common.compat.sdk import Stats

    return Stats


def _count_requests(endpoint: str, status: str, count: int) -> None:
    if not count:
        return
    tags = {"endpoint": endpoint, "status": status}
    airflow_stats().incr(REQUESTS, count, tags=tags)
    if status == "429":
        airflow_stats().incr(RATE_LIMITED, count, tags={"endpoint": endpoint})
    elif status.startswith("5"):
        airflow_stats().incr(SERVER_ERRORS, count, tags=tags)


def retry(endpoint: str) -> None:
    """Count one retry of a request."""
    airflow_stats().incr(RETRIES, tags={"endpoint": endpoint})


def async_completion(state: str, seconds: float) -> None:
    """
    Record the duration of an async chat request.

    :param state: ``complete`` or ``failed``.
    :param seconds: Seconds from the submission to the poll that found the end.
    """
    airflow_stats().timing(COMPLETION_DURATION, timedelta(seconds=seconds), tags={"state": state})


def poll_lag(seconds: float) -> None:
    """
    Record the delay of one poll of an async chat request.

    :param seconds: Seconds from the scheduled time of the poll to its answer.
    """
    # The wall clock may have been set back in the meantime.
    airflow_stats().timing(POLL_LAG, timedelta(seconds=max(0.0, seconds)), tags={})


def pause(seconds: float) -> None:
    """Record one pause after a 429, which holds back all requests that share a rate limiter."""
    airflow_stats().timing(BACKOFF_DURATION, timedelta(seconds=seconds), tags={})


def in_flight_limit(limit: int) -> None:
    """Set the gauge of the current limit for requests in flight."""
    airflow_stats().gauge(IN_FLIGHT_LIMIT, limit, tags={})


def rows(kind: str, ends: Mapping[str, int]) -> None:
    """
    Count the rows of one attempt of a load.

    :param kind: Kind of the documents: ``qa``, ``text`` or ``file``.
    :param ends: Number of rows by outcome.
    """
    _count(ROWS, "outcome", ends, kind=kind)


def drafts(kind: str, count: int) -> None:
    """
    Count the documents of one attempt of a load that were created and are not in use.

    :param kind: Kind of the documents: ``qa``, ``text`` or ``file``.
    """
    _count(DRAFTS, "kind", {kind: count})


def questions(ends: Mapping[str, int]) -> None:
    """Count the questions of a chat batch by outcome."""
    _count(QUESTIONS, "outcome", ends)


def exported_rows(dataset: str, count: int) -> None:
    """Count the rows that were written to a dataset."""
    _count(EXPORTED_ROWS, "dataset", {dataset: count})


def evaluation(
    name: str, verdict: str, *, means: Mapping[str, float | None], coverage: float, pass_rate: float | None
) -> None:
    """
    Set the gauges of an evaluation's result.

    :param verdict: ``passed``, ``failed``, or ``none`` for an evaluation without a gate, which sets no gauge for it.
    :param means: Mean score by scorer; None sets no gauge.
    :param coverage: Share of the questions that have an answer, from 0 to 1.
    :param pass_rate: Share of the judged questions that pass, from 0 to 1; None sets no gauge.
    """
    tags = {"evaluation": _tag(name)}
    for scorer, mean in means.items():
        if mean is not None:
            scorer_tags = {**tags, "scorer": _tag(scorer)}
            airflow_stats().gauge(EVALUATION_SCORE, mean, tags=scorer_tags)
    airflow_stats().gauge(EVALUATION_COVERAGE, coverage, tags=tags)
    if pass_rate is not None:
        airflow_stats().gauge(EVALUATION_PASS_RATE, pass_rate, tags=tags)
    if verdict != "none":
        passed = 1 if verdict == "passed" else 0
        airflow_stats().gauge(EVALUATION_PASSED, passed, tags=tags)


def _count(metric: str, tag: str, count_by_value: Mapping[str, int], **other_tags: str) -> None:
    """Increment a metric for every value of a tag."""
    for value, count in count_by_value.items():
        if count:
            airflow_stats().incr(metric, count, tags={**other_tags, tag: value})


def _tag(value: str) -> str:
    """Return a value as a valid tag for every backend: StatsD accepts only ASCII and has no escapes."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", value)[:100]
