"""
Write a file of a partition by replacing it as a whole.

A reader sees the old file or the new one, never a partial or temporary file. A crash leaves the old file unchanged. It
may leave a temporary file or an unfinished upload, which the next write of the same file removes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import __version__
from airflow_provider_assistant.exceptions import AssistantError, AssistantStorageError
from airflow_provider_assistant.names import LONGEST_WITH_SUFFIX, file_name
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.storage.private import make_folder, open_to_write

if TYPE_CHECKING:
    import pyarrow as pa
    from fsspec import AbstractFileSystem

    from airflow_provider_assistant.lake.datasets import Dataset

# Limits of a row group, which readers load as a whole: rows, and bytes before compression.
ROWS_PER_GROUP = 131_072
BYTES_PER_GROUP = 64 * 1024 * 1024
# Protocols without folders. Do not call mkdir there: it would create a bucket whose name is misspelt.
BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss"}


class Published(NamedTuple):
    """A file that was written."""

    path: str
    rows: int
    bytes: int


def publish(
    table: pa.Table,
    root: str,
    dataset: str,
    day: date,
    part: str,
    *,
    provenance: Mapping[str, str] | None = None,
) -> Published:
    """
    Replace one file of one partition of a dataset.

    On a file system, the new file is renamed over the old one. On object storage, an upload becomes visible when it is
    complete. A failure leaves the old file unchanged.

    :param table: All rows of the file; an empty table replaces the old rows, too.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param day: Day of the partition, whose folder is for example ``date=2026-11-21``.
    :param part: Name of the file without extension, unique among the tasks that write this partition.
    :param provenance: Origin of the rows, such as ``dag_id``, for the file's metadata; the version of this package is
        added. Default: None.
    """
    target = _target(root, dataset, day, part)
    metadata = dict(table.schema.metadata or {})
    metadata["assistant.version"] = __version__
    for name, value in (provenance or {}).items():
        metadata[f"assistant.{name}"] = value
    size = replace(table.replace_schema_metadata(metadata), target)
    return Published(path=str(target), rows=table.num_rows, bytes=size)


def rows_there(root: str, dataset: str, day: date, part: str) -> int | None:
    """Return the number of rows in one file of a partition, or None if there is no such file."""
    import pyarrow.parquet as pq

    try:
        with _target(root, dataset, day, part).open("rb") as file:
            rows: int = pq.read_metadata(file).num_rows
    except FileNotFoundError:
        return None
    return rows


def counted_twice(
    table: pa.Table,
    root: str,
    dataset: Dataset,
    day: date,
    part: str,
    task: str,
) -> str | None:
    """
    Return the path of another file of the partition that has some of the same rows, or None.

    Readers would count such rows twice. This happens after a task is renamed: the file under its old name remains.

    :param table: All rows of the task's own file.
    :param part: Name of the file without ``.parquet``.
    :param task: Name of the file without map index; other files of the same task are ignored.
    """
    key_columns = list(dataset.key)
    if not key_columns or not table.num_rows:
        return None
    target = _target(root, dataset.name, day, part)
    # instance_suffix() appends the index of a mapped task and the region of a loop to the name.
    same_task = re.compile(rf"{re.escape(file_name(task))}(\.\d+)?(\.loop.*)?\.parquet")
    our_keys = _row_keys(table, key_columns)
    # The credentials may permit writing but not listing, and the folder may contain files of other programs.
    with contextlib.suppress(OSError):
        for other in sorted(target.parent.iterdir()):
            is_part = other.name.endswith(".parquet") and not other.name.startswith((".", "_"))
            is_own = other.name == target.name or same_task.fullmatch(other.name)
            if is_own or not is_part:
                continue
            common_keys = our_keys & _row_keys_in(other, key_columns)
            if common_keys:
                return str(other)
    return None


def _row_keys_in(path: ObjectStoragePath, key_columns: list[str]) -> set[tuple[Any, ...]]:
    """Return the keys of the rows in a file; none if the file lacks these columns."""
    import pyarrow.parquet as pq

    with contextlib.suppress(KeyError, ValueError), path.open("rb") as file:
        # Not read_table(): it imports pandas.
        table = pq.ParquetFile(file).read(key_columns)
        return _row_keys(table, key_columns)
    return set()


def _row_keys(table: pa.Table, key_columns: list[str]) -> set[tuple[Any, ...]]:
    import pyarrow.compute as pc

    # The last column is the id. A row without an id has no key.
    id_column = key_columns[-1]
    with_id = table.filter(pc.is_valid(table[id_column]))
    distinct = with_id.group_by(key_columns).aggregate([])
    columns = [distinct[name].to_pylist() for name in key_columns]
    return set(zip(*columns, strict=True))


def _target(root: str, dataset: str, day: date, part: str) -> ObjectStoragePath:
    name = f"{file_name(part, LONGEST_WITH_SUFFIX)}.parquet"
    return object_storage_path(root) / dataset / f"date={day.isoformat()}" / name


def replace(table: pa.Table, target: ObjectStoragePath) -> int:
    """
    Write a Parquet file, replacing an existing one as a whole, and return its size in bytes.

    :raises AssistantStorageError: The file cannot be written. An existing file is unchanged; on object storage, where
        the reply to a successful upload may get lost, it may also have been replaced as a whole.
    """
    return replace_bytes(encoded(table), target)


def replace_bytes(content: bytes, target: ObjectStoragePath) -> int:
    """
    Write a file, replacing an existing one as a whole, and return its size in bytes.

    :raises AssistantStorageError: The file cannot be written. An existing file is unchanged; on object storage, where
        the reply to a successful upload may get lost, it may also have been replaced as a whole.
    """
    # Outside of storing(): a missing connection or provider package is not a failure of the storage.
    storage = target.fs
    is_local = target.protocol in {"file", ""}
    safe = "What was there before is as it was."
    if not is_local:
        # The reply to a successful upload may get lost.
        safe = "What was there before is as it was, or replaced as a whole."
    with storing(target, safe):
        if is_local:
            _replace_local(content, Path(target.path))
        else:
            _replace_object(content, target, storage)
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

    # A row group ends at the first of both limits; it has at least one row.
    rows_within_bytes = BYTES_PER_GROUP * table.num_rows // max(1, table.nbytes)
    rows = max(1, min(ROWS_PER_GROUP, rows_within_bytes))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", use_dictionary=True, row_group_size=rows)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _replace_local(content: bytes, target: Path) -> None:
    make_folder(target.parent)
    _remove_leftovers(target)
    # Dataset readers skip names that begin with a dot.
    temporary = target.with_name(f".{target.stem}.{uuid.uuid4().hex}")
    try:
        with open_to_write(temporary) as file:
            # The lock shows other processes that this file is in use, until this process ends.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(content)
            file.flush()
            # Without fsync, the file may be empty if the machine crashes after the rename.
            os.fsync(file.fileno())
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _replace_object(content: bytes, target: ObjectStoragePath, storage: AbstractFileSystem) -> None:
    if target.protocol not in BUCKETS:
        target.parent.mkdir(parents=True, exist_ok=True)
    if target.protocol in {"s3", "s3a"}:
        _abort_uploads(target, storage)
    # Do not use open(): if an exception closes the file early, a partial upload replaces the old file.
    storage.pipe_file(target.path, content)


def _abort_uploads(target: ObjectStoragePath, storage: AbstractFileSystem) -> None:
    """Abort multipart uploads that crashed runs left for this file: S3 keeps and bills their bytes indefinitely."""
    bucket, _, key = target.path.partition("/")
    # The credentials may permit writing but not listing, and some S3 implementations cannot list uploads.
    with contextlib.suppress(OSError):
        listing = storage.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key)
        for upload in listing.get("Uploads", ()):
            # Another file's key may begin with this one.
            if upload["Key"] == key:
                storage.call_s3("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=upload["UploadId"])


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files that crashed runs left for this file; a locked one is still being written."""
    temporary_name = re.compile(rf"\.{re.escape(target.stem)}\.[0-9a-f]{{32}}")
    for path in target.parent.iterdir():
        if not temporary_name.fullmatch(path.name):
            continue
        # flock() raises an OSError if the file is locked.
        with contextlib.suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
