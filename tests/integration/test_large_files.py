"""A file is streamed: the memory of the sending process does not depend on the size of the file."""

from __future__ import annotations

import asyncio
import http.server
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.storage.paths import storage_files
from airflow_provider_assistant.storage.uploads import as_upload
from tests.processes import preload, processes

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


class Sink(http.server.BaseHTTPRequestHandler):
    """Read a request body and discard it."""

    received: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.received.append(length)
        while length:
            length -= len(self.rfile.read(min(length, MIB)))
        self.send_response(201)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    Sink.received.clear()
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(LARGE)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/api/v1"
        mine, theirs = processes.Pipe()
        process = processes.Process(target=send, args=(url, str(path), theirs))
        process.start()
        theirs.close()
        sync, both = mine.recv()
        process.join(60)
    finally:
        server.shutdown()
        server.server_close()
    assert len(Sink.received) == 2
    assert all(LARGE < received < LARGE + MIB for received in Sink.received)
    assert sync < 40 * MIB
    assert both < 40 * MIB
