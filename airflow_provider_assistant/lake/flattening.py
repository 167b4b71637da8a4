"""Flatten a JSON value into one row per leaf, without losing any field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from airflow_provider_assistant.texts import storable

# JSON types of leaves that are neither strings nor numbers.
_KINDS = {type(None): "null", bool: "boolean", list: "array", dict: "object"}


# A number as JSON writes it. int() and float() also read 1_000, nan, and the digits of other scripts.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class Digits(str):
    """A number as its text."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=Digits, parse_int=Digits, parse_constant=lambda _: None)


def with_digits(text: str) -> Any:
    """
    Return the value of a JSON text without losing digits.

    :param text: The text, which :func:`.strict_json.read` has returned.
    :return: Numbers are :class:`Digits`.
    """
    return _DECODER.decode(text)


class Metric(NamedTuple):
    """
    One leaf of a reply.

    :param metric: Dotted path; an item of a list is named by its position, from 0, or by the value of one of its
        fields.
    :param value: The number, or the number that a string consists of; None if a double cannot hold it, and for
        everything else.
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
        # By path and shape of an object, and the names of its members. Replies mostly have the same
        # fields, so the paths of the members are computed once.
        self._paths_by_object: dict[tuple[str, str, tuple[str, ...]], list[_Paths]] = {}

    def add(self, raw: Any) -> int:
        """Add the leaves of a value, and return their number."""
        before = len(self.metrics)
        add_metric, add_value = self.metrics.append, self.values.append
        add_text, add_type = self.texts.append, self.types.append
        # Iterate with a stack of iterators over the members of the objects and lists that are open:
        # JSON may be nested deeper than Python's recursion limit.
        root: tuple[_Paths, Any] = (("", "", "$"), raw)
        open_values: list[Iterator[tuple[_Paths, Any]]] = [iter([root])]
        while open_values:
            for (path, shape, metric), value in open_values[-1]:
                # Faster than _leaf(), because it creates no Metric.
                if type(value) is Digits:
                    add_metric(metric)
                    add_value(_double(value))
                    add_text(value)
                    add_type("number")
                elif isinstance(value, dict | list) and value:
                    # Continue with the members; the iterator of this level keeps its position.
                    open_values.append(self._members(path, shape, value))
                    break
                else:
                    _, number, text, json_type = _leaf(metric, value)
                    add_metric(metric)
                    add_value(number)
                    add_text(text)
                    add_type(json_type)
            else:
                # This level has no more members.
                open_values.pop()
        return len(self.metrics) - before

    def _members(
        self,
        path: str,
        shape: str,
        value: dict[Any, Any] | list[Any],
    ) -> Iterator[tuple[_Paths, Any]]:
        """Return the members of an object or the items of a list, each after its paths."""
        if isinstance(value, dict):
            names = tuple(map(str, value))
            member_paths = self._paths_by_object.get((path, shape, names))
            if member_paths is None:
                member_paths = [_paths(_below(path, name), _below(shape, name)) for name in names]
                self._paths_by_object[path, shape, names] = member_paths
            return zip(member_paths, value.values(), strict=True)
        return self._items(path, shape, value)

    def _items(self, path: str, shape: str, items: list[Any]) -> Iterator[tuple[_Paths, Any]]:
        names = item_names(items, self._keys.get(shape))
        item_shape = _below(shape, "*")
        for name, item in zip(names, items, strict=True):
            yield _paths(_below(path, name), item_shape), item


# The path of a value; its shape, which is the path with "*" for any item of a list; and its metric.
_Paths: TypeAlias = tuple[str, str, str]


def _paths(path: str, shape: str) -> _Paths:
    return path, shape, storable(path) or "$"


def flatten(raw: Any, list_keys: Mapping[str, str] | None = None) -> Iterator[Metric]:
    """
    Return every leaf of a JSON value, in document order.

    :param list_keys: Field that names the items of a list, by dotted path of the list, in which ``*`` means any item
        of an outer list. Such an item has the same path at every position. An item without the field is named by its
        position. Of items with the same name, the second one is ``name#2``. Default: None, all items are named by
        position.
    """
    leaves = Leaves(list_keys)
    leaves.add(raw)
    return map(Metric, leaves.metrics, leaves.values, leaves.texts, leaves.types)


def as_text(raw: Any) -> str:
    """Return a JSON value as text: a string unchanged, everything else as JSON."""
    if isinstance(raw, str):
        return storable(raw)
    return json_text(raw)


def json_text(value: Any) -> str:
    """Return a value as JSON, with every digit of its :class:`Digits`."""
    if isinstance(value, Digits):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(json_text, value))}]"
    if isinstance(value, dict):
        members = [f"{json.dumps(name)}: {json_text(member)}" for name, member in value.items()]
        return f"{{{', '.join(members)}}}"
    return json.dumps(value)


def item_names(items: Sequence[Any], key: str | None) -> list[str]:
    """
    Return the names of the items of a list, all different.

    :param key: Field that names an item. None, or for an item without it: its position, from 0.
    """
    if key is None:
        return list(map(str, range(len(items))))
    return distinct([_name(item, key, position) for position, item in enumerate(items)])


def distinct(names: list[str]) -> list[str]:
    """Return the names, with ``#2``, ``#3`` and so on after a name that stands there again."""
    taken = set(names)
    if len(taken) == len(names):
        return names
    # By name, the number that it had last.
    numbers: dict[str, int] = {}
    distinct_names = []
    for name in names:
        distinct_name = name
        number = numbers.get(name, 0) + 1
        if number > 1:
            while (distinct_name := f"{name}#{number}") in taken:
                number += 1
            taken.add(distinct_name)
        numbers[name] = number
        distinct_names.append(distinct_name)
    return distinct_names


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _name(item: Any, key: str, position: int) -> str:
    name = item.get(key) if isinstance(item, Mapping) else None
    if name is None or isinstance(name, Mapping | list):
        return str(position)
    return as_text(name)


def _leaf(path: str, raw: Any) -> Metric:
    if isinstance(raw, str):
        value = _double(raw) if _NUMBER.fullmatch(raw) else None
        return Metric(path, value, storable(raw), "string")
    # To Python, a bool is an int.
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        return Metric(path, None, json.dumps(raw), _KINDS[type(raw)])
    if isinstance(raw, float) and not math.isfinite(raw):
        # JSON has no word for it.
        return Metric(path, None, "null", "null")
    return Metric(path, _double(raw), repr(raw), "number")


def _double(number: float | str) -> float | None:
    """Return a number as a double; None if it is too large."""
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None
