"""Datasets on a full or read-only disk, and readers of a partition whose writer is killed at every step."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import threading
from datetime import date
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from airflow_provider_assistant.lake.files import write
from tests.processes import preload, processes

preload(__name__)

DAY = date(2026, 11, 21)
FILE = "numbers/date=2026-11-21/dag.task.parquet"
NOBODY = 65534
# The steps of publish(), in order.
STEPS = [
    (Path, "mkdir"),
    (Path, "open"),
    (os, "fsync"),
    (Path, "replace"),
]


def publish(root, number, size=0):
    """Write 1000 rows with one number; each has ``size`` random bytes, which compression does not shrink."""
    noise = pa.array([os.urandom(size) for _ in range(1000)], pa.binary())
    table = pa.table({"n": pa.array([number] * 1000), "noise": noise})
    return write(table, str(root), "numbers", DAY, ("dag.task",), {})


def with_pyarrow(root):
    return ds.dataset(root / "numbers", partitioning="hive").to_table(columns=["n"])["n"].to_pylist()


def with_pandas(root):
    return pd.read_parquet(root / "numbers", columns=["n"])["n"].to_list()


def with_duckdb(root):
    import duckdb

    with duckdb.connect() as database:
        return [row[0] for row in database.execute(f"SELECT n FROM '{root}/numbers/*/*.parquet'").fetchall()]


READERS = [with_pyarrow, with_pandas, with_duckdb]


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def attempted(prepare, root, number, size, pipe):
    """Publish in a separate process, and report the result."""
    prepare()
    try:
        publish(root, number, size)
    except OSError as error:
        pipe.send((error.errno, str(error)))
    else:
        pipe.send(None)


def apart(prepare, root, number, size=0):
    mine, theirs = processes.Pipe()
    process = processes.Process(target=attempted, args=(prepare, root, number, size, theirs))
    process.start()
    theirs.close()
    try:
        return mine.recv()
    finally:
        process.join(60)


def is_unharmed(failure, codes, root):
    """The error names the cause, the file and what is unchanged, and the old file is unchanged."""
    assert failure is not None, "a publish that did not write does not succeed"
    code, said = failure
    assert code in codes
    assert os.strerror(code) in said
    assert "What was there before is as it was" in said
    assert f"{root}/{FILE}" in said
    assert files(root) == [FILE]
    for read in READERS:
        assert read(root) == [1] * 1000


def is_replaced(root):
    publish(root, 2)
    assert files(root) == [FILE]
    assert with_pyarrow(root) == [2] * 1000


def files_may_not_grow():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


@pytest.mark.promise("lake and warehouse", "An export to a full disk leaves what was there before, and says so.")
def test_files_may_not_grow(tmp_path):
    """Needs no privileges, so this test of a partial write runs everywhere."""
    publish(tmp_path, 1)
    is_unharmed(apart(files_may_not_grow, tmp_path, 2, 1000), {errno.EFBIG}, tmp_path)
    is_replaced(tmp_path)


def becomes_another():
    """File permissions do not restrict root."""
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@pytest.mark.parametrize("folder", [".", "numbers", "numbers/date=2026-11-21"])
def test_a_folder_that_may_not_be_written(folder, tmp_path):
    root = tmp_path / "lake"
    publish(root, 1)
    for parent in tmp_path.parents[:3]:
        with contextlib.suppress(PermissionError):
            parent.chmod(parent.stat().st_mode | 0o055)
    tmp_path.chmod(0o755)
    for inner in (root, *root.rglob("*")):
        inner.chmod(0o555 if inner.is_dir() else 0o444)
    try:
        is_unharmed(apart(becomes_another, root, 2), {errno.EACCES}, root)
    finally:
        for inner in (root, *root.rglob("*")):
            inner.chmod(0o755)
    is_replaced(root)


@contextlib.contextmanager
def mounted(place, *options):
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(place)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


# Without the permission to mount, only the two tests above cover a full and a read-only disk.
as_root = pytest.mark.skipif(os.getuid() != 0, reason="mounting a file system needs more rights")


@as_root
def test_a_disk_that_is_full(tmp_path):
    with mounted(tmp_path / "small", "-o", "size=300k"):
        root = tmp_path / "small" / "lake"
        publish(root, 1)
        with pytest.raises(OSError, match="No space left") as caught:
            publish(root, 2, 1000)
        is_unharmed((caught.value.errno, str(caught.value)), {errno.ENOSPC}, root)
        is_replaced(root)


@as_root
def test_a_disk_that_is_read_only(tmp_path):
    place = tmp_path / "lake"
    with mounted(place):
        publish(place, 1)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        with pytest.raises(OSError, match="Read-only file system") as caught:
            publish(place, 2)
        is_unharmed((caught.value.errno, str(caught.value)), {errno.EROFS}, place)
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        is_replaced(place)


def killed_at(step, after, root):
    """Publish, and kill the process at a step."""
    owner, name = STEPS[step]
    do = getattr(owner, name)

    def die(*args, **options):
        if after:
            do(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, die)
    publish(root, 2, 100)


@pytest.mark.promise("lake and warehouse", "Readers see the old or the new day while its writer is killed at any step.")
def test_readers_see_old_or_new_while_writers_are_killed(tmp_path):
    read = with_pyarrow
    publish(tmp_path, 1)
    seen, wrong, done = [], [], threading.Event()

    def look():
        while not done.wait(0.05):
            found = read(tmp_path)
            seen.append(found[0])
            if found not in ([1] * 1000, [2] * 1000):
                wrong.append(found)

    reader = threading.Thread(target=look)
    reader.start()
    kills = [(step, after) for step in range(len(STEPS)) for after in (False, True)]
    try:
        for step, after in kills:
            writer = processes.Process(target=killed_at, args=(step, after, tmp_path))
            writer.start()
            writer.join(60)
            assert writer.exitcode == -signal.SIGKILL, STEPS[step]
            is_new = after and STEPS[step][1] == "replace"
            assert read(tmp_path) == ([2] if is_new else [1]) * 1000, STEPS[step]
    finally:
        done.set()
        reader.join()
    assert not wrong
    assert seen
    # A killed writer may leave a temporary file, which readers skip.
    publish(tmp_path, 2)
    assert [name for name in files(tmp_path) if "/." not in name] == [FILE]
    assert read(tmp_path) == [2] * 1000
