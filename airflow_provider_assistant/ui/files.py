"""
Read files that tasks named: any path, any file, any storage.

DAG authors choose the paths, so a file may be a pipe, endless, damaged, far larger than it looks, or in a storage that
does not answer. Only regular files are opened, what is read is limited, and who waits for a file does not wait long.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, TypeVar, cast

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.loading.findings import DAG_ID
from airflow_provider_assistant.parsing.child import start_process
from airflow_provider_assistant.storage.folders import local_path
from airflow_provider_assistant.texts import escaped, shortened
from airflow_provider_assistant.ui.models import Problem
from airflow_provider_assistant.ui.parquet_child import END, MORE, PROBLEM, READ, SCHEMA, STOP

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

log = logging.getLogger(__name__)

# Bytes of the largest file, and of one read.
LARGEST_FILE, LARGEST_READ = 1_000_000_000, 64_000_000
# Seconds that a page waits for a file, and for its turn.
SECONDS, TURN_SECONDS = 10.0, 2.0
# Maximum number of files that are read at the same time, in all and for one DAG: a storage that hangs keeps a thread.
MOST_READS, MOST_READS_OF_A_DAG = 6, 2
_CHILD = "airflow_provider_assistant.ui.parquet_child"
# Processes that wait for a request.
MOST_IDLE = 1


class UnreadableError(Exception):
    """
    A file cannot be shown.

    :param text: A sentence for the user.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(code="unreadable", text=text)


class _Reads:
    """The reads that are running."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count_by_dag: Counter[str] = Counter()

    def begin(self, dag_id: str) -> None:
        """
        Wait for the turn of a read.

        :raises UnreadableError: Too many others are running.
        """

        def is_free() -> bool:
            is_below = self._count_by_dag.total() < MOST_READS
            return is_below and self._count_by_dag[dag_id] < MOST_READS_OF_A_DAG

        with self._changed:
            if not self._changed.wait_for(is_free, TURN_SECONDS):
                raise UnreadableError("The API server is reading too many other files. Try again in a minute.")
            self._count_by_dag[dag_id] += 1

    def end(self, dag_id: str) -> None:
        with self._changed:
            self._count_by_dag[dag_id] -= 1
            self._changed.notify_all()


_reads = _Reads()


def within(dag_id: str, read: Callable[[], T], *, what: str, seconds: float | None = None) -> T:
    """
    Return what a function returns that may wait for a storage.

    It runs in a thread of its own, which is left alone if it takes too long: threads of the server are for everyone.

    :param dag_id: The DAG whose task named the file.
    :param what: Subject of the message, such as a path.
    :param seconds: Default: :data:`SECONDS`.
    :raises UnreadableError: It takes too long, or too many others are running.
    """
    seconds = seconds or SECONDS
    _reads.begin(dag_id)
    future: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(read))
        except BaseException as error:  # noqa: BLE001 (it is raised again below)
            future.set_exception(error)
        finally:
            _reads.end(dag_id)

    threading.Thread(target=run, name="assistant-read", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise
        raise UnreadableError(f"{what} cannot be read within {seconds:g} seconds. Try again later.") from None


def shown(path: str) -> str:
    """Return a path as a part of a message."""
    return shortened(escaped(path), 300)


class OpenFile:
    """
    A regular file, open for reading. Use it as a context manager.

    :param size: Its size when it was opened: no more is read.
    :raises UnreadableError: The path is not that of a regular file, or the file is too large.
    :raises Exception: A storage raises any exception.
    """

    def __init__(self, path: str, what: str) -> None:
        # Requests to web servers from the API server's network are not for DAG authors to choose.
        if path.lower().startswith(("http:", "https:")):
            raise UnreadableError(f"{shown(path)} is not a file of {what}.")
        storage_path = ObjectStoragePath(path)
        local = local_path(storage_path)
        self._file: BinaryIO
        if local is None:
            self.size = int(storage_path.fs.info(storage_path.path)["size"])
            self._file = storage_path.open("rb")
        else:
            file = _open_regular(local)
            if file is None:
                raise UnreadableError(f"{shown(path)} is not a file of {what}.")
            self.size = os.fstat(file.fileno()).st_size
            self._file = file
        if self.size > LARGEST_FILE:
            self._file.close()
            raise UnreadableError(f"{shown(path)} is too large to be shown here.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read(self, offset: int, length: int) -> bytes:
        """Return a part of the file; less if it ends earlier."""
        length = min(length, self.size - offset, LARGEST_READ)
        self._file.seek(offset)
        parts = []
        while length > 0:
            part = self._file.read(length)
            if not part:
                break
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _open_regular(path: Path) -> BinaryIO | None:
    """Open a file, or return None if it is a folder, a pipe or a device."""
    if not stat.S_ISREG(path.stat().st_mode):
        return None
    # If it is replaced by a pipe in between, this does not wait for the other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    file = os.fdopen(descriptor, "rb", buffering=0)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return cast("BinaryIO", file)
    file.close()
    return None


class _Process:
    """A process that reads Parquet files."""

    def __init__(self) -> None:
        self.connection: Connection
        self._process: subprocess.Popen[bytes]
        self._process, self.connection = start_process(_CHILD)

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
            self.connection.close()


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
        process.connection.close()


class ParquetReader:
    """
    Read a Parquet file in another process. Use it as a context manager, which ends the process if it is still busy.

    :param what: Content of the file, for messages: ``findings`` or ``answers``.
    """

    def __init__(self, path: str, what: str, seconds: float | None = None) -> None:
        self._path, self._what = path, what
        self._until = time.monotonic() + (seconds or SECONDS)
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
            process.connection.send_bytes(json.dumps({"size": file.size, "names": columns.names}).encode())
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
                    process.connection.send_bytes(STOP)
                    kind, content = self._next_message(process, file)
                    is_ready = kind == END
                    raise
                process.connection.send_bytes(MORE)
        finally:
            self._busy = None
            process.release(is_ready=is_ready)

    def _next_message(self, process: _Process, file: OpenFile) -> tuple[bytes, bytes]:
        """Return the kind and the content of the next message, and give the process the parts of the file."""
        while True:
            remaining = self._until - time.monotonic()
            if remaining <= 0 or not process.connection.poll(remaining):
                raise UnreadableError(f"{shown(self._path)} takes too long to be read.")
            try:
                message = process.connection.recv_bytes()
            except (EOFError, ConnectionResetError):
                # The system ends a process that needs too much.
                raise self._damaged("it needs too much memory or time") from None
            kind, content = message[:1], message[1:]
            if kind != READ:
                return kind, content
            offset, length = json.loads(content)
            process.connection.send_bytes(file.read(offset, length))

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
