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
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.allowed_root import open_inside
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.texts import counted, storable

READ_SIZE = 1 << 20


class FileRows:
    """
    Read files to upload; each file is one document.

    :param files: Pairs of name and path. The name identifies the file.
    :param upload: Returns the upload for a path and the file name that the service sees.
    :param allow_empty: Whether the list may be empty.
    :param account: What was left out when the files were listed. Default: None, nothing.
    :param allowed_root: Folder that the files must be inside when they are read. Default: None, every folder.
    :raises AssistantInputError: Two files have the same name.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, StoragePath]],
        *,
        upload: Callable[[StoragePath, str], Upload],
        call: Callable[[Upload], Call[Any]],
        allow_empty: bool = False,
        account: SourceAccount | None = None,
        allowed_root: str | None = None,
    ) -> None:
        _check_names(files)
        self.account = account or SourceAccount()
        self._files = files
        self._sent_as = shortest_names([name for name, _ in files])
        self._upload = upload
        self._call = call
        self._allow_empty = allow_empty
        self._allowed_root = allowed_root
        # By the number of the file, from 1.
        self._fingerprinted: dict[int, FingerprintedFile] = {}

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield the fingerprints of all files, reading each file once.

        :return: One list per file.
        :raises AssistantInputError: There are no files and ``allow_empty`` is False.
        """
        check_count(len(self._files), self._allow_empty)
        for number, (name, path) in enumerate(self._files, start=1):
            file = fingerprint_file(name, path, self._allowed_root)
            self._fingerprinted[number] = file
            yield [file.fingerprint]

    def prepared(self, is_wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the files with the wanted numbers in their order, each with its call.

        :param is_wanted: Returns whether a file number, from 1, is wanted.
        """
        for number, (name, path) in enumerate(self._files, start=1):
            if is_wanted(number):
                yield self._prepare(number, name, path)

    def _prepare(self, number: int, name: str, path: StoragePath) -> PreparedRow:
        file = self._fingerprinted[number]
        row = PreparedRow(
            number=number,
            fingerprint=file.fingerprint,
            readable_key=short_label(storable(name)),
            place=f"file {name!r}",
        )
        if file.problem:
            return replace(row, problem=file.problem)
        try:
            upload = self._upload(path, self._sent_as[name])
        except AssistantInputError as error:
            return replace(row, problem=str(error))
        # The same upload, but it fails if the file has changed since the preflight.
        checked_upload = replace(upload, open=lambda: _opened(upload, path, file.size))
        return replace(row, call=self._call(checked_upload))


@contextlib.contextmanager
def _opened(upload: Upload, path: StoragePath, size: int) -> Iterator[BinaryIO]:
    """Open a file; raise an error if its size has changed since the preflight."""
    with upload.open() as file:
        if file.seekable():
            current_size = file.seek(0, os.SEEK_END)
            if current_size != size:
                raise _changed_error(path, f"from {size} to {current_size} bytes")
            file.seek(0)
        yield cast("BinaryIO", _FixedSizeFile(file, path, size))


class _FixedSizeFile(io.RawIOBase):
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
        start_by_whence = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        start = start_by_whence[whence]
        self._position = self._file.seek(start + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes and return their number; 0 at the end."""
        view = memoryview(buffer).cast("B")
        remaining_size = self._size - self._position
        wanted_size = min(len(view), remaining_size)
        try:
            piece = self._file.read(wanted_size)
        except OSError as error:
            raise AssistantInputError(f"file {str(self._path)!r} cannot be read: {error}", field="file") from error
        if wanted_size > 0 and not piece:
            raise _changed_error(self._path, f"from {self._size} to {self._position} bytes")
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


def _changed_error(path: StoragePath, how: str) -> AssistantInputError:
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


def fingerprint_file(name: str, path: StoragePath, allowed_root: str | None = None) -> FingerprintedFile:
    """
    Read a file and return its hashes.

    :param name: Name that identifies the file.
    :param allowed_root: Folder that the file must be inside. Default: None, every folder.
    :raises AssistantInputError: The file is outside ``allowed_root``.
    """
    key = hash_of(encoded([name]))
    content = hashlib.blake2b(digest_size=16)
    size = 0
    try:
        with open_inside(path, allowed_root) as file:
            while piece := file.read(READ_SIZE):
                content.update(piece)
                size += len(piece)
    except OSError as error:
        # A placeholder that equals no content hash.
        placeholder = hash_of(encoded([name, None]))
        problem = f"file {str(path)!r} cannot be read: {error}"
        return FingerprintedFile(RowFingerprint(key, placeholder), problem=problem)
    return FingerprintedFile(RowFingerprint(key, content.hexdigest()), size)


def _check_names(files: Sequence[tuple[str, StoragePath]]) -> None:
    paths_by_name: dict[str, list[str]] = defaultdict(list)
    for name, path in files:
        paths_by_name[name].append(str(path))
    conflicts = [paths for paths in paths_by_name.values() if len(paths) > 1]
    if conflicts:
        example = " and ".join(map(repr, conflicts[0]))
        raise AssistantInputError(
            f"{counted(len(conflicts), 'file name')} used more than once, such as {example}: a file is "
            "identified by its path below the given folder",
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
    file_name_by_path: dict[str, str] = {}
    remaining_paths = list(names)
    parts = 1
    while remaining_paths:
        # One more part of each path per round.
        candidates = {path: _last_parts(path, parts) for path in remaining_paths}
        uses = Counter([*candidates.values(), *file_name_by_path.values()])
        has_all_parts = max(path.count("/") for path in remaining_paths) < parts
        for path, file_name in candidates.items():
            if uses[file_name] == 1:
                file_name_by_path[path] = file_name
            elif has_all_parts:
                # "a/b" and "a-b" still collide when all parts are used; a hash separates them.
                file_name_by_path[path] = _with_hash(path, file_name)
        remaining_paths = [path for path in remaining_paths if path not in file_name_by_path]
        parts += 1
    return file_name_by_path


def _last_parts(path: str, count: int) -> str:
    """Return the last parts of a path, such as ``b-c.pdf`` for two parts of ``a/b/c.pdf``."""
    parts = path.strip("/").split("/")
    return "-".join(parts[-count:])


def _with_hash(path: str, file_name: str) -> str:
    """Return the file name with a hash of the path before its suffix."""
    path_hash = hash_of(path)[:8]
    stem, dot, suffix = file_name.rpartition(".")
    if dot:
        return f"{stem}-{path_hash}.{suffix}"
    return f"{file_name}-{path_hash}"
