"""
From an answer, or the lack of one, to an exception: the specification's error table, once.

These questions are answered here and nowhere else: which exception it is, whether sending the same request again can
help (:func:`is_transient`) or cannot (:func:`is_refused`), whether the request may have taken effect
(:func:`may_have_happened`), and whether a polled chat request is lost (:func:`is_lost`).
"""

from __future__ import annotations

import html
import json
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple

from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.api.models import error_text
from airflow_provider_assistant.exceptions import (
    AssistantAPIError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantServerError,
    AssistantTimeout,
)

DETAIL_LENGTH = 300
# Of a body that is not JSON no more is looked at: the patterns below take quadratic time on hostile text.
PAGE_LENGTH = 4096
# No honest service asks for more, and whoever waits for the triggerer would be waiting for years.
LONGEST_RETRY_AFTER = 86_400.0


class Row(NamedTuple):
    """One row of the specification's error table."""

    error: type[AssistantAPIError]
    condition: str
    handling: str


ERROR_TABLE: dict[int, Row] = {
    400: Row(
        AssistantBadRequestError,
        "malformed payload or request structure",
        "Fix the payload; the same request would be refused again.",
    ),
    401: Row(
        AssistantAuthenticationError,
        "the API key is wrong or authentication is not set up",
        "Fix the API key in the Airflow connection's password.",
    ),
    403: Row(
        AssistantPermissionError,
        "plan, access or capability does not permit the call",
        "Check the plan, access and capabilities of this API key.",
    ),
    404: Row(
        AssistantNotFoundError,
        "tenant, site or resource not found, or not owned by the caller",
        "Check the identifiers and that this API key owns them.",
    ),
    429: Row(
        AssistantRateLimitError,
        "too many requests",
        "Retry later, lower the concurrency, or raise the tenant's limits.",
    ),
}
SERVER_ERROR = Row(
    AssistantServerError,
    "server-side failure",
    "If it persists, alert the service's owner.",
)
# A 4xx that the specification does not list refuses this one request, as a 400 does.
REFUSED = Row(
    AssistantBadRequestError,
    "the service refuses this request",
    "Fix the payload; the same request would be refused again.",
)
# The client errors that HTTP itself asks to send again: Request Timeout and Too Early. The service did nothing.
TOO_SOON = Row(
    AssistantAPIError,
    "the service asks for the same request once more",
    "If it persists, alert the service's owner.",
)
SENT_AGAIN = frozenset({408, 425})
UNEXPECTED = Row(
    AssistantAPIError,
    "an answer the specification does not list",
    "Check the base URL in the Airflow connection: redirects are not followed, so that the key stays with its host.",
)


def from_response(call: Call[Any], response: Response, now: float) -> AssistantAPIError:
    """
    Return the exception for an answer that is no success.

    :param call: The request.
    :param response: Its answer, with a status outside 2xx.
    :param now: Seconds since the epoch, for a ``Retry-After`` that is a date.
    """
    row = ERROR_TABLE.get(response.status) or _row_of_class(response.status)
    detail = _detail(response)
    retry_after = parse_retry_after(response.headers.get("retry-after"), now)
    said = f" The service said: {detail!r}." if detail else ""
    asked = f" It asked to wait {retry_after:.0f} s." if retry_after is not None else ""
    return row.error(
        f"{response.status} {_phrase(response.status)}: {row.condition} ({call}).{said}{asked} {row.handling}",
        status=response.status,
        endpoint=call.endpoint,
        detail=detail,
        retry_after=retry_after,
        request_id=response.headers.get("x-request-id"),
    )


def _row_of_class(status: int) -> Row:
    """Return how to treat a status that the specification does not list: as its class says."""
    if status >= 500:
        return SERVER_ERROR
    if status in SENT_AGAIN:
        return TOO_SOON
    return REFUSED if status >= 400 else UNEXPECTED


def from_failure(call: Call[Any], failure: TransportFailure) -> AssistantConnectionError | AssistantTimeout:
    """Return the exception for a request that got no answer."""
    if failure.kind == "timeout":
        return AssistantTimeout(
            f"No answer in time from {failure.host}: {failure.detail} ({call}). "
            "If the service is only slow, raise the timeout in the Airflow connection."
        )
    return AssistantConnectionError(
        f"No answer from {failure.host}: {failure.detail} ({call}). "
        "Check the base URL in the Airflow connection and that the service can be reached from this machine."
    )


def is_transient(error: AssistantError) -> bool:
    """Return whether the same request may succeed a little later (408, 425, 429, 5xx, no answer)."""
    if isinstance(error, AssistantAPIError) and error.status in SENT_AGAIN:
        return True
    return isinstance(
        error,
        AssistantRateLimitError | AssistantServerError | AssistantConnectionError | AssistantTimeout,
    )


def is_refused(error: AssistantError) -> bool:
    """Return whether the service would refuse the same request again (any other 4xx)."""
    return isinstance(error, AssistantAPIError) and 400 <= error.status < 500 and not is_transient(error)


def is_lost(error: AssistantError) -> bool:
    """
    Return whether the answer to a poll means that the service no longer knows a chat request it had accepted.

    401 and 403 are about the API key instead.
    """
    return is_refused(error) and not isinstance(error, AssistantAuthenticationError | AssistantPermissionError)


def may_have_happened(call: Call[Any], outcome: Response | TransportFailure) -> bool:
    """
    Return whether a create whose outcome is no success may nevertheless have taken effect.

    True for a request that cannot be repeated safely and met a 5xx, or was sent and got no answer.
    """
    if call.repeatable:
        return False
    return outcome.status >= 500 if isinstance(outcome, Response) else outcome.sent


def parse_retry_after(value: str | None, now: float) -> float | None:
    """
    Return how many seconds a ``Retry-After`` header asks to wait, at most a day.

    :param value: The header: seconds, or an HTTP date; anything else counts as absent.
    :param now: Seconds since the epoch.
    """
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII):
        return min(float(value), LONGEST_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # A date without a zone is UTC in HTTP.
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return min(max(0.0, when.timestamp() - now), LONGEST_RETRY_AFTER)


def _detail(response: Response) -> str:
    """Return what the body says, shortened."""
    try:
        said = error_text(json.loads(response.body))
    except (ValueError, RecursionError):
        text = response.body[:PAGE_LENGTH].decode("utf-8", errors="replace")
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        said = html.unescape(re.sub(r"<[^>]*>", " ", title.group(1) if title else text))
    return shortened(said or "")


def shortened(said: str) -> str:
    """Return what a service said on one line, without control characters, at most DETAIL_LENGTH characters of it."""
    line = " ".join("".join(char if char.isprintable() else " " for char in said[:PAGE_LENGTH]).split())
    return line if len(line) <= DETAIL_LENGTH else f"{line[: DETAIL_LENGTH - 1]}…"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(unknown status)"
