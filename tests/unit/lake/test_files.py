"""Which days a lake has, whether they changed, and what their files have."""

from __future__ import annotations

import random
import shutil
from datetime import date, timedelta
from pathlib import Path
from uuid import uuid4

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant import __version__
from airflow_provider_assistant.exceptions import AssistantWarehouseError
from airflow_provider_assistant.lake.datasets import STATISTICS
from airflow_provider_assistant.lake.files import days_of, file_of, read_day, write
from tests.unit.lake.nights import FIRST, MADE_BY, write_statistics

SCHEMA = STATISTICS.schema()
NAMES = st.lists(st.none() | st.text(st.sampled_from("ab~%/. A\x00ü"), max_size=5), min_size=2, max_size=2)


def rows_of(day, root):
    return read_day(day, str(root), SCHEMA)[0].to_pylist()


@pytest.mark.promise(
    "lake and warehouse", "Rows of the same site, ledger or run are in one file, those of others in another."
)
@given(NAMES, NAMES)
def test_a_file_is_named_after_what_its_rows_belong_to(one, other):
    first, second = (file_of("/lake", "statistics", FIRST, whose) for whose in (one, other))
    assert (first.name.casefold() == second.name.casefold()) == (
        [part or "" for part in one] == [part or "" for part in other]
    )
    assert first.parent == ObjectStoragePath(f"/lake/statistics/date={FIRST}")
    assert not first.name.startswith((".", "_"))
    assert len(first.name) < 210


def test_a_second_run_replaces_the_rows_of_its_site_only(tmp_path):
    for _ in range(2):
        for number, site in enumerate(("a", "b")):
            written = write_statistics(tmp_path, FIRST, {"n": number}, site)
            assert written.rows == 1
            assert written.bytes == Path(written.path).stat().st_size
    (day,) = days_of(str(tmp_path), "statistics").values()
    assert sorted((row["site_id"], row["value"]) for row in rows_of(day, tmp_path)) == [("a", 0), ("b", 1)]
    assert list(days_of(str(tmp_path), "statistics", ("h.example", "a"))) == [FIRST]
    assert not days_of(str(tmp_path), "statistics", ("h.example", "c"))


def test_the_metadata_says_who_wrote_the_file(tmp_path):
    written = write_statistics(tmp_path, FIRST, {})
    metadata = {name.decode(): value.decode() for name, value in pq.read_schema(written.path).metadata.items()}
    assert metadata == {
        "assistant.version": __version__,
        **{f"assistant.{name}": text for name, text in MADE_BY.items()},
    }


@pytest.mark.parametrize("kind", ["local", "file", "memory"])
def test_a_fingerprint_changes_with_the_files_of_its_day_only(kind, tmp_path):
    attach("memory", fs=MemoryFileSystem())
    root = {"local": str(tmp_path), "file": tmp_path.as_uri(), "memory": f"memory://{uuid4().hex}"}[kind]
    assert days_of(root, "statistics") == {}
    dice = random.Random(3)
    days = [FIRST + timedelta(days=dice.randrange(400)) for _ in range(20)]
    for day in days:
        write_statistics(root, day, {"a": 1})
    before = days_of(root, "statistics")
    assert list(before) == sorted(set(days))
    for number, day in enumerate(days):
        # Content of the same size, another file, or one file less.
        if number % 3 == 0:
            write_statistics(root, day, {"a": 2})
        elif number % 3 == 1:
            write_statistics(root, day, {"a": 1}, site=f"more{number}")
        else:
            write_statistics(root, day, {"a": 1}, site="gone")
            before = days_of(root, "statistics")
            file_of(root, "statistics", day, ("h.example", "gone")).unlink()
        after = days_of(root, "statistics")
        assert {day for day in after if after[day].fingerprint != before[day].fingerprint} == {day}
        assert days_of(root, "statistics") == after
        before = after
    assert sum(len(rows_of(day, root)) for day in before.values()) == sum(len(day.files) for day in before.values())


