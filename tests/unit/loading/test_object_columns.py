"""Dataframes whose columns hold Python objects, or extensions of Arrow: keys by value, or a refusal by name."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source

WANTED = ColumnSelection(text=("answer",), any=("id",))
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
    keys = []
    with open_source(source, WANTED) as opened:
        for batch in opened.batches():
            assert all(isinstance(text, str) for text in batch.columns["answer"])
            keys += key_column(batch.columns["id"])[0]
    return keys


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
    for source in (
        rows,
        frame,
        frame.astype({"answer": object}),
        frame[1:],
        objects,
        text_objects,
        objects.lazy().collect(),
    ):
        assert keys_of(source) == expected[len(expected) - len(source) :]


def test_integers_that_arrow_cannot_import():
    frame = pl.DataFrame({"id": pl.Series([1, 2**100], dtype=pl.Int128), "answer": ["A", "B"]})
    assert keys_of(frame) == ["1", str(2**100)]


def extension(array):
    return pa.table({"id": array, "answer": pa.array(["A"] * len(array))})


def test_extensions_whose_values_are_known():
    assert keys_of(extension(pa.array([one.bytes for one in IDS], pa.uuid()))) == [str(one) for one in IDS]
    assert keys_of(extension(pa.array(["7", '{"a": 1}'], pa.json_()))) == ["7", '{"a": 1}']
    assert keys_of(extension(pa.array([1, 0], pa.bool8()))) == ["true", "false"]
    as_text = pa.table({"id": pa.array([1]), "answer": pa.array(['{"a": 1}'], pa.json_())})
    assert keys_of(as_text) == ["1"]


DUCKDB = {
    "7::HUGEINT": "7",
    "'101'::BIT": None,
    "TIMETZ '08:30:00+00'": "08:30:00",
    f"'{IDS[2]}'::UUID": str(IDS[2]),
    "'[7]'::JSON": "[7]",
}
OPAQUE = list(DUCKDB)[:3]


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize(("sql", "expected"), DUCKDB.items())
def test_types_of_duckdb_are_read_or_refused(sql, expected, lossless):
    with duckdb.connect() as connection:
        connection.execute(f"SET arrow_lossless_conversion={lossless}")
        source = connection.sql(f"SELECT {sql} AS id, 'A' AS answer")
        if lossless and sql in OPAQUE:
            with pytest.raises(AssistantInputError, match="column id is of type extension<arrow"):
                keys_of(source)
        elif expected:
            assert keys_of(source) == [expected]


@pytest.mark.parametrize("index", [pd.period_range("2026-01", periods=2, freq="M"), pd.interval_range(0, 2)])
def test_extensions_of_pandas_are_refused_by_name(index):
    with pytest.raises(AssistantInputError, match="source column id is of type extension<pandas"):
        keys_of(pd.DataFrame({"id": index, "answer": ["A", "B"]}))
