"""
Read files that tasks named: any path, any file, any storage.

DAG authors choose the paths, so a file may be a pipe, endless, damaged, far larger than it looks, or in a storage that
does not answer. Only regular files are opened, what is read is limited, and no page waits long for a file.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TypeVar, cast

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.storage.opening import local_path
from airflow_provider_assistant.texts import escaped, shortened
from airflow_provider_assistant.ui.models import Problem

T = TypeVar("T")

# Bytes of the largest file, and of one read.
LARGEST_FILE, LARGEST_READ = 1_000_000_000, 64_000_000
# Seconds that a page waits for a file, and for its turn.
SECONDS, TURN_SECONDS = 10.0, 2.0
# Maximum number of files that are read at the same time, in all and for one DAG: a storage that hangs keeps a thread.
MOST_READS, MOST_READS_OF_A_DAG = 6, 2


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

    It runs in a separate thread. If it takes too long, the page no longer waits for it: the threads of the server are
    for all requests.

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
