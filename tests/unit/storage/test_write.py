"""A file is replaced as a whole: readers see the old or the new one, also after a crash."""

from __future__ import annotations

import contextlib
import errno
import os
from datetime import date
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from airflow_provider_assistant.exceptions import AssistantStorageError
from airflow_provider_assistant.storage.write import ROWS_PER_GROUP, replace
from tests.processes import preload

preload(__name__)

DAY = date(2026, 11, 21)


def numbers(*values):
    return pa.table({"n": pa.array(values, pa.int64())})


def publish(root, *values, day=DAY):
    target = ObjectStoragePath(str(root)) / "numbers" / f"date={day}" / "site.parquet"
    replace(numbers(*values), target)
    return str(target)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def with_pyarrow(folder):
    return ds.dataset(folder, partitioning="hive").to_table()["n"].to_pylist()


def test_files_are_compressed_in_groups_of_bounded_size(tmp_path):
    target = ObjectStoragePath(f"file://{tmp_path}/many.parquet")
    size = replace(pa.table({"n": pa.array(range(ROWS_PER_GROUP + 1))}), target)
    metadata = pq.ParquetFile(target.path).metadata
    assert size == Path(target.path).stat().st_size
    assert (metadata.num_row_groups, metadata.row_group(0).column(0).compression) == (2, "ZSTD")


# -- crashes ---------------------------------------------------------------------------------------


class Crashed(BaseException):
    """The simulated process has crashed."""


class Process:
    """
    Count every disk operation, and crash before or after one of them; every later operation fails.

    :param end: Number of the step, from 1.
    :param after: Whether the step is still executed; of a write, only half.
    :param error: Error that the step raises once instead; the process continues.
    """

    def __init__(self, end=None, after=False, error=None):
        self.end, self.after, self.error = end, after, error
        self.steps = []
        self.dead = False

    def step(self, name, do, half=None):
        if self.dead:
            raise Crashed
        self.steps.append(name)
        if len(self.steps) != self.end:
            return do()
        self.dead = self.error is None
        if self.after:
            (half or do)()
        raise self.error or Crashed

    @contextlib.contextmanager
    def __call__(self):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("mkdir", "replace", "unlink"):
                real = getattr(Path, name)
                patch.setattr(Path, name, self._wrapped(name, real))
            patch.setattr(os, "fsync", self._wrapped("fsync", os.fsync))
            opened = Path.open
            patch.setattr(
                Path, "open", lambda *args, **more: self.step("open", lambda: File(self, opened(*args, **more)))
            )
            yield

    def _wrapped(self, name, real):
        return lambda *args, **more: self.step(name, lambda: real(*args, **more))


class File:
    def __init__(self, process, file):
        self._process, self._file = process, file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def fileno(self):
        return self._file.fileno()

    def write(self, content):
        half = content[: len(content) // 2]
        self._process.step("write", lambda: self._file.write(content), lambda: self._file.write(half))

    def flush(self):
        self._process.step("flush", self._file.flush)


STEPS = ["mkdir", "open", "write", "flush", "fsync", "replace"]


def test_the_steps_of_a_publish(tmp_path):
    publish(tmp_path, 1)
    process = Process()
    with process():
        publish(tmp_path, 2)
    assert process.steps == STEPS


@pytest.mark.promise(
    "lake and warehouse",
    "A reader of a dataset sees the old file or the new one, whatever step the writer dies at.",
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_readers_see_old_or_new_whatever_step_it_dies_at(tmp_path, after):
    seen = []
    for end in count(1):
        root = tmp_path / str(end)
        publish(root, 1, 1)
        process = Process(end, after)
        try:
            with process():
                publish(root, 2, 2, 2)
        except Crashed:
            seen.append(with_pyarrow(root / "numbers"))
        else:
            break
        publish(root, 3)
        assert with_pyarrow(root / "numbers") == [3]
    old, new = [1, 1], [2, 2, 2]
    assert len(seen) == len(STEPS)
    assert seen == [old] * (len(STEPS) - 1) + [new if after else old]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_first_day_appears_whole_or_not_at_all(tmp_path, after):
    for end in range(1, len(STEPS) + 1):
        root = tmp_path / str(end)
        publish(root, 0, day=date(2026, 11, 20))
        with pytest.raises(Crashed), Process(end, after)():
            publish(root, 1)
        whole = after and STEPS[end - 1] == "replace"
        assert with_pyarrow(root / "numbers") == ([0, 1] if whole else [0])


@pytest.mark.promise("lake and warehouse", "An error of the disk names the file, and the day that was there stays.")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("step", ["mkdir", "open", "write", "flush", "fsync", "replace"])
def test_a_disk_that_fails_is_named_and_the_old_day_stays(tmp_path, code, step):
    path = publish(tmp_path, 1)
    process = Process(STEPS.index(step) + 1, after=step == "write", error=OSError(code, os.strerror(code)))
    with pytest.raises(OSError, match="What was there before is as it was") as caught, process():
        publish(tmp_path, 2)
    assert caught.value.errno == code
    assert os.strerror(code) in str(caught.value)
    assert path in str(caught.value)
    assert files(tmp_path) == ["numbers/date=2026-11-21/site.parquet"]
    assert with_pyarrow(tmp_path / "numbers") == [1]


# -- object storage --------------------------------------------------------------------------------


class Bucket:
    """An object storage: an upload becomes visible on close, also after an exception cut it short."""

    failure = None

    def open(self, real):
        def opened(fs, path, mode="rb", **options):
            assert mode == "rb", "a file written in pieces may be incomplete"
            return real(fs, path, mode, **options)

        return opened

    def pipe_file(self):
        def piped(fs, path, value, **options):
            if self.failure:
                raise self.failure
            path = fs._strip_protocol(path)
            fs.store[path] = MemoryFile(fs, path, value)

        return piped


@pytest.fixture
def bucket(monkeypatch):
    bucket = Bucket()
    monkeypatch.setattr(MemoryFileSystem, "open", bucket.open(MemoryFileSystem.open))
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", bucket.pipe_file())
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    attach("memory", fs=MemoryFileSystem())
    return bucket


def read_object(path):
    with ObjectStoragePath(path).open("rb") as file:
        return pq.read_table(file)["n"].to_pylist()


def test_object_storage_gets_the_file_under_its_own_name(bucket):
    path = publish("memory://lake", 1)
    assert path == str(ObjectStoragePath("memory://lake/numbers/date=2026-11-21/site.parquet"))
    assert read_object(path) == [1]
    assert [entry.name for entry in ObjectStoragePath(path).parent.iterdir()] == ["site.parquet"]
    assert publish("memory://lake", 2, 3) == path
    assert read_object(path) == [2, 3]


@pytest.mark.parametrize(
    ("failure", "kind", "said"),
    [
        (OSError("connection reset"), AssistantStorageError, "connection reset"),
        (PermissionError(errno.EACCES, "read-only"), AssistantStorageError, "read-only"),
        (RuntimeError("endpoint is gone"), AssistantStorageError, "RuntimeError: endpoint is gone"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_an_upload_that_fails_leaves_the_old_object(bucket, failure, kind, said):
    path = publish("memory://lake", 1)
    bucket.failure = failure
    with pytest.raises(kind, match=said) as caught:
        publish("memory://lake", 2)
    assert caught.type is kind
    if said:
        assert "What was there before is as it was" in str(caught.value)
        assert path in str(caught.value)
    assert read_object(path) == [1]
