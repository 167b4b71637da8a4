"""Dataframes and files of rows: each pass returns the same rows in the same order."""

from __future__ import annotations

import bz2
import collections
import gzip
import json
from datetime import date
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
from airflow_provider_assistant.loading.columns import BATCH, ColumnSelection
from airflow_provider_assistant.loading.sources import open_source, row_group_shards
from airflow_provider_assistant.storage.source_files import files_in, storage_files

ROWS = [{"title": "a", "n": 1, "more": None}, {"title": 'ü🕘\n"x"', "n": 2, "more": "x"}]
WANTED = ColumnSelection(("title", "more"), ("n",))
TITLE = ColumnSelection(("title",))


def read(source, wanted=WANTED):
    """Read a source twice; both passes must return the same rows."""
    with open_source(source, wanted) as opened:
        first, second = list(opened.batches()), list(opened.batches())
    assert first == second
    assert [batch.start for batch in first] == [1 + sum(map(len, first[:i])) for i in range(len(first))]
    return [
        dict(zip(batch.columns, values, strict=True))
        for batch in first
        for values in zip(*batch.columns.values(), strict=True)
    ]


def titles(source):
    return [row["title"] for row in read(source, TITLE)]


def table(rows=ROWS):
    return pa.Table.from_pylist(rows)


def relation():
    return duckdb.from_arrow(table())


FRAMES = {
    "list": lambda: ROWS,
    "tuple": lambda: tuple(ROWS),
    "deque": lambda: collections.deque(ROWS),
    "mappings": lambda: [MappingProxyType(row) for row in ROWS],
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas nullable": lambda: pd.DataFrame(ROWS).convert_dtypes(),
    "pandas arrow": lambda: pd.DataFrame(ROWS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas indexed": lambda: pd.DataFrame(ROWS, index=[7, 7]),
    "table": table,
    "reader": lambda: table().to_reader(max_chunksize=1),
    "polars": lambda: pl.DataFrame(ROWS),
    "duckdb": relation,
}


@pytest.mark.promise(
    "loads", "A dataframe, list, generator or function of any usual kind is a source of the same rows."
)
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_dataframes(make):
    for source in (make(), make):
        rows = read(source)
        assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
        assert all(type(row["n"]) is int for row in rows)


def test_a_stream_is_closed_when_the_source_is_refused():
    """DuckDB refuses another query while a stream is open, and the error keeps the frames that hold the stream."""
    with duckdb.connect() as connection:
        with pytest.raises(AssistantInputError) as refused:
            read(connection.sql("SELECT 1 AS other"))
        assert connection.sql("SELECT 2").to_arrow_table().num_rows == 1
        assert refused.value


@pytest.mark.parametrize("make", [*FRAMES.values(), lambda: pa.RecordBatch.from_pylist(ROWS), lambda: ROWS[0]])
def test_generators_of_batches(make):
    def batches():
        yield make()
        yield make()

    for source in (batches, batches()):
        rows = read(source)
        assert rows[: len(rows) // 2] == rows[len(rows) // 2 :]
        assert rows[0] == {"title": "a", "more": None, "n": 1}


def test_a_generator_may_mix_kinds_and_yield_nothing_in_between():
    def batches():
        yield pd.DataFrame({"title": ["p"]})
        yield []
        yield pl.DataFrame({"title": ["l"]})
        yield table().slice(0, 0).select(["title"])
        yield {"title": "d"}

    assert titles(batches) == ["p", "l", "d"]


def test_a_stream_is_read_once_and_kept():
    asked = []

    def batches():
        for number in range(3):
            asked.append(number)
            yield pa.RecordBatch.from_pylist([{"title": str(number)}])

    reader = pa.RecordBatchReader.from_batches(pa.schema([("title", pa.string())]), batches())
    assert titles(reader) == ["0", "1", "2"]
    assert asked == [0, 1, 2]


def test_a_large_batch_comes_in_pieces():
    many = [{"title": str(number)} for number in range(2 * BATCH + 1)]
    for source in (many, pa.Table.from_pylist(many), pd.DataFrame(many)):
        with open_source(source, TITLE) as opened:
            sizes = [len(batch) for batch in opened.batches()]
        assert sizes == [BATCH, BATCH, 1]
    assert titles(many) == [row["title"] for row in many]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
     pa.dictionary(pa.int32(), pa.large_string())],
    ids=str,
)  # fmt: skip
def test_every_kind_of_text_is_text(kind):
    column = pa.array(["a", None, "a"], getattr(kind, "value_type", kind)).cast(kind)
    assert titles(pa.table({"title": column})) == ["a", None, "a"]


