"""A disk that is full after some bytes."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any


class FullDisk:
    """A path on a disk that has room for some bytes."""

    def __init__(self, path: Path, size: int) -> None:
        self.parent, self._path, self._size = path.parent, path, size

    def __str__(self) -> str:
        return str(self._path)

    def __fspath__(self) -> str:
        return str(self._path)

    def open(self, mode: str) -> Any:
        """Open the file."""
        return _FullFile(self._path.open(mode), self._size)

    def unlink(self, *, missing_ok: bool) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=missing_ok)


class _FullFile:
    def __init__(self, file: Any, left: int) -> None:
        self._file, self._left = file, left

    def write(self, content: Any) -> int:
        self._left -= len(content)
        if self._left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
