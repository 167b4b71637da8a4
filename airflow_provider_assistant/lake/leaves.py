"""The leaves of a JSON value, as rows: whatever its fields are, nothing of it is lost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# Of JSON that is neither text nor a number.
_KINDS = {type(None): "null", bool: "boolean", list: "array", dict: "object"}


class Metric(NamedTuple):
    """
    One leaf of a reply.

    :param metric: Dotted path; items of a list are keyed by their position, from 0, or by a field of theirs.
    :param value: The number, or None for anything else.
    :param text: The leaf as text: strings as they are, everything else as JSON.
    :param type: JSON type: ``number``, ``string``, ``boolean``, ``null``, or ``object`` or ``array`` if empty.
    """

    metric: str
    value: float | None
    text: str
    type: str


def flatten(raw: Any, list_keys: Mapping[str, str] | None = None) -> Iterator[Metric]:
    """
    Yield every leaf of a JSON value, in its order.

    :param raw: The value.
    :param list_keys: Path of a list to the field whose value names its items, which are then found under one path
        wherever they stand; in the path, ``*`` stands for the items of a list further up. An item without the
        field keeps its position; two items of one name have the same paths.
    """
    keys = list_keys or {}
    # Not recursive: JSON may be nested deeper than Python calls.
    stack: list[tuple[str, str, Any]] = [("", "", raw)]
    while stack:
        path, shape, value = stack.pop()
        if isinstance(value, dict) and value:
            members = [(_below(path, str(name)), _below(shape, str(name)), inner) for name, inner in value.items()]
        elif isinstance(value, list) and value:
            key, shape = keys.get(shape), _below(shape, "*")
            members = [(_below(path, _name(item, key, at)), shape, item) for at, item in enumerate(value)]
        else:
            yield _leaf(storable(path) or "$", value)
            continue
        stack.extend(reversed(members))


def as_text(raw: Any) -> str:
    """Return a JSON value as text: strings as they are, everything else as JSON."""
    return storable(raw) if isinstance(raw, str) else json.dumps(raw)


def storable(text: str) -> str:
    """Return a text that Parquet can hold: JSON may have half a surrogate pair, UTF-8 may not; it becomes an escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _name(item: Any, key: str | None, position: int) -> str:
    found = item.get(key) if key is not None and isinstance(item, Mapping) else None
    return str(position) if found is None or isinstance(found, Mapping | list) else as_text(found)


def _leaf(path: str, raw: Any) -> Metric:
    if isinstance(raw, str):
        return Metric(path, None, storable(raw), "string")
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return Metric(path, _double(raw), _digits(raw), "number")
    return Metric(path, None, json.dumps(raw), _KINDS[type(raw)])


def _digits(number: float) -> str:
    # What json.dumps would say, in a tenth of the time; it knows words for what is not finite.
    return repr(number) if isinstance(number, int) or math.isfinite(number) else json.dumps(number)


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
