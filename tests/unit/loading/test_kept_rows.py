"""Rows that a deferred load keeps in a file."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.kept_rows import KeptRows
from airflow_provider_assistant.loading.sources import open_source

from airflow_provider_assistant.keys import key_text

VALUES = [
    "text", "007", "1.10", "lone \ud800", 7, 7.5, True, None, Decimal("7.00"), date(2026, 11, 21),
    datetime(2026, 11, 21, 8, 30, tzinfo=UTC), b"bytes",
]  # fmt: skip
WANTED = ColumnSelection(text=("answer",), any=("id",))


def kept(rows, path):
    kept = KeptRows(path)
    with open_source(lambda: iter([rows]), WANTED) as source:
        assert kept.write(source, WANTED)
    return [row for batch in kept() for row in batch]


def test_a_key_is_the_same_key(tmp_path):
    rows = [{"id": value, "answer": "A"} for value in VALUES]
    read = kept(rows, tmp_path / "rows.jsonl")
    assert [key_text(row["id"]) for row in read] == [key_text(value) for value in VALUES]


def test_text_stays_and_what_is_no_text_stays_none(tmp_path):
    rows = [{"id": 1, "answer": value} for value in VALUES]
    read = kept(rows, tmp_path / "rows.jsonl")
    for row, value in zip(read, VALUES, strict=True):
        if isinstance(value, str | None):
            assert row["answer"] == value
        else:
            assert not isinstance(row["answer"], str)


def test_a_missing_number_stays_missing(tmp_path):
    (row,) = kept([{"id": math.nan, "answer": "A"}], tmp_path / "rows.jsonl")
    assert key_text(row["id"]) is None


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    with open_source([{"id": 1, "answer": "A"}], WANTED) as source:
        assert not KeptRows(tmp_path / "file" / "rows.jsonl").write(source, WANTED)
    assert "The function will be called again" in caplog.text


@pytest.mark.parametrize("there", [True, False])
def test_it_says_whether_the_rows_are_there(there, tmp_path, caplog):
    path = tmp_path / "rows.jsonl"
    if there:
        path.touch()
    assert KeptRows(path).exist() is there
    assert ("are gone" in caplog.text) is not there
    KeptRows(path).remove()
    assert not path.exists()
