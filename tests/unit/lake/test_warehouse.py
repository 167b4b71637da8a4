"""The warehouse in DuckDB: the result of loads, also after errors and crashes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant import lake
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake import warehouse
from airflow_provider_assistant.lake.warehouse import stores
from airflow_provider_assistant.lake.warehouse.views import NAME_BYTES, columns_of
from tests.processes import preload, processes
from tests.unit.lake.nights import (
    FIRST,
    ODD,
    capture,
    rating,
    request,
    write_nights,
    write_rows,
    write_statistics,
)

preload(__name__)

SECOND = FIRST + timedelta(days=1)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def database(tmp_path):
    return str(tmp_path / "new" / "warehouse.duckdb")


@pytest.fixture
def load(root, database):
    def loaded(*days, datasets=("statistics",), path=database, **options):
        with warehouse.duckdb_transaction(path, **options) as store:
            return warehouse.load(store, str(root), datasets, days, schema="assistant")

    return loaded


@pytest.fixture
def read(database):
    def rows(what, order="ALL"):
        with duckdb.connect(database, read_only=True) as connection:
            return connection.sql(f"SELECT * FROM assistant.{what} ORDER BY {order}").to_arrow_table().to_pylist()

    return rows


def values(rows):
    return [(row["date"], row["metric"], row["value"]) for row in rows]


# -- days ------------------------------------------------------------------------------------------


def test_the_table_has_the_rows_of_the_partition(root, load, read):
    write_statistics(root, FIRST, capture(FIRST, {"total": 1, "plan": "business"}))
    loaded = load(FIRST)
    assert loaded == warehouse.Loaded({"statistics": 2}, 0, [])
    plan, total = read("statistics", "metric")
    assert total == {
        "date": FIRST,
        "captured_at": datetime(2026, 11, 14, 1, tzinfo=UTC),
        "logical_date": None,
        "service": "h.example",
        "tenant_id": "acme-inc",
        "site_id": "docs",
        "metric": "total",
        "value": 1.0,
        "text": "1",
        "type": "number",
        "period": None,
    }
    assert (plan["value"], plan["text"]) == (None, "business")


def test_a_second_load_creates_no_duplicates(root, load, read):
    days = write_nights(root)
    first = load(*days, datasets=tuple(lake.DATASETS))
    tables = {dataset: read(dataset) for dataset in (*lake.DATASETS, *warehouse.VIEWS)}
    second = load(*days, datasets=tuple(lake.DATASETS))
    assert second.rows == first.rows
    assert (first.replaced, second.replaced) == (0, sum(first.rows.values()))
    # NaN is not equal to itself.
    assert all(repr(read(dataset)) == repr(rows) for dataset, rows in tables.items())


def test_a_day_is_replaced_and_others_stay(root, load, read):
    for day in (FIRST, SECOND):
        write_statistics(root, day, capture(day, {"a": 1, "b": 1}))
    load(FIRST, SECOND)
    write_statistics(root, SECOND, capture(SECOND, {"b": 2}))
    assert load(SECOND) == warehouse.Loaded({"statistics": 1}, 2, [])
    assert values(read("statistics")) == [(FIRST, "a", 1), (FIRST, "b", 1), (SECOND, "b", 2)]


def test_all_files_of_a_day_count_and_others_do_not(root, load, read):
    for part in ("one", "two"):
        write_statistics(root, FIRST, capture(FIRST, {"a": 1}, part), part=part)
    folder = root / "statistics" / f"date={FIRST}"
    for name in (".one.parquet", "_one.parquet", "_SUCCESS", "one.txt"):
        (folder / name).write_text("no Parquet")
    assert load(FIRST).rows == {"statistics": 2}
    assert {row["site_id"] for row in read("statistics")} == {"one", "two"}


@pytest.mark.parametrize("missing", [False, True])
def test_an_empty_and_a_missing_day_empty_it_in_the_warehouse(missing, root, load, read, tmp_path):
    for day in (FIRST, SECOND):
        write_statistics(root, day, capture(day, {"a": 1}))
    load(FIRST, SECOND)
    if missing:
        (root / "statistics" / f"date={SECOND}").rename(tmp_path / "elsewhere")
    else:
        write_statistics(root, SECOND)
    loaded = load(SECOND)
    assert loaded == warehouse.Loaded({"statistics": 0}, 1, [f"statistics/date={SECOND}"] if missing else [])
    assert values(read("statistics")) == [(FIRST, "a", 1)]


def test_a_lake_in_object_storage(database, read):
    attach("memory", fs=MemoryFileSystem())
    root = f"memory://lake-{uuid4().hex}"
    assert not warehouse.exported(root, "statistics")
    lake.publish(lake.metrics_table(lake.STATISTICS, [capture(FIRST, {"a": 1})]), root, "statistics", FIRST, "dag.task")
    assert warehouse.exported(root, "statistics")
    with warehouse.duckdb_transaction(database) as store:
        loaded = warehouse.load(store, root, ["statistics"], [FIRST, SECOND], schema="assistant")
    assert loaded == warehouse.Loaded({"statistics": 1}, 0, [f"statistics/date={SECOND}"])
    assert values(read("statistics")) == [(FIRST, "a", 1)]


def test_odd_values_arrive(root, load, read):
    write_statistics(root, FIRST, capture(FIRST, ODD))
    load(FIRST)
    found = {row["metric"]: row for row in read("statistics")}
    assert found["huge"]["value"] is None
    assert (found["nan"]["type"], found["nan"]["value"]) == ("null", None)
    assert found["text"]["text"] == "a\\x00b"
    assert "nul\\x00in\\x00name" in found
    assert len(found) == len(ODD)


# -- columns ---------------------------------------------------------------------------------------


def publish(root, table, day=FIRST):
    lake.publish(table, str(root), "feedback", day, "dag.task")


def test_a_file_that_lacks_a_column_has_nulls_there(root, load, read):
    table = lake.rows_table(lake.FEEDBACK, [rating(FIRST, "good")])
    publish(root, table.drop_columns(["attempts", "rating"]))
    load(FIRST, datasets=["feedback"])
    (row,) = read("feedback")
    assert (row["attempts"], row["rating"], row["site_id"]) == (None, None, "docs")


def test_columns_are_found_by_name(root, load, read):
    table = lake.rows_table(lake.FEEDBACK, [rating(FIRST, "good")])
    publish(root, table.select(table.column_names[::-1]))
    load(FIRST, datasets=["feedback"])
    (row,) = read("feedback")
    assert (row["rating"], row["session_id"]) == ("good", "s")


def test_an_older_table_gets_the_columns_it_lacks(root, load, read, database):
    publish(root, lake.rows_table(lake.FEEDBACK, [rating(FIRST, "good")]))
    load(FIRST, datasets=["feedback"])
    with duckdb.connect(database) as connection:
        connection.execute("DROP VIEW assistant.feedback_weekly")
        connection.execute("ALTER TABLE assistant.feedback DROP COLUMN rating")
    publish(root, lake.rows_table(lake.FEEDBACK, [rating(SECOND, "bad")]), SECOND)
    load(SECOND, datasets=["feedback"])
    assert [row["rating"] for row in read("feedback", "date")] == [None, "bad"]


def test_a_file_of_a_newer_version_loses_nothing(root, load, read):
    publish(root, lake.rows_table(lake.FEEDBACK, [rating(FIRST, "bad")]))
    newer = lake.rows_table(lake.FEEDBACK, [rating(SECOND, "good")]).append_column("stars", pa.array([5], pa.int64()))
    publish(root, newer, SECOND)
    load(FIRST, SECOND, datasets=["feedback"])
    assert [row["stars"] for row in read("feedback", "date")] == [None, 5]


def test_a_column_that_no_table_has_changes_nothing(root, load, read):
    publish(root, lake.rows_table(lake.FEEDBACK, [rating(FIRST, "bad")]))
    load(FIRST, datasets=["feedback"])
    newer = lake.rows_table(lake.FEEDBACK, [rating(FIRST, "good")]).append_column("stars", pa.array([[5]]))
    publish(root, newer)
    with pytest.raises(AssistantWarehouseError, match=r"'stars'.*list.*Nothing was changed"):
        load(FIRST, datasets=["feedback"])
    assert [row["rating"] for row in read("feedback")] == ["bad"]


def test_files_with_conflicting_types_change_nothing(root, load, read):
    table = lake.rows_table(lake.FEEDBACK, [rating(FIRST, "good")])
    publish(root, table)
    load(FIRST, datasets=["feedback"])
    index = table.column_names.index("rating")
    publish(root, table.set_column(index, "rating", pa.array([5])))
    with pytest.raises(AssistantWarehouseError, match="conflicting types"):
        load(FIRST, datasets=["feedback"])
    assert [row["rating"] for row in read("feedback")] == ["good"]


# -- all or nothing --------------------------------------------------------------------------------


def _dies(database, root, inserts):
    insert = stores.DuckDBTransaction.insert

    def dies(store, table, rows):
        nonlocal inserts
        insert(store, table, rows)
        inserts -= 1
        if not inserts:
            os._exit(9)

    stores.DuckDBTransaction.insert = dies
    with warehouse.duckdb_transaction(database) as store:
        warehouse.load(store, str(root), ["statistics", "feedback"], [FIRST], schema="assistant")


@pytest.mark.parametrize("inserts", [1, 2])
def test_a_process_that_dies_leaves_the_old_day(inserts, root, load, read, database):
    datasets = ["statistics", "feedback"]

    def write(number, word):
        write_statistics(root, FIRST, capture(FIRST, {"a": number}))
        write_rows(root, "feedback", FIRST, [rating(FIRST, word)])

    write(1, "good")
    load(FIRST, datasets=datasets)
    write(2, "bad")
    process = processes.Process(target=_dies, args=(database, root, inserts))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert [row["value"] for row in read("statistics")] == [1]
    assert [row["rating"] for row in read("feedback")] == ["good"]
    load(FIRST, datasets=datasets)
    assert [row["value"] for row in read("statistics")] == [2]
    assert [row["rating"] for row in read("feedback")] == ["bad"]


def test_an_unreadable_file_leaves_the_old_days_of_all_datasets(root, load, read):
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    load(FIRST)
    write_statistics(root, FIRST, capture(FIRST, {"a": 2}))
    write_rows(root, "feedback", FIRST, [rating(FIRST, "good")])
    (root / "feedback" / f"date={FIRST}" / "other.parquet").write_text("no Parquet")
    with pytest.raises(pa.ArrowInvalid):
        load(FIRST, datasets=["statistics", "feedback"])
    assert [row["value"] for row in read("statistics")] == [1]


HOLDS = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def holder(root, load, database):
    """Another process that keeps the warehouse open."""
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    load(FIRST)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate()


def test_a_lock_is_waited_for(holder, load, read):
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        holder.communicate()

    assert load(FIRST, lock_timeout=60, sleep=sleep).replaced == 1
    assert len(waited) == 1


def test_a_lock_that_stays_is_an_error(holder, load):
    now, naps = 0.0, []

    def sleep(seconds):
        nonlocal now
        now += seconds
        naps.append(seconds)

    with pytest.raises(AssistantWarehouseError, match=r"another process has had it open for 5 s.*Nothing was changed"):
        load(FIRST, lock_timeout=5, sleep=sleep, clock=lambda: now)
    assert len(naps) == 5


def test_a_file_that_is_not_a_database(load, tmp_path):
    (tmp_path / "text").write_text("no database" * 1000)
    with pytest.raises(AssistantWarehouseError, match=r"text: it cannot be opened: .*Nothing was changed"):
        load(FIRST, path=str(tmp_path / "text"))


def test_without_duckdb_the_error_says_what_to_install(load, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(AssistantInputError, match=r"pip install 'airflow-provider-assistant\[warehouse\]'"):
        load(FIRST)
    assert not (tmp_path / "new").exists()


# -- views -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", warehouse.VIEWS)
def test_views_of_an_empty_warehouse_are_empty(view, load, read, root):
    write_statistics(root, FIRST)
    load(FIRST)
    assert read(view) == []


def test_statistics_by_day_are_those_of_the_last_capture(root, load, read):
    captures = [capture(FIRST, {"a": 9, "gone": 1}, hour=1), capture(FIRST, {"a": 2, "text": "t"}, hour=2)]
    write_statistics(root, FIRST, *captures, capture(FIRST, {"a": 3}, "shop"))
    write_statistics(root, SECOND, capture(SECOND, {"new": 4, "a": 5}))
    load(FIRST, SECOND)
    found = read("statistics_daily", "date, site_id")
    assert list(found[0]) == ["date", "tenant_id", "site_id", "captured_at", "a", "gone", "new"]
    one, two = captures[0].captured_at, captures[1].captured_at
    assert [tuple(row.values()) for row in found] == [
        (FIRST, "acme-inc", "docs", two, 2, None, None),
        (FIRST, "acme-inc", "shop", one, 3, None, None),
        (SECOND, "acme-inc", "docs", one + timedelta(days=1), 5, None, 4),
    ]


def test_columns_of_the_statistics_view_keep_their_places(root, load, read):
    write_statistics(root, SECOND, capture(SECOND, {"b": 1}))
    load(SECOND)
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    write_statistics(root, SECOND, capture(SECOND, {"c": 1}))
    load(FIRST, SECOND)
    first, second = read("statistics_daily", "date")
    assert list(first)[4:] == ["b", "a", "c"]
    assert [first["b"], first["a"], second["b"], second["c"]] == [None, 1, None, 1]


def test_names_of_metrics_that_a_database_would_cut_or_mix_up():
    long = "ä" * NAME_BYTES
    named = columns_of(["total", "Total", "date", "Site_ID", long, long + "x", "ok"])
    assert list(named.values()) == ["total", "Total", "date", "Site_ID", long, long + "x", "ok"]
    assert [list(named)[index] for index in (0, -1)] == ["total", "ok"]
    assert len({name.casefold() for name in named} | {"date", "site_id"}) == len(named) + 2
    assert all(len(name.encode()) <= NAME_BYTES for name in named)
    assert columns_of(["total", "Total", "more"]).items() <= {**named, "more": "more"}.items()


def test_metrics_beyond_the_limit_are_named(root, load, read, caplog, monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.lake.warehouse.views.MAX_METRICS", 2)
    write_statistics(root, FIRST, capture(FIRST, {"a": 1, "b": 2, "c": 3, "d": 4}))
    with caplog.at_level(logging.WARNING):
        load(FIRST)
    assert list(read("statistics_daily")[0])[4:] == ["a", "b"]
    assert "leaves out: c, d" in caplog.text


def test_feedback_by_week(root, load, read):
    monday, sunday, next_monday = (FIRST + timedelta(days=days) for days in (2, 8, 9))
    words = {monday: ["good", "Good", "bad"], sunday: ["good"], next_monday: []}
    for day, given in words.items():
        write_rows(root, "feedback", day, [rating(day, word) for word in given])
        write_rows(root, "requests", day, [request(day, 1.0)] * 5)
    write_rows(root, "feedback", FIRST, [rating(FIRST, "bad", "shop")])
    load(FIRST, *words, datasets=["feedback", "requests"])
    assert [tuple(row.values()) for row in read("feedback_weekly")] == [
        (FIRST - timedelta(days=5), "shop", 1, 0, 0.0, 0, None),
        (monday, "docs", 4, 3, 0.75, 10, 0.4),
        (next_monday, "docs", 0, 0, None, 5, 0.0),
    ]


def test_latency_by_day(root, load, read):
    found = [request(FIRST, float(seconds)) for seconds in range(1, 101)]
    found += [request(FIRST, 999.0, "failed"), request(FIRST, None, "open")]
    write_rows(root, "requests", FIRST, [*found, request(FIRST, None, "ambiguous", "shop")])
    load(FIRST, datasets=["requests"])
    assert [tuple(row.values()) for row in read("latency_daily")] == [
        (FIRST, "docs", 102, 100, 1, 50.5, pytest.approx(95.05), pytest.approx(99.01), 100.0),
        (FIRST, "shop", 1, 0, 0, None, None, None, None),
    ]


def test_days_that_a_reply_lists_are_rows_of_the_history(root, load, read):
    first = {"daily": {"2026-11-12": {"chats": 5}, "2026-11-13": {"chats": 6, "note": "x"}}, "total": 9}
    second = {"daily": {"2026-11-13": {"chats": 7}, "2026-11-14": {"chats": 8}, "2026-13-40": {"chats": 1}}}
    write_statistics(root, FIRST, capture(FIRST, first))
    write_statistics(root, SECOND, capture(SECOND, second), capture(SECOND, second, "shop"))
    load(FIRST, SECOND)
    found = [row for row in read("statistics_history", "date, site_id") if row["site_id"] == "docs"]
    assert list(found[0]) == ["date", "tenant_id", "site_id", "captured_at", "series", "metric", "value"]
    assert [(row["date"].isoformat(), row["series"], row["metric"], row["value"]) for row in found] == [
        ("2026-11-12", "daily", "chats", 5),
        ("2026-11-13", "daily", "chats", 7),
        ("2026-11-14", "daily", "chats", 8),
    ]
    # A path with an invalid month is an ordinary metric.
    assert list(read("statistics_daily")[0])[4:] == ["total", "daily.2026-13-40.chats"]


def test_a_date_that_does_not_exist_rolls_over(root, load, read):
    write_statistics(root, FIRST, capture(FIRST, {"daily": {"2026-02-30": {"chats": 5}}}))
    load(FIRST)
    assert [row["date"].isoformat() for row in read("statistics_history")] == ["2026-03-02"]
