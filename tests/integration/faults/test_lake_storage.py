"""Datasets on an object storage that fails during a write."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import date
from functools import partial

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from tests.integration.faults.storage import DENIED
from tests.processes import preload, processes

preload(__name__)

DAY = date(2026, 11, 21)
KEY = "lake/numbers/date=2026-11-21/dag.task.parquet"
PART = 5 * 2**20


def publish(bucket, table):
    return lake.publish(table, bucket.root, "numbers", DAY, "dag.task")


def small(number):
    return pa.table({"n": pa.array([number] * 1000, pa.int64())})


def large(number, size=12 * 2**20):
    """Return a table that stays large after compression."""
    return pa.table({"n": pa.array([number], pa.int64()), "noise": pa.array([os.urandom(size)], pa.binary())})


def numbers(bucket):
    bucket.fs.invalidate_cache()
    with ObjectStoragePath(f"{bucket.root}/numbers/date=2026-11-21/dag.task.parquet").open("rb") as file:
        return set(pq.read_table(file, columns=["n"])["n"].to_pylist())


@pytest.fixture
def in_parts(bucket, monkeypatch):
    """Upload files larger than 10 MB in parts; the default threshold of s3fs is 100 MB."""
    monkeypatch.setattr(bucket.fs, "pipe_file", partial(bucket.fs.pipe_file, chunksize=PART))
    return bucket


PUTS = {
    "answers 500": ({"status": 500}, 1),
    "answers 503": ({"status": 503, "body": b"<Error><Code>SlowDown</Code></Error>"}, 1),
    "forbids": ({"status": 403, "body": DENIED}, 1),
    "cuts before": ({"cut": "before"}, 1),
    "cuts in the middle": ({"cut": "middle"}, 1),
    "stores and cuts": ({"cut": "after"}, 2),
}


@pytest.mark.parametrize(("fault", "there"), PUTS.values(), ids=PUTS)
def test_an_upload_that_fails(fault, there, bucket, measured):
    publish(bucket, small(1))
    bucket.fail("put", **fault)
    with pytest.raises(OSError, match="What was there before is as it was, or replaced as a whole") as caught:
        publish(bucket, small(2))
    assert f"{bucket.root}/numbers/date=2026-11-21/dag.task.parquet" in str(caught.value)
    assert "a-secret-key" not in str(caught.value)
    assert numbers(bucket) == {there}
    bucket.heal()
    publish(bucket, small(3))
    assert numbers(bucket) == {3}
    assert bucket.keys() == [f"{bucket.name}/{KEY}"]
    measured(error=str(caught.value).partition(" (")[0])


PARTS = {
    "upload is not begun": ("create upload", {"status": 500}, 1),
    "a part answers 500": ("part", {"status": 500, "skip": 1}, 1),
    "a part is forbidden": ("part", {"status": 403, "body": DENIED, "skip": 1}, 1),
    "a part is cut in the middle": ("part", {"cut": "middle", "skip": 1}, 1),
    "completion answers 500": ("complete", {"status": 500}, 1),
    "completion is an error with status 200": ("complete", {"status": 200}, 1),
    "completion is cut": ("complete", {"cut": "before"}, 1),
    "completion is cut when it is done": ("complete", {"cut": "after"}, 2),
}
# Each with the parts removed afterwards, and with parts that are left because their removal fails as well.
UPLOADS = [
    pytest.param(*case, aborts, id=f"{name}-{'aborted' if aborts else 'left'}", marks=[pytest.mark.slow] * is_slow)
    for name, case in PARTS.items()
    for aborts, is_slow in ((True, False), (False, name != "a part answers 500"))
]


@pytest.mark.parametrize(("of", "fault", "there", "aborts"), UPLOADS)
def test_an_upload_in_parts_that_fails(of, fault, there, aborts, in_parts, measured):
    publish(in_parts, small(1))
    in_parts.fail(of, **fault)
    if not aborts:
        in_parts.fail("abort", cut="before")
    with pytest.raises(OSError, match="What was there before is as it was, or replaced as a whole") as caught:
        publish(in_parts, large(2))
    assert numbers(in_parts) == {there}
    left = len(in_parts.uploads())
    assert left == (not aborts and of != "create upload" and there == 1)
    in_parts.heal()
    publish(in_parts, small(3))
    assert numbers(in_parts) == {3}
    assert not in_parts.uploads(), "the next write of the file removes the leftovers of the last"
    assert in_parts.keys() == [f"{in_parts.name}/{KEY}"]
    measured(error=str(caught.value).partition(" (")[0], left=left)


@pytest.mark.slow
def test_a_file_beyond_the_limit_of_one_request(bucket):
    publish(bucket, small(1))
    bucket.fail("complete", status=500)
    with pytest.raises(OSError, match="internal error"):
        publish(bucket, large(2, 101 * 2**20))
    assert numbers(bucket) == {1}
    assert not bucket.uploads()
    bucket.heal()
    assert publish(bucket, large(3, 101 * 2**20)).bytes > 100 * 2**20
    assert "part" in bucket.storage.seen
    assert numbers(bucket) == {3}


def _publish_in_parts(root, connection):
    os.environ.update(connection)
    fs = ObjectStoragePath(root).fs
    fs.pipe_file = partial(fs.pipe_file, chunksize=PART)
    lake.publish(large(2), root, "numbers", DAY, "dag.task")


@pytest.mark.parametrize("of", ["create upload", "part", "complete"])
def test_killed_in_the_middle_of_an_upload_in_parts(of, bucket, measured):
    publish(bucket, small(1))
    name = f"AIRFLOW_CONN_{bucket.storage.conn_id.upper()}"
    writer = processes.Process(target=_publish_in_parts, args=(bucket.root, {name: os.environ[name]}))

    def kill():
        os.kill(writer.pid, signal.SIGKILL)

    bucket.fail(of, call=kill, cut="before", skip=int(of == "part"))
    writer.start()
    writer.join(60)
    assert writer.exitcode == -signal.SIGKILL
    assert numbers(bucket) == {1}
    left = len(bucket.uploads())
    assert left == (of != "create upload")
    bucket.heal()
    publish(bucket, small(3))
    assert numbers(bucket) == {3}
    assert not bucket.uploads()
    measured(left=left)


def test_uploads_of_others_are_left_alone(bucket):
    for key in (f"{KEY}.more", KEY.replace("21", "22"), f"other/{KEY}"):
        bucket.fs.call_s3("create_multipart_upload", Bucket=bucket.name, Key=key)
    publish(bucket, small(1))
    assert len(bucket.uploads()) == 3


def test_the_permission_to_write_is_sufficient(bucket):
    for denied in ("head bucket", "get bucket", "put bucket", "list uploads", "abort", "head", "delete"):
        bucket.fail(denied, status=403, body=DENIED)
    publish(bucket, small(1))
    bucket.heal()
    assert numbers(bucket) == {1}


def test_a_bucket_that_is_not_there_is_named_and_not_created(bucket):
    bucket.name = "no-such-bucket"
    with pytest.raises(OSError, match="FileNotFoundError: The specified bucket does not exist") as caught:
        publish(bucket, small(1))
    assert "no-such-bucket/lake/numbers" in str(caught.value)
    assert "put bucket" not in bucket.storage.seen


def test_a_storage_that_is_down(bucket):
    publish(bucket, small(1))
    bucket.fail("put", "list uploads", cut="before")
    with pytest.raises(OSError, match="What was there before is as it was"):
        publish(bucket, small(2))
    bucket.heal()
    assert numbers(bucket) == {1}


def test_a_run_that_is_repeated_writes_the_same_bytes(bucket):
    def content():
        bucket.fs.invalidate_cache()
        return bucket.fs.cat_file(f"{bucket.name}/{KEY}")

    publish(bucket, small(1))
    first = content()
    publish(bucket, small(1))
    assert content() == first


def test_concurrent_readers_see_one_version_or_an_error(bucket, measured):
    from s3fs.utils import FileExpired

    publish(bucket, small(0))
    done = threading.Event()

    def write():
        for generation in range(1, 15):
            publish(bucket, small(generation))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen, told = [], 0
    while not done.is_set():
        bucket.fs.invalidate_cache()
        try:
            dataset = ds.dataset(f"{bucket.name}/lake/numbers", filesystem=bucket.fs, partitioning="hive")
            read = dataset.to_table()["n"].to_pylist()
        except FileExpired:
            told += 1
            time.sleep(0.01)
            continue
        assert len(read) == 1000
        assert len(set(read)) == 1
        seen.append(read[0])
    writer.join()
    assert seen == sorted(seen)
    assert numbers(bucket) == {14}
    measured(reads=len(seen), told=told)
