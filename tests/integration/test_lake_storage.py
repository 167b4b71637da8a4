"""Datasets on an object storage that fails during a write."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from pyarrow.fs import S3FileSystem

from airflow_provider_assistant.asking.questions import Questions
from airflow_provider_assistant.asking.state import Answer, BatchState
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.lake.files import write
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger
from tests.processes import preload, processes
from tests.storage_server import DENIED

preload(__name__)

DAY = date(2026, 11, 21)
KEY = "lake/numbers/date=2026-11-21/dag.task.parquet"
PART = 5 * 2**20


def publish(bucket, table):
    return write(table, bucket.root, "numbers", DAY, ("dag.task",), {})


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


@pytest.mark.promise(
    "lake and warehouse", "An export to an object storage that fails leaves the old day or the new one."
)
@pytest.mark.parametrize(("fault", "there"), PUTS.values(), ids=PUTS)
def test_an_upload_that_fails(fault, there, bucket):
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
    pytest.param(*case, aborts, id=f"{name}-{'aborted' if aborts else 'left'}", marks=[pytest.mark.nightly] * is_slow)
    for name, case in PARTS.items()
    for aborts, is_slow in ((True, False), (False, name != "a part answers 500"))
]


@pytest.mark.parametrize(("of", "fault", "there", "aborts"), UPLOADS)
def test_an_upload_in_parts_that_fails(of, fault, there, aborts, in_parts):
    publish(in_parts, small(1))
    in_parts.fail(of, **fault)
    if not aborts:
        in_parts.fail("abort", cut="before")
    with pytest.raises(OSError, match="What was there before is as it was, or replaced as a whole"):
        publish(in_parts, large(2))
    assert numbers(in_parts) == {there}
    left = len(in_parts.uploads())
    assert left == (not aborts and of != "create upload" and there == 1)
    in_parts.heal()
    publish(in_parts, small(3))
    assert numbers(in_parts) == {3}
    assert in_parts.keys() == [f"{in_parts.name}/{KEY}"]


@pytest.mark.nightly
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
    write(large(2), root, "numbers", DAY, ("dag.task",), {})


@pytest.mark.parametrize("of", ["create upload", "part", "complete"])
def test_killed_in_the_middle_of_an_upload_in_parts(of, bucket):
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


def test_concurrent_readers_see_one_version_or_an_error(bucket):
    from s3fs.utils import FileExpired

    publish(bucket, small(0))
    done = threading.Event()

    def write():
        for generation in range(1, 15):
            publish(bucket, small(generation))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        bucket.fs.invalidate_cache()
        try:
            dataset = ds.dataset(f"{bucket.name}/lake/numbers", filesystem=bucket.fs, partitioning="hive")
            read = dataset.to_table()["n"].to_pylist()
        except FileExpired:
            time.sleep(0.01)
            continue
        assert len(read) == 1000
        assert len(set(read)) == 1
        seen.append(read[0])
    writer.join()
    assert seen == sorted(seen)
    assert numbers(bucket) == {14}


# -- a whole export ----------------------------------------------------------------------------

COLUMNS = ["site_id", "metric", "text"]
SITES = ["acme-docs", "acme-shop"]


def with_s3fs(bucket):
    dataset = ds.dataset(f"{bucket.name}/lake/statistics", filesystem=bucket.fs, partitioning="hive")
    return dataset.to_table().select([*COLUMNS, "date"]).to_pylist()


def with_arrow_s3(bucket):
    storage = S3FileSystem(
        access_key="an-access-key", secret_key="a-secret-key", endpoint_override=bucket.storage.url, region="us-east-1"
    )
    dataset = ds.dataset(f"{bucket.name}/lake/statistics", filesystem=storage, partitioning="hive")
    return dataset.to_table().select([*COLUMNS, "date"]).to_pylist()


def with_pandas(bucket):
    options = {"key": "an-access-key", "secret": "a-secret-key", "endpoint_url": bucket.storage.url}
    frame = pd.read_parquet(f"s3://{bucket.name}/lake/statistics", storage_options=options)
    return frame[[*COLUMNS, "date"]].to_dict("records")


def with_duckdb(bucket):
    """Read through s3fs: DuckDB's own S3 support is an extension that would have to be downloaded."""
    with duckdb.connect() as database:
        database.register_filesystem(bucket.fs)
        files = f"s3://{bucket.name}/lake/statistics/*/*.parquet"
        found = database.execute(f"SELECT site_id, metric, text, date FROM read_parquet('{files}')").fetchall()
    return [dict(zip([*COLUMNS, "date"], row, strict=True)) for row in found]


@pytest.fixture
def export(bucket, service, connection, run_operator):
    def exported():
        return run_operator(
            AssistantStatisticsToParquetOperator,
            output_path=bucket.root,
            date="2026-11-21",
        )

    return exported


def test_an_export_to_s3_is_read_by_all(bucket, export):
    run = export()
    result = run.xcom()
    assert run.state == "success"
    assert result["path"].startswith(f"{bucket.root}/statistics/date=2026-11-21/")
    assert result["bytes"] == sum(map(bucket.fs.size, bucket.keys()))
    assert len(bucket.keys()) == 2
    rows = with_s3fs(bucket)
    assert len(rows) == result["rows"]
    assert {row["site_id"] for row in rows} == {"acme-docs"}

    def sortable(found):
        return sorted((row["site_id"], row["metric"], row["text"], str(row["date"])) for row in found)

    for read in (with_arrow_s3, with_pandas, with_duckdb):
        assert sortable(read(bucket)) == sortable(rows)


def test_a_failed_upload_of_an_export_is_fixed_by_a_retry(bucket, export):
    bucket.fail("put", status=500)
    failed = export()
    assert failed.state == "failed"
    assert isinstance(failed.error, OSError)
    assert "What was there before is as it was" in str(failed.error)
    assert bucket.keys() == []
    bucket.heal()
    assert export().state == "success"
    assert len(bucket.keys()) == 2


async def test_a_triggerer_is_the_first_of_its_process_to_use_the_storage(
    bucket: Any, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow remembers file systems by connection, so another connection stands for another process."""
    request_id = AssistantHook().submit_chat("s", "When?").request_id
    record = BatchState(f"{bucket.root}/state")
    record.write_questions(Questions([], pa.table({})))
    record.add([Answer("question", "open", request_id, "s", time.time())])
    other = f"triggerer_of_{bucket.storage.conn_id}"
    monkeypatch.setenv(f"AIRFLOW_CONN_{other.upper()}", bucket.storage.connection())
    trigger = AssistantChatBatchTrigger(
        assistant_conn_id="assistant_default",
        site_id="acme-docs",
        folder=f"s3://{other}@{bucket.name}/lake/state",
        deadline=time.time() + 60,
        timeout=60,
        poll_interval=0.05,
        max_concurrency=1,
    )
    events: list[dict[str, Any]] = [event.payload async for event in trigger.run()]
    assert [(event.get("ended"), event.get("open")) for event in events] == [({"complete": 1}, 0)]
    (end,) = record.read().values()
    assert (end.request_id, end.status) == (request_id, "complete")
