"""Read Parquet files that tasks named in another process, which a hostile file can end, and nothing else."""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from airflow_provider_assistant.loading.findings import DAG_ID
from airflow_provider_assistant.parsing.child import start_process
from airflow_provider_assistant.ui import files
from airflow_provider_assistant.ui.files import OpenFile, UnreadableError, shown, within
from airflow_provider_assistant.ui.parquet_child import END, MORE, PROBLEM, READ, SCHEMA, STOP

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

log = logging.getLogger(__name__)

_CHILD = "airflow_provider_assistant.ui.parquet_child"
# Processes that wait for a request.
MOST_IDLE = 1


class _EndedError(Exception):
    """The process has ended: the system ends one that needs too much."""


class _Process:
    """A process that reads Parquet files."""

    def __init__(self) -> None:
        self._connection: Connection
        self._process: subprocess.Popen[bytes]
        self._process, self._connection = start_process(_CHILD)

    def send(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except ConnectionError as error:
            raise _EndedError from error

    def receive(self, seconds: float) -> bytes | None:
        """Return the next message, or None if none arrives in time."""
        try:
            if seconds <= 0 or not self._connection.poll(seconds):
                return None
            return self._connection.recv_bytes()
        except (EOFError, ConnectionError) as error:
            raise _EndedError from error

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        # Not the connection: another thread may be waiting for it.
        self._process.kill()
        self._process.wait()

    def release(self, *, is_ready: bool) -> None:
        """
        Keep the process for the next request, or end it.

        :param is_ready: Whether it waits for a request.
        """
        if is_ready and len(_idle) < MOST_IDLE:
            _idle.append(self)
        else:
            self.kill()
            self._connection.close()


_idle: list[_Process] = []


def _process() -> _Process:
    """Return a process that waits for a request, or a new one."""
    while True:
        try:
            process = _idle.pop()
        except IndexError:
            return _Process()
        if process.is_alive:
            return process
        process.release(is_ready=False)


class ParquetReader:
    """
    Read a Parquet file in another process. Use it as a context manager, which ends the process if it is still busy.

    :param what: Content of the file, for messages: ``findings`` or ``answers``.
    """

    def __init__(self, path: str, what: str, seconds: float | None = None) -> None:
        self._path, self._what = path, what
        self._until = time.monotonic() + (seconds or files.SECONDS)
        self._busy: _Process | None = None
        # The metadata of this package in the file that was read last.
        self.metadata: dict[bytes, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._busy
        if process is not None:
            process.kill()

    def batches(self, columns: pa.Schema, dag_id: str | None = None) -> Generator[pa.RecordBatch, None, None]:
        """
        Yield columns of the file in parts. Close the iterator if it is not read to its end.

        :param columns: Columns that the file must have.
        :param dag_id: DAG whose task must have written the file. None for any.
        :raises UnreadableError: The file cannot be read, has other columns, or is that of another DAG.
        """
        try:
            with OpenFile(self._path, self._what) as file:
                yield from self._batches(file, columns, dag_id)
        except UnreadableError:
            raise
        except _EndedError:
            raise self._damaged("it needs too much memory or time") from None
        except Exception as error:
            # Log only the type: the message may contain details of the storage that the user must not see.
            log.warning("The file %s cannot be read: %s", shown(self._path), type(error).__name__)
            raise UnreadableError(
                f"The {self._what} are in {shown(self._path)}, but this API server cannot read them "
                f"({type(error).__name__}). If the file is on the disk of a worker, write it to a storage that both "
                "can reach: set findings_path or output_path, or [assistant] findings_folder."
            ) from error

    def _batches(self, file: OpenFile, columns: pa.Schema, dag_id: str | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        self._busy = process = _process()
        is_ready = False
        try:
            process.send(json.dumps({"size": file.size, "names": columns.names}).encode())
            while True:
                kind, content = self._next_message(process, file)
                if kind in {END, PROBLEM}:
                    is_ready = b"Memory" not in content
                if kind == PROBLEM:
                    raise self._damaged(content.decode())
                if kind == END:
                    return
                try:
                    if kind == SCHEMA:
                        self._check(pa.ipc.read_schema(pa.py_buffer(content)), columns, dag_id)
                    else:
                        yield from pa.ipc.open_stream(content)
                except BaseException:
                    # Also if the caller has enough.
                    process.send(STOP)
                    kind, content = self._next_message(process, file)
                    is_ready = kind == END
                    raise
                process.send(MORE)
        finally:
            self._busy = None
            process.release(is_ready=is_ready)

    def _next_message(self, process: _Process, file: OpenFile) -> tuple[bytes, bytes]:
        """Return the kind and the content of the next message, and give the process the parts of the file."""
        while True:
            message = process.receive(self._until - time.monotonic())
            if message is None:
                raise UnreadableError(f"{shown(self._path)} takes too long to be read.")
            kind, content = message[:1], message[1:]
            if kind != READ:
                return kind, content
            offset, length = json.loads(content)
            process.send(file.read(offset, length))

    def _damaged(self, reason: str) -> UnreadableError:
        return UnreadableError(f"{shown(self._path)} is not a file of {self._what}, or it is damaged ({reason}).")

    def _check(self, schema: pa.Schema, columns: pa.Schema, dag_id: str | None) -> None:
        self.metadata = schema.metadata or {}
        if not schema.equals(columns):
            raise UnreadableError(f"{shown(self._path)} is not a file of {self._what}.")
        if dag_id is not None and self.metadata.get(DAG_ID) != dag_id.encode():
            raise UnreadableError(f"{shown(self._path)} was not written by a task of this DAG, so it is not shown.")


def read_parquet(
    dag_id: str, path: str, what: str, read: Callable[[ParquetReader], T], *, seconds: float | None = None
) -> T:
    """
    Return what a function reads from a Parquet file that a task named.

    :param dag_id: The DAG of the task.
    :param what: Content of the file, for messages: ``findings`` or ``answers``.
    :raises UnreadableError: The file cannot be read.
    """
    with ParquetReader(path, what, seconds) as file:
        return within(dag_id, lambda: read(file), what=shown(path), seconds=seconds)
