"""Flatten a JSON value into one row per leaf, without losing any field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# JSON types of leaves that are neither strings nor numbers.
_KINDS = {type(None): "null", bool: "boolean", list: "array", dict: "object"}


class Metric(NamedTuple):
    """
    One leaf of a reply.

    :param metric: Dotted path; an item of a list is named by its position, from 0, or by the value of one of its
        fields.
    :param value: The number; None for every other type.
    :param text: The leaf as text: a string unchanged, everything else as JSON.
    :param type: JSON type: ``number``, ``string``, ``boolean``, ``null``, or an empty ``object`` or ``array``.
    """

    metric: str
    value: float | None
    text: str
    type: str


def flatten(raw: Any, list_keys: Mapping[str, str] | None = None) -> Iterator[Metric]:
    """
    Yield every leaf of a JSON value, in document order.

    :param raw: The value.
    :param list_keys: Field that names the items of a list, by dotted path of the list, in which ``*`` means any item
        of an outer list. Such an item has the same path at every position. An item without the field is named by its
        position; two items with the same name have the same paths. Default: None, all items are named by position.
    :return: An iterator over the leaves.
    """
    keys = list_keys or {}
    # Iterate with a stack: JSON may be nested deeper than Python's recursion limit.
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
    """
    Return a JSON value as text: a string unchanged, everything else as JSON.

    :param raw: The value.
    """
    return storable(raw) if isinstance(raw, str) else json.dumps(raw)


def storable(text: str) -> str:
    """
    Return a text that Parquet can store: a lone surrogate, which JSON allows and UTF-8 does not, becomes an escape.

    :param text: The text.
    """
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
    # For finite numbers, repr() equals json.dumps() and is ten times as fast. json.dumps() has words for the others.
    return repr(number) if isinstance(number, int) or math.isfinite(number) else json.dumps(number)


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
