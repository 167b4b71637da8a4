"""Statistics and feedback as Parquet: nothing is lost, nothing is doubled, nothing is half written."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant import lake

DAY = date(2026, 11, 21)
MOMENT = datetime(2026, 11, 21, 3, 4, 5, 678901, tzinfo=UTC)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5), max_leaves=25
)


def leaves(value):
    if isinstance(value, dict) and value:
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list) and value:
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


def same(one, other):
    return one == other or (one != one and other != other)


@given(JSON)
def test_every_leaf_survives_as_text(raw):
    metrics = list(lake.flatten(raw))
    found = [metric.text if metric.type == "string" else json.loads(metric.text) for metric in metrics]
    expected = leaves(raw)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        assert same(one, other)


@given(JSON)
def test_only_numbers_have_a_value(raw):
    for metric, leaf in zip(lake.flatten(raw), leaves(raw), strict=True):
        assert (metric.value is not None) == (metric.type == "number")
        assert (metric.type == "number") == (isinstance(leaf, int | float) and not isinstance(leaf, bool))


@given(JSON)
def test_whatever_arrives_fits_the_table(raw):
    capture = lake.Capture(MOMENT, "docs", raw)
    table = lake.statistics_table([capture])
    assert table.schema == lake.statistics_schema()
    assert table.num_rows == len(leaves(raw))
    (kept,) = lake.statistics_raw_table([capture]).column("raw").to_pylist()
    assert json.dumps(json.loads(kept)) == json.dumps(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"chats": {"total": 3}}, [("chats.total", 3.0, "3", "number")]),
        ({"rates": [0.5, {"p": 1}]}, [("rates.0", 0.5, "0.5", "number"), ("rates.1.p", 1.0, "1", "number")]),
        ({"live": True}, [("live", None, "true", "boolean")]),
        ({"last": None}, [("last", None, "null", "null")]),
        ({"plan": "gründlich"}, [("plan", None, "gründlich", "string")]),
        ({"by_rating": {}}, [("by_rating", None, "{}", "object")]),
        ({"top": []}, [("top", None, "[]", "array")]),
        (None, [("$", None, "null", "null")]),
        ({}, [("$", None, "{}", "object")]),
        (7, [("$", 7.0, "7", "number")]),
        ([1], [("0", 1.0, "1", "number")]),
    ],
)
def test_flatten(raw, expected):
    assert [tuple(metric) for metric in lake.flatten(raw)] == expected


@pytest.mark.parametrize(("number", "double"), [(10**400, math.inf), (-(10**400), -math.inf)], ids=["above", "below"])
def test_a_number_beyond_double_keeps_its_digits(number, double):
    (metric,) = lake.flatten({"huge": number})
    assert metric.value == double
    assert metric.text == str(number)


def test_nan_is_a_number_without_a_size():
    (metric,) = lake.flatten({"rate": math.nan})
    assert metric.type == "number"
    assert math.isnan(metric.value)
    assert metric.text == "NaN"


def test_a_broken_surrogate_does_not_stop_the_export():
    raw = json.loads(r'{"said \ud800": "half a pair \udc00"}')
    capture = lake.Capture(MOMENT, "docs", raw)
    assert lake.statistics_table([capture]).num_rows == 1
    (kept,) = lake.statistics_raw_table([capture]).column("raw").to_pylist()
    assert json.loads(kept) == raw


@pytest.mark.parametrize(
    ("table", "schema"),
    [
        (lambda: lake.statistics_table([]), lake.statistics_schema),
        (lambda: lake.feedback_table([]), lake.feedback_schema),
    ],
)
def test_an_empty_table_has_the_whole_schema(tmp_path, table, schema):
    path = lake.publish(table(), str(tmp_path), "empty", DAY, "part")
    read = pq.ParquetFile(path).read()
    assert read.num_rows == 0
    assert read.schema.equals(schema())


def numbers(*values):
    return pa.table({"n": list(values)})


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_run_replaces_its_part_of_the_day(tmp_path):
    first = lake.publish(numbers(1, 2), str(tmp_path), "numbers", DAY, "dag.task")
    again = lake.publish(numbers(3), str(tmp_path), "numbers", DAY, "dag.task")
    assert first == again
    assert files(tmp_path) == ["numbers/date=2026-11-21/dag.task.parquet"]
    assert pq.ParquetFile(again).read().column("n").to_pylist() == [3]


def test_an_empty_day_replaces_too(tmp_path):
    path = lake.publish(numbers(1), str(tmp_path), "numbers", DAY, "dag.task")
    lake.publish(numbers().cast(pa.schema([("n", pa.int64())])), str(tmp_path), "numbers", DAY, "dag.task")
    assert pq.ParquetFile(path).read().num_rows == 0


def test_parts_of_other_tasks_stay(tmp_path):
    lake.publish(numbers(1), str(tmp_path), "numbers", DAY, "one")
    lake.publish(numbers(2), str(tmp_path), "numbers", DAY, "other")
    lake.publish(numbers(3), str(tmp_path), "numbers", date(2026, 11, 20), "one")
    read = ds.dataset(tmp_path / "numbers", partitioning="hive").to_table()
    assert sorted(zip(read["n"].to_pylist(), read["date"].to_pylist(), strict=True)) == [
        (1, "2026-11-21"),
        (2, "2026-11-21"),
        (3, "2026-11-20"),
    ]


@pytest.mark.parametrize("part", ["../../outside", "a/b", "tag: nightly", "ünï"])
def test_a_part_name_stays_in_its_partition(tmp_path, part):
    path = Path(lake.publish(numbers(1), str(tmp_path / "lake"), "numbers", DAY, part))
    assert path.parent == tmp_path / "lake" / "numbers" / "date=2026-11-21"
    assert path.is_file()


@pytest.mark.parametrize("failure", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_file(tmp_path, monkeypatch, failure):
    path = lake.publish(numbers(1), str(tmp_path), "numbers", DAY, "part")

    def breaks_off(table, file, **options):
        file.write(b"PAR1 and then")
        raise failure

    monkeypatch.setattr(pq, "write_table", breaks_off)
    with pytest.raises(type(failure)):
        lake.publish(numbers(2), str(tmp_path), "numbers", DAY, "part")
    monkeypatch.undo()
    assert files(tmp_path) == ["numbers/date=2026-11-21/part.parquet"]
    assert pq.ParquetFile(path).read().column("n").to_pylist() == [1]


def test_the_old_file_is_whole_until_the_new_one_is(tmp_path, monkeypatch):
    path = lake.publish(numbers(1), str(tmp_path), "numbers", DAY, "part")
    write, seen = pq.write_table, []

    def watched(table, file, **options):
        write(table, file, **options)
        seen.append(pq.ParquetFile(path).read().column("n").to_pylist())
        seen.append(ds.dataset(tmp_path / "numbers", partitioning="hive").to_table()["n"].to_pylist())

    monkeypatch.setattr(pq, "write_table", watched)
    lake.publish(numbers(2), str(tmp_path), "numbers", DAY, "part")
    assert seen == [[1], [1]]


def test_object_storage_gets_the_file_under_its_own_name():
    attach("memory", fs=MemoryFileSystem())
    path = lake.publish(numbers(1), "memory://lake", "numbers", DAY, "part")
    assert path == "memory://lake/numbers/date=2026-11-21/part.parquet"
    with ObjectStoragePath(path).open("rb") as file:
        assert pq.read_table(file).column("n").to_pylist() == [1]
    assert [entry.name for entry in ObjectStoragePath(path).parent.iterdir()] == ["part.parquet"]


def test_moments_keep_microseconds_and_zone(tmp_path):
    path = lake.publish(
        lake.statistics_table([lake.Capture(MOMENT, "docs", {"a": 1})]), str(tmp_path), "s", DAY, "part"
    )
    assert pq.ParquetFile(path).read()["captured_at"].to_pylist() == [MOMENT]
