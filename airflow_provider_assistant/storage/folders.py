"""List the files below a folder: links are followed, and a folder that cannot be read is an error."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.source_account import SourceAccount

if TYPE_CHECKING:
    from airflow_provider_assistant.storage.paths import StoragePath

# Of a glob: any number of folders.
ANY_FOLDERS = "**"


class FoundFile(NamedTuple):
    """
    A file below a folder.

    :param name: Its path below the folder.
    """

    name: str
    path: StoragePath


class _Entry(NamedTuple):
    name: str
    is_folder: bool
    is_link: bool = False
    is_broken: bool = False


def local_path(path: StoragePath) -> Path | None:
    """Return a path in the local file system, or None for object storage."""
    # Check for ObjectStoragePath first: on Airflow 3.1 it is also a Path.
    if isinstance(path, ObjectStoragePath):
        if path.protocol in {"", "file", "local"}:
            return Path(path.path)
        return None
    return path


def files_below(
    root: StoragePath,
    pattern: str,
    account: SourceAccount,
    *,
    reason_skipped: Callable[[str], str | None],
    check_link: Callable[[StoragePath], None],
) -> list[FoundFile]:
    """
    List the files below a folder that a pattern matches, sorted by name.

    A folder that is reached by several links, or by links and its path, is listed once, so that links may form loops.
    A pattern of a fixed number of folders ends in any case, and lists every path that it matches.

    :param pattern: Parts of a path with ``*``, ``?`` and ``[…]``; the part ``**`` is any number of folders.
    :param account: Counts the files that are skipped.
    :param reason_skipped: Function that returns why a file is skipped, by its name, or a folder, by its name and a
        slash; None if it is not.
    :param check_link: Raises an error for a linked folder that must not be read.
    :raises AssistantInputError: A folder cannot be read, or a link leads to nothing.
    """
    pattern_parts = pattern.split("/")
    if ANY_FOLDERS in pattern_parts and _lists_at_once(root):
        return _files_at_once(root, pattern_parts, account, reason_skipped)
    files: list[FoundFile] = []
    for name, entry in _entries_below(root, pattern_parts, reason_skipped, check_link):
        reason = reason_skipped(name)
        if reason:
            account.leave_out("file", reason, name, is_expected=True)
        elif entry.is_broken:
            raise AssistantInputError(
                f"{str(root / name)!r} is a link that leads to nothing",
                safe=NOTHING_SENT,
                todo="Repair or remove it.",
                field="source",
            )
        else:
            files.append(FoundFile(name, root / name))
    return sorted(files)


def _entries_below(
    root: StoragePath,
    pattern: Sequence[str],
    reason_skipped: Callable[[str], str | None],
    check_link: Callable[[StoragePath], None],
) -> Iterator[tuple[str, _Entry]]:
    """Yield name and entry of each file that a pattern matches."""
    real_folders: set[Path] = set()
    # Linked folders come last, so that the real path of a folder gives the name.
    folders, linked_folders = deque([""]), deque[str]()
    while folders or linked_folders:
        folder_name = folders.popleft() if folders else linked_folders.popleft()
        folder = root / folder_name if folder_name else root
        # A link may lead into a skipped folder, as those of git-sync do.
        is_skipped = reason_skipped(f"{folder_name}/") is not None
        if ANY_FOLDERS in pattern and not is_skipped and not _is_first(folder, real_folders):
            continue
        try:
            entries = list(_entries(folder))
        except AssistantInputError:
            if is_skipped:
                continue
            raise
        for entry in entries:
            name = f"{folder_name}/{entry.name}" if folder_name else entry.name
            is_match = _leads_to if entry.is_folder else _matches
            if not is_match(name.split("/"), pattern):
                continue
            if not entry.is_folder:
                yield name, entry
            elif not entry.is_link:
                folders.append(name)
            elif not reason_skipped(f"{name}/"):
                check_link(root / name)
                linked_folders.append(name)


def _is_first(folder: StoragePath, real_folders: set[Path]) -> bool:
    """Return whether a folder is not in a set by another path, and add it."""
    local_folder = local_path(folder)
    if local_folder is None:
        return True
    real_folder = local_folder.resolve()
    is_first = real_folder not in real_folders
    real_folders.add(real_folder)
    return is_first


def _entries(folder: StoragePath) -> Iterator[_Entry]:
    """Yield what is in a folder, except sockets and other special files."""
    local_folder = local_path(folder)
    try:
        if local_folder is None:
            yield from _object_entries(folder)
            return
        with os.scandir(local_folder) as entries:
            for entry in entries:
                is_folder, is_link = entry.is_dir(), entry.is_symlink()
                is_broken = is_link and not Path(entry.path).exists()
                if is_folder or is_broken or entry.is_file():
                    yield _Entry(entry.name, is_folder, is_link, is_broken)
    except OSError as error:
        raise _unreadable(folder, error) from error


def _object_entries(folder: Any) -> Iterator[_Entry]:
    folder_name = folder.path.strip("/")
    infos: list[dict[str, Any]] = []
    # A folder that has only the empty object for itself does not exist.
    with contextlib.suppress(FileNotFoundError):
        infos = folder.fs.ls(folder.path, detail=True)
    for info in infos:
        name = info["name"].strip("/")
        # Some object storage lists the folder itself.
        if name != folder_name:
            yield _Entry(name.rpartition("/")[2], info["type"] == "directory")


def _unreadable(folder: StoragePath, error: Exception) -> AssistantInputError:
    return AssistantInputError(
        f"folder {str(folder)!r} cannot be read: {error}",
        safe=NOTHING_SENT,
        todo="Give the worker the right to read it, or name a source without it.",
        field="source",
    )


def _lists_at_once(root: Any) -> bool:
    """Return whether an object storage lists all that is below a folder with few requests."""
    from fsspec.asyn import AsyncFileSystem

    if local_path(root) is not None:
        return False
    own_classes = [one for one in type(root.fs).mro() if one is not AsyncFileSystem]
    return any("_find" in vars(one) for one in own_classes)


def _files_at_once(
    root: Any, pattern: Sequence[str], account: SourceAccount, reason_skipped: Callable[[str], str | None]
) -> list[FoundFile]:
    try:
        paths = root.fs.find(root.path)
    except OSError as error:
        raise _unreadable(root, error) from error
    root_length = len(root.path.strip("/"))
    files: list[FoundFile] = []
    for path in paths:
        name = path.strip("/")[root_length:].lstrip("/")
        parts = name.split("/")
        # Some object storage has an empty object for a folder.
        if not name or path.endswith("/") or not _matches(parts, pattern):
            continue
        reason = reason_skipped(name)
        if reason:
            account.leave_out("file", reason, name, is_expected=True)
        else:
            files.append(FoundFile(name, root / name))
    return sorted(files)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a pattern matches the parts of a path."""
    if not pattern:
        return not parts
    if pattern[0] == ANY_FOLDERS:
        if len(pattern) == 1:
            return True
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _leads_to(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a pattern may match paths below a folder."""
    if not parts:
        return bool(pattern)
    if not pattern:
        return False
    return pattern[0] == ANY_FOLDERS or (fnmatchcase(parts[0], pattern[0]) and _leads_to(parts[1:], pattern[1:]))