def test_categories_of_pandas_and_polars():
    assert titles(pd.DataFrame({"title": pd.Categorical(["a", "b", "a"])})) == ["a", "b", "a"]
    assert titles(pl.DataFrame({"title": pl.Series(["a", "b", "a"], dtype=pl.Categorical)})) == ["a", "b", "a"]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.binary(), pa.list_(pa.string())], ids=str)
def test_a_text_column_of_another_type_is_named(kind, tmp_path):
    value = {"int64": 1, "double": 1.5, "date32[day]": date(2026, 1, 1), "binary": b"x"}.get(str(kind), ["x"])
    frame = pa.table({"title": pa.array([None, value], kind)})
    pq.write_table(frame, tmp_path / "a.parquet")
    for source in (frame, tmp_path / "a.parquet"):
        with pytest.raises(AssistantInputError, match=f"title is of type {str(kind)[:4]}") as caught:
            read(source, TITLE)
        assert caught.value.field == "title"


def test_a_column_of_nothing_but_nulls_has_no_type():
    assert titles(pa.table({"title": pa.nulls(2)})) == [None, None]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.binary(), pa.list_(pa.string())], ids=str)
def test_a_column_without_a_single_value_may_be_of_any_type(kind, tmp_path):
    frame = pa.table({"title": pa.array([None], kind)})
    pq.write_table(frame, tmp_path / "a.parquet")
    assert titles(frame) == titles(tmp_path / "a.parquet") == [None]


def test_a_pandas_column_of_several_types_is_read_row_by_row():
    assert titles(pd.DataFrame({"title": ["a", 3, None, float("nan"), pd.NA, b"x"]})) == [
        "a",
        3,
        None,
        None,
        None,
        b"x",
    ]


@pytest.mark.parametrize("make", [*FRAMES.values()], ids=FRAMES)
def test_a_missing_column_is_named_with_those_there_are(make):
    with pytest.raises(AssistantInputError, match="no column body, key; it has title, n, more") as caught:
        read(make(), ColumnSelection(("title", "body"), ("key",)))
    assert caught.value.field == "columns"


@pytest.mark.parametrize(
    "source", [b"bytes", {"title": "a"}, 5, None, [ROWS[0], "row"], [["a"]], lambda: 5, lambda: (yield 5)]
)
def test_what_is_no_source(source):
    with pytest.raises(AssistantInputError, match="source") as caught:
        read(source)
    assert caught.value.field == "source"


@pytest.mark.parametrize("source", [[], (), pd.DataFrame(columns=["title"], dtype=str), lambda: iter(())])
def test_nothing_has_no_batches(source):
    assert read(source, TITLE) == []


def test_an_error_of_the_callable_is_its_own():
    def batches():
        yield ROWS
        raise ZeroDivisionError("theirs")

    with pytest.raises(ZeroDivisionError, match="theirs"):
        read(batches)


CSV = '\ufefftitle,n,more,other\na,1,,5\n"ü🕘\n""x""",2,x,y\n'
PLAIN_ROWS = [{"title": "a", "more": "", "n": "1"}, {"title": 'ü🕘\n"x"', "more": "x", "n": "2"}]
JSON_LINES = "".join(json.dumps(row) + "\n\n" for row in ROWS)
FILES = {
    "rows.csv": lambda path: path.write_text(CSV, encoding="utf-8"),
    "rows.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "rows.jsonl": lambda path: path.write_text(JSON_LINES),
    "rows.ndjson.bz2": lambda path: path.write_bytes(bz2.compress(JSON_LINES.encode())),
    "rows.parquet": lambda path: pq.write_table(table(), path, row_group_size=1),
}


@pytest.mark.parametrize("spelling", [str, Path, lambda path: f"file://{path}",
                                      lambda path: ObjectStoragePath(f"file://{path}"),
                                      lambda path: [str(path)], lambda path: lambda: path])  # fmt: skip
@pytest.mark.parametrize("name", FILES)
def test_files_of_rows(name, spelling, tmp_path):
    FILES[name](tmp_path / name)
    expected = PLAIN_ROWS if "csv" in name else [{name: row[name] for name in ("title", "more", "n")} for row in ROWS]
    assert read(spelling(tmp_path / name)) == expected


