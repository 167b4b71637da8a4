"""
Find out whether the body of a success says that the call failed, and which status that means.

A gateway or a framework may answer 200, 201 or 207 and report the failure in the body only. The API has answered, so
it has not carried out the call: such a reply means what the status would have meant that the body describes, and a row
is rejected. There are two exceptions. An error that may pass, such as "try again later", means a 503, so that a create
is retried and is ambiguous. A failure without any reason means nothing: a create is ambiguous and is not sent again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow_provider_assistant.api.fields import (
    REASONS,
    find_as,
    is_acknowledgement,
    layers,
    list_of,
    reason_of,
    text_of,
)
from airflow_provider_assistant.api.replies import CHAT_ENVELOPES
from airflow_provider_assistant.api.status import folded

ENVELOPES = ("document", *CHAT_ENVELOPES)
# Lists with one result for each object of the request, such as in a 207.
_LISTS = ("results", "responses", "items", "documents", "data")
_STATUS_NUMBERS = ("status", "status_code", "statusCode", "code")
_FAILURE_WORDS = frozenset({"failed", "failure", "fail", "error"})
_NO = frozenset({"false", "no", "0"})
# Values of an error field that say that there was none.
_NO_ERROR = frozenset({"", "none", "null", "no error", *_NO})
# The documented texts of errors.
_DOCUMENTED = {
    "invalid_api_key": 401,
    "api_access_not_available_on_plan": 403,
    "tenant not found": 404,
    "site not found": 404,
    "request not found": 404,
}
# Values of the request that an error quotes.
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
# Only English texts are understood. In other languages, an error that may pass rejects the row.
_MEANINGS = [
    (re.compile(pattern, re.IGNORECASE), status)
    for pattern, status in (
        (r"\balready exists\b|\bduplicate\b", 409),
        (r"\brate.?limit|\btoo many requests\b", 429),
        (r"\btime[ds]?[ _-]?out\b|\btemporar|\bservice.unavailable\b|\boverloaded\b|\bbusy\b", 503),
        (r"\b(try|retry)\b.*\b(again|later)\b", 503),
        (r"\b(internal([ _-]server)?|unknown|unexpected)[ _-]error\b", 503),
    )
]


class ReportedError(NamedTuple):
    """
    A failure that the body of a success reports.

    :param status: What it means; None if it has no reason.
    :param json_object: The outermost object of the body that reports it; empty if a list does.
    """

    status: int | None
    json_object: Mapping[str, Any]


def reported_error(raw: Any) -> ReportedError | None:
    """
    Return the failure that a body reports; None if it reports none.

    The caller has to check whether the reply has a result nevertheless.
    """
    items = raw if isinstance(raw, list) else find_as(list_of, raw, *_LISTS, envelopes=ENVELOPES)
    failures = [reported_error(item) if isinstance(item, dict) else None for item in items or ()]
    if failures and failures[0] and all(failures):
        return failures[0]._replace(json_object={})
    objects = layers(raw, ENVELOPES)
    failed = [json_object for json_object in objects if _has_error(json_object) or _is_failure(json_object)]
    return ReportedError(_meant_status(raw, objects), failed[-1]) if failed else None


def _has_error(json_object: Mapping[str, Any]) -> bool:
    if any(_says_error(json_object.get(name)) for name in ("error", "error_message", "errorMessage")):
        return True
    errors = json_object.get("errors")
    return _says_error(errors) and not _is_statistic(errors)


def _is_statistic(errors: Any) -> bool:
    """Return whether errors are counted: a number of them, or numbers by kind."""
    is_by_kind = isinstance(errors, dict) and errors.keys().isdisjoint(REASONS)
    numbers = errors.values() if is_by_kind else [errors]
    return all(isinstance(number, int | float) for number in numbers)


def _says_error(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().casefold() not in _NO_ERROR
    return bool(value)


def _is_failure(json_object: Mapping[str, Any]) -> bool:
    status = json_object.get("status")
    if json_object.get("error") is True or any(_word(json_object.get(name)) in _NO for name in ("success", "ok")):
        return True
    # The status of a document may be false as well, but it has no message.
    if _word(status) == "false" and any(map(json_object.get, ("message", "msg", "detail", "reason"))):
        return True
    if isinstance(status, str) and folded(status) in _FAILURE_WORDS:
        return True
    return any(_error_status(json_object.get(name)) for name in _STATUS_NUMBERS)


def _word(value: Any) -> str:
    return "false" if value is False else (text_of(value) or "").strip().casefold()


def _error_status(value: Any) -> int | None:
    """Return a number, or a text that is one, if it is an HTTP status of an error."""
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value.strip(), re.ASCII):
        return int(value)
    is_status = isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600
    return value if is_status else None


def _meant_status(raw: Any, objects: list[Mapping[str, Any]]) -> int | None:
    errors = [json_object["error"] for json_object in objects if isinstance(json_object.get("error"), dict)]
    for json_object in (*errors, *objects):
        for name in _STATUS_NUMBERS:
            status = _error_status(json_object.get(name))
            if status:
                return status
    reasons = [error.get(name) for error in errors for name in ("code", "type")]
    reasons.append(reason_of(raw, ENVELOPES))
    said = [reason for reason in reasons if isinstance(reason, str) and not _says_nothing(reason)]
    for reason in said:
        if reason.strip().casefold() in _DOCUMENTED:
            return _DOCUMENTED[reason.strip().casefold()]
    words = _QUOTED.sub("", " ".join(said))
    for pattern, status in _MEANINGS:
        if pattern.search(words):
            return status
    return 400 if said else None


def _says_nothing(reason: str) -> bool:
    return is_acknowledgement(reason) or folded(reason) in _FAILURE_WORDS
