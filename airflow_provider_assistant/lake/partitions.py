"""Find the partitions of a dataset, notice which of them changed, and read their rows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantWarehouseError
from airflow_provider_assistant.storage.opening import object_storage_path

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = re.compile(r"date=(\d{4}-\d{2}-\d{2})")
# What object storages call the version of a file, the most exact name first. For a local file, it
# is the time of its last change; a file that is replaced also gets another inode.
VERSION_FIELDS = (
    "generation",
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "LastModified",
    "last_modified",
    "mtime",
    "modified",
    "created",
)


@dataclass(frozen=True, slots=True)
class Partition:
    """
    One day of a dataset.

    :param day: Its day.
    :param folder: Path or URL of its folder.
    :param files: Paths of its Parquet files on the storage, in order.
    :param fingerprint: Hash of the names, sizes and versions of the files. It differs after any of
        them was replaced, added or removed.
    """

    day: date
    folder: str
    files: tuple[str, ...]
    fingerprint: str


def exported(root: str, dataset: str) -> bool:
    """Return whether a dataset has a folder, so whether it was ever exported."""
    return bool((object_storage_path(root) / dataset).is_dir())


def partitions_of(root: str, dataset: str) -> dict[date, Partition]:
    """
    Return the partitions of a dataset, with one listing of its folder.

    Only Parquet files directly in a folder such as ``date=2026-11-21`` count. Like other readers,
    this ignores names that begin with a dot or an underscore. A folder without such files is not a
    partition.

    :param root: Folder of the datasets: a local path or an object storage URL.
    :return: The partitions by day, the oldest first; empty if the dataset was never exported.
    """
    dataset_folder = object_storage_path(root) / dataset
    # Some clients of object storages remember listings, also those of an earlier load.
    dataset_folder.fs.invalidate_cache()
    files_by_day: dict[date, dict[str, Mapping[str, Any]]] = {}
    for day, path, info in _files(dataset_folder):
        files_by_day.setdefault(day, {})[path] = info
    partitions = {}
    for day, files in sorted(files_by_day.items()):
        partitions[day] = Partition(
            day=day,
            folder=str(dataset_folder / f"date={day.isoformat()}"),
            files=tuple(sorted(files)),
            fingerprint=_fingerprint(files),
        )
    return partitions


def _files(dataset_folder: ObjectStoragePath) -> Iterator[tuple[date, str, Mapping[str, Any]]]:
    """Return the day, the path and the details of each Parquet file below a dataset's folder."""
    try:
        # Without maxdepth: with it, S3 is listed once per day.
        found = dataset_folder.fs.find(dataset_folder.path, detail=True)
    except FileNotFoundError:
        return
    for path, info in found.items():
        *_, parent, folder_name, file_name = ("///" + path).split("/")
        folder = FOLDER.fullmatch(folder_name)
        if folder is None or parent != dataset_folder.name or not _is_read(file_name):
            continue
        try:
            day = date.fromisoformat(folder[1])
        except ValueError:
            # Such as date=2026-02-30.
            continue
        yield day, path, info


def _is_read(file_name: str) -> bool:
    return file_name.endswith(".parquet") and not file_name.startswith((".", "_"))


def _fingerprint(files: Mapping[str, Mapping[str, Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path, info in sorted(files.items()):
        _, _, file_name = path.rpartition("/")
        version = next((info[name] for name in VERSION_FIELDS if info.get(name) is not None), None)
        details = (file_name, info.get("size"), str(version), info.get("ino"))
        digest.update(repr(details).encode())
    return digest.hexdigest()


def read_partition(partition: Partition, root: str, schema: pa.Schema) -> pa.Table:
    """
    Return all rows of a partition.

    Columns are matched by name. A column that a file of an older version lacks is null. Additional
    columns in a file of a newer version come after the known ones.

    :param root: Folder of the datasets, with the credentials of its storage.
    :param schema: Columns that this version knows.
    :raises AssistantWarehouseError: A file cannot be read, or the types of a column conflict.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    storage = object_storage_path(root).fs
    # The empty table puts the known columns first, and adds those that the files lack.
    tables = [_nullable(schema.empty_table())]
    for path in partition.files:
        try:
            with storage.open(path, "rb") as file:
                table = pq.ParquetFile(file).read()
        except (OSError, pa.ArrowException) as error:
            raise AssistantWarehouseError(
                f"{path} cannot be read: {error}",
                safe=NOTHING_CHANGED,
                todo="If the file is broken, export that day again. Then run the task again.",
            ) from error
        tables.append(_nullable(table.replace_schema_metadata()))
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise AssistantWarehouseError(
            f"the files of {partition.folder} have columns of conflicting types: {error}",
            safe=NOTHING_CHANGED,
            todo="Export that day again with this version of the package.",
        ) from error


def _nullable(table: pa.Table) -> pa.Table:
    """Return a table with nullable columns: tables that differ in this cannot be joined."""
    import pyarrow as pa

    fields = [field.with_nullable(True) for field in table.schema]
    return table.cast(pa.schema(fields))