def test_csv_keeps_text_as_it_stands(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('title,more\n007,NULL\n1e3,NaN\ntrue,""\n2026-01-01, x \n')
    assert read(path, ColumnSelection(("title", "more"))) == [
        {"title": "007", "more": "NULL"},
        {"title": "1e3", "more": "NaN"},
        {"title": "true", "more": ""},
        {"title": "2026-01-01", "more": " x "},
    ]


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        ("csv", lambda path, column: path.write_text(f"{column},more\na,b\n")),
        ("jsonl", lambda path, column: path.write_text(json.dumps({column: "a", "more": "b"}))),
        ("parquet", lambda path, column: pq.write_table(pa.table({column: ["a"], "more": ["b"]}), path)),
    ],
)
def test_the_file_of_a_folder_that_lacks_the_column_is_named(suffix, write, tmp_path):
    write(tmp_path / f"1.{suffix}", "title")
    write(tmp_path / f"2.{suffix}", "titel")
    with pytest.raises(AssistantInputError, match="no column title; it has titel, more") as caught:
        read(tmp_path, TITLE)
    assert str(caught.value).startswith(f"'{tmp_path}/2.{suffix}' has no column title")


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


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "data"
    for name, title in {"b/1.jsonl": "b1", "a.jsonl": "a", "b/0.jsonl": "b0"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps({"title": title}))
    for name in ("_SUCCESS", ".crc.jsonl", "_temporary/x.jsonl", ".hidden/x.jsonl"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("no data")
    return root


@pytest.mark.parametrize("spelling", [str, lambda path: f"{path}/", Path, lambda path: f"file://{path}"])
def test_a_folder_is_its_files_in_order(folder, spelling):
    assert titles(spelling(folder)) == ["a", "b0", "b1"]
    assert [name for name, _ in storage_files(spelling(folder))] == ["a.jsonl", "b/0.jsonl", "b/1.jsonl"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.jsonl", ["a"]),
        ("*/*.jsonl", ["b0", "b1"]),
        ("b/?.jsonl", ["b0", "b1"]),
        ("**/*.jsonl", ["a", "b0", "b1"]),
    ],
)
def test_globs(folder, pattern, expected):
    assert titles(f"{folder}/{pattern}") == expected
    assert titles(f"file://{folder}/{pattern}") == expected


@pytest.mark.parametrize("source", [".", "./", "*.jsonl", "./*.jsonl", "b/*.jsonl", Path("b")])
def test_relative_paths(folder, monkeypatch, source):
    monkeypatch.chdir(folder)
    expected = {"b": ["b0", "b1"], "*": ["a"]}.get(str(source).removeprefix("./")[:1], ["a", "b0", "b1"])
    assert titles(source) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"title": [' + b"1," * 1_000_001 + b"1]}", "more than 1,000,000 values"),
        ('{"title": "中"}'.encode("utf-16-le"), "is not JSON"),
        (b'{"title": "x", "other": {"a": 1, "a": 2}}', "with the name 'a' more than once"),
    ],
)
def test_a_line_that_cannot_be_read_is_a_problem_of_its_row(line, problem, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"title": "a"}\n' + line + b'\n{"title": "b \\u0000"}\n')
    with open_source(path, TITLE) as opened:
        (batch,) = opened.batches()
    assert list(batch.problems) == [1]
    assert problem in batch.problems[1]
    assert [batch.columns["title"][row] for row in (0, 2)] == ["a", "b \0"]


@pytest.mark.parametrize(("name", "content", "part"), [
    ("a.xlsx", b"x", r"does not have the suffix of .*pandas.read_excel\('.*a.xlsx', dtype=str, keep_default_na=False"),
    ("a.avro", b"x", r"does not have the suffix of .*polars.read_avro"),
    ("a", b"x", r"does not have the suffix of .*--format"),
    ("a.csv", gzip.compress(b"title\na\n", mtime=0), "is compressed with gzip"),
    ("a.csv", b"PK\x03\x04", "Excel workbook"),
    ("a.parquet", b"no parquet", "cannot be read"),
    ("a.parquet", b"", "cannot be read"),
    ("a.csv", b"t\xe9tle\n", "cannot be read.*--encoding"),
    ("a.csv", b'title\na\n"b\nc\n', "cannot be read: line 3: a quote is opened and not closed"),
    ("a.jsonl", b'{"title": ', "cannot be read"),
    ("a.jsonl", b"\xff", "cannot be read"),
    ("a.jsonl", b"1\n", "must be a JSON object"),
    ("a.jsonl", b"[1]\n", "line 1"),
    ("a.jsonl", b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "is JSON nested more than 100 levels deep"),
    ("a.jsonl.gz", b"no gzip", "cannot be read"),
    ("a.jsonl.gz", gzip.compress(JSON_LINES.encode() * 1000, mtime=0)[:-40], "cannot be read"),
    ("a.csv.gz", gzip.compress(b"title\n" + bytes(range(97, 123)) * 99, mtime=0)[:30] + b"\0" * 40, "cannot be read"),
])  # fmt: skip
def test_files_that_cannot_be_read_are_named(name, content, part, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AssistantInputError, match=part) as caught:
        read(tmp_path / name, TITLE)
    assert str(tmp_path / name) in str(caught.value)
    assert caught.value.field == "source"


