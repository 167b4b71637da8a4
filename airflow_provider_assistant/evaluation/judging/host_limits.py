"""
What a model's host does not support, read from its refusals.

A judge asks for temperature 0 and a JSON schema. Some models refuse the one or the other, and their hosts say so in
their own words. What is named there is left out. Anything else is a refusal: of one question, or of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from airflow_provider_assistant.api.call import Response

TEMPERATURE, RESPONSE_FORMAT, SYSTEM_ROLE = "temperature", "response_format", "system role"

# The statuses of refusals. 501 is that of a host which does not have a feature; some send 500.
_STATUSES = frozenset({400, 415, 422, 500, 501})
# How each is named. Hosts translate the response format into their own fields.
_NAMES = {
    TEMPERATURE: r"temperature|sampling param\w*",
    RESPONSE_FORMAT: r"response[_ -]?(?:format|schema|mime_?type)|json[_ -]?(?:schema|mode|object)|"
    r"structured[_ -]?outputs?|output[_ -]?(?:format|config|schema)|guided[_ -]?(?:json|decoding)|"
    r"additionalProperties|grammars?",
    SYSTEM_ROLE: r"system[_ -]?(?:role|messages?|prompts?|instructions?)|"
    r"developer[_ -]?(?:role|messages?|instructions?)|role.{0,40}\bsystem",
}
_PATTERNS = {
    parameter: re.compile(rf"(?:\b|_)(?:{names})(?:\b|_)", re.IGNORECASE) for parameter, names in _NAMES.items()
}
_COMPLAINT = re.compile(
    r"support|permitted|allowed|accept|invalid|illegal|unknown|unrecogni[sz]ed|unexpected|deprecated|available|"
    r"unavailable|must be|should be|cannot|can't|enabled|disabled|not implemented|incompatible|forbidden|removed|"
    r"no longer|expected|only|extra (?:inputs|fields)|cannot find field|fail|error",
    re.IGNORECASE,
)
# What is wrong with one question, in whatever words a host says it.
_OF_ONE = re.compile(
    r"context|too (?:long|large|many tokens)|token limit|max\w*[_ ](?:length|tokens|input)|length|safety|flagged|"
    r"content[_ ]?(?:filter|policy|management)|moderation|blocked|prohibited|harm|violat|jailbreak|"
    r"(?:could not|failed to) (?:generate|validate)|json_validate_failed",
    re.IGNORECASE,
)
# What concerns the model, the account or the request as such.
_OF_ALL = re.compile(
    r"\b(?:model|deployment|engine|api[_ -]?version|api[_ -]?key|account|billing|quota|credits?|balance|plan|"
    r"organi[sz]ation|project|region|endpoint|url|route|licen[cs]e|subscription)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
# Fields that name a parameter, and fields that repeat the request.
_NAMING = frozenset({"param", "parameter", "loc", "field"})
_REPEATING = frozenset({"input", "ctx", "request", "body", "messages", "prompt"})


def unsupported(response: Response, own_texts: Collection[str]) -> set[str]:
    """
    Return what a response refuses: ``temperature``, ``response_format``, ``system role``; empty if it names nothing.

    :param own_texts: Texts of the request. A refusal that repeats them does not mean them.
    """
    if response.status not in _STATUSES:
        return set()
    body = response.readable_value()
    if body is None:
        body = response.body[:10_000].decode("utf-8", errors="replace")
    found = set()
    for field, whole_text in _texts(body):
        text = whole_text
        for own_text in own_texts:
            # One word may be the name of a parameter.
            if " " in own_text:
                text = text.replace(own_text, "")
        for parameter, pattern in _PATTERNS.items():
            is_named = field in _NAMING and pattern.search(text)
            is_refused = pattern.search(text) and _COMPLAINT.search(text) and not _OF_ONE.search(text)
            if is_named or is_refused:
                found.add(parameter)
    return found


def refuses_all(detail: str, earlier: str | None) -> bool:
    """
    Return whether all requests would get a refusal.

    :param detail: Text of the refusal.
    :param earlier: Text of the refusal of another question before, or None. The same text is not about a question.
    """
    if _OF_ONE.search(detail):
        return False
    if _OF_ALL.search(detail):
        return True
    return earlier is not None and _NUMBER.sub("", detail) == _NUMBER.sub("", earlier)


def _texts(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of a body with the names of their fields, without those that repeat the request."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _REPEATING:
                yield from _texts(item, str(name))
    elif isinstance(value, list) and field == "loc":
        yield field, ".".join(map(str, value))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, field)
