"""The package's Airflow metrics: every name, in one place (specification, section 7, suggested observation)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow.providers.common.compat.sdk import Stats

REQUESTS: Final = "assistant.requests"
REQUEST_DURATION: Final = "assistant.request_duration"
RETRIES: Final = "assistant.retries"
RATE_LIMITED: Final = "assistant.rate_limited"
SERVER_ERRORS: Final = "assistant.server_errors"
COMPLETION_DURATION: Final = "assistant.async_completion_duration"


def request(endpoint: str, status: str, seconds: float) -> None:
    """
    Count one exchange.

    :param endpoint: Name of the endpoint.
    :param status: HTTP status, or ``connection`` or ``timeout`` when there was no answer.
    :param seconds: From sending to the whole answer.
    """
    tags = {"endpoint": endpoint, "status": status}
    Stats.incr(REQUESTS, tags=tags)
    # A timedelta, because a plain number means milliseconds to one backend and seconds to another.
    Stats.timing(REQUEST_DURATION, timedelta(seconds=seconds), tags=tags)
    if status == "429":
        Stats.incr(RATE_LIMITED, tags={"endpoint": endpoint})
    elif status.startswith("5"):
        Stats.incr(SERVER_ERRORS, tags=tags)


def retry(endpoint: str) -> None:
    """Count one request that is about to be repeated."""
    Stats.incr(RETRIES, tags={"endpoint": endpoint})


def async_completion(state: str, seconds: float) -> None:
    """
    Measure one async chat request that has ended.

    :param state: ``complete`` or ``failed``.
    :param seconds: From submission to the poll that noticed.
    """
    Stats.timing(COMPLETION_DURATION, timedelta(seconds=seconds), tags={"state": state})
