"""List the files of a source: a path, a glob, a folder, or several of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.allowed_root import check_inside
from airflow_provider_assistant.storage.folders import ANY_FOLDERS, files_below
from airflow_provider_assistant.storage.paths import StoragePath, reading, usable_path


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
    for path in map(usable_path, listed_paths(source)):
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
    # A dict, to keep the order and drop repetitions.
    locations: dict[str, None] = {}
    for path in listed_paths(source):
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
