"""List the files of a source: a path, a glob, a folder, or several of these."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.opening import (
    StoragePath,
    check_inside,
    is_broken_link,
    local_path,
    reading,
    usable_path,
)


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

    Linked folders are followed. A broken link is listed, and opening it fails.

    A path with ``*``, ``?`` or ``[…]`` is a glob, unless a file or a folder has this name.

    :param allowed_root: Folder that must contain all files after symbolic links are resolved. None allows every folder.
    :param allow_empty: Whether folders and globs may match no files.
    :param account: Counts the files and folders that are skipped. Default: None.
    :param reason_skipped: Function that returns why a file of a folder or glob is skipped, by its name; None if it is
        not. The name of a folder ends in a slash. Default: :func:`reason_hidden`.
    :return: Pairs of name and path, each file once. The name of a file in a folder or glob is its path relative to
        that folder, so that it does not change when the folder moves.
    :raises AssistantInputError: A file does not exist, there are no files, a file or a linked folder is outside
        ``allowed_root``, or a folder cannot be read.
    """
    account = account or SourceAccount()
    # A file that is listed twice counts once, under its first name.
    files: dict[str, tuple[str, StoragePath]] = {}
    for path in map(usable_path, listed_paths(source)):
        with reading(path):
            for name, file in _files_of(path, allowed_root, account, reason_skipped):
                files.setdefault(str(file), (name, file))
    if not files and not allow_empty:
        raise AssistantInputError(
            f"there are no files in {source!r}",
            safe=NOTHING_SENT,
            todo="If it may be empty, set allow_empty=True.",
            field="source",
        )
    for _name, path in files.values():
        check_inside(path, allowed_root)
    return list(files.values())


def listed_paths(source: Any) -> list[Any]:
    """
    Return the paths of a source: one, a list, or the output of a mapped task.

    Each task of a mapped task may return a list.
    """
    if not isinstance(source, Sequence) or isinstance(source, str | bytes):
        return [source]
    paths: list[Any] = []
    for part in source:
        paths += listed_paths(part)
    return paths


def split_glob(path: str) -> tuple[str, str]:
    """Split a glob into folder and pattern; the pattern is empty if the path is not a glob."""
    parts = path.split("/")
    for number, part in enumerate(parts):
        if any(mark in part for mark in "*?["):
            folder = "/".join(parts[:number]) or ("/" if path.startswith("/") else ".")
            return folder, "/".join(parts[number:])
    return path, ""


def _files_of(
    path: StoragePath, allowed_root: str | None, account: SourceAccount, reason_skipped: Callable[[str], str | None]
) -> list[tuple[str, StoragePath]]:
    """Return name and path of the files of a folder, of a glob, or of a single file."""
    from fsspec.utils import glob_translate

    if path.is_file():
        return [(str(path), path)]
    folder, pattern = path, "**"
    if not path.is_dir():
        _, pattern = split_glob(str(path).rstrip("/"))
        if not pattern:
            raise AssistantInputError(f"file {str(path)!r} does not exist", field="source")
        for _ in pattern.split("/"):
            folder = folder.parent
        if not folder.is_dir():
            # A glob that matches nothing.
            return []
    is_match = re.compile(glob_translate(pattern)).match
    files = []
    for name in _names_below(folder, pattern.split("/"), allowed_root, account, reason_skipped):
        reason = reason_skipped(name)
        if not is_match(name):
            continue
        if reason:
            account.leave_out("file", reason, name, is_expected=True)
        elif _is_file(folder / name):
            files.append((name, folder / name))
    return sorted(files)


def _names_below(
    folder: StoragePath,
    pattern: Sequence[str],
    allowed_root: str | None,
    account: SourceAccount,
    reason_skipped: Callable[[str], str | None],
) -> Iterator[str]:
    """Yield the paths of the files below a folder, but not all of those that are skipped or cannot match."""
    root = local_path(folder)
    if root is None:
        yield from _object_names(folder, pattern)
        return
    real_folders: set[str] = set()
    # Links are followed after all that is found by its real path, which then gives the name. Links may form loops.
    starts = deque([""])
    while starts:
        for path, folders, files in os.walk(root / starts.popleft(), onerror=_refuse):
            prefix = "".join(f"{parent}/" for parent in Path(path).relative_to(root).parts)
            real_folder = os.path.realpath(path)
            is_first = real_folder not in real_folders
            real_folders.add(real_folder)
            # os.walk() goes into the folders that stay in its list.
            below = [prefix + name for name in folders if is_first and _may_lead(prefix + name, pattern)]
            folders.clear()
            for name in below:
                reason = reason_skipped(f"{name}/")
                if reason:
                    account.leave_out("folder", reason, f"{name}/", is_expected=True)
                elif (root / name).is_symlink():
                    check_inside(root / name, allowed_root)
                    starts.append(name)
                else:
                    folders.append(name.removeprefix(prefix))
            if is_first:
                yield from (prefix + name for name in files)


def _may_lead(folder: str, pattern: Sequence[str]) -> bool:
    """Return whether a pattern may match files below a folder."""
    names = folder.split("/")
    for name, part in zip(names, pattern, strict=False):
        if part == "**":
            return True
        if not fnmatchcase(name, part):
            return False
    return len(names) < len(pattern)


def _is_file(path: StoragePath) -> bool:
    """Return whether a path of a listing is a file or a broken link, and not a socket or another special file."""
    local = local_path(path)
    return local is None or local.is_file() or is_broken_link(local)


def _object_names(folder: Any, pattern: Sequence[str]) -> Iterator[str]:
    classes = [kind for kind in type(folder.fs).__mro__ if kind.__name__ != "AsyncFileSystem"]
    if any("_find" in vars(kind) for kind in classes):
        # Object storage lists all at once.
        options = {} if "**" in pattern else {"maxdepth": len(pattern)}
        start = len(folder.path.strip("/"))
        for path in folder.fs.find(folder.path, **options):
            name = path.strip("/")[start:].lstrip("/")
            # Some object storage has an empty object for a folder.
            if name and not path.endswith("/"):
                yield name
        return
    # Other file systems are listed folder by folder; fsspec itself leaves out those that cannot be read.
    prefixes = deque([""])
    while prefixes:
        prefix = prefixes.popleft()
        path = f"{folder.path}/{prefix}".strip("/")
        for entry in folder.fs.ls(f"/{path}", detail=True):
            name = prefix + entry["name"].rstrip("/").rpartition("/")[2]
            if entry["name"].strip("/") == path:
                # Some list the folder itself.
                continue
            if entry["type"] != "directory":
                yield name
            elif _may_lead(name, pattern):
                prefixes.append(f"{name}/")


def _refuse(error: OSError) -> None:
    """Raise the error of a folder that cannot be read, which os.walk() leaves out. One that is deleted has no files."""
    if not isinstance(error, FileNotFoundError):
        raise error
