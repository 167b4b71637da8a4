"""
What the limits of a tenant say about documents.

The specification shows neither the fields nor the values of the limits, so every shape is accepted. A value counts only
if each word on its path is known: a limit per site, per day or of another thing must not be taken for the limit of the
tenant's documents. If nothing is understood, nothing is known.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

# The names on the way to a value, each as its words.
_Path: TypeAlias = tuple[tuple[str, ...], ...]
_Role: TypeAlias = Literal["limit", "used", "left"]

# Words in the names of limits, of used amounts and of what is left.
LIMIT_WORDS: Final = ("limit", "max", "maximum", "quota", "allowed")
USED_WORDS: Final = ("used", "usage", "current", "count")
_LEFT_WORDS = ("remaining", "left", "available")
# "max_count" is a limit, although "count" alone is a used amount.
_WEAK_WORDS = ("current", "count")
_ROLES: Final[dict[str, _Role]] = {
    **dict.fromkeys((*LIMIT_WORDS, "limits", "quotas"), "limit"),
    **dict.fromkeys(USED_WORDS, "used"),
    **dict.fromkeys(_LEFT_WORDS, "left"),
}
# A limit that comes back with time is a rate: a load that reaches it waits.
_RENEWING = frozenset({"reset", "resets", "renews", "period", "window", "interval"})
_NEUTRAL = frozenset(
    {
        *("data", "result", "response", "tenant", "workspace", "account", "plan", "subscription", "resources"),
        *("value", "number", "of", "total"),
    }
)
_TIME = frozenset({"at", "date", "time"})
_DOCUMENTS = frozenset({"document", "documents", "docs"})
# Only one file has a size of this name; "documents.bytes" may be the sum of all.
_FILE = frozenset({"document", "file", "upload"})
_UNITS = {"byte": 1, "bytes": 1, "kb": 2**10, "kib": 2**10, "mb": 2**20, "mib": 2**20, "gb": 2**30, "gib": 2**30}
_UNLIMITED = frozenset({"", "none", "null", "never", "unlimited", "infinite", "infinity", "inf"})
_DIGITS = re.compile(r"-?[0-9]{1,18}")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATOR = re.compile(r"[\W_]+")
# Fields with the name of an item of a list.
_NAME_FIELDS = ("name", "type", "resource", "metric", "key", "id")
# Levels of the reply that are looked at.
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """
    Hold what a tenant's limits say about documents.

    :param left: Number of documents that the tenant may still create. Default: None, not known or not limited.
    :param limit: Number of documents that it may have. Default: None, not known or not limited.
    :param used: Number of documents that it has. Default: None, not known.
    :param file_bytes: Maximum size of a file in bytes. Default: None, not known or not limited.
    """

    left: int | None = None
    limit: int | None = None
    used: int | None = None
    file_bytes: int | None = None


def document_limits(raw: Any) -> DocumentLimits:
    """
    Return what a reply of ``GET …/tenants/{tenant_id}/limits`` says about documents.

    Null, 0, a negative number and words such as ``unlimited`` mean "no limit", because services use all of these. If
    two values of a reply contradict each other, neither counts. If ``remaining`` is not the difference between limit
    and used amount, the larger number counts.

    :param raw: The reply as received, of any shape.
    :return: The limits; None where the reply says nothing that is understood.
    """
    values: dict[str, set[float]] = defaultdict(set)
    for path, value in _leaves(raw):
        if meaning := _meaning(path, value):
            values[meaning[0]].add(meaning[1])
    found = {name: numbers.pop() for name, numbers in values.items() if len(numbers) == 1}
    file_bytes = None if "file.used" in values else _finite(found.get("file.limit"))
    if "documents.renewing" in values:
        return DocumentLimits(file_bytes=file_bytes)
    limit, used, left = (found.get(f"documents.{role}") for role in ("limit", "used", "left"))
    rest = [] if left is None else [left]
    if limit is not None and used is not None:
        rest.append(max(0, limit - used))
    most = None if limit == math.inf else _finite(max(rest, default=None))
    return DocumentLimits(most, _finite(limit), _finite(used), file_bytes)


def _leaves(raw: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yield each value of a reply that is neither an object nor a list, with its path."""
    if isinstance(raw, Mapping | list):
        if len(path) < _DEPTH:
            members = raw.items() if isinstance(raw, Mapping) else ((_name(item), item) for item in raw)
            for name, value in members:
                yield from _leaves(value, (*path, _words(name)))
    else:
        yield path, raw


def _name(item: Any) -> str:
    """Return the name of an item of a list; no word that is known if it has none."""
    fields = item if isinstance(item, Mapping) else {}
    return next((name for field in _NAME_FIELDS if isinstance(name := fields.get(field), str)), "")


def _words(name: str) -> tuple[str, ...]:
    return tuple(_SEPARATOR.split(_CAMEL_CASE.sub("_", name).lower()))


def _meaning(path: _Path, value: Any) -> tuple[str, float] | None:
    """Return the name of a fact and its number, such as ``documents.limit`` and 100; None if it is not understood."""
    words = {word for name in path for word in name}
    is_of_documents = words & _DOCUMENTS or words <= _ROLES.keys() | _NEUTRAL | _RENEWING | _TIME
    if words & _RENEWING and is_of_documents:
        return None if _is_unlimited(value) else ("documents.renewing", 1)
    role = _role(path)
    number = _number(value, role) if role else None
    if number is None:
        return None
    things = words - _ROLES.keys() - _NEUTRAL
    if things and things <= _DOCUMENTS:
        return f"documents.{role}", number
    units = things & _UNITS.keys()
    if len(units) == 1 and len(things & _FILE) == 1 and things <= units | _FILE | {"size"}:
        return f"file.{role}", number * _UNITS[units.pop()]
    return None


def _role(path: _Path) -> _Role | None:
    """Return whether a value is a limit, a used amount or what is left: the last name that has such a word decides."""
    for name in reversed(path):
        known = [word for word in name if word in _ROLES]
        strong = [word for word in known if word not in _WEAK_WORDS]
        roles = {_ROLES[word] for word in strong or known}
        if roles:
            # "remaining_quota" is what is left; "used_quota" and "usage_limit" cannot be told apart.
            return "left" if "left" in roles else roles.pop() if len(roles) == 1 else None
    return None


def _number(value: Any, role: _Role) -> float | None:
    """Return a whole number as it is, and infinity for "no limit". None if the value is neither."""
    if role != "used" and _is_unlimited(value):
        return None if role == "left" and value is None else math.inf
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    if value < 0 or value == math.inf or (value == 0 and role == "limit"):
        return None if role == "used" else math.inf
    return value if value == value // 1 else None


def _is_unlimited(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _UNLIMITED)


def _finite(number: float | None) -> int | None:
    return None if number is None or number == math.inf else int(number)
