"""Paths in local file systems and object storage: parsing, globs and folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantError,
    AssistantInputError,
    AssistantStorageError,
)
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.folders import ANY_FOLDERS, files_below, local_path

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
    Return the path of a file to write, after checking that it is not a folder.

    :param name: Name of the parameter, for the message.
    """
    file = usable_path(path)
    if file.is_dir():
        raise AssistantInputError(
            f"{name} {str(path)!r} is a folder; it must be the path of a file", safe=NOTHING_SENT, field=name
        )
    return file


def _url(url: str) -> ObjectStoragePath:
    try:
        return ObjectStoragePath(url)
    except (ValueError, ImportError) as error:
        raise _unusable(url, error) from error


def _unusable(path: Any, error: Exception) -> AssistantInputError:
    return AssistantInputError(f"{str(path)!r} cannot be used as a file: {error}", field="file")


def reason_hidden(name: str) -> str | None:
    """Return why a file or a folder is skipped, if its name begins with a dot or an underscore, as ``_SUCCESS``."""
    if any(part.startswith((".", "_")) for part in name.split("/")):
        return "has a name, or is in a folder, that begins with a dot or an underscore"
    return None


def storage_files(
    source: Any,
    allowed_root: str | None = None,
    *,
    allow_empty: bool = False,
    account: SourceAccount | None = None,
    reason_skipped: Callable[[str], str | None] = reason_hidden,
) -> list[tuple[str, StoragePath]]:
    """
    List the files of a path, object storage URL, glob or folder, in order.

    Linked folders are followed. A path with ``*``, ``?`` or ``[…]`` is a glob, unless a file has this name.

    :param allowed_root: Folder that must contain all files after symbolic links are resolved. None allows every folder.
    :param allow_empty: Whether folders and globs may match no files.
    :param account: Counts the files that are skipped. Default: None.
    :param reason_skipped: Function that returns why a file of a folder or glob is skipped, by its name; None if it is
        not. The name of a folder ends in a slash. Default: :func:`reason_hidden`.
    :return: Pairs of name and path, each file once. The name of a file in a folder or glob is its path relative to
        that folder, so that it does not change when the folder moves.
    :raises AssistantInputError: A file does not exist, there are no files, a file or a linked folder is outside
        ``allowed_root``, or a folder cannot be read.
    """
    if account is None:
        account = SourceAccount()
    files: list[tuple[str, StoragePath]] = []
    for path in map(usable_path, _as_list(source)):
        files += _files_of(path, account, reason_skipped, lambda link: check_inside(link, allowed_root))
    if not files and not allow_empty:
        raise AssistantInputError(
            f"there are no files in {source!r}",
            safe=NOTHING_SENT,
            todo="If it may be empty, set allow_empty=True.",
            field="source",
        )
    for _name, path in files:
        check_inside(path, allowed_root)
    # A file that is listed twice counts once, under its first name.
    file_by_path: dict[str, tuple[str, StoragePath]] = {}
    for name, path in files:
        file_by_path.setdefault(str(path), (name, path))
    return list(file_by_path.values())


def _as_list(source: Any) -> Sequence[Any]:
    """Return a source that is not a list as a list of one."""
    if isinstance(source, list | tuple):
        return source
    return [source]


def _files_of(
    path: StoragePath,
    account: SourceAccount,
    reason_skipped: Callable[[str], str | None],
    check_link: Callable[[StoragePath], None],
) -> Sequence[tuple[str, StoragePath]]:
    """Return name and path of the files of a folder, of a glob, or of a single file."""
    folder, pattern = path, ANY_FOLDERS
    with reading(path):
        if path.is_file():
            return [(str(path), path)]
        if not path.is_dir():
            folder, pattern = _glob_of(path)
            if not folder.is_dir():
                # A glob that matches nothing.
                return []
        return files_below(folder, pattern, account, reason_skipped=reason_skipped, check_link=check_link)


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


def _glob_of(path: StoragePath) -> tuple[StoragePath, str]:
    """Split a glob into folder and pattern."""
    _folder_name, pattern = _split_glob(str(path).rstrip("/"))
    if not pattern:
        raise AssistantInputError(f"file {str(path)!r} does not exist", field="source")
    folder = path
    for _ in pattern.split("/"):
        folder = folder.parent
    # A folder may have a name with such characters.
    name, _, rest = pattern.partition("/")
    while rest and (folder / name).is_dir():
        folder, pattern = folder / name, rest
        name, _, rest = pattern.partition("/")
    return folder, pattern


def files_in(source: Any) -> list[LineageDataset]:
    """
    Return the files that a source refers to, without accessing them, for lineage.

    :return: One entry per path, URL or folder; a glob is represented by its folder. Empty for rows and dataframes.
    """
    if isinstance(source, Mapping) and "row_groups" in source:
        # A shard of a Parquet file.
        source = source["path"]
    # A dict, to keep the order and drop repetitions.
    locations: dict[str, None] = {}
    for path in _as_list(source):
        if isinstance(path, str | Path | ObjectStoragePath):
            folder_or_file, _pattern = _split_glob(str(path))
            locations[folder_or_file] = None
    return [LineageDataset(location) for location in locations]


def _split_glob(path: str) -> tuple[str, str]:
    """Split a glob into folder and pattern; the pattern is empty if the path is not a glob."""
    parts = path.split("/")
    for number, part in enumerate(parts):
        if any(mark in part for mark in "*?["):
            folder = "/".join(parts[:number])
            pattern = "/".join(parts[number:])
            if not folder:
                folder = "/" if path.startswith("/") else "."
            return folder, pattern
    return path, ""


def check_inside(path: StoragePath, allowed_root: str | StoragePath | None) -> None:
    """
    Check that a file is inside a folder after all symbolic links are resolved.

    :param allowed_root: None allows every file.
    :raises AssistantInputError: The file is outside the folder, or the folder does not exist.
    """
    if allowed_root is None:
        return
    folder = storage_path(allowed_root)
    local_file = local_path(path)
    local_root = local_path(folder)
    if local_root is not None and not local_root.is_dir():
        raise AssistantInputError(
            f"allowed_root {str(allowed_root)!r} is not a folder",
            safe=NOTHING_SENT,
            field="allowed_root",
        )
    link_note = ""
    if local_file is not None and local_root is not None:
        # resolve() follows symbolic links and removes '..'.
        target = local_file.resolve()
        is_inside = target.is_relative_to(local_root.resolve())
        if target != local_file.absolute():
            link_note = f" leads to {str(target)!r}, which"
    elif local_file is None and local_root is None:
        is_inside = _is_within(path, folder)
    else:
        # One is local, the other in object storage.
        is_inside = False
    if not is_inside:
        raise AssistantInputError(
            f"file {str(path)!r}{link_note} is not below allowed_root {str(allowed_root)!r}",
            safe="It was not sent.",
            todo="Move the file, remove the link, or set allowed_root to a folder that contains the file.",
            field="allowed_root",
        )


def _is_within(path: StoragePath, root: StoragePath) -> bool:
    # Object storage does not resolve '..', but some file systems behind it do.
    path_segments = _segments(path)
    root_segments = _segments(root)
    starts_with_root = path_segments[: len(root_segments)] == root_segments
    return starts_with_root and ".." not in path_segments


def _segments(path: StoragePath) -> list[str]:
    """Return the protocol, such as ``s3``, and the names of the path."""
    if isinstance(path, ObjectStoragePath):
        return [path.protocol, *path.path.strip("/").split("/")]
    return ["", *str(path).strip("/").split("/")]
