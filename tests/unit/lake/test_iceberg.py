"""Datasets in Iceberg tables: loads, columns, conflicts between loads, and the removal of rows."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from datetime import UTC, date, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.exceptions import AssistantWarehouseError
from airflow_provider_assistant.lake import iceberg
from airflow_provider_assistant.lake.iceberg import tables
from tests.unit.lake.nights import FIRST, rating, write_nights, write_rows

pytest.importorskip("pyiceberg")
SECOND = FIRST + timedelta(days=1)
NAMESPACE = "team.assistant"


@pytest.fixture
def catalog(tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/tables"}
    return iceberg.open_catalog("default", properties)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def load(catalog, root):
    def load(dataset="feedback", days=None):
        return iceberg.load(catalog, NAMESPACE, str(root), dataset, days)

    return load


@pytest.fixture
def rows(catalog):
    def rows(dataset="feedback"):
        return catalog.load_table(f"{NAMESPACE}.{dataset}").scan().to_arrow()

    return rows


def words(table):
    return Counter(zip(table["date"].to_pylist(), table["rating"].to_pylist(), strict=True))


def test_tables_follow_the_lake_whatever_happens_to_it(load, root, rows):
    dice = random.Random(7)
    truth: dict[date, Counter[str]] = {}
    for _ in range(9):
        changed = {FIRST + timedelta(days=dice.randrange(12)) for _ in range(dice.randrange(5))}
        for day in changed:
            truth[day] = Counter(dice.choices(["good", "bad", "größe", ""], k=dice.choice([0, 1, 7])))
            write_rows(root, "feedback", day, [rating(day, word) for word in truth[day].elements()])
        # A lifecycle rule removes a partition. The table keeps its rows.
        forgotten = dice.choice(sorted(truth)) if truth else FIRST
        if forgotten not in changed:
            shutil.rmtree(root / "feedback" / f"date={forgotten}", ignore_errors=True)
        loaded = load()
        assert loaded.days == changed
        assert loaded.rows == sum(truth[day].total() for day in changed)
        if truth:
            expected = {(day, word): count for day, counts in truth.items() for word, count in counts.items()}
            assert words(rows()) == expected
    assert loaded.kept == len(truth) - len(lake.partitions_of(str(root), "feedback"))
    in_lake = set(lake.partitions_of(str(root), "feedback"))
    again = load(days=[*sorted(in_lake)[:2], date(2020, 1, 1)])
    assert again.days == set(sorted(in_lake)[:2])
    assert again.rows == again.replaced
    assert words(rows()) == expected


def test_every_dataset_is_read_back_by_duckdb_as_it_is_in_the_lake(catalog, load, root, rows):
    write_nights(root, 2)
    for dataset in lake.DATASETS:
        load(dataset)
        in_table = rows(dataset)
        files = sorted((root / dataset).rglob("*.parquet"))
        in_lake = pa.concat_tables(pq.ParquetFile(file).read() for file in files)
        assert in_table.column_names == ["date", *in_lake.column_names]
        fields = catalog.load_table(f"{NAMESPACE}.{dataset}").schema().fields
        assert {field.name: field.doc for field in fields[1:]} == lake.DATASETS[dataset].descriptions()
        query = f"SELECT {', '.join(in_lake.column_names)} FROM rows ORDER BY ALL"
        told = []
        for table in (in_table, in_lake):
            with duckdb.connect() as connection:
                connection.register("rows", table)
                # As text, because NaN does not equal itself.
                told.append(repr(connection.execute(query).fetchall()))
        assert told[0] == told[1], dataset


def test_columns_are_matched_by_name_and_types_only_widen(load, root, rows):
    def write(day, **columns):
        table = pa.table({"sent_at": pa.array([datetime.now(UTC)], pa.timestamp("us", tz="UTC")), **columns})
        lake.publish(table, str(root), "feedback", day, "dag.task")

    # A newer version has other columns, which become wider later; an older version has fewer columns.
    write(FIRST, rating=["good"], tries=pa.array([1], pa.int32()))
    write(SECOND, tries=pa.array([2**40]), score=[0.5], rating=["bad"])
    load()
    write(FIRST, rating=["fine"])
    write(FIRST + timedelta(days=2), rating=["good"], tries=pa.array([3], pa.int32()))
    load()
    found = rows().sort_by("date").select(["rating", "tries", "score"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("fine", None, None), ("bad", 2**40, 0.5), ("good", 3, None)]

    before = rows()
    write(SECOND, score=["text"])
    with pytest.raises(AssistantWarehouseError, match=r"do not match.*score: double -> string.*days are unchanged"):
        load()
    assert rows().equals(before)


def test_a_load_that_read_older_files_does_not_win(load, root, rows, monkeypatch):
    """After a load has read a partition, and before it commits, another load commits a newer version of it."""
    read = tables.read_partition
    newer: list[str] = []

    def read_and_wait(partition, *arguments):
        table = read(partition, *arguments)
        if newer:
            word = newer.pop()
            write_rows(root, "feedback", FIRST, [rating(FIRST, word), rating(FIRST, word)])
            load()
        return table

    monkeypatch.setattr(tables, "read_partition", read_and_wait)
    # First without a table, then with one; the other load also has conflicts, with a third one.
    for number in range(3):
        write_rows(root, "feedback", FIRST, [rating(FIRST, "older")])
        write_rows(root, "feedback", SECOND, [rating(SECOND, f"{number}")])
        newer.extend(f"newer {count}" for count in range(number + 1))
        load()
        assert words(rows()) == {(FIRST, "newer 0"): 2, (SECOND, f"{number}"): 1}
        assert not load().days


def erased(dataset, table):
    """Remove the rows of session "canary"."""
    if "session_id" not in table.column_names:
        return table, 0
    remaining = table.filter(pa.compute.not_equal(table["session_id"], "canary"))
    return remaining, table.num_rows - remaining.num_rows


def test_erased_rows_are_in_no_file(catalog, load, root, rows, tmp_path):
    for number, day in enumerate([FIRST, SECOND, SECOND, FIRST + timedelta(days=2)]):
        ids = {"session_id": "canary" if number != 1 else "other"}
        write_rows(root, "feedback", day, [{**rating(day, "good"), **ids}, rating(day, "bad")])
        load()
    write_rows(root, "loads", FIRST, [])
    load("loads")

    def files_with_canary():
        found = 0
        for path in (tmp_path / "tables").rglob("*"):
            if path.suffix == ".parquet":
                found += b"canary" in json.dumps(pq.ParquetFile(path).read().to_pylist(), default=str).encode()
            elif path.is_file():
                found += b"canary" in path.read_bytes()
        return found

    assert iceberg.delete_rows(catalog, NAMESPACE, erased, dry_run=True) == {"feedback": 3, "loads": 0}
    before = files_with_canary()
    assert before >= 3
    assert iceberg.delete_rows(catalog, NAMESPACE, erased) == {"feedback": 3, "loads": 0}
    assert not files_with_canary()
    assert words(rows()) == {(day, "bad"): 1 for day in (FIRST, SECOND, FIRST + timedelta(days=2))}
    # The erased days are not loaded again: the lake has not changed.
    assert not load().days

    table = catalog.load_table(f"{NAMESPACE}.feedback")
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "kept").commit()
    with pytest.raises(AssistantWarehouseError, match="branches or tags that keep earlier rows: kept"):
        iceberg.delete_rows(catalog, NAMESPACE, erased)
    assert iceberg.delete_rows(catalog, "nowhere", erased) == {}
