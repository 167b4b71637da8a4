"""Files to upload, each with its key, its content hash, and the call that creates its document."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, cast

from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import short_label
from airflow_provider_assistant.loading.fingerprints import RowFingerprint, check_count, encoded, hash_of
from airflow_provider_assistant.loading.rows import PreparedRow
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.texts import storable

READ_SIZE = 1 << 20


class FileRows:
    """
    Read files to upload; each file is one document.

    :param files: Pairs of name and path. The name identifies the file.
    :param upload: Returns the upload for a path and the file name that the service sees.
    :param allow_empty: Whether the list may be empty.
    :raises AssistantInputError: Two files have the same name.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, StoragePath]],
        *,
        upload: Callable[[StoragePath, str], Upload],
        call: Callable[[Upload], Call[Any]],
        allow_empty: bool = False,
    ) -> None:
        _check_names(files)
        self._files = files
        self._sent_as = shortest_names([name for name, _ in files])
        self._upload = upload
        self._call = call
        self._allow_empty = allow_empty
        self._read: dict[int, FingerprintedFile] = {}

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield the fingerprints of all files, reading each file once.

        :return: One list per file.
        :raises AssistantInputError: There are no files and ``allow_empty`` is False.
        """
        check_count(len(self._files), self._allow_empty)
        for number, (name, path) in enumerate(self._files, start=1):
            read = self._read[number] = fingerprint_file(name, path)
            yield [read.fingerprint]

    def prepared(self, is_wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the files with the wanted numbers in their order, each with its call.

        :param is_wanted: Returns whether a file number, from 1, is wanted.
        """
        for number, (name, path) in enumerate(self._files, start=1):
            if is_wanted(number):
                yield self._prepare(number, name, path)

    def _prepare(self, number: int, name: str, path: StoragePath) -> PreparedRow:
        read = self._read[number]
        row = PreparedRow(number, read.fingerprint, short_label(storable(name)), place=f"file {name!r}")
        if read.problem:
            return replace(row, problem=read.problem)
        try:
            upload = self._upload(path, self._sent_as[name])
        except AssistantInputError as error:
            return replace(row, problem=str(error))
        unchanged = replace(upload, open=lambda: _opened(upload, path, read.size))
        return replace(row, call=self._call(unchanged))


@contextlib.contextmanager
def _opened(upload: Upload, path: StoragePath, size: int) -> Iterator[BinaryIO]:
    """Open a file; raise an error if its size has changed since the preflight."""
    with upload.open() as file:
        found = file.seek(0, os.SEEK_END) if file.seekable() else size
        if found != size:
            raise _changed(path, f"from {size} to {found} bytes")
        if file.seekable():
            file.seek(0)
        yield cast("BinaryIO", _Checked(file, path, size))


class _Checked(io.RawIOBase):
    """
    A file that yields exactly as many bytes as it had at the preflight, or raises an error.

    A request announces its length first. If the file had become shorter, the service would wait for the rest until the
    timeout, and the row would become ambiguous.
    """

    def __init__(self, file: BinaryIO, path: StoragePath, size: int) -> None:
        self._file, self._path, self._size = file, path, size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the wrapped file is seekable."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position; the end of the file is its size at the preflight."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = self._file.seek(start + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes and return their number; 0 at the end."""
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._position)
        try:
            piece = self._file.read(wanted)
        except OSError as error:
            raise AssistantInputError(f"file {str(self._path)!r} cannot be read: {error}", field="file") from error
        if wanted > 0 and not piece:
            raise _changed(self._path, f"from {self._size} to {self._position} bytes")
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


def _changed(path: StoragePath, how: str) -> AssistantInputError:
    return AssistantInputError(
        f"file {str(path)!r} has changed {how} since it was checked",
        todo="The next run sends it.",
        field="file",
    )


class FingerprintedFile(NamedTuple):
    """
    Hold the hashes of one file.

    :param size: Size in bytes.
    :param problem: Why the file cannot be read. None if it can.
    """

    fingerprint: RowFingerprint
    size: int = 0
    problem: str | None = None


def fingerprint_file(name: str, path: StoragePath) -> FingerprintedFile:
    """
    Read a file and return its hashes.

    :param name: Name that identifies the file.
    """
    key = hash_of(encoded([name]))
    content = hashlib.blake2b(digest_size=16)
    size = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(READ_SIZE):
                content.update(piece)
                size += len(piece)
    except OSError as error:
        # A placeholder that equals no content hash.
        unread = hash_of(encoded([name, None]))
        return FingerprintedFile(RowFingerprint(key, unread), problem=f"file {str(path)!r} cannot be read: {error}")
    return FingerprintedFile(RowFingerprint(key, content.hexdigest()), size)


def _check_names(files: Sequence[tuple[str, StoragePath]]) -> None:
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, path in files:
        by_name[name].append(str(path))
    if twice := [" and ".join(map(repr, paths)) for paths in by_name.values() if len(paths) > 1]:
        raise AssistantInputError(
            f"{len(twice)} file names are not unique, such as {twice[0]}: a file is identified by its path below the "
            "given folder",
            safe=NOTHING_SENT,
            todo="Pass the common parent folder, or load the folders with two tasks.",
            field="files",
        )


def shortest_names(names: Sequence[str]) -> dict[str, str]:
    """
    Return the shortest distinct file names for uploads.

    A name is the last part of its path, preceded by as many parent folders as it takes to make it unique, joined by
    hyphens. Slashes would not do: RFC 7578 asks services to drop everything before them.

    :param names: Distinct paths.
    :return: Mapping of each path to its file name.
    """
    shortest: dict[str, str] = {}
    remaining, parts = list(names), 1
    while remaining:
        ends = {name: "-".join(name.strip("/").split("/")[-parts:]) for name in remaining}
        count = Counter([*ends.values(), *shortest.values()])
        longest = max(name.count("/") for name in remaining) < parts
        # "a/b" and "a-b" still collide when all parts are used; a hash separates them.
        found = {
            name: end if count[end] == 1 else _with_hash(name, end)
            for name, end in ends.items()
            if count[end] == 1 or longest
        }
        shortest |= found
        remaining = [name for name in remaining if name not in found]
        parts += 1
    return shortest


def _with_hash(name: str, end: str) -> str:
    stem, dot, suffix = end.rpartition(".")
    suffix_hash = hash_of(name)[:8]
    return f"{stem}-{suffix_hash}.{suffix}" if dot else f"{end}-{suffix_hash}"
