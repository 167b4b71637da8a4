"""Files that may lie in one folder only, wherever symbolic links lead."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantInputError

_AnyPath: TypeAlias = "Path | ObjectStoragePath"


def check_inside(path: _AnyPath, root: _AnyPath | None) -> None:
    """
    Make sure that a file lies below a folder, once all symbolic links are followed.

    :param path: The file.
    :param root: The folder; None allows every file.
    :raises AssistantInputError: The file lies elsewhere, or there is no such folder.
    """
    if root is None:
        return
    here, there = _local(path), _local(root)
    if there is not None and not there.is_dir():
        raise AssistantInputError(f"root {str(root)!r} is no folder; nothing was sent", field="root")
    if here is not None and there is not None:
        # On the disk, and so wherever a link leads; '..' is taken away as well.
        target = here.resolve()
        is_inside = target.is_relative_to(there.resolve())
        leads = f" leads to {str(target)!r}, which" if target != here.absolute() else ""
    else:
        is_inside = here is None and there is None and _is_below(path, root)
        leads = ""
    if not is_inside:
        raise AssistantInputError(
            f"file {str(path)!r}{leads} is not below root {str(root)!r}, and is not sent. Move the file, remove the "
            "link, or widen root",
            field="root",
        )


def _local(path: _AnyPath) -> Path | None:
    """Return where a path lies on this machine's disk, None for object storage."""
    # Asked in this order: on Airflow 3.1 an ObjectStoragePath is a Path too.
    if isinstance(path, ObjectStoragePath):
        return Path(path.path) if path.protocol in {"", "file", "local"} else None
    return path


def _is_below(path: _AnyPath, root: _AnyPath) -> bool:
    # Names in object storage are no folders, but some storages are a disk in the end.
    names, wanted = _names(path), _names(root)
    return ".." not in names and names[: len(wanted)] == wanted


def _names(path: _AnyPath) -> list[str]:
    kind = path.protocol if isinstance(path, ObjectStoragePath) else ""
    place = path.path if isinstance(path, ObjectStoragePath) else str(path)
    return [kind, *place.strip("/").split("/")]
