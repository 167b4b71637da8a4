"""Paths in local file systems and object storage: parsing, globs and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.observability.lineage import LineageDataset

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
    found = storage_path(path)
    if isinstance(found, ObjectStoragePath):
        try:
            _ = found.fs
        except (ValueError, ImportError) as error:
            raise _unusable(path, error) from error
    return found


def writable_file(path: Any, name: str) -> StoragePath:
    """
    Return the path of a file to write, after checking that it is not a folder.

    :param name: Name of the parameter, for the message.
    """
    found = usable_path(path)
    if found.is_dir():
        raise AssistantInputError(
            f"{name} {str(path)!r} is a folder; it must be the path of a file", safe=NOTHING_SENT, field=name
        )
    return found


def _url(url: str) -> ObjectStoragePath:
    try:
        return ObjectStoragePath(url)
    except (ValueError, ImportError) as error:
        raise _unusable(url, error) from error


def _unusable(path: Any, error: Exception) -> AssistantInputError:
    return AssistantInputError(f"{str(path)!r} cannot be used as a file: {error}", field="file")


def storage_files(
    source: Any, allowed_root: str | None = None, *, allow_empty: bool = False
) -> list[tuple[str, StoragePath]]:
    """
    List the files of a path, object storage URL, glob or folder, in order.

    Files whose names start with a dot or an underscore, such as ``_SUCCESS``, are skipped.

    :param allowed_root: Folder that must contain all files after symbolic links are resolved. None allows every folder.
    :param allow_empty: Whether folders and globs may match no files.
    :return: Pairs of name and path, each file once. The name of a file in a folder or glob is its path relative to
        that folder, so that it does not change when the folder moves.
    :raises AssistantInputError: A file does not exist, there are no files, or a file is outside ``allowed_root``.
    """
    found: list[tuple[str, StoragePath]] = []
    for path in map(usable_path, source if isinstance(source, list | tuple) else [source]):
        if path.is_dir():
            found += _below(path, path.rglob("*"))
        elif (split := _split_glob(str(path)))[1]:
            folder = storage_path(split[0])
            found += _below(folder, folder.glob(split[1]))
        elif path.is_file():
            found.append((str(path), path))
        else:
            raise AssistantInputError(f"file {str(path)!r} does not exist", field="source")
    if not found and not allow_empty:
        raise AssistantInputError(
            f"there are no files in {source!r}",
            safe=NOTHING_SENT,
            todo="If it may be empty, set allow_empty=True.",
            field="source",
        )
    for _, path in found:
        check_inside(path, allowed_root)
    # A file that is listed twice counts once, under its first name.
    once: dict[str, tuple[str, StoragePath]] = {}
    for name, path in found:
        once.setdefault(str(path), (name, path))
    return list(once.values())


def files_in(source: Any) -> list[LineageDataset]:
    """
    Return the files that a source refers to, without accessing them, for lineage.

    :return: One entry per path, URL or folder; a glob is represented by its folder. Empty for rows and dataframes.
    """
    if isinstance(source, Mapping) and "row_groups" in source:
        source = source["path"]
    paths = source if isinstance(source, list | tuple) else [source]
    named = (str(path) for path in paths if isinstance(path, str | Path | ObjectStoragePath))
    return [LineageDataset(uri) for uri in dict.fromkeys(_split_glob(path)[0] for path in named)]


def _split_glob(path: str) -> tuple[str, str]:
    """Split a glob into folder and pattern; the pattern is empty if the path is not a glob."""
    parts = path.split("/")
    first = next((number for number, part in enumerate(parts) if "*" in part or "?" in part), None)
    if first is None:
        return path, ""
    return "/".join(parts[:first]) or ("/" if path.startswith("/") else "."), "/".join(parts[first:])


def _below(root: StoragePath, entries: Iterable[StoragePath]) -> list[tuple[str, StoragePath]]:
    """Return name and path of the files among the entries, sorted by name, without hidden files."""
    named = ((_name_below(root, entry), entry) for entry in entries if entry.is_file())
    return sorted(
        ((name, entry) for name, entry in named if not any(part.startswith((".", "_")) for part in name.split("/"))),
        key=lambda found: found[0],
    )


def _name_below(root: StoragePath, entry: StoragePath) -> str:
    # Check for ObjectStoragePath first: on Airflow 3.1 it is also a Path, and its relative_to returns the whole URL.
    if isinstance(root, ObjectStoragePath):
        return str(entry)[len(str(root)) :].lstrip("/")
    return str(entry.relative_to(root))


def check_inside(path: StoragePath, allowed_root: str | StoragePath | None) -> None:
    """
    Check that a file is inside a folder after all symbolic links are resolved.

    :param allowed_root: None allows every file.
    :raises AssistantInputError: The file is outside the folder, or the folder does not exist.
    """
    if allowed_root is None:
        return
    folder = storage_path(allowed_root)
    local_path, local_root = _local(path), _local(folder)
    if local_root is not None and not local_root.is_dir():
        raise AssistantInputError(
            f"allowed_root {str(allowed_root)!r} is not a folder",
            safe=NOTHING_SENT,
            field="allowed_root",
        )
    if local_path is not None and local_root is not None:
        # resolve() follows symbolic links and removes '..'.
        target = local_path.resolve()
        is_inside = target.is_relative_to(local_root.resolve())
        leads = f" leads to {str(target)!r}, which" if target != local_path.absolute() else ""
    else:
        is_inside = local_path is None and local_root is None and _is_within(path, folder)
        leads = ""
    if not is_inside:
        raise AssistantInputError(
            f"file {str(path)!r}{leads} is not below allowed_root {str(allowed_root)!r}",
            safe="It was not sent.",
            todo="Move the file, remove the link, or set allowed_root to a folder that contains the file.",
            field="allowed_root",
        )


def _local(path: StoragePath) -> Path | None:
    """Return a path in the local file system, or None for object storage."""
    # Check for ObjectStoragePath first: on Airflow 3.1 it is also a Path.
    if isinstance(path, ObjectStoragePath):
        return Path(path.path) if path.protocol in {"", "file", "local"} else None
    return path


def _is_within(path: StoragePath, root: StoragePath) -> bool:
    # Object storage does not resolve '..', but some file systems behind it do.
    names, wanted = _segments(path), _segments(root)
    return ".." not in names and names[: len(wanted)] == wanted


def _segments(path: StoragePath) -> list[str]:
    kind = path.protocol if isinstance(path, ObjectStoragePath) else ""
    location = path.path if isinstance(path, ObjectStoragePath) else str(path)
    return [kind, *location.strip("/").split("/")]
