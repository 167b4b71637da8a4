"""Flatten a JSON value into one row per leaf, without losing any field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from airflow_provider_assistant.texts import storable

# JSON types of leaves that are neither strings nor numbers.
_KINDS = {type(None): "null", bool: "boolean", list: "array", dict: "object"}


class Digits(str):
    """A number with a fraction or an exponent, as its text."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=Digits)


def with_digits(text: str) -> Any:
    """
    Return the value of a JSON text without losing digits.

    :param text: The text, which :func:`.strict_json.read` has returned.
    :return: Numbers with a fraction or an exponent are :class:`Digits`.
    """
    return _DECODER.decode(text)


class Metric(NamedTuple):
    """
    One leaf of a reply.

    :param metric: Dotted path; an item of a list is named by its position, from 0, or by the value of one of its
        fields.
    :param value: The number, infinite beyond a double's range; None for every other type.
    :param text: The leaf as text: a string unchanged, everything else as JSON.
    :param type: JSON type: ``number``, ``string``, ``boolean``, ``null``, or an empty ``object`` or ``array``.
    """

    metric: str
    value: float | None
    text: str
    type: str


class Leaves:
    """
    Collect the leaves of many JSON values by column, in document order.

    :param list_keys: Field that names the items of a list, by dotted path of the list, see
        :func:`flatten`.
    """

    def __init__(self, list_keys: Mapping[str, str] | None = None) -> None:
        self.metrics: list[str] = []
        self.values: list[float | None] = []
        self.texts: list[str] = []
        self.types: list[str] = []
        self._keys = list_keys or {}
        # Replies mostly have the same fields, so the paths of an object's members are computed once.
        self._known: dict[tuple[str, str, tuple[str, ...]], list[_Place]] = {}

    def add(self, raw: Any) -> int:
        """Add the leaves of a value, and return their number."""
        before = len(self.metrics)
        add_metric, add_value = self.metrics.append, self.values.append
        add_text, add_type = self.texts.append, self.types.append
        # Iterate with a stack: JSON may be nested deeper than Python's recursion limit.
        stack: list[Iterator[tuple[_Place, Any]]] = [iter([(("", "", "$"), raw)])]
        while stack:
            for place, value in stack[-1]:
                if type(value) is Digits:
                    add_metric(place[2])
                    add_value(float(value))
                    add_text(value)
                    add_type("number")
                elif isinstance(value, dict | list) and value:
                    stack.append(self._members(place[0], place[1], value))
                    break
                else:
                    metric, number, text, name = _leaf(place[2], value)
                    add_metric(metric)
                    add_value(number)
                    add_text(text)
                    add_type(name)
            else:
                stack.pop()
        return len(self.metrics) - before

    def _members(self, path: str, shape: str, value: dict[Any, Any] | list[Any]) -> Iterator[tuple[_Place, Any]]:
        if isinstance(value, dict):
            names = tuple(map(str, value))
            places = self._known.get((path, shape, names))
            if places is None:
                places = [_place(_below(path, name), _below(shape, name)) for name in names]
                self._known[path, shape, names] = places
            return zip(places, value.values(), strict=True)
        key, inner = self._keys.get(shape), _below(shape, "*")
        return ((_place(_below(path, _name(item, key, at)), inner), item) for at, item in enumerate(value))


# The path of a value, the path of its kind, in which "*" is any item of a list, and its metric.
_Place: TypeAlias = tuple[str, str, str]


def _place(path: str, shape: str) -> _Place:
    return path, shape, storable(path) or "$"


def flatten(raw: Any, list_keys: Mapping[str, str] | None = None) -> Iterator[Metric]:
    """
    Return every leaf of a JSON value, in document order.

    :param list_keys: Field that names the items of a list, by dotted path of the list, in which ``*`` means any item
        of an outer list. Such an item has the same path at every position. An item without the field is named by its
        position; two items with the same name have the same paths. Default: None, all items are named by position.
    """
    leaves = Leaves(list_keys)
    leaves.add(raw)
    return map(Metric, leaves.metrics, leaves.values, leaves.texts, leaves.types)


def as_text(raw: Any) -> str:
    """Return a JSON value as text: a string unchanged, everything else as JSON."""
    return storable(raw) if isinstance(raw, str) else json.dumps(raw)


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
    return repr(number) if isinstance(number, int) or math.isfinite(number) else json.dumps(number)


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
