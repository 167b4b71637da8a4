"""The warehouse in DuckDB: the result of loads, also after errors and crashes."""

from __future__ import annotations

import fcntl
import importlib
import logging
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
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
from tests.processes import preload, processes
from tests.unit.lake.nights import (
    FIRST,
    ODD,
    capture,
    rating,
    write_nights,
    write_rows,
    write_statistics,
)

preload(__name__)

load_module = importlib.import_module(warehouse.load.__module__)

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
            return warehouse.load(store, str(root), datasets, days or None)

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
    before = datetime.now(UTC)
    loaded = load()
    assert loaded == warehouse.Loaded({"statistics": 2}, partitions=1, last_day=FIRST)
    plan, total = read("statistics", "metric")
    assert before < total.pop("loaded_at") == plan["loaded_at"] < datetime.now(UTC)
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


def test_only_what_changed_is_read_and_the_lake_may_forget(root, load, read, tmp_path, caplog, monkeypatch):
    """A year of random nights: late files, backfills, pauses of the load, a lifecycle rule, files that empty a day."""
    was_read = []
    read_partition = load_module.read_partition
    monkeypatch.setattr(
        load_module, "read_partition", lambda part, *rest: was_read.append(part.day) or read_partition(part, *rest)
    )
    dice = random.Random(11)
    days = [FIRST + timedelta(days=number) for number in range(30)]
    truth, changed, gone = {}, set(), set()
    load_counts = []
    for number in range(14):
        for day in dice.sample(days, dice.randrange(5)):
            values = {"a": number, "b": number} if dice.random() < 0.8 else {}
            write_statistics(root, day, *([capture(day, values)] if values else []))
            truth[day] = len(values)
            changed.add(day)
            gone.discard(day)
        for day in dice.sample(sorted(truth), min(len(truth), dice.randrange(1, 4))):
            if day not in changed:
                shutil.rmtree(root / "statistics" / f"date={day}", ignore_errors=True)
                gone.add(day)
        if dice.random() < 0.3 or not truth:
            continue
        was_read.clear()
        loaded = load()
        assert set(was_read) == changed
        assert loaded.partitions == len(changed)
        assert loaded.unchanged == len(truth) - len(changed) - len(gone)
        assert loaded.kept == len(gone)
        assert loaded.rows["statistics"] == sum(truth[day] for day in changed)
        changed.clear()
        found = Counter(row["date"] for row in read("statistics"))
        assert {day: found[day] for day in truth} == truth
        states = {row["date"]: row for row in read("partitions")}
        assert {day: state["rows"] for day, state in states.items()} == truth
        assert {day for day, state in states.items() if state["kept_since"]} == gone
        load_counts.append(loaded.kept)
    assert max(load_counts) > 2
    # Each day that the lake forgets is in the log once, and not at each load.
    caplog.clear()
    with caplog.at_level(logging.INFO):
        load()
    assert "no longer has" not in caplog.text


def test_given_days_are_loaded_again_and_others_are_not(root, load, read):
    for day in (FIRST, SECOND):
        write_statistics(root, day, capture(day, {"a": 1, "b": 1}))
    load()
    third = SECOND + timedelta(days=1)
    write_statistics(root, SECOND, capture(SECOND, {"b": 2}))
    loaded = load(FIRST, third)
    assert loaded == warehouse.Loaded(
        {"statistics": 2}, replaced=2, partitions=1, missing=[f"statistics/date={third}"], last_day=SECOND
    )
    assert load() == warehouse.Loaded({"statistics": 1}, replaced=2, partitions=1, unchanged=1, last_day=SECOND)
    assert values(read("statistics")) == [(FIRST, "a", 1), (FIRST, "b", 1), (SECOND, "b", 2)]


def test_a_table_that_was_dropped_is_loaded_again(root, load, read, database):
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    load()
    with duckdb.connect(database) as connection:
        connection.execute("DROP TABLE assistant.statistics CASCADE")
    assert load().rows == {"statistics": 1}
    assert values(read("statistics")) == [(FIRST, "a", 1)]


def test_every_table_and_column_is_described(root, load, database):
    write_nights(root, 2)
    load(datasets=tuple(lake.DATASETS))
    with duckdb.connect(database) as connection:
        for what in ("tables", "views", "columns"):
            schema = f"FROM duckdb_{what}() WHERE schema_name = 'assistant'"
            assert connection.execute(f"SELECT count(*) {schema}").fetchone()[0] > 10
            assert connection.execute(f"SELECT * {schema} AND coalesce(comment, '') = ''").fetchall() == []


def test_all_files_of_a_day_count_and_others_do_not(root, load, read):
    for part in ("one", "two"):
        write_statistics(root, FIRST, capture(FIRST, {"a": 1}, part), part=part)
    folder = root / "statistics" / f"date={FIRST}"
    for name in (".one.parquet", "_one.parquet", "_SUCCESS", "one.txt"):
        (folder / name).write_text("no Parquet")
    assert load().rows == {"statistics": 2}
    assert {row["site_id"] for row in read("statistics")} == {"one", "two"}


