"""Keys are compared by value: another column type does not create rows again."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from tests.unit.loads.loads import ROWS, load

QA = "/documents/qa$"
# A column of ids in the type of each kind of source.
KINDS = {
    "list of int": lambda ids: ids,
    "list of float": lambda ids: [float(n) for n in ids],
    "list of text": lambda ids: [f" {n} " for n in ids],
    "list of Decimal": lambda ids: [Decimal(n).quantize(Decimal("0.01")) for n in ids],
    "mixed list": lambda ids: [kind(n) for kind, n in zip(itertools.cycle([str, float, Decimal, int]), ids)],
    "int64": pd.Series,
    "int32": lambda ids: pd.Series(ids, dtype="int32"),
    "float64": lambda ids: pd.Series(ids, dtype="float64"),
    "Int64": lambda ids: pd.Series(ids, dtype="Int64"),
    "Float64": lambda ids: pd.Series(ids, dtype="Float64"),
    "string": lambda ids: pd.Series([str(n) for n in ids], dtype="string"),
    "text of floats": lambda ids: pd.Series(ids, dtype="float64").astype(str),
    "category": lambda ids: pd.Series(ids).astype("category"),
    "object": lambda ids: pd.Series(ids, dtype="object"),
    "mixed object": lambda ids: pd.Series([*map(str, ids[:1]), *ids[1:]], dtype="object"),
    "Decimal object": lambda ids: pd.Series([Decimal(n) for n in ids], dtype="object"),
    "decimal128": lambda ids: pa.array([Decimal(n) for n in ids], pa.decimal128(12, 2)),
    "uint32": lambda ids: pa.array(ids, pa.uint32()),
    "large_string": lambda ids: pa.array([str(n) for n in ids], pa.large_string()),
    "polars": pl.Series,
    "polars text": lambda ids: pl.Series([str(n) for n in ids]),
}


def frame_of(kind, ids):
    """Return a source of one kind. All its columns have types of that library."""
    column = KINDS[kind](ids)
    texts = {name: [f"{ROWS[0][name]} {n}" for n in ids] for name in ("title", "question", "answer", "category")}
    if isinstance(column, pd.Series):
        return pd.DataFrame({"id": column, **texts})
    if isinstance(column, pa.Array):
        return pa.table({"id": column, **texts})
    if isinstance(column, pl.Series):
        return pl.DataFrame({"id": column, **texts})
    return [dict(zip(("id", *texts), row, strict=True)) for row in zip(column, *texts.values(), strict=True)]


@pytest.mark.promise("loads", "A key column of another type (7, 7.0, '7') creates no row again.")
def test_a_second_night_sends_nothing_whatever_the_types_did(service, connection):
    ids = [1, 2, 3]
    assert load(frame_of("list of int", ids), key_columns="id")["created"] == 3
    for kind in KINDS:
        result = load(frame_of(kind, ids), run_id=kind, key_columns="id")
        assert (result["created"], result["unchanged"], result["stale"]) == (0, 3, 0), kind


@pytest.mark.parametrize("empty", [" ", None, pd.NaT, [1], 2.0**60], ids=str)
def test_rows_without_a_certain_key_are_rejected_one_by_one(empty, service, connection, ledger_home):
    rows = frame_of("list of int", [1, 2, 3])
    rows[0]["id"] = rows[1]["id"] = empty
    with pytest.raises(AssistantInputError, match="2 rows were rejected"):
        load(rows, key_columns="id")
    assert service.posts(QA) == 1


def test_the_same_key_in_two_types_is_a_conflict_that_names_both_rows(service, connection):
    rows = frame_of("list of int", [1, 2])
    rows[1]["id"] = "1.0"
    with pytest.raises(AssistantInputError, match="'1' in row 1, row 2"):
        load(rows, key_columns="id")
    assert service.posts() == 0
