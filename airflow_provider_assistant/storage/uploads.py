"""Turn a path, an object storage URL or an open file into an upload."""

from __future__ import annotations

import contextlib
import mimetypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import PurePath
from typing import BinaryIO, TypeAlias, cast

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.api.call import Upload
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.opening import StoragePath, check_inside, open_inside, usable_path
from airflow_provider_assistant.texts import is_encodable

FileSource: TypeAlias = "str | os.PathLike[str] | ObjectStoragePath | BinaryIO"


def as_upload(
    file: FileSource,
    filename: str | None = None,
    content_type: str | None = None,
    allowed_root: str | None = None,
) -> Upload:
    """
    Check a file and return how to upload it; the content is not read yet.

    :param file: Local path, URL of Airflow's object storage (``s3://…``), ObjectStoragePath, or open binary file. A
        seekable open file is sent from its beginning, any other from its current position; it is not closed.
    :param filename: File name to send. Default: the file's own name.
    :param content_type: MIME type to send. Default: guessed from the file name, or else
        ``application/octet-stream``.
    :param allowed_root: Folder that a path must be inside, also each time that it is opened. Default: None, every file
        may be sent.
    :return: The upload; it opens a path once per attempt.
    :raises AssistantInputError: The file is missing, empty, unreadable or outside ``allowed_root``, its name is not
        valid UTF-8, or an open file has no name or is in text mode.
    """
    if hasattr(file, "read"):
        return _from_open_file(cast("BinaryIO", file), filename, content_type)
    path = usable_path(file)
    name = _sendable(filename or path.name)
    check_inside(path, allowed_root)
    _check_readable(path)
    return Upload(lambda: _opened(path, allowed_root), name, _type(name, content_type))


def _check_readable(path: StoragePath) -> None:
    try:
        is_file = path.is_file()
        size = path.stat().st_size
    except FileNotFoundError:
        is_file = False
        size = 0
    except OSError as error:
        raise AssistantInputError(f"file {str(path)!r} cannot be read: {error}", field="file") from error
    if not is_file:
        raise AssistantInputError(f"file {str(path)!r} does not exist or is not a file", field="file")
    if size == 0:
        raise AssistantInputError(f"file {str(path)!r} is empty", field="file")


@contextlib.contextmanager
def _opened(path: StoragePath, allowed_root: str | None) -> Iterator[BinaryIO]:
    try:
        file = open_inside(path, allowed_root)
    except OSError as error:
        # The file was removed, or its permissions changed, after the check.
        raise AssistantInputError(f"file {str(path)!r} cannot be read: {error}", field="file") from error
    with file:
        yield file


def _from_open_file(file: BinaryIO, filename: str | None, content_type: str | None) -> Upload:
    # A read of no bytes tells text from bytes and does not move the position.
    if isinstance(file.read(0), str):
        raise AssistantInputError("an open file must be opened in binary mode ('rb')", field="file")
    name = filename
    if not name:
        # An open file has the path in ``name``, or the number of its descriptor.
        file_path = PurePath(str(getattr(file, "name", "")))
        name = file_path.name
    if not name:
        raise AssistantInputError("an open file without a name needs filename=…", field="filename")
    _sendable(name)
    is_rewindable = file.seekable()

    def reopened() -> AbstractContextManager[BinaryIO]:
        if is_rewindable:
            file.seek(0)
        # The caller closes the file, so leaving the context must not.
        return contextlib.nullcontext(file)

    return Upload(reopened, name, _type(name, content_type), rewindable=is_rewindable)


def _sendable(name: str) -> str:
    """Return the file name, or raise if it is not valid UTF-8, which file systems allow."""
    if not is_encodable(name):
        raise AssistantInputError(
            f"the name of file {name!a} is not valid UTF-8",
            todo="Rename the file, or give filename=….",
            field="filename",
        )
    return name


def _type(name: str, content_type: str | None) -> str:
    return content_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
