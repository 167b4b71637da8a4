"""Arrays of Python values are those of pyarrow, and pandas is not imported for them."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.storage import arrow

EAST = timezone(timedelta(hours=2))
MOMENT = datetime(2026, 7, 1, 3, 4, 5, 6, tzinfo=UTC)
VALUES = [
    [],
    [None, None],
    ["a", None, "é", "", "\0"],
    [b"x", None, b""],
    [1.5, None, -0.0, math.nan, math.inf],
    [1, 2.5, None],
    [1, None, 2**62],
    [True, None, False] * 7,
    [date(2026, 1, 1), None, date(1900, 1, 1)],
    [MOMENT.replace(tzinfo=None), None],
    [datetime(1900, 1, 1, tzinfo=UTC), None, MOMENT],
    [MOMENT.astimezone(ZoneInfo("Europe/Berlin"))],
    [["a"], None, [], ["b", None]],
    [("a",), []],
    [{"a": ["x"], "b": 1}, None, {"b": 2}],
    [{"a": 1}, {"b": 2.5}],
    [{}],
    [[{"a": MOMENT}], []],
    [[1], [2.5]],
]
# Values that pyarrow converts: it knows their type, or has a message for them.
UNUSUAL = [
    [Decimal("1.50"), None],
    [MOMENT, MOMENT.astimezone(EAST)],
    [2**63],
    [2**60, 1.5],
    ["a", 1],
    [1, "a"],
    [True, 1.5],
    ["\ud800"],
    [{"a": 1}, {"a": "x"}],
    [...],
]
TYPED = [
    (["a", None], pa.string()),
    ([1, None], pa.int32()),
    ([1, None], pa.float64()),
    ([None], pa.timestamp("us", tz="UTC")),
    ([MOMENT.astimezone(EAST), MOMENT.replace(tzinfo=None), None], pa.timestamp("us", tz="UTC")),
    ([["a"], ("b",), None], pa.list_(pa.string())),
    ([None, None], pa.list_(pa.string())),
    ([[], [None]], pa.list_(pa.string())),
    ([2**31], pa.int32()),
    ([1.5], pa.string()),
    ([True], pa.float64()),
]
# A process of its own: some test has imported pandas into this one.
WITHOUT_PANDAS = """
import datetime, sys
import pyarrow as pa
from airflow_provider_assistant.storage import arrow

moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
row = {"text": "a", "number": 1.5, "count": 2, "flag": True, "moment": moment, "day": moment.date(), "tags": ["a"]}
table = pa.table({name: arrow.array([value, None]) for name, value in row.items()})
assert arrow.rows_of(table) == [row, dict.fromkeys(row)]
assert arrow.table_of_rows([row, {}], table.schema) == table
assert arrow.scalar("a").as_py() == "a"
assert "pandas" not in sys.modules, "pandas is imported"
pa.array(["a"])
assert "pandas" in sys.modules, "pyarrow does not import pandas any more: storage/arrow.py can go"
"""


def outcome(convert, *arguments):
    """Return the array, with its values, or the class of the error."""
    try:
        array = convert(*arguments)
    except Exception as error:  # noqa: BLE001 (the same error, whatever it is)
        return type(error)
    array.validate(full=True)
    try:
        return array.type, repr(array.to_pylist())
    except OverflowError:  # a number of days among dates may be after the year 9999
        return array.type, str(array)


@pytest.mark.parametrize("values", [*VALUES, *UNUSUAL], ids=repr)
def test_an_array_is_that_of_pyarrow(values):
    assert outcome(arrow.array, values) == outcome(pa.array, values)


@pytest.mark.parametrize(("values", "kind"), TYPED, ids=repr)
def test_an_array_of_a_type_is_that_of_pyarrow(values, kind):
    assert outcome(arrow.array, values, kind) == outcome(pa.array, values, kind)


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec=None)), st.binary(), st.dates()
)


@given(
    st.one_of(
        st.lists(PLAIN, max_size=4),
        *(st.lists(st.none() | kind, max_size=20) for kind in (st.floats(), st.text(), st.datetimes(), st.booleans())),
        st.lists(st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3), max_size=9),
    )
)
def test_any_array_is_that_of_pyarrow(values):
    assert outcome(arrow.array, values) == outcome(pa.array, values)


def shown(value):
    """Return the ``repr`` of values in which times are texts: older versions of pyarrow have time zones of pytz."""
    if isinstance(value, list | tuple):
        return repr([shown(item) for item in value])
    if isinstance(value, dict):
        return repr({name: shown(item) for name, item in value.items()})
    return value.isoformat() if isinstance(value, datetime) else repr(value)


@pytest.mark.parametrize("values", VALUES, ids=repr)
def test_values_are_those_of_pyarrow(values):
    column = pa.chunked_array([pa.array(values)] * 2)
    assert shown(arrow.values_of(column)) == shown(column.to_pylist())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+01:00", "-05:30", "Etc/GMT+2", None])
def test_times_are_those_of_pyarrow_in_every_zone(zone, unit):
    column = pa.array([1_782_874_800, None], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit, tz=zone))
    assert shown(arrow.values_of(column)) == shown(column.to_pylist())


def test_rows_are_those_of_pyarrow():
    schema = pa.schema({"key": pa.string(), "at": pa.timestamp("us", tz="UTC"), "n": pa.int32()})
    rows = [{"key": "a", "at": MOMENT, "n": 1}, {"key": "b", "other": 1}]
    table = arrow.table_of_rows(rows, schema)
    assert table == pa.Table.from_pylist(rows, schema=schema)
    assert arrow.rows_of(table) == table.to_pylist()


def test_pandas_is_not_imported():
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True, timeout=120)
