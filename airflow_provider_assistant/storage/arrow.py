"""
Convert between Python values and Arrow arrays without importing pandas.

pyarrow imports pandas, if it is installed, to look whether a list is a pandas object, and even for one number or one
time with a time zone. In a task without dataframes, this import is a second of processor time and 60 MB for nothing.
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = date(1970, 1, 1)
# Floats represent integers exactly up to this.
_EXACT = 2**53


def array(values: Iterable[Any], kind: pa.DataType | None = None) -> pa.Array:
    """
    Return the same as ``pyarrow.array``, without importing pandas for common values.

    :param values: The values: None, text, bytes, numbers, times, dates, lists or mappings. For others, such as numpy's
        scalars, pyarrow converts the values, and imports pandas.
    :param kind: Type of the array. Default: None, the type is inferred from the values.
    :return: The array.
    :raises pyarrow.ArrowException: The values have no common type, or do not fit the type.
    """
    import pyarrow as pa

    listed = values if isinstance(values, list) else list(values)
    wanted = _inferred(listed) if kind is None else kind
    built = None if wanted is None else _built(listed, wanted)
    return pa.array(listed, kind) if built is None else built


def scalar(value: Any, kind: pa.DataType | None = None) -> pa.Scalar:
    """
    Return the same as ``pyarrow.scalar``, without importing pandas.

    :param value: The value.
    :param kind: Type of the scalar. Default: None, the type is inferred from the value.
    """
    return array([value], kind)[0]


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """
    Return the same as ``pyarrow.Table.from_pylist``, without importing pandas.

    :param rows: The rows. A missing column of a row is null.
    :param schema: Columns of the table.
    :raises pyarrow.ArrowException: A value does not fit its column.
    """
    import pyarrow as pa

    columns = [array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """
    Return the same as ``column.to_pylist()``, without importing pandas for times.

    Only times in nanoseconds, for which Python has no type, are still objects of pandas.

    :param column: The column.
    """
    import pyarrow as pa

    kind = column.type
    zone = _zone(kind.tz) if pa.types.is_timestamp(kind) and kind.unit != "ns" else None
    if zone is None:
        values: list[Any] = column.to_pylist()
        return values
    naive = column.cast(pa.timestamp(kind.unit)).to_pylist()
    return [None if moment is None else moment.replace(tzinfo=UTC).astimezone(zone) for moment in naive]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """
    Return the same as ``table.to_pylist()``, without importing pandas for times.

    :param table: The table.
    """
    names = table.column_names
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(values_of(column) for column in table.columns), strict=True)
    ]


def _zone(name: str | None) -> tzinfo | None:
    """Return the time zone of a column, such as ``UTC`` or ``+01:00``; None for times without a known zone."""
    try:
        if name and name[0] in "+-":
            return datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo
        return ZoneInfo(name) if name else None
    except (KeyError, OSError, ValueError):
        return None


def _inferred(values: list[Any]) -> pa.DataType | None:
    """Return the type that pyarrow would infer, or None if pyarrow has to. ``pyarrow.infer_type`` imports pandas."""
    import pyarrow as pa

    present = [value for value in values if value is not None]
    kinds = frozenset(map(type, present))
    simple = {
        frozenset(): pa.null(),
        frozenset((str,)): pa.string(),
        frozenset((bytes,)): pa.binary(),
        frozenset((bool,)): pa.bool_(),
        frozenset((int,)): pa.int64(),
        frozenset((float,)): pa.float64(),
        frozenset((int, float)): pa.float64(),
        frozenset((date,)): pa.date32(),
    }
    if kinds in simple:
        return simple[kinds]
    if kinds == {datetime}:
        return _inferred_time(present)
    if kinds <= {list, tuple}:
        inner = _inferred(list(chain.from_iterable(present)))
        return None if inner is None else pa.list_(inner)
    if kinds == {dict}:
        return _inferred_struct(present)
    return None


def _inferred_time(moments: Iterable[datetime]) -> pa.DataType | None:
    import pyarrow as pa

    zones = {moment.tzinfo for moment in moments}
    zone = zones.pop()
    name = "UTC" if zone is UTC else getattr(zone, "key", None)
    return None if zones or (zone and not name) else pa.timestamp("us", tz=name)


def _inferred_struct(rows: Sequence[dict[Any, Any]]) -> pa.DataType | None:
    import pyarrow as pa

    names = dict.fromkeys(chain.from_iterable(rows))
    if not all(isinstance(name, str) for name in names):
        return None
    kinds = {name: _inferred([row.get(name) for row in rows]) for name in names}
    return None if None in kinds.values() else pa.struct(list(kinds.items()))


def _built(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Return an array of the values, or None if pyarrow has to convert them."""
    import pyarrow as pa

    kinds = set(map(type, values))
    has_nulls = type(None) in kinds
    kinds.discard(type(None))
    if not kinds:
        return pa.nulls(len(values), kind)
    build = _builder(kind, kinds)
    if build is None:
        return None
    validity = _validity(values) if has_nulls else None
    try:
        buffers, children = build(values, kind)
    except (ArithmeticError, ValueError):  # too large a number, a lone surrogate: pyarrow has a message for it
        return None
    return pa.Array.from_buffers(kind, len(values), [validity, *map(pa.py_buffer, buffers)], children=children)


