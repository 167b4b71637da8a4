"""The package's metrics, which Airflow sends to its metrics backend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final

REQUESTS: Final = "assistant.requests"
REQUEST_DURATION: Final = "assistant.request_duration"
BACKOFF_DURATION: Final = "assistant.backoff_duration"
COMPLETION_DURATION: Final = "assistant.async_completion_duration"
POLL_LAG: Final = "assistant.poll_lag"
ROWS: Final = "assistant.rows"
DRAFTS: Final = "assistant.drafts"
QUESTIONS: Final = "assistant.questions"
EXPORTED_ROWS: Final = "assistant.exported_rows"
EVALUATION_SCORE: Final = "assistant.evaluation_score"
EVALUATION_COVERAGE: Final = "assistant.evaluation_coverage"
EVALUATION_PASS_RATE: Final = "assistant.evaluation_pass_rate"  # noqa: S105 (not a password)
EVALUATION_PASSED: Final = "assistant.evaluation_passed"


@cache
def airflow_stats() -> Any:
    """Return Airflow's client for metrics."""
    # Imported here, because on Airflow 3.2 it takes as long as all other imports of a DAG file together.
    from airflow.providers.common.compat.sdk import Stats

    return Stats


def request(endpoint: str, status: str, seconds: float) -> None:
    """Count and time one request; its status is ``connection`` or ``timeout`` if there was no response."""
    tags = {"endpoint": endpoint, "status": status}
    airflow_stats().incr(REQUESTS, 1, tags=tags)
    _time(REQUEST_DURATION, seconds, tags)


def pause(seconds: float) -> None:
    """Record one pause after a 429, which holds back all requests that share a rate limiter."""
    _time(BACKOFF_DURATION, seconds, {})


def async_completion(state: str, seconds: float) -> None:
    """Record the time of an async chat from submission, or the start of its sensor, to the poll that found the end."""
    _time(COMPLETION_DURATION, seconds, {"state": state})


def poll_lag(seconds: float) -> None:
    """Record the time from when a poll of an async chat was due to its answer."""
    _time(POLL_LAG, seconds, {})


def rows(kind: str, ends: Mapping[str, int]) -> None:
    """Count the rows of one attempt of a load by outcome; the kind is ``qa``, ``text`` or ``file``."""
    _count(ROWS, "outcome", ends, kind=kind)


def drafts(kind: str, count: int) -> None:
    """Count the documents of one attempt of a load that were created and are not in use."""
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
    Set the gauges of an evaluation's result; a figure that is None sets none.

    :param verdict: ``passed``, ``failed``, or ``none`` for an evaluation without a gate.
    :param means: Mean score by scorer.
    """
    tags = {"evaluation": _tag(name)}
    for scorer, mean in means.items():
        _show(EVALUATION_SCORE, mean, {**tags, "scorer": _tag(scorer)})
    _show(EVALUATION_COVERAGE, coverage, tags)
    _show(EVALUATION_PASS_RATE, pass_rate, tags)
    _show(EVALUATION_PASSED, {"passed": 1, "failed": 0}.get(verdict), tags)


def _count(metric: str, tag: str, count_by_value: Mapping[str, int], **other_tags: str) -> None:
    for value, count in count_by_value.items():
        if count:
            airflow_stats().incr(metric, count, tags={**other_tags, tag: value})


def _time(metric: str, seconds: float, tags: Mapping[str, str]) -> None:
    # A timedelta: a plain number means milliseconds to one backend and seconds to another. The wall clock may have been
    # set back meanwhile.
    airflow_stats().timing(metric, timedelta(seconds=max(0.0, seconds)), tags=tags)


def _show(metric: str, value: float | None, tags: Mapping[str, str]) -> None:
    if value is not None:
        airflow_stats().gauge(metric, value, tags=tags)


def _tag(value: str) -> str:
    """Return a value as a valid tag for every backend: StatsD accepts only ASCII and has no escapes."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", value)[:100]
