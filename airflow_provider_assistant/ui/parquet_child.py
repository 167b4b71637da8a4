"""
The process that reads Parquet files for the pages.

Whatever a file unfolds to, and however long it takes, only this process ends. It imports nothing of Airflow, and has no
file: it asks its parent for each part. So it starts in a fraction of a second, and also serves the next requests.
"""

from __future__ import annotations

import io
import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.parsing.child import limit_resource

if TYPE_CHECKING:
    import pyarrow as pa

# The first byte of a message to the parent.
READ, SCHEMA, ROWS, END, PROBLEM = (bytes([number]) for number in range(5))
# Answers of the parent to the schema and to each part.
MORE, STOP = b"more", b"stop"
# Bytes that a file may need, and processor time in seconds.
MEMORY, SECONDS = 160_000_000, 20
# Rows that are read at once, and the greatest part in bytes: no row of this package is as large.
MOST_ROWS, LARGEST_PART = 5000, 250_000
# Seconds without a request after which the process ends.
IDLE = 120


class _RemoteFile(io.RawIOBase):
    """A file of the parent."""

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection, self._size = connection, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        rest = max(0, self._size - self._position)
        if size < 0 or size > rest:
            size = rest
        self._connection.send_bytes(READ + json.dumps([self._position, size]).encode())
        content = self._connection.recv_bytes()
        self._position += len(content)
        return content


def _answer(connection: Connection, size: int, names: list[str]) -> None:
    """Send the columns of a file that have these names: their schema, then their rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = pa.PythonFile(_RemoteFile(connection, size), mode="r")
    # The limits concern the description of the columns, which has no other.
    file = pq.ParquetFile(
        source, buffer_size=1_000_000, thrift_string_size_limit=5_000_000, thrift_container_size_limit=100_000
    )
    schema = _schema(file.schema_arrow, names)
    connection.send_bytes(SCHEMA + schema.serialize().to_pybytes())
    if connection.recv_bytes() != MORE:
        return
    for batch in file.iter_batches(MOST_ROWS, columns=schema.names, use_threads=False):
        # Texts may be invalid, and lists have no end.
        batch.validate(full=True)
        for part in _parts(batch):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as stream:
                stream.write_batch(part)
            connection.send_bytes(ROWS + sink.getvalue().to_pybytes())
            if connection.recv_bytes() != MORE:
                return


def _schema(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """Return the columns of a schema that have one of the names, and the metadata of this package."""
    import pyarrow as pa

    metadata = {}
    for name, value in (schema.metadata or {}).items():
        if name.startswith(b"assistant.") and len(value) < LARGEST_PART:
            metadata[name] = value
    # A name that several columns have counts as missing.
    found = [name for name in names if len(schema.get_all_field_indices(name)) == 1]
    fields = [schema.field(name).remove_metadata() for name in found]
    return pa.schema(fields, metadata=metadata)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that are not too large."""
    if batch.nbytes <= LARGEST_PART:
        yield batch
        return
    if batch.num_rows == 1:
        raise ValueError("a row is too large")
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def _limit_memory() -> None:
    """Limit the memory to what the libraries have, and what a file may need."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return
    limit_resource(resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY)


def main(descriptor: int) -> None:
    """
    Answer requests until the connection is closed, a file needs too much memory, or no request comes.

    :param descriptor: File descriptor of the connection.
    """
    # It returns memory sooner than the other allocators, and reserves none.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    # A thread for each core would reserve memory.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import pyarrow.parquet  # noqa: F401

    limit_resource(resource.RLIMIT_CORE, 0)
    _limit_memory()
    connection = Connection(descriptor)
    while connection.poll(IDLE):
        try:
            request: dict[str, Any] = json.loads(connection.recv_bytes())
        except EOFError:
            return
        limit_resource(resource.RLIMIT_CPU, math.ceil(time.process_time() + SECONDS))
        try:
            _answer(connection, **request)
        except Exception as error:  # noqa: BLE001 (the library raises anything for a damaged file)
            # Not the text of the error: it may quote the file.
            connection.send_bytes(PROBLEM + type(error).__name__.encode())
            if isinstance(error, MemoryError):
                return
        else:
            connection.send_bytes(END)


if __name__ == "__main__":
    main(int(sys.argv[1]))
