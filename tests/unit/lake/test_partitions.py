"""Which partitions a lake has, and whether they changed."""

from __future__ import annotations

import random
import shutil
from datetime import date, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant import lake
from airflow_provider_assistant.exceptions import AssistantWarehouseError
from tests.unit.lake.nights import FIRST, capture

SCHEMA = lake.STATISTICS.schema()


def write(root, day, number, part="dag.task"):
    table = lake.metrics_table(lake.STATISTICS, [capture(day, {"a": number})])
    lake.publish(table, str(root), "statistics", day, part)


@pytest.mark.parametrize("kind", ["local", "file", "memory"])
def test_a_fingerprint_changes_with_the_files_of_its_day_only(kind, tmp_path):
    attach("memory", fs=MemoryFileSystem())
    root = {"local": str(tmp_path), "file": tmp_path.as_uri(), "memory": f"memory://{uuid4().hex}"}[kind]
    assert lake.partitions_of(root, "statistics") == {}
    dice = random.Random(3)
    days = [FIRST + timedelta(days=dice.randrange(400)) for _ in range(20)]
    for day in days:
        write(root, day, 1)
    before = lake.partitions_of(root, "statistics")
    assert list(before) == sorted(set(days))
    for number, day in enumerate(days):
        # Content of the same size, another file, or one file less.
        if number % 3 == 0:
            write(root, day, 2)
        elif number % 3 == 1:
            write(root, day, 1, part=f"more{number}")
        else:
            write(root, day, 1, part="gone")
            before = lake.partitions_of(root, "statistics")
            (ObjectStoragePath(root) / "statistics" / f"date={day}" / "gone.parquet").unlink()
        after = lake.partitions_of(root, "statistics")
        changed = {day for day in after if after[day].fingerprint != before[day].fingerprint}
        assert changed == {day}
        assert lake.partitions_of(root, "statistics") == after
        before = after
    rows = sum(lake.read_partition(partition, root, SCHEMA).num_rows for partition in before.values())
    assert rows == sum(len(partition.files) for partition in before.values())


def test_only_the_parquet_files_of_a_date_count(tmp_path):
    write(tmp_path, FIRST, 1)
    (one,) = lake.partitions_of(str(tmp_path), "statistics").values()
    folder = tmp_path / "statistics" / f"date={FIRST}"
    for name in (".a.parquet", "_a.parquet", "_SUCCESS", "a.txt", "deep/a.parquet"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("no Parquet")
    for name in ("date=2026-02-30", "date=today", "day=2026-01-01", "2026-01-01", "date=2026-01-01"):
        (tmp_path / "statistics" / name).mkdir()
        if not name.endswith("01-01"):
            shutil.copy(one.files[0], tmp_path / "statistics" / name)
    assert lake.partitions_of(str(tmp_path), "statistics") == {FIRST: one}
    assert one.day == FIRST
    assert one.folder == str(folder)
    # Permissions and access times are not content.
    Path(one.files[0]).chmod(0o640)
    assert lake.partitions_of(str(tmp_path), "statistics") == {FIRST: one}


def test_a_broken_file_and_a_file_that_is_gone_are_named(tmp_path):
    write(tmp_path, date(2026, 1, 1), 1)
    (partition,) = lake.partitions_of(str(tmp_path), "statistics").values()
    path = tmp_path / "statistics" / "date=2026-01-01" / "dag.task.parquet"
    for content in (b"no Parquet", path.read_bytes()[:-9], b""):
        path.write_bytes(content)
        with pytest.raises(AssistantWarehouseError, match=r"dag.task.parquet cannot be read: .*Nothing was changed"):
            lake.read_partition(partition, str(tmp_path), SCHEMA)
    path.unlink()
    with pytest.raises(AssistantWarehouseError, match=r"dag.task.parquet cannot be read: .*Nothing was changed"):
        lake.read_partition(partition, str(tmp_path), SCHEMA)
