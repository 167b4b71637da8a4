"""Files that must be inside an allowed folder: the check of a path, and the check of the file that is opened."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.storage.folders import local_path
from airflow_provider_assistant.storage.paths import StoragePath, storage_path

NOT_SENT = "It was not sent."
# A folder that is passed on the way to a file; where there is O_PATH, the right to list it is not needed.
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)
# Without O_NONBLOCK, opening a named pipe would wait for another process.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class _RealPath(NamedTuple):
    """The real path of a file: the real path of the allowed folder, and the names below it."""

    root: Path
    names: tuple[str, ...]


def check_inside(path: StoragePath, allowed_root: str | StoragePath | None) -> None:
    """
    Check that a file is inside a folder after all symbolic links are resolved.

    :param allowed_root: None allows every file.
    :raises AssistantInputError: The file is outside the folder, or the folder does not exist.
    """
    if allowed_root is not None:
        _real_path_inside(path, allowed_root)


def open_inside(path: StoragePath, allowed_root: str | StoragePath | None) -> BinaryIO:
    """
    Open a file to read its bytes, if it is inside a folder.

    The opened file itself is inside: links and folders that are changed at the same moment cannot lead elsewhere.

    :param allowed_root: None allows every file.
    :raises AssistantInputError: The file is outside the folder, or the folder does not exist.
    :raises OSError: The file cannot be opened.
    """
    real_path = None if allowed_root is None else _real_path_inside(path, allowed_root)
    if real_path is None:
        return cast("BinaryIO", path.open("rb"))
    try:
        descriptor = _opened_without_links(real_path)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
            raise
        # The real path has no links, so this one is new.
        happened = f"file {str(path)!r} was replaced by a link while it was opened"
        raise AssistantInputError(happened, safe=NOT_SENT, todo="Run the task again.", field="allowed_root") from error
    return os.fdopen(descriptor, "rb")


def _opened_without_links(path: _RealPath) -> int:
    """Open a file from its allowed folder on, one name after the other, without following a link."""
    *folder_names, file_name = path.names
    folder = os.open(path.root, _FOLDER)
    try:
        for name in folder_names:
            next_folder = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = next_folder
        descriptor = os.open(file_name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def _real_path_inside(path: StoragePath, allowed_root: str | StoragePath) -> _RealPath | None:
    """
    Check that a file is inside a folder.

    :return: The real path of a local file; None in object storage.
    """
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
        real_root = local_root.resolve()
        if target.is_relative_to(real_root):
            return _RealPath(real_root, target.relative_to(real_root).parts)
        if target != local_file.absolute():
            link_note = f" leads to {str(target)!r}, which"
    elif local_file is None and local_root is None and _is_within(path, folder):
        return None
    raise AssistantInputError(
        f"file {str(path)!r}{link_note} is not below allowed_root {str(allowed_root)!r}",
        safe=NOT_SENT,
        todo="Move the file, remove the link, or set allowed_root to a folder that contains the file.",
        field="allowed_root",
    )


def _is_within(path: Any, root: Any) -> bool:
    # Another connection may be one to another service, with other data in a bucket of the same name.
    if not path.samestore(root):
        return False
    names = path.path.strip("/").split("/")
    root_names = root.path.strip("/").split("/")
    if names[: len(root_names)] != root_names:
        return False
    # Object storage does not resolve '..', but some file systems behind it do, also if it is encoded.
    return ".." not in {unquote(name) for name in names}
