"""The rows of the datasets: from replies of the service, one per value, or from mappings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.lake.datasets import Dataset
from airflow_provider_assistant.texts import storable, storable_value

if TYPE_CHECKING:
    import pyarrow as pa

# JSON types of values that are neither strings nor numbers.
_KINDS = {type(None): "null", bool: "boolean", list: "array", dict: "object"}
# A number as JSON writes it. float() also reads 1_000, nan, and the digits of other scripts.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class Digits(str):
    """A number as its text."""

    __slots__ = ()


class Value(NamedTuple):
    """
    One value of a reply that is no object and no list, or an empty one.

    :param metric: Dotted path; an item of a list is named by its position, from 0, or by the value of one of its
        fields.
    :param value: The number, or the number that a string consists of; None if a double cannot hold it, and for
        everything else.
    :param text: The value as text: a string unchanged, everything else as JSON.
    :param type: JSON type: ``number``, ``string``, ``boolean``, ``null``, or an empty ``object`` or ``array``.
    """

    metric: str
    value: float | None
    text: str
    type: str


def with_digits(text: str | None) -> Any:
    """
    Return the value of a JSON text without losing digits.

    :param text: The text, which :func:`.strict_json.read` has returned; None for an empty reply.
    :return: Numbers are :class:`Digits`.
    """
    return json.loads(text or "null", parse_float=Digits, parse_int=Digits, parse_constant=lambda _: None)


def values_of(
    raw: Any, list_keys: Mapping[str, str] | None = None, shown: Callable[[str], str] = storable
) -> Iterator[Value]:
    """
    Return every value of a reply, in document order.

    :param raw: The reply, see :func:`with_digits`.
    :param list_keys: Field that names the items of a list, by dotted path of the list, in which ``*`` means any item
        of an outer list. Such an item has the same path at every position. An item without the field is named by its
        position. Of items with the same name, the second one is ``name#2``. Default: None, all items are named by
        position.
    :param shown: Function for each name and text.
    """
    return _below("", "", raw, list_keys or {}, shown)


def _below(
    path: str, pattern: str, raw: Any, list_keys: Mapping[str, str], shown: Callable[[str], str]
) -> Iterator[Value]:
    """
    Return the values below a path.

    :param pattern: The path, with ``*`` for any item of a list.
    """
    if not isinstance(raw, dict | list) or not raw:
        yield _value(path or "$", raw, shown)
    elif isinstance(raw, dict):
        for name, member in raw.items():
            yield from _below(_joined(path, shown(name)), _joined(pattern, name), member, list_keys, shown)
    else:
        item_pattern = _joined(pattern, "*")
        for name, item in zip(_item_names(raw, list_keys.get(pattern)), raw, strict=True):
            yield from _below(_joined(path, shown(name)), item_pattern, item, list_keys, shown)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _item_names(items: Sequence[Any], key: str | None) -> Iterator[str]:
    """Return the names of the items of a list, all different: the value of a field, or the position."""
    # By name, how many items have it.
    counts: dict[str, int] = {}
    for position, item in enumerate(items):
        found = item.get(key) if key is not None and isinstance(item, dict) else None
        name = as_text(str(position) if found is None or isinstance(found, dict | list) else found)
        unique = name
        while unique in counts:
            counts[name] += 1
            unique = f"{name}#{counts[name]}"
        counts[unique] = 1
        yield unique


def _value(metric: str, raw: Any, shown: Callable[[str], str]) -> Value:
    if isinstance(raw, Digits):
        return Value(metric, _double(raw), raw, "number")
    if isinstance(raw, str):
        return Value(metric, _double(raw) if _NUMBER.fullmatch(raw) else None, shown(raw), "string")
    return Value(metric, None, json.dumps(raw), _KINDS[type(raw)])


def _double(number: str) -> float | None:
    """Return a number as a double; None if it is too large."""
    value = float(number)
    return value if math.isfinite(value) else None


def as_text(raw: Any) -> str:
    """Return a JSON value as text: a string or a number unchanged, everything else as JSON."""
    return storable(raw) if isinstance(raw, str) else _json(raw)


def _json(raw: Any) -> str:
    """Return a value as JSON, with every digit of its :class:`Digits`."""
    if isinstance(raw, Digits):
        return raw
    if isinstance(raw, list):
        return f"[{', '.join(map(_json, raw))}]"
    if isinstance(raw, dict):
        members = [f"{json.dumps(name)}: {_json(member)}" for name, member in raw.items()]
        return "{" + ", ".join(members) + "}"
    return json.dumps(raw)


def reply_table(
    dataset: Dataset,
    reply: str | None,
    origin: Mapping[str, Any],
    list_keys: Mapping[str, str] | None = None,
    shown: Callable[[str], str] = storable,
) -> pa.Table:
    """
    Return the rows of a reply: one per value, sorted by ``metric``.

    :param reply: The reply as JSON text; None if it was empty.
    :param origin: The other columns, which are the same in all rows.
    :param list_keys: See :func:`values_of`.
    :param shown: See :func:`values_of`.
    """
    raw = with_digits(reply)
    period = raw.get("period") if isinstance(raw, dict) else None
    same = {**origin, "period": None if period is None else shown(as_text(period))}
    rows = ({**same, **value._asdict()} for value in values_of(raw, list_keys, shown))
    return rows_table(dataset, rows).sort_by("metric")


def rows_table(dataset: Dataset, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """
    Return the table of a dataset from its rows.

    :param rows: A column that a row lacks is null; other items are ignored.
    """
    import pyarrow as pa

    storable_rows = [{name: storable_value(value) for name, value in row.items()} for row in rows]
    return pa.Table.from_pylist(storable_rows, schema=dataset.schema())
