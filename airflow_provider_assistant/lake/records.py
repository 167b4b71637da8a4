"""
The records of a reply: the items of its list, and the reply without them.

The specification describes none of these replies. The list is found by common names, or by the path that the user
gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

from airflow_provider_assistant.api.privacy import without_addresses
from airflow_provider_assistant.exceptions import AssistantResponseError
from airflow_provider_assistant.lake.flattening import Digits, as_text
from airflow_provider_assistant.texts import shortened

# Names of the field with the list, besides the name of the route.
LIST_FIELDS = ("items", "data", "results", "records", "entries", "rows", "history", "days", "daily")
# Names of the field with the day of an item.
DAY_FIELDS = ("date", "day", "usage_date", "period", "timestamp", "start", "start_date", "period_start", "bucket")
# Depth of the objects around the list.
LEVELS = 4
# Characters of the fields in an error.
LISTED = 500
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")

# Names of the objects around a value, and its own; empty for the reply itself.
Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemList:
    """
    The list of a reply.

    :param path: Where it is.
    :param items: Its items. If it is an object whose names are days, each item has the day as its name.
    """

    path: Path
    items: list[tuple[str | None, Any]]


def find_items(value: Any, given: str | None, names: Sequence[str], *, any_name: bool = False) -> ItemList | None:
    """
    Return the list of a reply; None if it has none.

    :param given: Dotted path of the list, such as ``data.sessions``. None to look for it: the reply itself, or the
        first list of objects, or object whose names are days, in a field with one of the names.
    :param names: Names of the field, the best one first.
    :param any_name: Whether the field may have any other name, if its list is not empty. Default: False.
    :raises AssistantResponseError: There is no list at the given path.
    """
    if given is not None:
        return _given_items(value, given)
    items = _items(value)
    if items is not None:
        return ItemList((), items)
    objects = _objects(value)
    for name in names:
        for path, json_object in objects:
            items = _items(json_object.get(name))
            if items is not None:
                return ItemList((*path, name), items)
    if any_name:
        return _first_items(objects)
    return None


def _given_items(value: Any, given: str) -> ItemList:
    path = tuple(given.split("."))
    member = _value_at(value, path)
    if isinstance(member, list):
        return ItemList(path, [(None, item) for item in member])
    items = _items(member)
    if items is None:
        fields = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise AssistantResponseError(
            f"the reply has no list at {given!r}. It has {shortened(fields, LISTED) or 'no fields'}",
            todo="Correct the parameter items.",
        )
    return ItemList(path, items)


def _first_items(objects: Sequence[tuple[Path, dict[str, Any]]]) -> ItemList | None:
    """Return the first list of these objects that is not empty."""
    for path, json_object in objects:
        for name, member in json_object.items():
            items = _items(member)
            if items:
                return ItemList((*path, name), items)
    return None


def without_items(value: Any, path: Path) -> Any:
    """
    Return a reply without its list; None if it is the list.

    :param path: Where the list is.
    """
    if not path:
        return None
    first, *rest = path
    others = {name: member for name, member in value.items() if name != first}
    if rest:
        others[first] = without_items(value[first], tuple(rest))
    return others


def item_name(item: Any, fields: Sequence[str], position: int) -> str:
    """
    Return the name of an item: the value of the first field that it has, or else its position.

    :param fields: Names of the fields.
    :param position: Position in the list, from 0.
    """
    if isinstance(item, Mapping):
        for name in fields:
            value = item.get(name)
            if value is not None and not isinstance(value, Mapping | list):
                return as_text(value)
    return str(position)


def day_of_item(name: str | None, item: Any, field: str | None) -> date | None:
    """
    Return the day of an item, as it is written: a time is not converted to another time zone.

    :param name: Name of the item, which may be the day.
    :param field: Dotted path of the field with the day; None for the usual ones.
    """
    if name is not None:
        return written_day(name)
    paths: Sequence[str] = DAY_FIELDS
    if field:
        paths = (field,)
    for path in paths:
        day = written_day(_value_at(item, tuple(path.split("."))))
        if day is not None:
            return day
    return None


def written_day(value: Any) -> date | None:
    """Return the day with which a text begins, ``YYYY-MM-DD``; None if it begins with something else."""
    if not isinstance(value, str) or not _DAY.match(value):
        return None
    try:
        return date.fromisoformat(value[:10])
    except ValueError:
        return None


def relative_keys(list_keys: Mapping[str, str], path: Path) -> dict[str, str]:
    """
    Return the list keys of the lists in an item, whose paths begin in the item.

    :param list_keys: Field by path of the list in the reply.
    :param path: Where the list of the items is.
    """
    prefix = ".".join((*path, "*", ""))
    keys = {}
    for list_path, field in list_keys.items():
        if list_path.startswith(prefix):
            keys[list_path.removeprefix(prefix)] = field
    return keys


def with_labels(value: Any) -> Any:
    """Return a JSON value with labels in place of the e-mail addresses in its texts and names."""
    if isinstance(value, Digits):
        return value
    if isinstance(value, str):
        return without_addresses(value)
    if isinstance(value, list):
        return [with_labels(item) for item in value]
    if isinstance(value, dict):
        return {without_addresses(name): with_labels(member) for name, member in value.items()}
    return value


def _items(value: Any) -> list[tuple[str | None, Any]] | None:
    """Return the items of a list of objects, or of an object whose names are days; None if it is neither."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return [(None, item) for item in value]
    if isinstance(value, dict) and value and all(map(written_day, value)):
        return list(value.items())
    return None


def _objects(value: Any) -> list[tuple[Path, dict[str, Any]]]:
    """Return the object and those nested in it with their paths, level by level."""
    objects: list[tuple[Path, dict[str, Any]]] = []
    level: list[tuple[Path, Any]] = [((), value)]
    for _ in range(LEVELS):
        found = [(path, member) for path, member in level if isinstance(member, dict)]
        objects += found
        level = []
        for path, json_object in found:
            level += [((*path, name), member) for name, member in json_object.items()]
    return objects


def _value_at(value: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