_Built = tuple[list[Any], list[Any]]


def _builder(kind: pa.DataType, kinds: set[type]) -> Callable[[list[Any], Any], _Built] | None:
    """Return the function that builds an array of a type from values of these classes."""
    from pyarrow import types

    for is_kind, accepted, build in (
        (types.is_string, {str}, _texts),
        (types.is_binary, {bytes}, _bytes),
        (types.is_float64, {float, int}, _doubles),
        (types.is_int64, {int}, _longs),
        (types.is_int32, {int}, _integers),
        (types.is_boolean, {bool}, _booleans),
        (types.is_date32, {date}, _dates),
        (types.is_list, {list, tuple}, _lists),
        (types.is_struct, {dict}, _structs),
    ):
        if is_kind(kind):
            return build if kinds <= accepted else None
    # Subclasses of datetime, such as those of Airflow's context, are times; that of pandas also has nanoseconds.
    is_time = all(issubclass(one, datetime) and not one.__module__.startswith("pandas") for one in kinds)
    return _moments if types.is_timestamp(kind) and kind.unit == "us" and is_time else None


def _validity(values: Iterable[Any]) -> pa.Buffer:
    import pyarrow as pa

    return _bits(pa.py_buffer(bytes([value is not None for value in values])))


def _bits(flags: pa.Buffer) -> pa.Buffer:
    """Return the bits of flags that have a byte each."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int8(), flags.size, [None, flags]).cast(pa.bool_()).buffers()[1]


def _texts(values: list[Any], _: Any) -> _Built:
    texts = [value or "" for value in values] if None in values else values
    joined = "".join(texts)
    if joined.isascii():
        return [packed("i", accumulate(map(len, texts), initial=0)), joined.encode()], []
    return _bytes([text.encode() for text in texts], _)


def _bytes(values: list[Any], _: Any) -> _Built:
    pieces = [value or b"" for value in values]
    return [packed("i", accumulate(map(len, pieces), initial=0)), b"".join(pieces)], []


def _doubles(values: list[Any], _: Any) -> _Built:
    # pyarrow refuses larger integers among floats, which cannot represent them exactly.
    if int in set(map(type, values)) and any(type(value) is int and not -_EXACT <= value <= _EXACT for value in values):
        raise ValueError("an integer is too large")
    return [packed("d", [0.0 if value is None else value for value in values])], []


def _longs(values: list[Any], _: Any) -> _Built:
    return [packed("q", [value or 0 for value in values])], []


def _integers(values: list[Any], _: Any) -> _Built:
    return [packed("i", [value or 0 for value in values])], []


def _booleans(values: list[Any], _: Any) -> _Built:
    import pyarrow as pa

    return [_bits(pa.py_buffer(bytes([bool(value) for value in values])))], []


def _dates(values: list[Any], _: Any) -> _Built:
    return [packed("i", [0 if value is None else (value - _DAY).days for value in values])], []


def _moments(values: list[Any], _: Any) -> _Built:
    return [packed("q", [0 if value is None else _microseconds(value) for value in values])], []


def _microseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _lists(values: list[Any], kind: Any) -> _Built:
    pieces = [value or () for value in values]
    offsets = packed("i", accumulate(map(len, pieces), initial=0))
    return [offsets], [array(chain.from_iterable(pieces), kind.value_type)]


def _structs(values: list[Any], kind: Any) -> _Built:
    rows = [value or {} for value in values]
    return [], [array([row.get(field.name) for row in rows], field.type) for field in kind]
