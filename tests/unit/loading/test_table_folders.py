"""Folders with a meaning: partitions of Hive, and tables of Delta, Hudi and Iceberg."""

from __future__ import annotations

import json
import random
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source, row_group_shards

VALUES = ["returns", "a b", "50%", "Größe", "x=y", "a/b", "2026-01-31", "7.0", None]
WANTED = ColumnSelection(("answer",), any=("day", "id"), optional=("category",))


def write(path, answers, **columns):
    rows = [{"answer": answer, **columns} for answer in answers]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read(source, wanted=WANTED, **options):
    rows = []
    with open_source(source, wanted, **options) as opened:
        for batch in opened.batches():
            columns = [batch.columns[name] for name in wanted.read]
            rows += zip(*columns, strict=True)
    return rows


def folder_of(name, value):
    return f"{quote(name)}={'__HIVE_DEFAULT_PARTITION__' if value is None else quote(value, safe='')}"


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_folders_of_partitions_are_columns(suffix, tmp_path):
    rng = random.Random(suffix)
    expected = []
    for number, value in enumerate(VALUES):
        day = f"2026-01-{number + 1:02}"
        folder = tmp_path / "a=b" / folder_of("day", day) / "plain" / folder_of("category", value) / "unused=1"
        count = rng.randint(1, 3)
        write(folder / f"part=0-{number}{suffix}", [f"A{number}"] * count, id=f"i{number}")
        expected += [(f"A{number}", day, f"i{number}", value)] * count
    by_glob = f"{tmp_path}/**/*{suffix}"
    for source in (str(tmp_path), by_glob, ObjectStoragePath(f"file://{tmp_path}"), str(tmp_path / "a=b")):
        assert sorted(read(source), key=str) == sorted(expected, key=str)
    files = sorted(str(path) for path in tmp_path.rglob(f"*{suffix}"))
    assert sorted(read(files), key=str) == sorted(expected, key=str)
    if suffix == ".parquet":
        shards = row_group_shards(str(tmp_path), rows=1)
        assert sorted((row for shard in shards for row in read(shard)), key=str) == sorted(expected, key=str)
    # Nobody asks for these columns.
    everything = ColumnSelection(("answer",), rest=True)
    with open_source(str(tmp_path), everything) as opened:
        assert {name for batch in opened.batches() for name in batch.columns} == {"answer", "id"}


def test_all_columns_but_one_may_be_folders(tmp_path):
    write(tmp_path / "id=7" / "a.parquet", ["A", "B"])
    assert read(str(tmp_path), ColumnSelection((), any=("id",))) == [("7",), ("7",)]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_column_in_the_file_wins(suffix, tmp_path):
    write(tmp_path / "day=1" / "id=folder" / f"a{suffix}", ["A"], id="file")
    assert read(str(tmp_path)) == [("A", "1", "file", None)]


def test_a_column_that_neither_has_is_missing(tmp_path):
    write(tmp_path / "Day=1" / "id=2" / "a.csv", ["A"])
    with pytest.raises(AssistantInputError, match="has no column day; it has answer"):
        read(str(tmp_path))


MARKS = {
    "Delta": ("_delta_log/00000000000000000000.json", "deltalake.DeltaTable('{}').to_pyarrow_table()"),
    "Hudi": (".hoodie/hoodie.properties", "from_base_uri('{}').build().read_snapshot()"),
    "Iceberg": ("metadata/v9.metadata.json", "from_metadata('{}/metadata/v10.metadata.json').scan().to_arrow()"),
}


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("data", ["", "data/", "day=1/", "data/day=1/category=x/", "data/0101/0011/", "aB/"])
@pytest.mark.parametrize("as_url", [False, True])
def test_tables_are_refused_with_the_line_that_reads_them(kind, data, as_url, tmp_path):
    mark, line = MARKS[kind]
    table = tmp_path / "lake" / "faq"
    write(table / f"{data}part-0.parquet", ["A"])
    write(tmp_path / "lake" / "other" / "part-0.parquet", ["A"], id="1", day="2")
    (table / mark).parent.mkdir()
    (table / mark).write_text("{}")
    (table / mark).with_name("v10.metadata.json").write_text("{}")
    (tmp_path / "metadata").mkdir(exist_ok=True)
    (tmp_path / "metadata" / "other.metadata.json").write_text("{}")
    url = "file://" if as_url else ""
    sources = [
        table,
        tmp_path / "lake",
        f"{table}/{data}*.parquet",
        f"{tmp_path}/**/*.parquet",
        table / f"{data}part-0.parquet",
    ]
    for source in sources:
        with pytest.raises(AssistantInputError, match=f"is a {kind} table") as caught:
            read(f"{url}{source}")
        assert line.format(f"{url}{table}") in str(caught.value)
    with pytest.raises(AssistantInputError, match=f"is a {kind} table"):
        row_group_shards(f"{url}{table}")
    assert read(f"{url}{tmp_path}/lake/other") == [("A", "2", "1", None)]
    write(table / "export.csv", ["A"], id="1", day="2")
    assert read(f"{url}{table}/*.csv") == [("A", "2", "1", None)]
