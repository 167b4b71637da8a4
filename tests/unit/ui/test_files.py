"""Files that tasks named: what is refused, what they cost, and what a storage that hangs does not stop."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import resource
import socket
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fastapi.testclient import TestClient
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.loading.findings import DAG_ID, Finding, FindingsFile, findings_schema
from airflow_provider_assistant.ui import files, parquet_child, parquet_reader, tasks
from airflow_provider_assistant.ui.access import may_see_task
from airflow_provider_assistant.ui.app import app
from airflow_provider_assistant.ui.files import UnreadableError, within
from airflow_provider_assistant.ui.findings import FindingsReader, answers_of
from airflow_provider_assistant.ui.parquet_reader import ParquetReader, read_parquet

OURS = {DAG_ID: b"mine"}
TASK_PATH = "/api/tasks/mine/run/task/-1"


def zeros(rows):
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(bytes(4 * rows))])


def repeated(value, rows):
    """A column with the same value in every row, which takes a few bytes of a Parquet file."""
    return pa.DictionaryArray.from_arrays(zeros(rows), pa.array([value]))


def write(path, *, metadata=OURS, **columns):
    """Write a file of findings in which some columns are others."""
    if not hasattr(pq.ParquetWriter, "add_key_value_metadata"):
        pytest.skip("pyarrow 16 cannot write such files")
    rows = max([len(column) for column in columns.values() if column is not None], default=1)
    # Lists without items.
    no_ids = pa.ListArray.from_arrays(zeros(rows + 1), pa.array([], pa.string()))
    defaults = {
        "kind": repeated("rejected", rows),
        "row": pa.nulls(rows, pa.int64()),
        "key": repeated("key", rows),
        "reason": repeated("reason", rows),
        "document_ids": no_ids,
        "group": pa.nulls(rows, pa.string()),
    }
    values = {name: column for name, column in (defaults | columns).items() if column is not None}
    nullable = {field.name: field.nullable for field in findings_schema()}
    fields = [pa.field(name, column.type, nullable.get(name, True)) for name, column in values.items()]
    table = pa.table(list(values.values()), schema=pa.schema(fields))
    # Without Arrow's schema, a column of repeated values is one of texts.
    repeating = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    options = {"compression": "zstd", "write_statistics": False, "use_dictionary": repeating or False}
    with pq.ParquetWriter(path, table.schema, store_schema=False, **options) as writer:
        writer.add_key_value_metadata(metadata)
        writer.write_table(table, row_group_size=len(table))
    return path


def shown(path, dag_id="mine"):
    """Return what a page shows of a file of findings: the number of each kind, and the first rows."""

    def read(file):
        findings = FindingsReader(file, dag_id)
        return {one.kind: one.count for one in findings.kinds()}, findings.page(None, 100, 0)

    return read_parquet(dag_id, str(path), "findings", read, seconds=60)


def refusal(path, dag_id="mine"):
    with pytest.raises(UnreadableError) as caught:
        shown(path, dag_id)
    text = caught.value.problem.text
    # A path may have anything in it.
    assert text.isprintable()
    assert len(text) < 700
    return text


def test_what_is_not_a_file_of_findings_is_refused(tmp_path, monkeypatch):
    good = tmp_path / "good.parquet"
    with FindingsFile(good, dag_id="mine") as file:
        file.add(Finding("rejected", "key", "reason", 1, ["doc"]))
    assert shown(good)[0] == {"rejected": 1}
    (tmp_path / "link.parquet").symlink_to(good)
    assert shown(f"file://{tmp_path}/link.parquet")[1][0].document_ids == ["doc"]
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to_fifo").symlink_to("fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "gz").write_bytes(gzip.compress(good.read_bytes()))
    (tmp_path / "empty").touch()
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", files.LARGEST_FILE + 1)
    (tmp_path / "closed").write_bytes(b"")
    dice = random.Random(1)
    content = good.read_bytes()
    for number in range(20):
        # Cut, or with other bytes.
        start = dice.randrange(len(content))
        (tmp_path / f"cut{number}").write_bytes(content[:start] + dice.randbytes(number * (number % 2)))
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # the path of a socket is short
        listening.bind("socket")
        named = [*sorted(tmp_path.iterdir()), "/dev/zero", "/dev/stdin", "/proc/self/environ", "/proc/self/mem"]
        odd_paths = ["nul\0", "two\nlines", "esc\x1b[2J", "\ud800", "x" * 2000, "", ".", "~", "a" * 300 + "/b" * 2000]
        urls = ["http://127.0.0.1:1/f", "HTTPS://a/f", "nowhere://b/f", "data:,x", "ftp://127.0.0.1:1/f", "file://"]
        urls += ["simplecache::file:///etc/passwd", "zip://a::http://127.0.0.1:1/f", "local://fifo"]
        for path in [*named, *odd_paths, *urls]:
            if str(path) not in {str(good), str(tmp_path / "link.parquet")}:
                refusal(path)


def test_a_file_with_other_columns_or_of_another_dag_is_refused(tmp_path):
    text = pa.array(["x"])
    invalid = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    others = {
        "none": {"metadata": {}},
        "empty": {"metadata": {DAG_ID: b""}},
        "other": {"metadata": {DAG_ID: b"mine2"}},
        "missing": {"reason": None},
        "number": {"key": pa.array([1])},
        "text": {"row": text},
        "nested": {"kind": pa.array([{"a": {"b": 1}}])},
        "texts": {"document_ids": text},
        "binary": {"reason": pa.array([b"x"])},
        "invalid": {"reason": invalid},
    }
    for name, columns in others.items():
        assert str(tmp_path / name) in refusal(write(tmp_path / name, **columns))
    # Columns that nobody asked for do no harm.
    more = {f"column {number}": pa.nulls(1, pa.int8()) for number in range(300)}
    assert shown(write(tmp_path / "more", **more))[0] == {"rejected": 1}
    ours = write(tmp_path / "ours")
    assert "of this DAG" in refusal(ours, dag_id="min")
    # In object storage, only the parts that are needed are read.
    attach("memory", fs=MemoryFileSystem())
    with FindingsFile(ObjectStoragePath(f"memory://{tmp_path.name}/f"), dag_id="mine") as file:
        for number in range(3000):
            file.add(Finding("stale", f"key {number}", "reason"))
    assert [shown(file.path)[0], len(shown(file.path)[1])] == [{"stale": 3000}, 100]
    assert "of this DAG" in refusal(file.path, dag_id="other")
    batch = {"status": pa.array(["complete"] * 5), "seconds": pa.array([float("nan"), float("inf"), -1.0, None, 3.0])}
    with ParquetReader(str(write(tmp_path / "answers", **batch, row=pa.nulls(5))), "answers") as reader:
        bins, counts = answers_of(reader, "mine")
    assert (sum(one.count for one in bins), counts["complete"], counts["rows"]) == (1, 5, 5)


@contextlib.contextmanager
def limited_memory(most):
    """Fail allocations that would make this process larger by more than some bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.promise(
    "security",
    "A small file that unfolds to a large one cannot exhaust the memory of the API server.",
)
def test_what_a_file_unfolds_to_is_not_in_this_process(tmp_path):
    large, many = "x" * 200_000, 450_000
    ids = pa.ListArray.from_arrays(pa.array([0, many], pa.int32()), repeated("document" * 50, many))
    bombs = {
        "keys": {"key": repeated(large, 1000)},
        "ids": {"document_ids": ids},
        "cell": {"reason": pa.array(["\0" * parquet_child.MEMORY])},
        "row": {"reason": pa.array(["x" * (parquet_child.LARGEST_PART + 1)])},
        "columns": {**{f"c{number}": pa.nulls(1, pa.int8()) for number in range(3000)}, "kind": None},
    }
    for name, columns in bombs.items():
        write(tmp_path / name, **columns)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_500_000
    del bombs, ids
    write(tmp_path / "rows", key=repeated("k", 1_100_000))
    with limited_memory(200_000_000):
        for path in sorted(tmp_path.iterdir()):
            if path.name != "rows":
                refusal(path)
        kinds, rows = shown(tmp_path / "rows")
    # What is read ends after a million rows.
    assert (kinds["rejected"], len(rows)) == (1_000_000, 100)


