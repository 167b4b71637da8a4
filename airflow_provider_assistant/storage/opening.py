"""Paths in local file systems and object storage: which are usable, which lie inside a folder, and how to open them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast
from urllib.parse import unquote

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantError,
    AssistantInputError,
    AssistantStorageError,
)

StoragePath: TypeAlias = "Path | ObjectStoragePath"
# Libraries whose errors mean that the content is damaged, not that the storage fails.
_CONTENT_LIBRARIES = frozenset({"zlib", "_lzma", "pyarrow"})
_NOT_OUTAGES = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, ImportError)


def storage_path(path: Any) -> StoragePath:
    """
    Return an ``ObjectStoragePath`` for an object storage URL, and a ``Path`` for a local path.

    :raises AssistantInputError: The value is neither a path nor a URL, or the URL has an unknown scheme.
    """
    if isinstance(path, ObjectStoragePath | Path):
        return path
    if isinstance(path, os.PathLike):
        return Path(path)
    if not isinstance(path, str):
        raise AssistantInputError(
            f"a file must be a path or an object storage URL, not {type(path).__name__}", field="file"
        )
    if not path.strip():
        raise AssistantInputError(f"the path of a file is empty ({path!r})", field="file")
    if "://" not in path:
        return Path(path)
    with _usable(path):
        return ObjectStoragePath(path)


def usable_path(path: Any) -> StoragePath:
    """
    Return a path object, after checking that an installed package reads such URLs.

    The check looks up the connection of the URL, so do not call it in an event loop.

    :raises AssistantInputError: The value is neither a path nor a URL, or no installed package reads such URLs.
    """
    found = storage_path(path)
    if isinstance(found, ObjectStoragePath):
        with _usable(path):
            # The property imports the package that reads such URLs.
            _ = found.fs
    return found


@contextlib.contextmanager
def _usable(path: Any) -> Iterator[None]:
    try:
        yield
    except (ValueError, ImportError) as error:
        is_web = str(path).startswith(("http://", "https://"))
        raise AssistantInputError(
            f"{str(path)!r} cannot be used as a file: {error}",
            todo="Download it in a task before, or let a callable read it, if it is a source." if is_web else "",
            field="file",
        ) from error


def object_storage_path(path: str) -> ObjectStoragePath:
    """
    Return an ``ObjectStoragePath``, also for a local path; a relative one is relative to the working directory.

    With Airflow 3.1, an ``ObjectStoragePath`` of a relative path is one below the root.

    :param path: Local path or object storage URL.
    """
    found = ObjectStoragePath(path)
    is_relative = "://" not in path and not Path(path).is_absolute()
    if is_relative and found.path.startswith("/"):
        return ObjectStoragePath(str(Path(path).absolute()))
    return found


def local_path(path: StoragePath) -> Path | None:
    """Return a path in the local file system, or None for object storage."""
    # Check for ObjectStoragePath first: on Airflow 3.1 it is also a Path.
    if isinstance(path, ObjectStoragePath):
        return Path(path.path) if path.protocol in {"", "file", "local"} else None
    return path


def writable_file(path: Any, name: str) -> StoragePath:
    """
    Return the path of a file to write, after checking that it is not a folder and that its folder can exist.

    :param name: Name of the parameter, for the message.
    """
    file = usable_path(path)
    if file.is_dir():
        raise AssistantInputError(
            f"{name} {str(path)!r} is a folder; it must be the path of a file", safe=NOTHING_SENT, field=name
        )
    check_folder(str(file.parent), name)
    return file


def writable_parquet_file(path: Any, name: str) -> StoragePath:
    """Return the path of a Parquet file to write, as :func:`writable_file`, whose suffix names no other format."""
    file = writable_file(path, name)
    if file.suffix.lower() in {".csv", ".json", ".jsonl", ".tsv", ".txt", ".xlsx"}:
        raise AssistantInputError(
            f"{name} {str(path)!r} must not end in {file.suffix}: the file is a Parquet file",
            safe=NOTHING_SENT,
            todo="Let it end in .parquet.",
            field=name,
        )
    return file


def check_folder(path: str | None, name: str) -> None:
    """
    Check that a folder exists or can exist, before anything is sent whose result must be written there.

    :param path: A path or URL. Only local folders are checked; None is accepted.
    :param name: Name of the parameter, for the message.
    :raises AssistantInputError: The path, or a part of it, is a file.
    """
    folder = None if path is None else local_path(usable_path(path))
    if folder is None:
        return
    # A broken link exists, and no folder can be made there.
    part = next(part for part in (folder, *folder.parents) if part.exists() or part.is_symlink())
    if not part.is_dir():
        raise AssistantInputError(
            f"{name}: no folder can be at {str(path)!r}, because {str(part)!r} is not a folder",
            safe=NOTHING_SENT,
            field=name,
        )


@contextlib.contextmanager
def reading(path: StoragePath, field: str = "source") -> Iterator[None]:
    """
    Convert the error of reading a file inside the ``with`` block into one of this package.

    :param field: Name of the parameter that names the file, for the error.
    :raises AssistantInputError: The file does not exist, or must not or cannot be read.
    :raises AssistantStorageError: The object storage cannot be reached, or fails.
    """
    try:
        yield
    except AssistantError:
        raise
    except Exception as error:
        library = type(error).__module__.partition(".")[0].removeprefix("builtins")
        is_system_error = isinstance(error, OSError) and (error.errno is not None or isinstance(error, TimeoutError))
        is_storage_error = is_system_error or (library and library not in _CONTENT_LIBRARIES)
        if not library and not isinstance(error, OSError | ValueError | EOFError | ImportError):
            # A fault of this program.
            raise
        happened = f"{str(path)!r} cannot be read: {reason_unreadable(path, error)}"
        if local_path(path) is None and is_storage_error and not isinstance(error, _NOT_OUTAGES):
            todo = "Check the connection and that this machine reaches the storage, then run the task again."
            raise AssistantStorageError(happened, safe=NOTHING_SENT, todo=todo) from error
        raise AssistantInputError(happened, field=field) from error


def reason_unreadable(path: StoragePath, error: BaseException) -> str:
    """Return why a file cannot be read, for a message that names it."""
    local = local_path(path)
    if local is not None and is_broken_link(local):
        return f"it is a link to {str(local.readlink())!r}, which does not exist; repair or remove it"
    reason = getattr(error, "strerror", None)
    # The error may be about a folder below the path, and its text names that one.
    is_about_path = getattr(error, "filename", None) in {None, str(path)}
    return reason if reason and is_about_path else str(error)


def is_broken_link(path: Path) -> bool:
    """Return whether a path is a symbolic link that leads to nothing."""
    return path.is_symlink() and not path.exists()


def check_inside(path: StoragePath, allowed_root: str | StoragePath | None) -> None:
    """
    Check that a file is inside a folder after all symbolic links are resolved.

    :param allowed_root: None allows every file.
    :raises AssistantInputError: The file is outside the folder, or the folder does not exist.
    """
    if allowed_root is None:
        return
    root = storage_path(allowed_root)
    file, folder = local_path(path), local_path(root)
    if folder is not None and not folder.is_dir():
        raise AssistantInputError(
            f"allowed_root {str(allowed_root)!r} is not a folder", safe=NOTHING_SENT, field="allowed_root"
        )
    if file is not None and folder is not None:
        # Nothing can be read from a broken link. resolve() follows symbolic links and removes '..'.
        if not is_broken_link(file):
            _check_target(path, file.resolve(), folder)
    elif file is not None or folder is not None or not _is_below(path, root):
        raise _outside(path, allowed_root)


def open_inside(path: StoragePath, allowed_root: str | StoragePath | None) -> BinaryIO:
    """
    Open a file to read its bytes, if it is inside a folder.

    The opened file itself is inside: a link that is changed at the same moment leads to an error.

    :param allowed_root: None allows every file.
    :raises AssistantInputError: The file is outside the folder, or the folder does not exist.
    :raises OSError: The file cannot be opened.
    """
    check_inside(path, allowed_root)
    file = local_path(path)
    if allowed_root is None or file is None:
        return cast("BinaryIO", path.open("rb"))
    # Without O_NONBLOCK, opening a named pipe would wait for another process.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _check_descriptor(descriptor, path, Path(str(local_path(storage_path(allowed_root)))))
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check_descriptor(descriptor: int, path: StoragePath, folder: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    _check_target(path, _path_of(descriptor), folder)


def _path_of(descriptor: int) -> Path:
    """Return the path of an open file, after all links."""
    if sys.platform == "darwin":
        import fcntl

        name = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(name.rstrip(b"\0")))
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _check_target(path: StoragePath, target: Path, folder: Path) -> None:
    if not target.is_relative_to(folder.resolve()):
        is_link = target != Path(str(local_path(path))).absolute()
        raise _outside(path, folder, f" leads to {str(target)!r}, which" if is_link else "")


def _outside(path: StoragePath, allowed_root: Any, link_note: str = "") -> AssistantInputError:
    return AssistantInputError(
        f"file {str(path)!r}{link_note} is not below allowed_root {str(allowed_root)!r}",
        safe="It was not sent.",
        todo="Move the file, remove the link, or set allowed_root to a folder that contains the file.",
        field="allowed_root",
    )


def _is_below(path: Any, root: Any) -> bool:
    # Another connection may be one to another service, with other data in a bucket of the same name.
    if not path.samestore(root):
        return False
    names = path.path.strip("/").split("/")
    root_names = root.path.strip("/").split("/")
    # Object storage does not resolve '..', but some file systems behind it do, also if it is encoded.
    return names[: len(root_names)] == root_names and ".." not in {unquote(name) for name in names}
