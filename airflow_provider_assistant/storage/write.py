"""
Write a file by replacing it as a whole.

A reader sees the old file or the new one, never a part. On a file system, the new file is renamed over the old one; on
object storage, an upload becomes visible when it is complete. A crash leaves the old file as it is. Beside it, it may
leave a temporary file, whose name begins with a dot, or an unfinished upload, which a lifecycle rule of the bucket
removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantError, AssistantStorageError
from airflow_provider_assistant.storage.private import make_folder, open_to_write

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of a row group, which readers load as a whole.
ROWS_PER_GROUP = 131_072
# Protocols without folders. Do not call mkdir there: it would create a bucket whose name is misspelt.
BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss"}


def replace(table: pa.Table, target: ObjectStoragePath) -> int:
    """
    Write a Parquet file, replacing an existing one as a whole.

    :return: Its size in bytes.
    :raises AssistantStorageError: See :func:`replace_bytes`.
    """
    return replace_bytes(encoded(table), target)


def replace_bytes(content: bytes, target: ObjectStoragePath) -> int:
    """
    Write a file, replacing an existing one as a whole.

    :return: Its size in bytes.
    :raises AssistantStorageError: The file cannot be written. An existing file is unchanged; on object storage, where
        the reply to a successful upload may get lost, it may also have been replaced as a whole.
    """
    # Outside of storing(): a missing connection or provider package is not a failure of the storage.
    storage = target.fs
    if target.protocol in {"file", ""}:
        with storing(target, "What was there before is as it was."):
            _replace_local(content, Path(target.path))
        return len(content)
    with storing(target, "What was there before is as it was, or replaced as a whole."):
        if target.protocol not in BUCKETS:
            target.parent.mkdir(parents=True, exist_ok=True)
        # Do not use open(): if an exception closes the file early, a partial upload replaces the old file.
        storage.pipe_file(target.path, content)
    return len(content)


def check_writable(folder: ObjectStoragePath) -> None:
    """
    Check that files can be written to a folder, which is created, with one that is deleted again.

    :raises AssistantStorageError: No file can be written there.
    """
    # Always the same name: some credentials permit writing but not deleting.
    probe = folder / ".probe"
    replace_bytes(b"", probe)
    with contextlib.suppress(Exception):
        probe.unlink()


@contextlib.contextmanager
def storing(target: Path | ObjectStoragePath, safe: str) -> Iterator[None]:
    """
    Convert any error of a storage inside the ``with`` block into an AssistantStorageError.

    :param safe: What a failure leaves as it was, as a sentence.
    :raises AssistantStorageError: The block raised an error; an AssistantError is raised unchanged.
    """
    try:
        yield
    except AssistantError:
        raise
    except Exception as error:
        # Each object storage client raises different exceptions, without a common base class.
        code = getattr(error, "errno", None) or errno.EIO
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        happened = f"{target} cannot be written: {reason}"
        raise AssistantStorageError(happened, safe=safe, errno=code) from error


def encoded(table: pa.Table) -> bytes:
    """Return the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", row_group_size=ROWS_PER_GROUP)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _replace_local(content: bytes, target: Path) -> None:
    make_folder(target.parent)
    # Readers of datasets skip names that begin with a dot.
    temporary = target.with_name(f".{target.stem}.{uuid.uuid4().hex}")
    try:
        with open_to_write(temporary) as file:
            file.write(content)
            file.flush()
            # Without fsync, the file may be empty if the machine crashes after the rename.
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
