"""Files of any size, and small files that unfold to gigabytes: the memory that a process needs for them is limited."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import resource
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import file_documents
from airflow_provider_assistant.loading.uploads import FileRows
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.uploads import as_upload
from airflow_provider_assistant.tables import Columns, read_rows
from tests.processes import preload, processes
from tests.servers import LocalServer
from tests.servers import send as reply

MIB = 1 << 20
LARGE = 100 * MIB

preload(__name__, "aiohttp", "pyarrow.compute", "airflow_provider_assistant.tables")


def peak() -> int:
    """Return the most memory that this process has had since it was forked."""
    # Do not use ru_maxrss: it starts at the value of the parent process.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def send(url: str, path: str, pipe: Connection) -> None:
    """Send a file synchronously and with asyncio; report how much memory each of them needs at most."""
    client = AssistantClient(ClientSettings(url, "a key of no consequence"))
    rows = FileRows(
        storage_files(path),
        upload=lambda path, _name: as_upload(path),
        call=lambda upload: endpoints.upload_document("s", upload),
    )
    before = peak()
    (batch,) = rows.batches()
    payload = batch.rows[0].payload
    client.send(rows.call(payload))
    after_sync = peak()

    async def send() -> None:
        async with client:
            await client.asend(rows.call(payload))

    asyncio.run(send())
    pipe.send((after_sync - before, peak() - before))


class Sink(LocalServer):
    """Read request bodies and discard them."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[int] = []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers["Content-Length"])
        self.received.append(length)
        while length:
            length -= len(request.rfile.read(min(length, MIB)))
        reply(request, 201, b"{}", {})


@pytest.mark.promise("loads", "The memory that a file takes does not grow with the file.")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(LARGE)
    with Sink() as sink:
        mine, theirs = processes.Pipe()
        process = processes.Process(target=send, args=(f"http://{sink.host}/api/v1", str(path), theirs))
        process.start()
        theirs.close()
        sync, both = mine.recv()
        process.join(60)
    assert len(sink.received) == 2
    assert all(LARGE < received < LARGE + MIB for received in sink.received)
    assert sync < 40 * MIB
    assert both < 40 * MIB


# Megabytes that each file unfolds to, and that reading it may take; without a limit, each takes gigabytes.
UNFOLDED, ALLOWED = 2000, 500
PACKED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}
HEAD = b"title,content\n"
# What a file begins with, what is then repeated, and what the error says; empty if all rows can be read.
TEXTS = {
    "line.csv": (HEAD + b"a,", b"x", "line 2: a row has more than"),
    "first-line.csv": (b"", b"x", "line 1: a row has more than"),
    "columns.csv": (b"", b"x,", "line 1: a row has more than"),
    "quote.csv": (HEAD + b'a,"', b"x" * 99 + b"\n", "line 2: a row has more than"),
    "cells.csv": (HEAD + b"a,b\na", b',"x' + b"x" * 95 + b'\n"', "line 3: a row has more than"),
    "many-columns.csv": (HEAD.replace(b"\n", b"," * 20_000 + b"x\n"), b"1\n", "more than 10,000 columns"),
    "wide.tsv": (b"title\tcontent\n", "\U0001f600".encode(), "a row has more than"),
    "line.jsonl": (b'{"title": "a"}\n{"title": "', b"x", "line 2: a row has more than"),
    "blank.jsonl": (b'{"title": "a"}\n', b" ", "line 2: a row has more than"),
    "array.json": (b'[{"title": "', b"x", "its array has more than 100 MB"),
    "brackets.json": (b'[{"title": [', b"[0],        " * 8, "its array has more than 100 MB"),
    "blank.json": (b"[\n", b" ", "its array has more than 100 MB"),
    "object.json": (b'{"title":\n"', b"x", "line 2: a row has more than"),
    "commas.json": (b'{"title": [\n0', b",0", "line 2: a row has more than"),
}


def bombs(folder: Path) -> Iterator[tuple[Path, str]]:
    """Write files of some megabytes at most, which unfold to gigabytes; yield their paths and what the error says."""
    for number, (name, (start, repeated, error)) in enumerate(TEXTS.items()):
        suffix = list(PACKED)[number % len(PACKED)]
        pack = PACKED[suffix]
        path = folder / f"{name}.{suffix}"
        piece = repeated * (MIB // len(repeated))
        path.write_bytes(pack(start) + pack(piece) * UNFOLDED if start else pack(piece) * UNFOLDED)
        yield path, error
    sparse = folder / "plain.csv"
    with sparse.open("wb") as file:
        file.truncate(UNFOLDED * MIB)
    yield sparse, "line 1: a row has more than"
    value = "x" * 3_000_000
    rows = 250
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [value])
    tables = {
        "shared": (pa.table({"title": shared}), ""),
        "strings": (pa.table({"title": [value] * rows}), ""),
        "column": (pa.table({"title": [value * 100]}), "a column of a row group has 300,"),
    }
    for name, (table, error) in tables.items():
        path = folder / f"{name}.parquet"
        # Statistics of a value of 300 MB take pyarrow seconds.
        pq.write_table(table, path, compression="zstd", use_dictionary=name != "column", write_statistics=False)
        yield path, error


def unfold(folder: str, pipe: Connection) -> None:
    """Read each file, and report what its error is, and how much memory it takes."""
    files = list(bombs(Path(folder)))
    with Path("/proc/self/statm").open() as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit = used + 2 * ALLOWED * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    reports = []
    for path, expected in files:
        Path("/proc/self/clear_refs").write_text("5")
        before = peak()
        error = ""
        try:
            for batch in read_rows(str(path), Columns(("title",))):
                del batch
        except (AssistantInputError, MemoryError) as raised:
            error = f"{type(raised).__name__} {raised}"
        reports.append((path.name, expected, error, (peak() - before) // MIB))
    pipe.send(reports)


@pytest.mark.promise("loads", "A small file that unfolds to gigabytes is refused within stated memory.")
@pytest.mark.nightly
def test_small_files_that_unfold_to_gigabytes(tmp_path: Path) -> None:
    mine, theirs = processes.Pipe()
    process = processes.Process(target=unfold, args=(str(tmp_path), theirs))
    process.start()
    theirs.close()
    reports = mine.recv()
    process.join(60)
    for name, expected, error, megabytes in reports:
        assert expected in error
        assert bool(expected) == bool(error)
        assert not error or name in error
        assert megabytes < ALLOWED, name


def test_documents_of_gigabytes_are_not_read(tmp_path: Path) -> None:
    for name in ("a.md", "b.html", "c.pdf", "d.docx", "e.xlsx"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(UNFOLDED * MIB)
    documents = file_documents(tmp_path, on_error="skip")
    assert [row["content"] for row in documents] == [""] * 5
