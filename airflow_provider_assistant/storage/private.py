"""
Create files and folders that only their owner may read, unless the umask was set to share them.

The files of this package hold questions, answers and ids of sessions. The umask 022 is the default of most systems, so
it says nothing about who may read them, and counts as 077 here. Any other umask was set by a person, and is kept: with
002 or 007, the group may read and write; with 027, the group may read.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from airflow_provider_assistant.storage.opening import StoragePath, local_path

DEFAULT_UMASK = 0o022
# Where Linux shows the umask of a process.
STATUS = "/proc/self/status"


def open_to_write(path: StoragePath) -> BinaryIO:
    """Open a file to write bytes, as ``open("wb")`` does. A file that exists keeps its mode."""
    local = local_path(path)
    if local is not None:
        create_private(local)
    return cast("BinaryIO", path.open("wb"))


def create_private(file: Path) -> None:
    """Create an empty file if there is none."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 & ~_denied()))


def make_folder(path: StoragePath) -> None:
    """Create a folder and those above it, if they do not exist."""
    local = local_path(path)
    if local is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    missing = [folder for folder in local.parents if not folder.is_dir()]
    for folder in [*reversed(missing), local]:
        folder.mkdir(mode=0o777 & ~_denied(), exist_ok=True)


@contextlib.contextmanager
def private_umask() -> Iterator[None]:
    """
    Set the umask for a ``with`` block, for a library that creates files by itself.

    The umask belongs to the process, so other threads create private files meanwhile, too.
    """
    before = os.umask(_denied())
    try:
        yield
    finally:
        os.umask(before)


def _denied() -> int:
    """Return the bits of a mode that a new file must not have."""
    try:
        with open(STATUS, encoding="utf-8") as status:  # noqa: PTH123 (tests replace Path.open)
            umask = int(re.findall(r"^Umask:\s*([0-7]+)", status.read(), re.MULTILINE)[0], 8)
    except (OSError, IndexError):
        # Others show it only if it is changed for a moment.
        umask = os.umask(0o077)
        os.umask(umask)
    return 0o077 if umask == DEFAULT_UMASK else umask
