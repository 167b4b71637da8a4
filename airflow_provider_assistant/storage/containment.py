"""The check that files are inside an allowed folder after symbolic links are resolved."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantInputError

_AnyPath: TypeAlias = "Path | ObjectStoragePath"


def check_inside(path: _AnyPath, root: _AnyPath | None) -> None:
    """
    Check that a file is inside a folder after all symbolic links are resolved.

    :param path: Path or URL of the file.
    :param root: The folder. None allows every file.
    :raises AssistantInputError: The file is outside the folder, or the folder does not exist.
    """
    if root is None:
        return
    local_path, local_root = _local(path), _local(root)
    if local_root is not None and not local_root.is_dir():
        raise AssistantInputError(f"root {str(root)!r} is not a folder; nothing was sent", field="root")
    if local_path is not None and local_root is not None:
        # resolve() follows symbolic links and removes '..'.
        target = local_path.resolve()
        is_inside = target.is_relative_to(local_root.resolve())
        leads = f" leads to {str(target)!r}, which" if target != local_path.absolute() else ""
    else:
        is_inside = local_path is None and local_root is None and _is_below(path, root)
        leads = ""
    if not is_inside:
        raise AssistantInputError(
            f"file {str(path)!r}{leads} is not below root {str(root)!r}; it was not sent. Move the file, remove the "
            "link, or set root to a folder that contains the file",
            field="root",
        )


def _local(path: _AnyPath) -> Path | None:
    """Return a path in the local file system, or None for object storage."""
    # Check for ObjectStoragePath first: on Airflow 3.1 it is also a Path.
    if isinstance(path, ObjectStoragePath):
        return Path(path.path) if path.protocol in {"", "file", "local"} else None
    return path


def _is_below(path: _AnyPath, root: _AnyPath) -> bool:
    # Object storage does not resolve '..', but some file systems behind it do.
    names, wanted = _names(path), _names(root)
    return ".." not in names and names[: len(wanted)] == wanted


def _names(path: _AnyPath) -> list[str]:
    kind = path.protocol if isinstance(path, ObjectStoragePath) else ""
    location = path.path if isinstance(path, ObjectStoragePath) else str(path)
    return [kind, *location.strip("/").split("/")]
