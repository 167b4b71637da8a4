"""Tables keep their schema for any reply, and readers can load all days at once."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from airflow_provider_assistant import lake
from airflow_provider_assistant.lake.publish import ROWS_PER_GROUP
from tests.unit.lake.replies import JSON, leaves

DAY = date(2026, 11, 21)
MOMENT = datetime(2026, 11, 21, 3, 4, 5, 678901, tzinfo=UTC)


def capture(raw, *, site_id="docs", at=MOMENT, **fields):
    return lake.Capture(at, json.dumps(raw), site_id=site_id, service="h.example", **fields)


@given(JSON)
def test_any_reply_fits_the_schema(raw):
    table = lake.metrics_table(lake.STATISTICS, [capture(raw)])
    assert table.schema == lake.STATISTICS.schema()
    assert table.num_rows == len(leaves(raw))
    assert lake.metrics_table(lake.LIMITS, [capture(raw)]).num_rows == len(leaves(raw))
    (kept,) = lake.replies_table([capture(raw)]).column("raw").to_pylist()
    assert json.dumps(json.loads(kept)) == json.dumps(raw)


@pytest.mark.promise("lake and warehouse", "Every number of a reply is exported with all its digits.")
def test_every_digit_is_exported():
    sent = (
        '{"rate": 1.10, "zero": -0, "period": {"days": 1.50}, '
        '"sum": 12345678901234.123456789, "huge": 1e400, "id": 123456789012345678901234567890}'
    )
    given = lake.Capture(MOMENT, sent, site_id="docs", service="h.example")
    assert lake.replies_table([given]).column("raw").to_pylist() == [sent]
    rows = lake.metrics_table(lake.STATISTICS, [given]).to_pylist()
    assert {row["metric"]: row["text"] for row in rows} == {
        "rate": "1.10",
        "zero": "-0",
        "period.days": "1.50",
        "sum": "12345678901234.123456789",
        "huge": "1e400",
        "id": "123456789012345678901234567890",
    }
    assert [row["value"] for row in rows] == [None, 1.2345678901234567e29, 1.5, 1.1, 12345678901234.123, 0]
    assert {row["period"] for row in rows} == {'{"days": 1.50}'}
    assert {row["type"] for row in rows} == {"number"}


def test_a_broken_surrogate_does_not_stop_the_export():
    raw = json.loads(r'{"said \ud800": "half a pair \udc00", "period": "\ud800"}')
    assert lake.metrics_table(lake.STATISTICS, [capture(raw, site_id="a\udc00", tenant_id="\ud800")]).num_rows == 2
    (kept,) = lake.replies_table([capture(raw)]).column("raw").to_pylist()
    assert json.loads(kept) == raw


EMPTY = {
    "statistics": lambda: lake.metrics_table(lake.STATISTICS, []),
    "statistics_raw": lambda: lake.replies_table([]),
    "limits": lambda: lake.metrics_table(lake.LIMITS, []),
    "reads": lambda: lake.metrics_table(lake.READS, []),
    "reads_raw": lambda: lake.replies_table([], lake.READS_RAW),
}


@pytest.mark.parametrize("dataset", lake.DATASETS)
def test_an_empty_table_has_the_whole_schema(tmp_path, dataset):
    table = EMPTY[dataset]() if dataset in EMPTY else lake.rows_table(lake.DATASETS[dataset], [])
    path = lake.publish(table, str(tmp_path), "empty", DAY, "part").path
    read = pq.ParquetFile(path).read()
    assert read.num_rows == 0
    assert read.schema.equals(lake.DATASETS[dataset].schema())
    assert list(lake.DATASETS[dataset].descriptions()) == read.schema.names
    assert all(lake.DATASETS[dataset].descriptions().values())


def test_every_row_says_its_service_tenant_and_site():
    for dataset in lake.DATASETS.values():
        names = dataset.schema().names
        start = names.index("service")
        assert names[start : start + 3] == ["service", "tenant_id", "site_id"], dataset.name


def test_moments_keep_microseconds_and_are_utc(tmp_path):
    berlin = timezone(timedelta(hours=2))
    logical = datetime(2026, 10, 25, 0, 30, tzinfo=berlin)
    table = lake.metrics_table(lake.STATISTICS, [capture({"a": 1}, logical_date=logical), capture({"a": 1})])
    path = lake.publish(table, str(tmp_path), "s", DAY, "part").path
    read = pq.ParquetFile(path).read()
    assert read["captured_at"].to_pylist() == [MOMENT, MOMENT]
    assert read["logical_date"].to_pylist() == [datetime(2026, 10, 24, 22, 30, tzinfo=UTC), None]


@pytest.mark.parametrize(
    ("raw", "period"),
    [
        ({"period": "2026-11"}, "2026-11"),
        ({"period": {"from": "a", "to": None}}, '{"from": "a", "to": null}'),
        ({"period": 30}, "30"),
        ({"period": False}, "false"),
        ({"period": None}, None),
        ({"inner": {"period": "x"}}, None),
        (["period"], None),
        (None, None),
    ],
)
def test_period(raw, period):
    assert set(lake.metrics_table(lake.STATISTICS, [capture(raw)])["period"].to_pylist()) == {period}
    assert set(lake.metrics_table(lake.LIMITS, [capture(raw)])["period"].to_pylist()) == {period}


def test_rows_are_sorted_and_those_of_one_path_keep_their_order():
    later = MOMENT + timedelta(hours=1)
    captures = [
        capture({"b": 1, "a": 2}, site_id="two"),
        capture({"b": 4}, site_id="one", at=later),
        capture({"b": 3, "a.x": 5, "a": {"x": 6}}, site_id="one"),
    ]
    rows = (
        lake.metrics_table(lake.STATISTICS, captures).select(["site_id", "metric", "captured_at", "value"]).to_pylist()
    )
    assert [tuple(row.values()) for row in rows] == [
        ("one", "a.x", MOMENT, 5.0),
        ("one", "a.x", MOMENT, 6.0),
        ("one", "b", MOMENT, 3.0),
        ("one", "b", later, 4.0),
        ("two", "a", MOMENT, 2.0),
        ("two", "b", MOMENT, 1.0),
    ]
    assert lake.replies_table(captures)["site_id"].to_pylist() == ["one", "one", "two"]


def test_files_are_compressed_and_text_is_in_dictionaries_but_read_as_plain_strings(tmp_path):
    captures = [capture({f"m{n}": n % 3 for n in range(50)}, site_id=f"site-{site}") for site in range(40)]
    path = lake.publish(lake.metrics_table(lake.STATISTICS, captures), str(tmp_path), "statistics", DAY, "part").path
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    for name in ("site_id", "metric", "text", "type"):
        assert columns[name].has_dictionary_page
    read = ds.dataset(path).to_table()
    assert {read.schema.field(name).type for name in ("site_id", "metric", "text", "type")} == {pa.string()}


def test_row_groups_are_bounded_in_rows_and_bytes(tmp_path):
    many = pa.table({"n": pa.array(range(ROWS_PER_GROUP + 1))})
    path = lake.publish(many, str(tmp_path), "many", DAY, "part").path
    assert pq.ParquetFile(path).metadata.num_row_groups == 2
    wide = pa.table({"text": ["x" * 30_000_000] * 5})
    path = lake.publish(wide, str(tmp_path), "wide", DAY, "part").path
    assert pq.ParquetFile(path).metadata.num_row_groups == 3


# -- days that differ ------------------------------------------------------------------------------

# A number becomes text, a list, null, and missing; null becomes an object; fields appear and disappear.
DAYS = {
    date(2026, 11, 17): {"total": 3, "last": None, "old": "gone tomorrow"},
    date(2026, 11, 18): {"total": "three", "last": {"at": "noon"}},
    date(2026, 11, 19): {"total": [1, 2], "last": [], "new": True, "period": "2026-11"},
    date(2026, 11, 20): {"total": None, "last": {"at": math.nan, "huge": 10**30}},
    date(2026, 11, 21): {},
    date(2026, 11, 22): None,
}
EXPECTED = sorted(
    (day.isoformat(), metric.metric, metric.text, metric.type)
    for day, raw in DAYS.items()
    for metric in lake.flatten(raw)
)


@pytest.fixture
def days(tmp_path):
    for day, raw in DAYS.items():
        at = datetime.combine(day, MOMENT.timetz())
        known = {"tenant_id": "acme-inc", "logical_date": at} if day.day % 2 else {}
        lake.publish(
            lake.metrics_table(lake.STATISTICS, [capture(raw, at=at, **known)]),
            str(tmp_path),
            "statistics",
            day,
            "part",
        )
    # A site with an empty reply, and a day without captures.
    lake.publish(lake.metrics_table(lake.STATISTICS, []), str(tmp_path), "statistics", date(2026, 11, 16), "part")
    return tmp_path / "statistics"


def rows_of(table):
    return sorted((str(row["date"]), row["metric"], row["text"], row["type"]) for row in table)


def check(rows):
    assert rows_of(rows) == EXPECTED
    values = {(str(row["date"]), row["metric"]): row["value"] for row in rows}
    assert values["2026-11-17", "total"] == 3.0
    assert values["2026-11-20", "last.huge"] == 1e30
    assert {row["tenant_id"] for row in rows} == {"acme-inc", None}
    assert {row["period"] for row in rows} == {"2026-11", None}


def with_pyarrow(days):
    table = ds.dataset(days, partitioning="hive").to_table()
    assert table.schema.remove(table.schema.get_field_index("date")) == lake.STATISTICS.schema()
    return table.to_pylist()


def with_pandas(days):
    frame = pd.read_parquet(days)
    assert str(frame["captured_at"].dtype) == "datetime64[us, UTC]"
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def with_polars(days):
    polars = pytest.importorskip("polars")
    return polars.read_parquet(days / "*" / "*.parquet", hive_partitioning=True).to_dicts()


def with_duckdb(days):
    with duckdb.connect() as database:
        return database.sql(f"FROM '{days}/*/*.parquet'").to_arrow_table().to_pylist()


@pytest.mark.promise("lake and warehouse", "Other programs read all days of a dataset at once, whatever a reply had.")
@pytest.mark.parametrize("read", [with_pyarrow, with_pandas, with_polars, with_duckdb])
def test_other_programs_read_all_days(read, days):
    check(read(days))