def test_a_broken_row_group_is_an_error_not_an_end(tmp_path):
    path = tmp_path / "a.parquet"
    rows = pa.table({"title": [f"{number:064d}" for number in range(4000)]})
    pq.write_table(rows, path, row_group_size=1000, compression="zstd", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(2).column(0)
    content = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(AssistantInputError, match=r"a\.parquet.*cannot be read"):
        read(path, TITLE)


@pytest.mark.parametrize("source", ["missing.parquet", "none/*.csv", "empty", ["missing.csv"]])
def test_no_files(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssistantInputError, match=r"does not exist|there are no files"):
        read(source)


def test_shards_are_whole_row_groups_and_together_everything(tmp_path):
    for name in ("a", "b"):
        rows = pa.table({"title": [f"{name}{number}" for number in range(10)]})
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=3)
    shards = row_group_shards(str(tmp_path), rows=5)
    assert shards == json.loads(json.dumps(shards))
    assert [(Path(shard["path"]).name, shard["row_groups"]) for shard in shards] == [
        ("a.parquet", [0, 1]), ("a.parquet", [2, 3]), ("b.parquet", [0, 1]), ("b.parquet", [2, 3]),
    ]  # fmt: skip
    assert [title for shard in shards for title in titles(shard)] == titles(tmp_path)
    assert row_group_shards(str(tmp_path / "a.parquet"), rows=1)[1]["row_groups"] == [1]
    assert len(row_group_shards(str(tmp_path / "*.parquet"))) == 2


EVERYTHING = ColumnSelection(("title",), ("n",), rest=True)
FULL_ROWS = [{"title": row["title"], "n": row["n"], "more": row["more"], "tags": ["x", str(row["n"])]} for row in ROWS]


@pytest.mark.parametrize("make", [list, tuple, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist,
                                  lambda rows: table(rows).to_reader(max_chunksize=1),
                                  lambda rows: lambda: (pd.DataFrame([row]) for row in rows)])  # fmt: skip
def test_the_rest_is_read_as_well(make):
    assert read(make(FULL_ROWS), EVERYTHING) == FULL_ROWS


@pytest.mark.parametrize("name", FILES)
def test_the_rest_of_a_file_is_read_as_well(name, tmp_path):
    FILES[name](tmp_path / name)
    rows = read(tmp_path / name, EVERYTHING)
    if "csv" in name:
        assert rows == [{**row, "other": other} for row, other in zip(PLAIN_ROWS, "5y", strict=True)]
    else:
        assert rows == ROWS


def test_the_rest_is_no_more_than_there_is(tmp_path):
    with pytest.raises(AssistantInputError, match="no column n; it has title, more"):
        read([{"title": "a", "more": 1}], EVERYTHING)
    (tmp_path / "a.csv").write_text("title,more\na,b\n")
    with pytest.raises(AssistantInputError, match="no column n; it has title, more"):
        read(tmp_path / "a.csv", EVERYTHING)


def test_the_rest_of_a_long_list_may_change_on_the_way():
    rows = [{"title": "a", "n": 1, "early": 1}] * BATCH + [{"title": "b", "n": 2, "late": 2}]
    with open_source(rows, EVERYTHING) as opened:
        first, second = opened.batches()
    assert set(first.columns) == {"title", "n", "early"}
    assert set(second.columns) == {"title", "n", "late"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("faq.csv", ["faq.csv"]),
        (Path("/a/faq.csv"), ["/a/faq.csv"]),
        ("s3://bucket/faq/*/*.parquet", ["s3://bucket/faq"]),
        ("/*.csv", ["/"]),
        ("*.csv", ["."]),
        (["/a/1.csv", "/a/2.csv", "/a/1.csv"], ["/a/1.csv", "/a/2.csv"]),
        ({"path": "/a/1.parquet", "row_groups": [0, 1]}, ["/a/1.parquet"]),
        ([{"title": "/a/1.parquet"}], []),
        (pa.table({"title": ["a"]}), []),
        (lambda: "/a/1.parquet", []),
        (None, []),
    ],
)
def test_files_that_a_source_names(source, expected):
    assert [data.uri for data in files_in(source)] == expected


def test_the_file_that_a_path_of_object_storage_names():
    assert [data.uri for data in files_in(ObjectStoragePath("s3://aws@bucket/faq.csv"))] == ["s3://aws@bucket/faq.csv"]