def test_a_file_that_takes_too_long_is_given_up(tmp_path, monkeypatch):
    path = write(tmp_path / "findings")
    # The process never gets what it asks for.
    monkeypatch.setattr(files.OpenFile, "read", lambda *_: time.sleep(0.2) or b"")
    with ParquetReader(str(path), "findings", seconds=0.1) as reader, pytest.raises(UnreadableError, match="too long"):
        list(reader.batches(findings_schema()))


@pytest.fixture
def hanging(monkeypatch):
    """A storage that does not answer until the test ends."""

    class Answered(threading.Event):
        def set(self):
            super().set()
            for thread in threading.enumerate():
                if thread.name == "assistant-read":
                    thread.join(60)

    answered = Answered()
    monkeypatch.setattr(files, "SECONDS", 0.3)
    monkeypatch.setattr(files, "TURN_SECONDS", 0.05)
    monkeypatch.setattr(files, "_reads", files._Reads())
    yield answered
    answered.set()


@pytest.mark.promise("pages", "A storage that hangs stops only the pages of DAGs with files there.")
def test_a_storage_that_hangs_stops_only_the_pages_of_its_dags(hanging):
    def read(dag_id):
        with pytest.raises(UnreadableError) as caught:
            within(dag_id, hanging.wait, what="s3://bucket/file", seconds=0.05)
        return "too many" in str(caught.value)

    assert [read("hangs") for _ in range(4)] == [False, False, True, True]
    assert within("other", lambda: 7, what="file") == 7
    with pytest.raises(TimeoutError, match="of its own"):
        within("other", lambda: raising(TimeoutError("of its own")), what="file")
    assert [read(f"hangs {number}") for number in range(6)] == [False] * 4 + [True] * 2
    hanging.set()
    assert within("hangs", lambda: 8, what="file") == 8


def raising(error):
    raise error


def test_other_routes_answer_while_a_storage_hangs(hanging, monkeypatch):
    def open_slowly(*_):
        hanging.wait()
        raise OSError

    monkeypatch.setattr(parquet_reader, "OpenFile", open_slowly)
    monkeypatch.setattr(tasks, "findings_path", lambda key: f"s3://bucket/{key.dag_id}.parquet")
    monkeypatch.setitem(app.dependency_overrides, may_see_task, lambda: None)
    with TestClient(app) as client:
        replies = []
        requests = [
            threading.Thread(target=lambda: replies.append(client.get(f"{TASK_PATH}/findings").json()))
            for _ in range(60)
        ]
        for request in requests:
            request.start()
        started = time.monotonic()
        assert client.get("/no/such/route").status_code == 404
        assert client.get("/reports/d/r/t/first").status_code == 422
        assert time.monotonic() - started < 30
        for request in requests:
            request.join(60)
    assert len(replies) == 60
    assert {reply["problem"]["code"] for reply in replies} == {"unreadable"}
