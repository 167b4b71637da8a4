"""Paths in local file systems and object storage, and the errors of reading them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantError,
    AssistantInputError,
    AssistantStorageError,
)
from airflow_provider_assistant.storage.folders import local_path

StoragePath: TypeAlias = "Path | ObjectStoragePath"


def storage_path(path: Any) -> StoragePath:
    """
    Return an ``ObjectStoragePath`` for an object storage URL, and a ``Path`` for a local path.

    :raises AssistantInputError: The value is neither a path nor a URL, or the URL has an unknown scheme.
    """
    if isinstance(path, ObjectStoragePath | Path):
        return path
    if isinstance(path, str):
        if not path.strip():
            raise AssistantInputError(f"the path of a file is empty ({path!r})", field="file")
        return _url(path) if "://" in path else Path(path)
    if isinstance(path, os.PathLike):
        return Path(path)
    raise AssistantInputError(
        f"a file must be a path or an object storage URL, not {type(path).__name__}", field="file"
    )


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


def usable_path(path: Any) -> StoragePath:
    """
    Return a path object, after checking that an installed package reads such URLs.

    The check looks up the connection of the URL, so do not call it in an event loop.

    :raises AssistantInputError: The value is neither a path nor a URL, or no installed package reads such URLs.
    """
    parsed_path = storage_path(path)
    if isinstance(parsed_path, ObjectStoragePath):
        try:
            # The property imports the package that reads such URLs.
            _ = parsed_path.fs
        except (ValueError, ImportError) as error:
            raise _unusable(path, error) from error
    return parsed_path


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


def check_folder(path: str | None, name: str) -> None:
    """
    Check that a folder exists or can exist, before anything is sent whose result must be written there.

    :param path: A path or URL. Only local folders are checked; None is accepted.
    :param name: Name of the parameter, for the message.
    :raises AssistantInputError: The path, or a part of it, is a file.
    """
    if path is None:
        return
    folder = local_path(usable_path(path))
    if folder is None:
        return
    for part in (folder, *folder.parents):
        if part.is_dir():
            return
        # A broken link exists, and no folder can be made there.
        if part.exists() or part.is_symlink():
            raise AssistantInputError(
                f"{name}: no folder can be at {str(path)!r}, because {str(part)!r} is not a folder",
                safe=NOTHING_SENT,
                field=name,
            )


def _url(url: str) -> ObjectStoragePath:
    try:
        return ObjectStoragePath(url)
    except (ValueError, ImportError) as error:
        raise _unusable(url, error) from error


def _unusable(path: Any, error: Exception) -> AssistantInputError:
    return AssistantInputError(f"{str(path)!r} cannot be used as a file: {error}", field="file")


@contextlib.contextmanager
def reading(path: StoragePath) -> Iterator[None]:
    """
    Convert the error of reading a file inside the ``with`` block into one of this package.

    :raises AssistantInputError: The file does not exist, or must not or cannot be read.
    :raises AssistantStorageError: The object storage cannot be reached, or fails.
    """
    try:
        yield
    except AssistantError:
        raise
    except Exception as error:
        happened = f"{str(path)!r} cannot be read: {error}"
        if isinstance(path, ObjectStoragePath) and _is_outage(error):
            todo = "Check that this machine reaches the storage, then run the task again."
            raise AssistantStorageError(happened, safe=NOTHING_SENT, todo=todo) from error
        if not isinstance(error, OSError | ValueError | EOFError | ImportError) and not _library_of(error):
            # A fault of this program.
            raise
        raise AssistantInputError(happened, field="source") from error


def _is_outage(error: Exception) -> bool:
    """Return whether an error of an object storage may be gone later."""
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError | ValueError):
        return False
    if isinstance(error, OSError):
        # Errors of decompression have no number.
        return error.errno is not None or isinstance(error, ConnectionError | TimeoutError)
    # Each client of an object storage raises different exceptions.
    is_client = bool(_library_of(error)) and _library_of(error) not in {"zlib", "_lzma", "pyarrow"}
    settings = ("Credential", "Auth", "Token", "Param", "Region", "Profile", "Config")
    return is_client and not any(word in type(error).__name__ for word in settings)


def _library_of(error: Exception) -> str:
    """Return the package that defines the class of an error; empty for Python's own classes."""
    return type(error).__module__.partition(".")[0].removeprefix("builtins")