def test_only_the_parquet_files_of_a_day_count(tmp_path):
    write_statistics(tmp_path, FIRST, {"a": 1})
    (one,) = days_of(str(tmp_path), "statistics").values()
    folder = tmp_path / "statistics" / f"date={FIRST}"
    for name in (".a.parquet", "_a.parquet", "_SUCCESS", "a.txt", "deep/a.parquet"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("no Parquet")
    for name in ("date=2026-02-30", "date=today", "day=2026-01-01", "2026-01-01"):
        (tmp_path / "statistics" / name).mkdir()
        shutil.copy(one.files[0], tmp_path / "statistics" / name)
    (tmp_path / "statistics" / "date=2026-01-01").mkdir()
    # Permissions and access times are not content.
    Path(one.files[0]).chmod(0o640)
    assert days_of(str(tmp_path), "statistics") == {FIRST: one}


def test_files_of_other_versions_are_read_by_the_names_of_their_columns(tmp_path):
    write_statistics(tmp_path, FIRST, {"a": 1})
    (day,) = days_of(str(tmp_path), "statistics").values()
    table = pq.ParquetFile(day.files[0]).read()
    pq.write_table(table.drop_columns(["period"]).append_column("new", pa.array(["x"])), day.files[0])
    found, others = read_day(day, str(tmp_path), SCHEMA)
    assert found.to_pylist() == table.to_pylist()
    assert others == {"new"}


@pytest.mark.parametrize("damage", ["text", "cut", "empty", "gone", "type"])
def test_a_file_that_cannot_be_read_is_named(damage, tmp_path):
    write_statistics(tmp_path, FIRST, {"a": 1})
    (day,) = days_of(str(tmp_path), "statistics").values()
    path = Path(day.files[0])
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "type":
        pq.write_table(pa.table({"service": ["h"], "captured_at": ["not a time"]}), path)
    else:
        path.write_bytes({"text": b"no Parquet", "cut": content[:-9], "empty": b""}[damage])
    with pytest.raises(AssistantWarehouseError, match=rf"{path.name} cannot be read: .*Nothing was changed"):
        read_day(day, str(tmp_path), SCHEMA)


# -- other programs --------------------------------------------------------------------------------

# A number becomes text, a list, null, and missing; null becomes an object; fields appear and disappear.
DAYS = {
    date(2026, 11, 17): {"total": 3, "last": None, "old": "gone tomorrow"},
    date(2026, 11, 18): {"total": "three", "last": {"at": "noon"}},
    date(2026, 11, 19): {"total": [1, 2], "last": [], "new": True, "period": "2026-11"},
    date(2026, 11, 20): {"total": None, "last": {"huge": 10**30}},
    date(2026, 11, 21): {},
    date(2026, 11, 22): None,
}


def with_pyarrow(folder):
    return ds.dataset(folder, partitioning="hive").to_table().to_pylist()


def with_pandas(folder):
    frame = pd.read_parquet(folder)
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def with_polars(folder):
    return polars.read_parquet(folder / "*" / "*.parquet", hive_partitioning=True).to_dicts()


def with_duckdb(folder):
    with duckdb.connect() as database:
        return database.sql(f"FROM '{folder}/*/*.parquet'").to_arrow_table().to_pylist()


@pytest.mark.promise("lake and warehouse", "Other programs read all days of a dataset at once, whatever a reply had.")
@pytest.mark.parametrize("read", [with_pyarrow, with_pandas, with_polars, with_duckdb])
def test_other_programs_read_all_days(read, tmp_path):
    expected = []
    for day, reply in DAYS.items():
        write_statistics(tmp_path, day, reply)
        (one,) = [found for found in days_of(str(tmp_path), "statistics").values() if found.day == day]
        expected += [(str(day), row["metric"], row["text"], row["value"]) for row in rows_of(one, tmp_path)]
    write(SCHEMA.empty_table(), str(tmp_path), "statistics", date(2026, 11, 16), ("h.example", "docs"), MADE_BY)
    rows = read(tmp_path / "statistics")
    assert sorted((str(row["date"]), row["metric"], row["text"], row["value"]) for row in rows) == sorted(expected)
