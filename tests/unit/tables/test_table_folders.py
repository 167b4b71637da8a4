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
from airflow_provider_assistant.tables import Columns
from tests.unit.tables.reading import columns, read, rows_of

VALUES = ["returns", "a b", "50%", "Größe", "x=y", "a/b", "2026-01-31", "7.0", None]
WANTED = columns("answer", key=["day", "id"], optional=["category"])


def write(path, answers, **values):
    rows = [{"answer": answer, **values} for answer in answers]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def found(source, wanted=WANTED):
    return sorted([[*row.values()] for row in rows_of(source, wanted)], key=str)


def folder_of(name, value):
    return f"{quote(name)}={'__HIVE_DEFAULT_PARTITION__' if value is None else quote(value, safe='')}"


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_folders_of_partitions_are_columns(suffix, tmp_path, monkeypatch):
    rng = random.Random(suffix)
    expected = []
    for number, value in enumerate(VALUES):
        day = f"2026-01-{number + 1:02}"
        folder = tmp_path / "a=b" / folder_of("day", day) / "plain" / folder_of("category", value) / "unused=1"
        count = rng.randint(1, 3)
        write(folder / f"part=0-{number}{suffix}", [f"A{number}"] * count, id=f"i{number}")
        expected += [[f"A{number}", f"i{number}", day, value]] * count
    monkeypatch.chdir(tmp_path)
    for source in (
        tmp_path,
        f"{tmp_path}/**/*{suffix}",
        ObjectStoragePath(f"file://{tmp_path}"),
        tmp_path / "a=b",
        ".",
    ):
        rows = [[row["answer"], row["id"], row["day"], row["category"]] for row in rows_of(source, WANTED)]
        assert sorted(rows, key=str) == sorted(expected, key=str)
    # Nobody asks for these columns.
    everything = Columns(("answer",), rest=True)
    assert {name for row in rows_of(tmp_path, everything) for name in row} == {"answer", "id"}


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_folder_above_the_source_is_not_a_column(suffix, tmp_path):
    folder = tmp_path / "category=archive"
    write(folder / "day=1" / f"faq{suffix}", ["A"], id="i")
    write(folder / f"faq{suffix}", ["A"], id="i", day="2")
    assert [row["category"] for row in rows_of(folder / f"faq{suffix}", WANTED)] == [None]
    assert [row["category"] for row in rows_of(f"{folder}/day=*/faq{suffix}", WANTED)] == [None]
    assert [row["category"] for row in rows_of([str(folder / f"faq{suffix}")], WANTED)] == [None]


def test_all_columns_but_one_may_be_folders(tmp_path):
    write(tmp_path / "id=7" / "a.parquet", ["A", "B"])
    assert found(tmp_path, columns(key=["id"])) == [["7"], ["7"]]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_column_in_the_file_wins(suffix, tmp_path):
    write(tmp_path / "day=1" / "id=folder" / f"a{suffix}", ["A"], id="file")
    assert rows_of(tmp_path, WANTED) == [{"answer": "A", "day": "1", "id": "file", "category": None}]


def test_a_column_that_neither_has_is_missing(tmp_path):
    write(tmp_path / "Day=1" / "id=2" / "a.csv", ["A"])
    with pytest.raises(AssistantInputError, match="has no column day; it has answer"):
        read(tmp_path, WANTED)


MARKS = {
    "Delta": ("_delta_log/00000000000000000000.json", "deltalake.DeltaTable('{}').to_pyarrow_table()"),
    "Hudi": (".hoodie/hoodie.properties", "from_base_uri('{}').build().read_snapshot()"),
    "Iceberg": ("metadata/v9.metadata.json", "from_metadata('{}/metadata/v10.metadata.json').scan().to_arrow()"),
}


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("data", ["", "data/", "day=1/", "data/day=1/category=x/"])
@pytest.mark.parametrize("url", ["", "file://"])
def test_tables_are_refused_with_the_line_that_reads_them(kind, data, url, tmp_path):
    mark, line = MARKS[kind]
    faq = tmp_path / "lake" / "faq"
    write(faq / f"{data}part-0.parquet", ["A"])
    write(tmp_path / "lake" / "other" / "part-0.parquet", ["A"], id="1", day="2")
    (faq / mark).parent.mkdir()
    (faq / mark).write_text("{}")
    (faq / mark).with_name("v10.metadata.json").write_text("{}")
    (tmp_path / "metadata").mkdir(exist_ok=True)
    (tmp_path / "metadata" / "other.metadata.json").write_text("{}")
    sources = [
        faq,
        tmp_path / "lake",
        f"{faq}/{data}*.parquet",
        f"{tmp_path}/**/*.parquet",
        faq / f"{data}part-0.parquet",
    ]
    for source in sources:
        with pytest.raises(AssistantInputError, match=f"is a {kind} table") as caught:
            read(f"{url}{source}", WANTED)
        assert line.format(f"{url}{faq}") in str(caught.value)
    assert len(rows_of(f"{url}{tmp_path}/lake/other", WANTED)) == 1
    write(faq / "export.csv", ["A"], id="1", day="2")
    assert len(rows_of(f"{url}{faq}/*.csv", WANTED)) == 1
