"""
How a partition is published: its file is replaced as a whole.

A reader sees the old file or the new one, never a mix, a part or a temporary one. A crash leaves the old file, and what
it may leave beside it is removed by whoever writes the same part next.
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

if TYPE_CHECKING:
    import pyarrow as pa
    from fsspec import AbstractFileSystem

# A reader takes a row group whole: at most so many rows, and at most so many bytes before compression.
ROWS_PER_GROUP = 131_072
BYTES_PER_GROUP = 64 * 1024 * 1024
# There are no folders in these; to make one is to look for the bucket, and to create it if its name is misspelt.
BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss"}


# What must not be in two files of one day, by dataset; the last column is null where nothing is named.
IDENTITIES = {
    "statistics": ("tenant_id", "site_id"),
    "statistics_raw": ("tenant_id", "site_id"),
    "limits": ("tenant_id",),
    "feedback": ("site_id", "rating", "request_id"),
    "requests": ("site_id", "request_id"),
    "loads": ("site_id", "endpoint", "source", "run_id", "task_id", "map_index", "started_at"),
}


class Published(NamedTuple):
    """
    A file that was written.

    :param path: The file.
    :param rows: Its rows.
    :param bytes: Its size.
    """

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
    Replace one part of one day of a dataset.

    On a file system the new file takes the old one's place in one step; on object storage an upload becomes
    visible when it is complete. A failure leaves the old file.

    :param table: All rows of the part; an empty table replaces too.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param dataset: Name of the dataset, a folder below ``root``.
    :param day: The partition: ``date=2026-11-21``.
    :param part: Name of the part, unique among those who write this day.
    :param provenance: Who wrote it, such as ``dag_id``; goes into the file's metadata with the package's version.
    """
    target = _target(root, dataset, day, part)
    written_by = {"version": __version__, **(provenance or {})}
    metadata = {f"assistant.{name}": value for name, value in written_by.items()}
    size = replace(table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata}), target)
    return Published(str(target), table.num_rows, size)


def rows_there(root: str, dataset: str, day: date, part: str) -> int | None:
    """Return how many rows a part of a day has, or None if there is no such part."""
    import pyarrow.parquet as pq

    try:
        with _target(root, dataset, day, part).open("rb") as file:
            rows: int = pq.read_metadata(file).num_rows
    except FileNotFoundError:
        return None
    return rows


def counted_twice(table: pa.Table, root: str, dataset: str, day: date, part: str, task: str) -> str | None:
    """
    Return another file of the day that has what this part is about to have, or None.

    A reader of the day would count it twice. Such a file is what a task leaves that was renamed.

    :param table: All rows of the part.
    :param root: Folder of the datasets.
    :param dataset: Name of the dataset.
    :param day: The partition.
    :param part: Name of the part. One that is there already has been checked when it was written first.
    :param task: The part's name without map index: parts of the same task are left alone.
    """
    identity, target = list(IDENTITIES.get(dataset, ())), _target(root, dataset, day, part)
    if not identity or not table.num_rows:
        return None
    mine = re.compile(rf"{re.escape(_file_name(task))}(\.\d+)?(\.loop.*)?\.parquet")
    ours = _identities(table, identity)
    # Who may write need not be allowed to list, and a folder may hold files of others.
    with contextlib.suppress(OSError):
        for other in [] if target.exists() else sorted(target.parent.iterdir()):
            is_part = other.name.endswith(".parquet") and not other.name.startswith(".")
            if is_part and not mine.fullmatch(other.name) and ours & _identities_in(other, identity):
                return str(other)
    return None


def _identities_in(file: ObjectStoragePath, names: list[str]) -> set[tuple[Any, ...]]:
    import pyarrow.parquet as pq

    with contextlib.suppress(KeyError, ValueError), file.open("rb") as opened:
        return _identities(pq.read_table(opened, columns=names), names)
    return set()


def _identities(table: pa.Table, names: list[str]) -> set[tuple[Any, ...]]:
    columns = table.select(names).group_by(names).aggregate([]).to_pydict()
    # An id that is not known names nothing.
    rows = zip(*(columns[name] for name in names), strict=True)
    return {row for row in rows if row[-1] is not None}


def _target(root: str, dataset: str, day: date, part: str) -> ObjectStoragePath:
    return ObjectStoragePath(root) / dataset / f"date={day.isoformat()}" / f"{_file_name(part)}.parquet"


def replace(table: pa.Table, target: ObjectStoragePath) -> int:
    """
    Write a Parquet file in place of what may be there, and return its size.

    :param table: Its rows.
    :param target: The file.
    :raises AssistantStorageError: The file cannot be written, and what was there is as it was; on object storage, where
        an answer may get lost after the upload, it may have been replaced as a whole.
    """
    return replace_bytes(_encoded(table), target)


def replace_bytes(content: bytes, target: ObjectStoragePath) -> int:
    """
    Write a file in place of what may be there, and return its size.

    :param content: All of it.
    :param target: The file.
    :raises AssistantStorageError: As :func:`replace` does.
    """
    # No connection, or no provider for this storage: that is not the storage's failure.
    storage = target.fs
    is_local = target.protocol in {"file", ""}
    unharmed = "what was there before is as it was" + ("" if is_local else ", or replaced as a whole")
    with storing(target, unharmed):
        if is_local:
            _replace_local(content, Path(target.path))
        else:
            _replace_object(content, target, storage)
    return len(content)


@contextlib.contextmanager
def storing(target: Path | ObjectStoragePath, then: str) -> Iterator[None]:
    """
    Write a file in a ``with`` block.

    :param target: The file.
    :param then: What a failure means, for the message.
    :raises AssistantStorageError: It cannot be written.
    """
    try:
        yield
    except AssistantError:
        raise
    except Exception as error:
        # Clients of object storages raise what they like.
        code = getattr(error, "errno", None) or errno.EIO
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise AssistantStorageError(f"{target} cannot be written: {reason} ({then})", code=code) from error


def _encoded(table: pa.Table) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = min(ROWS_PER_GROUP, BYTES_PER_GROUP * table.num_rows // max(1, table.nbytes))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=True, row_group_size=max(1, rows))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _replace_local(content: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    # Readers of a dataset skip names that begin with a dot.
    temporary = target.with_name(f".{target.stem}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            # As long as this process lives, nobody takes the file for a leftover.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(content)
            file.flush()
            # Otherwise a machine that goes down after the rename may come up with the new name and no content.
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
    # Not through open(): a file left by an exception is closed, and half of it takes the old one's place.
    storage.pipe_file(target.path, content)


def _abort_uploads(target: ObjectStoragePath, storage: AbstractFileSystem) -> None:
    """End uploads in parts that crashed runs of this part have left: S3 keeps their bytes, and bills them, for ever."""
    bucket, _, key = target.path.partition("/")
    # Who may write need not be allowed to list, and not every S3 can.
    with contextlib.suppress(OSError):
        found = storage.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key)
        for upload in found.get("Uploads", ()):
            if upload["Key"] == key:
                storage.call_s3("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=upload["UploadId"])


def _remove_leftovers(target: Path) -> None:
    """Remove what crashed runs of this part have left; what is locked belongs to one that is still writing."""
    ours = re.compile(rf"\.{re.escape(target.stem)}\.[0-9a-f]{{32}}")
    for found in target.parent.iterdir():
        if ours.fullmatch(found.name):
            with contextlib.suppress(OSError), found.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.unlink()


def _file_name(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", part)
