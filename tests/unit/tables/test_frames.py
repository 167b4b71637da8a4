"""Dataframes: values by column, or a refusal that names the column."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column
from airflow_provider_assistant.tables import Columns, read_rows
from tests.unit.tables.reading import columns, read, rows_of

TITLE = columns("title")
ANSWERS = columns("answer", key=["id"])


def titles(source):
    return [row["title"] for row in rows_of(source, TITLE)]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
     pa.dictionary(pa.int32(), pa.large_string())],
    ids=str,
)  # fmt: skip
def test_every_kind_of_text_is_text(kind):
    column = pa.array(["a", None, "a"], getattr(kind, "value_type", kind)).cast(kind)
    assert titles(pa.table({"title": column})) == ["a", None, "a"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(["a", None, "a"]),
        pd.array(["a", None, "a"], "string"),
        pd.Series(["a", float("nan"), "a"], dtype=object),
        np.array(["a", None, "a"]),
    ],
)
def test_every_kind_of_text_of_pandas_is_text(column):
    assert titles(pd.DataFrame({"title": column})) == ["a", None, "a"]


def test_categories_of_polars_are_text():
    assert titles(pl.DataFrame({"title": pl.Series(["a", "b"], dtype=pl.Categorical)})) == ["a", "b"]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.binary(), pa.list_(pa.string())], ids=str)
def test_a_text_column_of_another_type_is_named_unless_it_has_no_value(kind, tmp_path):
    value = {"int64": 1, "double": 1.5, "date32[day]": date(2026, 1, 1), "binary": b"x"}.get(str(kind), ["x"])
    for values in ([None, value], [None]):
        frame = pa.table({"title": pa.array(values, kind)})
        pq.write_table(frame, tmp_path / "a.parquet")
        for source in (frame, tmp_path / "a.parquet"):
            if len(values) == 1:
                assert titles(source) == [None]
                continue
            with pytest.raises(AssistantInputError, match=f"title is of type {str(kind)[:4]}") as caught:
                read(source, TITLE)
            assert caught.value.field == "title"


def test_a_pandas_column_of_several_types_keeps_its_values():
    mixed = ["a", 3, None, float("nan"), pd.NA, b"x"]
    assert titles(pd.DataFrame({"title": mixed})) == ["a", 3, None, None, None, b"x"]


@pytest.mark.parametrize("source", [pd.Series(["a"], name="title"), pl.Series("title", ["a"])])
def test_a_series_is_refused(source):
    with pytest.raises(AssistantInputError, match="a Series; pass a DataFrame"):
        read(source, TITLE)


def test_a_key_that_is_the_index_is_explained():
    frame = pd.DataFrame({"id": ["a"], "answer": ["A"]}).set_index("id")
    with pytest.raises(AssistantInputError, match=r"no column id; it has answer.*pass df\.reset_index\(\)"):
        read(frame, ANSWERS)
    assert len(rows_of(frame.reset_index(), ANSWERS)) == 1


def test_a_column_that_is_there_twice_is_refused():
    frame = pd.DataFrame([["a", "b"]], columns=["title", "title"])
    for wanted in (TITLE, columns(rest=True)):
        with pytest.raises(AssistantInputError, match="more than one column title"):
            read(frame, wanted)


def test_a_stream_is_closed_when_the_source_is_refused():
    """DuckDB refuses another query while a stream is open, and the error keeps the frames that hold the stream."""
    with duckdb.connect() as connection:
        with pytest.raises(AssistantInputError) as refused:
            read(connection.sql("SELECT 1 AS other"), TITLE)
        assert connection.sql("SELECT 2").to_arrow_table().num_rows == 1
        assert refused.value


# -- keys ------------------------------------------------------------------------------------------

IDS = [UUID(int=number) for number in (1, 2**64, 2**127)]
OBJECTS = {
    "UUIDs": (IDS, [str(one) for one in IDS]),
    "paths": ([PurePosixPath("a"), PurePosixPath("b/c")], ["a", "b/c"]),
    "decimals": ([Decimal("1.10"), Decimal("7.00"), None], ["1.1", "7", None]),
    "NumPy scalars": ([np.int64(7), np.float64(0.5), np.str_("x")], ["7", "0.5", "x"]),
    "dates and timestamps": ([date(2026, 1, 31), datetime(2026, 1, 31, 8)], ["2026-01-31", "2026-01-31 08:00:00"]),  # noqa: DTZ001
    "with and without a zone": (
        [datetime(2026, 1, 31, 8, tzinfo=UTC), datetime(2026, 1, 31, 8)],  # noqa: DTZ001
        ["2026-01-31 08:00:00+00:00", "2026-01-31 08:00:00"],
    ),
    "large integers and fractions": ([2**53 + 1, 0.5, 10**30], [str(2**53 + 1), "0.5", "1" + "0" * 30]),
    "texts and numbers": (["007", 7, 7.0, True], ["007", "7", "7", "true"]),
}


def keys_of(source):
    return key_column([row["id"] for row in rows_of(source, ANSWERS)])[0]


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_are_keys_by_value(kind):
    values, expected = OBJECTS[kind]
    # More than a batch.
    values, expected = values * 700, expected * 700
    answers = [f"A {number}" for number in range(len(values))]
    rows = [{"id": value, "answer": answer} for value, answer in zip(values, answers, strict=True)]
    frame = pd.DataFrame({"id": pd.Series(values, dtype=object), "answer": answers})
    objects = pl.DataFrame({"id": pl.Series(values, dtype=pl.Object), "answer": answers})
    text_objects = objects.with_columns(pl.Series("answer", answers, dtype=pl.Object))
    for source in (rows, frame, frame.astype({"answer": object}), frame[1:], objects, text_objects):
        assert keys_of(source) == expected[len(expected) - len(source) :]


NUMBERS = [1, 2, None]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"id": NUMBERS, "answer": "A"}),
        pd.DataFrame({"id": pd.array(NUMBERS, "Int64"), "answer": "A"}),
        pd.DataFrame({"id": NUMBERS, "answer": "A"}).convert_dtypes(dtype_backend="pyarrow"),
        pl.DataFrame({"id": NUMBERS, "answer": "A"}),
        pl.DataFrame({"id": pl.Series(NUMBERS, dtype=pl.Int128), "answer": "A"}),
        pa.table({"id": pa.array(NUMBERS, pa.decimal128(10, 2)), "answer": ["A"] * 3}),
    ],
)
def test_whole_numbers_are_the_same_keys_whatever_their_type(frame):
    assert keys_of(frame) == ["1", "2", None]


def extension(array):
    return pa.table({"id": array, "answer": pa.array(["A"] * len(array))})


def test_extensions_whose_values_are_known():
    assert keys_of(extension(pa.array([one.bytes for one in IDS], pa.uuid()))) == [str(one) for one in IDS]
    assert keys_of(extension(pa.array(["7", '{"a": 1}'], pa.json_()))) == ["7", '{"a": 1}']
    assert keys_of(extension(pa.array([1, 0], pa.bool8()))) == ["true", "false"]
    assert titles(pa.table({"title": pa.array(['{"a": 1}'], pa.json_())})) == ['{"a": 1}']


DUCKDB = {"7::HUGEINT": "7", "'101'::BIT": None, "TIMETZ '08:30:00+00'": "08:30:00", f"'{IDS[2]}'::UUID": str(IDS[2])}


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize(("sql", "expected"), DUCKDB.items())
def test_types_of_duckdb_are_read_or_refused(sql, expected, lossless):
    with duckdb.connect() as connection:
        connection.execute(f"SET arrow_lossless_conversion={lossless}")
        source = connection.sql(f"SELECT {sql} AS id, 'A' AS answer")
        if lossless and "UUID" not in sql:
            with pytest.raises(AssistantInputError, match="column id is of type extension<arrow"):
                keys_of(source)
        elif expected:
            assert keys_of(source) == [expected]


@pytest.mark.parametrize("index", [pd.period_range("2026-01", periods=2, freq="M"), pd.interval_range(0, 2)])
def test_extensions_of_pandas_are_refused_by_name(index):
    with pytest.raises(AssistantInputError, match="source column id is of type extension<pandas"):
        read(pd.DataFrame({"id": index, "answer": ["A", "B"]}), ANSWERS)


FAR = 400_000_000_000  # seconds: the year 14645
TIMES = {
    "timestamps beyond 9999": (pa.array([FAR, 0], pa.timestamp("s")), None),
    "with a zone": (pa.array([FAR * 10**6, 0], pa.timestamp("us", "Europe/Berlin")), None),
    "dates beyond 9999": (pa.array([10**7, 0], pa.date32()), None),
    "nanoseconds": (
        pa.array([1, 2], pa.timestamp("ns")),
        ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000000002"],
    ),
    "nanoseconds that end in zeros": (
        pa.array([0, 1_500_000_000], pa.timestamp("ns", "UTC")),
        ["1970-01-01 00:00:00+00:00", "1970-01-01 00:00:01.5+00:00"],
    ),
    "times": (pa.array([time(8), time(8, 30, 0, 500_000)], pa.time64("ns")), ["08:00:00", "08:30:00.5"]),
    "times in nanoseconds": (pa.array([1, 2], pa.time64("ns")), None),
    "dates": (pa.array([date(2026, 1, 31), None]), ["2026-01-31", None]),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_are_exact_or_refused_by_name(kind, tmp_path):
    array, expected = TIMES[kind]
    sources = [extension(array), tmp_path / "a.parquet"]
    pq.write_table(sources[0], sources[1])
    if "times" not in kind:
        sources.append(pl.DataFrame(sources[0]))
    if kind.startswith("timestamps"):
        sources.append(pd.DataFrame({"id": array.to_numpy(zero_copy_only=False), "answer": "A"}))
    for source in sources:
        if expected:
            assert keys_of(source) == expected
            continue
        with pytest.raises(AssistantInputError, match=r"source column id is of type .* that Python does not have"):
            read(source, ANSWERS)


# -- Parquet ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("is_shared", [True, False])
def test_large_values_come_in_small_batches(is_shared, tmp_path):
    """A dictionary has a shared value once, so that the file is small and its rows are not."""
    path = tmp_path / "a.parquet"
    values = ["x" * 1_000_000 if is_shared else f"{number}" + "x" * 1_000_000 for number in range(100)]
    pq.write_table(pa.table({"title": values}), path, use_dictionary=is_shared)
    batches = list(read_rows(path, TITLE))
    assert sum(map(len, batches)) == 100
    # Bytes of the largest batch.
    assert max(sum(map(len, {id(text): text for text in one.columns["title"]}.values())) for one in batches) < 40 << 20


def test_a_large_row_group_is_never_in_memory_as_a_whole(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"title": [f"{number:,}" * 100 for number in range(60_000)]}), path)
    before = pa.total_allocated_bytes()
    allocated = [pa.total_allocated_bytes() - before for _ in read_rows(path, TITLE)]
    assert len(allocated) == 60
    assert max(allocated) < 15 << 20, "the row group has 36 MB"


def test_texts_of_another_encoding_in_parquet_are_problems_of_their_rows(tmp_path):
    array = pa.array([b"a", "ü".encode("cp1252")]).view(pa.string())
    pq.write_table(pa.table({"title": array}), tmp_path / "a.parquet")
    rows, problems, _ = read(tmp_path / "a.parquet", TITLE)
    assert (rows, len(problems)) == ([{"title": "a"}], 1)
    assert problems[0].startswith("row 2: column 'title' has bytes of another encoding")


def test_half_a_character_is_a_problem_of_what_is_sent_only():
    rows = [{"title": "a\ud800", "id": "k\ud800"}]
    assert read(rows, columns("title", key=["id"]))[1][0].startswith("row 1: column 'title' is not valid text")
    # Such a key is known, and can be compared.
    assert len(rows_of(rows, Columns(("id",)))) == 1
