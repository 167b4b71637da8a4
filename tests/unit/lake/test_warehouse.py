"""The result of loads into a warehouse, also after errors: the same in DuckDB and in PostgreSQL."""

from __future__ import annotations

import importlib
import logging
import random
import re
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant import lake
from airflow_provider_assistant.exceptions import AssistantWarehouseError
from airflow_provider_assistant.lake import warehouse
from tests.unit.lake.nights import (
    FIRST,
    ODD,
    capture,
    rating,
    write_nights,
    write_rows,
    write_statistics,
)

load_module = importlib.import_module(warehouse.load.__module__)

SECOND = FIRST + timedelta(days=1)


class DuckDB:
    """A warehouse in a file."""

    first_columns = "ALL"
    undescribed = """
        SELECT comment FROM (
            SELECT comment, schema_name FROM duckdb_tables() UNION ALL SELECT comment, schema_name FROM duckdb_views()
            UNION ALL SELECT comment, schema_name FROM duckdb_columns()
        ) WHERE schema_name = 'assistant' AND coalesce(comment, '') = ''
    """

    def __init__(self, folder):
        self._file = str(folder / "new" / "warehouse.duckdb")

    def transaction(self, **options):
        return warehouse.duckdb_transaction(self._file, **options)

    def query(self, sql):
        with duckdb.connect(self._file) as connection:
            return connection.sql(sql).to_arrow_table().to_pylist()

    def run(self, sql):
        with duckdb.connect(self._file) as connection:
            connection.execute(sql)


class Postgres:
    """A warehouse in a server."""

    first_columns = "1"
    undescribed = """
        SELECT relname, attname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        JOIN pg_attribute ON attrelid = pg_class.oid WHERE nspname = 'assistant' AND relkind IN ('r', 'v')
        AND attnum > 0 AND NOT attisdropped
        AND (col_description(attrelid, attnum) IS NULL OR obj_description(attrelid) IS NULL)
    """

    def __init__(self, engine):
        self._engine = engine

    def transaction(self, **options):
        return warehouse.postgres_transaction(self._engine, **options)

    def query(self, sql):
        with self._engine.connect() as connection:
            return [dict(row._mapping) for row in connection.exec_driver_sql(sql)]

    def run(self, sql):
        with self._engine.begin() as connection:
            connection.exec_driver_sql(sql)


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.system)])
def database(request, tmp_path):
    if request.param == "duckdb":
        return DuckDB(tmp_path)
    return Postgres(request.getfixturevalue("postgres_warehouse"))


@pytest.fixture
def root(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def load(root, database):
    def loaded(*days, datasets=("statistics",), **options):
        with database.transaction(**options) as store:
            return warehouse.load(store, str(root), datasets, days or None)

    return loaded


@pytest.fixture
def read(database):
    return lambda what, order=database.first_columns: database.query(f"SELECT * FROM assistant.{what} ORDER BY {order}")


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


@pytest.mark.promise(
    "lake and warehouse",
    "The warehouse has each day once, as the lake last had it, and keeps days that were deleted from the lake.",
)
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


def test_every_table_and_column_is_described(root, load, database):
    write_nights(root, 2)
    load(datasets=tuple(lake.DATASETS))
    assert database.query(database.undescribed) == []


def test_a_lake_in_object_storage(database, read):
    attach("memory", fs=MemoryFileSystem())
    root = f"memory://lake-{uuid4().hex}"
    assert not lake.exported(root, "statistics")
    lake.publish(lake.metrics_table(lake.STATISTICS, [capture(FIRST, {"a": 1})]), root, "statistics", FIRST, "dag.task")
    assert lake.exported(root, "statistics")
    for unchanged in range(2):
        with database.transaction() as store:
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
    # Columns are found by name, in any order.
    columns = [name for name in reversed(table.column_names) if name not in {"answer_seconds", "site_id"}]
    publish(root, table.select(columns))
    load(FIRST, datasets=["feedback"])
    (row,) = read("feedback")
    assert (row["answer_seconds"], row["site_id"], row["rating"], row["session_id"]) == (None, None, "good", "s")


def test_an_older_table_gets_the_columns_it_lacks(root, load, read, database):
    publish(root, lake.rows_table(lake.FEEDBACK, [rating(FIRST, "good")]))
    load(FIRST, datasets=["feedback"])
    database.run("ALTER TABLE assistant.feedback DROP COLUMN answer_seconds CASCADE")
    database.run("DELETE FROM assistant.definitions WHERE name = 'feedback'")
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


@pytest.mark.promise(
    "lake and warehouse",
    "A column that was changed by hand is named, with the statement that repairs the table.",
)
@pytest.mark.parametrize("change", ["DROP COLUMN {} CASCADE", "RENAME COLUMN {} TO mine"])
def test_a_column_that_was_changed_by_hand_is_named(root, load, read, database, change):
    """Adding it again would leave it empty in the days that are there."""
    days = (FIRST, SECOND)
    for day in days:
        publish(root, lake.rows_table(lake.FEEDBACK, [rating(day, "good")]), day)
    load(datasets=["feedback"])
    before = read("feedback")
    for column in ("session_id", "rating"):
        database.run(f"ALTER TABLE assistant.feedback {change.format(column)}")
        changed = read("feedback")
        with pytest.raises(
            AssistantWarehouseError, match=rf'feedback" has no column "{column}" any more.*DROP'
        ) as caught:
            load(datasets=["feedback"])
        assert read("feedback") == changed
        database.run(re.search(r"DROP TABLE \S+ CASCADE", str(caught.value))[0])
        assert load(datasets=["feedback"]).partitions == len(days)
        same = [{**row, "loaded_at": None} for row in read("feedback")]
        assert same == [{**row, "loaded_at": None} for row in before]


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


@pytest.mark.promise("lake and warehouse", "A load into the warehouse changes all its datasets or none.")
def test_an_unreadable_file_leaves_the_old_days_of_all_datasets(root, load, read):
    write_statistics(root, FIRST, capture(FIRST, {"a": 1}))
    load(FIRST)
    write_statistics(root, FIRST, capture(FIRST, {"a": 2}))
    write_rows(root, "feedback", FIRST, [rating(FIRST, "good")])
    (root / "feedback" / f"date={FIRST}" / "other.parquet").write_text("no Parquet")
    with pytest.raises(AssistantWarehouseError, match=r"other.parquet cannot be read.*Nothing was changed"):
        load(FIRST, datasets=["statistics", "feedback"])
    assert [row["value"] for row in read("statistics")] == [1]
