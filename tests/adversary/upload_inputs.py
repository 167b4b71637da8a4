"""Folders of files, and how they change while they are uploaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.loading.fingerprints import RowFingerprint
from airflow_provider_assistant.storage.source_files import storage_files
from airflow_provider_assistant.storage.uploads import as_upload

# Larger than the buffer of an open file, so that a reader notices when the file shrinks.
SIZE = 20_000


@dataclass(frozen=True)
class File:
    """
    One file.

    :param name: Path below the folder.
    :param content: Number that makes the content unique; 0 for an empty file.
    """

    name: str
    content: int = 1

    @property
    def octets(self) -> bytes:
        """The content of the file."""
        return (b"%d " % self.content * SIZE)[:SIZE] if self.content else b""

    @property
    def is_loaded(self) -> bool:
        """Whether the file must become a document: it is not hidden, not empty, and its name is valid text."""
        is_text = not any("\ud800" <= char <= "\udfff" for char in self.name)
        return bool(self.content) and is_text and not self.is_hidden

    @property
    def is_hidden(self) -> bool:
        """Whether a load skips the file."""
        return any(part.startswith((".", "_")) for part in self.name.split("/"))


@dataclass(frozen=True)
class Change:
    """
    A file that changes during a try.

    :param file: Number of the file in the folder.
    :param how: Kind of the change.
    :param request: Request, numbered from 0, in the middle of which the file changes; -1 for after the preflight.
    """

    file: int
    how: Literal["grows", "shrinks", "vanishes", "becomes empty", "becomes a folder"]
    request: int = -1


class Folder:
    """
    Files on the disk.

    :param path: Path of the folder.
    :param files: The files.
    """

    def __init__(self, path: Path, files: Sequence[File]) -> None:
        self._path, self._files = path, files
        self.restore()

    def restore(self) -> None:
        """Write all files with their original content."""
        self._path.mkdir(exist_ok=True)
        for file in self._files:
            path = self._of(file)
            if path.is_dir():
                path.rmdir()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.octets)

    def change(self, change: Change) -> None:
        """Change a file, if it exists."""
        if not self._files:
            return
        path = self._of(self._files[change.file % len(self._files)])
        match change.how:
            case "grows" if path.is_file():
                with path.open("ab") as opened:
                    opened.write(b"more")
            case "shrinks" if path.is_file():
                os.truncate(path, SIZE // 4)
            case "becomes empty" if path.is_file():
                os.truncate(path, 0)
            case "vanishes" if path.is_file():
                path.unlink()
            case "becomes a folder" if path.is_file():
                path.unlink()
                path.mkdir()

    def rows(self, changes: Sequence[Change], *, allow_empty: bool) -> FileRows:
        """Return the files as rows of a load, some of which change after the preflight."""
        return _ChangingRows(self, changes, storage_files(str(self._path), allow_empty=allow_empty), allow_empty)

    def _of(self, file: File) -> Path:
        return self._path / os.fsdecode(os.fsencode(file.name))


class _ChangingRows(FileRows):
    def __init__(self, folder: Folder, changes: Sequence[Change], files: Any, allow_empty: bool) -> None:
        super().__init__(
            files,
            upload=as_upload,
            call=lambda upload: endpoints.upload_document("site", upload),
            allow_empty=allow_empty,
        )
        self._folder, self._changes = folder, changes

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        yield from super().fingerprints()
        for change in self._changes:
            if change.request < 0:
                self._folder.change(change)
