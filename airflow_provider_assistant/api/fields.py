"""
Find the fields of a reply, and the reason of an error in it.

There is one rule: a field is read in the reply, or in the envelope around it, such as ``data``. It is never read in
another object: the id of a ``site`` or a ``user`` is not that of the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

T = TypeVar("T")

# Objects in which services wrap a reply. An envelope may be in another one.
ENVELOPES = ("data", "result", "response", "payload", "attributes")
DEEPEST = 5
# Words that acknowledge the HTTP request. They are neither an answer nor a status.
ACKNOWLEDGEMENTS = frozenset({"ok", "success", "successful", "true"})
# Fields with the reason of an error, the most telling first.
REASONS = (
    *("error", "errors", "detail", "details", "error_message", "errorMessage", "error_description", "reason"),
    *("message", "msg", "defaultMessage", "title", "code"),
)
# Fields that name the field of the request to which an error belongs: of FastAPI, Spring and others.
PLACES = ("loc", "field", "param", "pointer")
SHOWN_REASONS = 3
# A reason such as "Bad Request" only repeats the HTTP status.
PHRASES = frozenset(status.phrase.casefold() for status in HTTPStatus)


def layers(raw: Any, envelopes: tuple[str, ...] = ENVELOPES) -> list[Mapping[str, Any]]:
    """Return the objects of a reply, the innermost first: an outer one is about the HTTP request."""
    levels: list[list[Mapping[str, Any]]] = []
    level: list[Mapping[str, Any]] = [raw] if isinstance(raw, dict) else []
    while level and len(levels) < DEEPEST:
        levels.insert(0, level)
        level = [parent[name] for parent in level for name in envelopes if isinstance(parent.get(name), dict)]
    return [json_object for level in levels for json_object in level]


def text_of(value: Any) -> str | None:
    """Return a JSON string or integer as text, because ids may be numbers; otherwise None."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def list_of(value: Any) -> list[Any] | None:
    """Return a JSON list; None for anything else."""
    return value if isinstance(value, list) else None


def find(raw: Any, *names: str, envelopes: tuple[str, ...] = ENVELOPES) -> str | None:
    """
    Return the text of the first of these fields that has one; an integer counts as text.

    :param envelopes: Names of the objects in which services wrap this reply.
    """
    return find_as(text_of, raw, *names, envelopes=envelopes)


def find_as(take: Callable[[Any], T | None], raw: Any, *names: str, envelopes: tuple[str, ...] = ENVELOPES) -> T | None:
    """Do the same with values of another type: ``take`` returns such a value, and None for others."""
    objects = layers(raw, envelopes)
    for name in names:
        for json_object in objects:
            value = take(json_object.get(name))
            if value is not None:
                return value
    return None


def is_acknowledgement(word: str) -> bool:
    """Return whether a word only acknowledges the HTTP request."""
    return word.strip().casefold() in ACKNOWLEDGEMENTS


def reason_of(raw: Any, envelopes: tuple[str, ...] = ENVELOPES) -> str | None:
    """Return the reason of an error, in the shapes that FastAPI, Rails, Spring and others send; None if it has none."""
    for json_object in layers(raw, envelopes):
        reason = _reason(json_object)
        if reason:
            return reason
    return _reason(raw) if isinstance(raw, list) else None


def error_in(json_object: Mapping[str, Any]) -> str | None:
    """Return the reason in the fields ``error`` and ``errors``; None if they say that there was none."""
    return _reason(json_object.get("error")) or _reason(json_object.get("errors"))


def _reason(value: Any, depth: int = 5) -> str | None:
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list) and depth:
        return _joined([_reason(item, depth - 1) for item in value[:SHOWN_REASONS]])
    if not isinstance(value, dict) or not depth:
        return None
    if value.keys().isdisjoint(REASONS[:4]) and all(isinstance(item, list) for item in value.values()):
        # Rails names the fields: {"title": ["is too long"]}.
        named = list(value.items())[:SHOWN_REASONS]
        return _joined([_at(name, _reason(item, depth - 1)) for name, item in named])
    reasons = [reason for name in REASONS if (reason := _reason(value.get(name), depth - 1))]
    telling = [reason for reason in reasons if reason.casefold() not in PHRASES]
    code = text_of(value.get("code"))
    reason = next(iter([*telling, *reasons]), code)
    place = next((value[name] for name in PLACES if value.get(name)), "")
    if isinstance(place, list):
        place = ".".join(map(str, place))
    return _at(str(place), reason)


def _at(place: str, reason: str | None) -> str | None:
    return f"{place}: {reason}" if place and reason else reason


def _joined(reasons: list[str | None]) -> str | None:
    return "; ".join(filter(None, reasons)) or None
