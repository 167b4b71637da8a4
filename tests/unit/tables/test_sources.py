"""Sources of any kind have the same rows, which are read once."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.source import files_in
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.source_account import AccountedRows
from airflow_provider_assistant.tables import Columns, read_rows
from tests.unit.tables.reading import columns, read, rows_of

ROWS = [{"title": "a", "n": 1, "more": None}, {"title": 'ü🕘\n"x"', "n": 2, "more": "x"}]
WANTED = columns("title", "more", key=["n"])
TITLE = columns("title")


def titles(source, **options):
    return [row["title"] for row in rows_of(source, TITLE, **options)]


def table(rows=ROWS):
    return pa.Table.from_pylist(rows)


FRAMES = {
    "list": lambda: ROWS,
    "tuple": lambda: tuple(ROWS),
    "deque": lambda: collections.deque(ROWS),
    "mappings": lambda: [MappingProxyType(row) for row in ROWS],
    "generator": lambda: iter(ROWS),
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas nullable": lambda: pd.DataFrame(ROWS).convert_dtypes(),
    "pandas arrow": lambda: pd.DataFrame(ROWS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas indexed": lambda: pd.DataFrame(ROWS, index=[7, 7]),
    "table": table,
    "reader": lambda: table().to_reader(max_chunksize=1),
    "batch": lambda: pa.RecordBatch.from_pylist(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "duckdb": lambda: duckdb.from_arrow(table()),
}


@pytest.mark.promise(
    "loads", "A dataframe, list, generator or function of any usual kind is a source of the same rows."
)
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_dataframes_lists_and_functions(make):
    def parts():
        yield make()
        yield ROWS[0]
        yield make()

    for source in (make(), make):
        rows = rows_of(source, WANTED)
        assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
        assert all(type(row["n"]) is int for row in rows)
    for source in (parts, parts(), list(parts())):
        assert titles(source) == ["a", ROWS[1]["title"], "a", "a", ROWS[1]["title"]]


def test_parts_may_be_of_several_kinds_and_empty(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"title": "f"}')

    def parts():
        yield pd.DataFrame({"title": ["p"]})
        yield []
        yield pl.DataFrame({"title": ["l"]})
        yield table().slice(0, 0).select(["title"])
        yield {"title": "d"}
        yield tmp_path / "a.jsonl"

    assert titles(parts) == ["p", "l", "d", "f"]


def test_a_source_is_asked_for_rows_only_as_they_are_read():
    asked = []

    def rows():
        for number in range(5000):
            asked.append(number)
            yield {"title": str(number)}

    batches = read_rows(rows, TITLE)
    assert asked == []
    assert [len(next(batches)), len(asked)] == [1000, 1000]
    assert [(batch.start, len(batch)) for batch in batches] == [(1001 + 1000 * n, 1000) for n in range(4)]


@pytest.mark.parametrize("make", [list, pa.Table.from_pylist, pd.DataFrame, pl.DataFrame])
def test_a_large_source_comes_in_batches(make):
    many = [{"title": str(number)} for number in range(2001)]
    assert [len(batch) for batch in read_rows(make(many), TITLE)] == [1000, 1000, 1]
    assert titles(make(many)) == [row["title"] for row in many]


def test_optional_columns_are_none_where_the_source_lacks_them():
    wanted = columns("title", optional=["more", "other"])
    for make in FRAMES.values():
        rows = rows_of(make(), wanted)
        assert [row["other"] for row in rows] == [None, None]
        assert [row["more"] for row in rows] == [None, "x"]


FULL_ROWS = [{**row, "tags": ["x", str(row["n"])]} for row in ROWS]


@pytest.mark.parametrize("make", [list, tuple, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist,
                                  lambda rows: lambda: (pd.DataFrame([row]) for row in rows)])  # fmt: skip
def test_the_rest_is_read_as_well(make):
    assert rows_of(make(FULL_ROWS), Columns(("n",), texts=frozenset(["more"]), rest=True)) == FULL_ROWS


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_missing_column_is_named_with_those_there_are(make):
    with pytest.raises(AssistantInputError, match="no column body, key; it has title, n, more") as caught:
        read(make(), columns("title", "body", key=["key"]))
    assert caught.value.field == "columns"
    assert "--column FIELD=COLUMN" in str(caught.value)
    with pytest.raises(AssistantInputError, match=r"no column N; it has .*key_columns \(--key\)"):
        read(make(), columns(key=["N"]))


def test_the_file_of_a_folder_that_lacks_the_column_is_named(tmp_path):
    writers = {
        "csv": lambda path, name: path.write_text(f"{name},more\na,b\n"),
        "jsonl": lambda path, name: path.write_text(json.dumps({name: "a", "more": "b"})),
        "parquet": lambda path, name: pq.write_table(pa.table({name: ["a"], "more": ["b"]}), path),
    }
    for suffix, write in writers.items():
        write(tmp_path / f"1.{suffix}", "title")
        write(tmp_path / f"2.{suffix}", "titel")
        with pytest.raises(AssistantInputError, match="no column title; it has titel, more") as caught:
            read(str(tmp_path / f"*.{suffix}"), TITLE)
        assert str(caught.value).startswith(f"'{tmp_path}/2.{suffix}' has no column title")


@pytest.mark.parametrize("source", [b"bytes", {"title": "a"}, 5, None, lambda: 5, lambda: (yield 5), [ROWS[0], 5]])
def test_what_is_not_a_source(source):
    with pytest.raises(AssistantInputError, match="source must be a dataframe") as caught:
        read(source, WANTED)
    assert caught.value.field == "source"


def test_a_name_that_is_a_number_is_another_than_its_text():
    with pytest.raises(AssistantInputError, match=r"no column 5; it has 5 \(int\), n"):
        read(pd.DataFrame({5: ["a"], "n": [1]}), columns("5"))


@pytest.mark.parametrize("source", [[], (), pd.DataFrame(columns=["title"], dtype=str), lambda: iter(())])
def test_an_empty_source_has_no_batches(source):
    assert list(read_rows(source, TITLE)) == []


def test_an_error_of_the_callable_is_its_own():
    def batches():
        yield ROWS
        raise ZeroDivisionError("theirs")

    with pytest.raises(ZeroDivisionError, match="theirs"):
        read(batches, TITLE)


def test_what_earlier_steps_left_out_becomes_notes():
    def rows(account):
        account.leave_out("page", "is a draft", "a.md", is_expected=True)
        yield {"title": "a"}
        account.leave_out("page", "is a draft", "b.md", is_expected=True)
        account.leave_out("page", "has no text", "c.md", is_expected=False)

    parts = list(read_rows(AccountedRows(rows), TITLE))
    assert parts[1:] == [
        Note("page", "has no text", is_expected=False, name="c.md"),
        Note("page", "is a draft", is_expected=True, count=2, name="a.md"),
    ]


# -- files -----------------------------------------------------------------------------------------

PATHS = {
    "text": str,
    "path": Path,
    "URL": lambda path: f"file://{path}",
    "object storage": lambda path: ObjectStoragePath(f"file://{path}"),
    "list": lambda path: [str(path)],
    "function": lambda path: lambda: path,
}


@pytest.mark.parametrize("spelling", PATHS.values(), ids=PATHS)
def test_files_of_every_format(spelling, tmp_path):
    rows = [{"title": row["title"], "more": row["more"] or "", "n": str(row["n"])} for row in ROWS]
    pd.DataFrame(rows).to_csv(tmp_path / "rows.CSV.gz", index=False)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(table(rows), tmp_path / "rows.PARQUET", row_group_size=1)
    for path in tmp_path.iterdir():
        assert rows_of(spelling(path), WANTED) == rows


def test_a_file_in_memory_storage():
    attach("memory", fs=MemoryFileSystem())
    root = f"memory://tests-{uuid4().hex}"
    for number in range(3):
        with ObjectStoragePath(f"{root}/day=1/{number}.jsonl").open("wb") as file:
            file.write(json.dumps({"title": str(number)}).encode())
    with ObjectStoragePath(f"{root}/day=1/_SUCCESS").open("wb") as file:
        file.write(b"!")
    assert titles(f"{root}/day=1/2.jsonl") == ["2"]
    assert titles(ObjectStoragePath(f"{root}/day=1")) == ["0", "1", "2"]
    assert titles(f"{root}/*/[01].jsonl") == ["0", "1"]


@pytest.mark.parametrize("source", ["missing.parquet", "none/*.csv", "empty", ["missing.csv"]])
def test_no_files(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssistantInputError, match=r"does not exist|there are no files"):
        read(source, TITLE)
    if source in ("none/*.csv", "empty"):
        assert titles(source, allow_empty=True) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("faq.csv", ["faq.csv"]),
        (Path("/a/faq.csv"), ["/a/faq.csv"]),
        ("s3://bucket/faq/*/*.parquet", ["s3://bucket/faq"]),
        (ObjectStoragePath("s3://aws@bucket/faq.csv"), ["s3://aws@bucket/faq.csv"]),
        ("/*.csv", ["/"]),
        ("*.csv", ["."]),
        (["/a/1.csv", "/a/2.csv", "/a/1.csv"], ["/a/1.csv", "/a/2.csv"]),
        ([{"title": "/a/1.parquet"}], []),
        (pa.table({"title": ["a"]}), []),
        (lambda: "/a/1.parquet", []),
        (None, []),
    ],
)
def test_the_files_that_a_source_names(source, expected):
    assert [data.uri for data in files_in(source)] == expected
