"""A file is streamed: the memory of the sending process does not depend on the size of the file."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler
from multiprocessing.connection import Connection
from pathlib import Path

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.storage.source_files import storage_files
from airflow_provider_assistant.storage.uploads import as_upload
from tests.processes import preload, processes
from tests.servers import LocalServer
from tests.servers import send as reply

MIB = 1 << 20
LARGE = 100 * MIB

preload(__name__, "aiohttp")


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
        upload=lambda path, _: as_upload(path),
        call=lambda upload: endpoints.upload_document("s", upload),
    )
    before = peak()
    list(rows.fingerprints())
    (row,) = rows.prepared(lambda number: True)
    client.send(row.call)
    after_sync = peak()

    async def send() -> None:
        async with client:
            await client.asend(row.call)

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