def test_a_lake_in_object_storage(database, read):
    attach("memory", fs=MemoryFileSystem())
    root = f"memory://lake-{uuid4().hex}"
    assert not lake.exported(root, "statistics")
    lake.publish(lake.metrics_table(lake.STATISTICS, [capture(FIRST, {"a": 1})]), root, "statistics", FIRST, "dag.task")
    assert lake.exported(root, "statistics")
    for unchanged in range(2):
        with warehouse.duckdb_transaction(database) as store:
            loaded = warehouse.load(store, root, ["statistics"])
        assert (loaded.partitions, loaded.unchanged) == (1 - unchanged, unchanged)
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
        connection.execute("ALTER TABLE assistant.feedback DROP COLUMN answer_seconds")
        connection.execute("DELETE FROM assistant.definitions WHERE name = 'feedback'")
    publish(root, lake.rows_table(lake.FEEDBACK, [rating(SECOND, "bad")]), SECOND)
    load(SECOND, datasets=["feedback"])
    assert [row["answer_seconds"] for row in read("feedback", "date")] == [None, None]
    assert [row["rating"] for row in read("feedback", "date")] == ["good", "bad"]


def test_a_file_of_a_newer_version_loses_nothing(root, load, read):
    publish(root, lake.rows_table(lake.FEEDBACK, [rating(FIRST, "bad")]))
    newer = lake.rows_table(lake.FEEDBACK, [rating(SECOND, "good")]).append_column("stars", pa.array([5], pa.int64()))
    publish(root, newer, SECOND)
    load(FIRST, SECOND, datasets=["feedback"])
    assert [row["stars"] for row in read("feedback", "date")] == [None, 5]


@pytest.mark.parametrize("change", ["DROP COLUMN {}", "RENAME COLUMN {} TO mine"])
def test_a_column_that_was_changed_by_hand_is_named(root, load, read, database, change):
    """Adding it again would leave it empty in the days that are there."""
    days = (FIRST, SECOND)
    for day in days:
        publish(root, lake.rows_table(lake.FEEDBACK, [rating(day, "good")]), day)
    load(datasets=["feedback"])
    before = read("feedback")
    for column in ("session_id", "rating"):
        with duckdb.connect(database) as connection:
            connection.execute(f"ALTER TABLE assistant.feedback {change.format(column)}")
        changed = read("feedback")
        with pytest.raises(
            AssistantWarehouseError, match=rf'feedback" has no column "{column}" any more.*DROP'
        ) as caught:
            load(datasets=["feedback"])
        assert read("feedback") == changed
        with duckdb.connect(database) as connection:
            connection.execute(re.search(r"DROP TABLE \S+ CASCADE", str(caught.value))[0])
        assert load(datasets=["feedback"]).partitions == len(days)
        same = [{**row, "loaded_at": None} for row in read("feedback")]
        assert same == [{**row, "loaded_at": None} for row in before]


def test_files_that_are_not_a_warehouse_are_left_alone(load, tmp_path):
    load(datasets=())
    whole = (tmp_path / "new" / "warehouse.duckdb").read_bytes()
    contents = {
        "text": b"a,b\n" * 5000,
        "empty": b"",
        "sqlite": b"SQLite format 3\0" + b"\1" * 4000,
        "truncated": whole[: len(whole) // 2],
        "changed": whole[:5000] + b"?" * 9000 + whole[14_000:],
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.db"
        path.write_bytes(content)
        with pytest.raises(AssistantWarehouseError, match=rf"{name}\.db.*Nothing was changed.*Give the path") as caught:
            load(datasets=(), path=str(path))
        assert "extension" not in str(caught.value)
        assert path.read_bytes() == content
    for path in (tmp_path, "/proc/none/warehouse.duckdb"):
        with pytest.raises(AssistantWarehouseError, match=r"Nothing was changed.*Give the path"):
            load(datasets=(), path=str(path))


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
        warehouse.load(store, str(root), ["statistics", "feedback"])


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
    with pytest.raises(AssistantWarehouseError, match=r"other.parquet cannot be read.*Nothing was changed"):
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


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux")
def test_a_look_at_a_file_keeps_the_locks_of_this_process_on_it(tmp_path):
    files = {"free": b"SQLite format 3\0 and more", "short": b"SQL", "other": b"DUCK", "empty": b""}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert stores._is_sqlite(tmp_path / name) == (name == "free")
    assert not stores._is_sqlite(tmp_path / "absent")
    path = tmp_path / "other"
    with path.open("rb+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert not stores._is_sqlite(path)
        assert f":{path.stat().st_ino} " in Path("/proc/locks").read_text()
