"""
The files of the datasets: ``<root>/<dataset>/date=<day>/<whose>.parquet``.

``whose`` says whose rows a file has: those of a site, of a tenant, of a ledger or of a run. So whatever task exports
rows of a day, and under whatever name, it replaces the file that has them, and nothing is counted twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant import __version__
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantWarehouseError
from airflow_provider_assistant.names import LONGEST_WITH_SUFFIX, file_name
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.storage.write import replace

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

# A column that every file of every dataset has.
OWNER = "service"
_FOLDER = re.compile(r"date=(\d{4}-\d{2}-\d{2})")
# What object storages call the version of a file, the most exact name first. For a local file, it is the time of its
# last change; a file that is replaced also gets another inode.
_VERSION_FIELDS = (
    *("generation", "ETag", "etag", "md5Hash", "content_md5"),
    *("LastModified", "last_modified", "mtime", "modified", "created"),
)


class Written(NamedTuple):
    """A file that was written. ``bytes`` is its size."""

    path: str
    rows: int
    bytes: int


class Day(NamedTuple):
    """
    One day of a dataset.

    :param files: Paths of its Parquet files on the storage, in order.
    :param fingerprint: Hash of the names, sizes and versions of the files. It differs after any of them was replaced,
        added or removed.
    """

    day: date
    files: tuple[str, ...]
    fingerprint: str


def write(
    table: pa.Table, root: str, dataset: str, day: date, whose: Sequence[str | None], made_by: Mapping[str, str]
) -> Written:
    """
    Replace a file of a day.

    :param table: All rows of the file; an empty table replaces the old rows, too.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param whose: Whose rows they are, such as service and site.
    :param made_by: The task, such as ``dag_id``, for the file's metadata; the version of this package is added.
    :raises AssistantStorageError: The file cannot be written; an existing one is as it was.
    """
    target = file_of(root, dataset, day, whose)
    metadata = {"assistant.version": __version__, **{f"assistant.{name}": value for name, value in made_by.items()}}
    size = replace(table.replace_schema_metadata(metadata), target)
    return Written(str(target), table.num_rows, size)


def file_of(root: str, dataset: str, day: date, whose: Sequence[str | None]) -> ObjectStoragePath:
    """Return the path of a file of a day."""
    # Two names may join to the same text: "a~b" and "c", "a" and "b~c". A quoted one has no "~".
    name = "~".join((part or "").replace("%", "%25").replace("~", "%7E") for part in whose)
    return object_storage_path(root) / dataset / f"date={day}" / f"{file_name(name, LONGEST_WITH_SUFFIX)}.parquet"


def days_of(root: str, dataset: str, whose: Sequence[str | None] | None = None) -> dict[date, Day]:
    """
    Return the days of a dataset, with one listing of its folder.

    Only Parquet files directly in a folder such as ``date=2026-11-21`` count. Like other readers, this ignores names
    that begin with a dot or an underscore. A folder without such files is not a day.

    :param root: Folder of the datasets: a local path or an object storage URL.
    :param whose: Only files of these rows. Default: None, all files.
    :return: The earliest first; empty if the dataset was never exported.
    """
    name = None if whose is None else file_of(root, dataset, date.min, whose).name
    folder = object_storage_path(root) / dataset
    # Some clients of object storages remember listings, also those of an earlier task.
    folder.fs.invalidate_cache()
    files_by_day: dict[date, dict[str, Mapping[str, Any]]] = {}
    for day, path, details in _files(folder):
        if name is None or path.endswith(f"/{name}"):
            files_by_day.setdefault(day, {})[path] = details
    return {day: Day(day, tuple(sorted(files)), _fingerprint(files)) for day, files in sorted(files_by_day.items())}


def _files(folder: ObjectStoragePath) -> Iterator[tuple[date, str, Mapping[str, Any]]]:
    """Return the day, the path and the details of each Parquet file below a dataset's folder."""
    try:
        # Without maxdepth: with it, S3 is listed once per day.
        found = folder.fs.find(folder.path, detail=True)
    except FileNotFoundError:
        return
    for path, details in found.items():
        *_, parent, day_folder, name = f"///{path}".split("/")
        match = _FOLDER.fullmatch(day_folder)
        if match is None or parent != folder.name or not name.endswith(".parquet") or name.startswith((".", "_")):
            continue
        try:
            day = date.fromisoformat(match[1])
        except ValueError:
            # Such as date=2026-02-30.
            continue
        yield day, path, details


def _fingerprint(files: Mapping[str, Mapping[str, Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path, details in sorted(files.items()):
        version = next((details[name] for name in _VERSION_FIELDS if details.get(name) is not None), None)
        name = path.rpartition("/")[2]
        digest.update(repr((name, details.get("size"), str(version), details.get("ino"))).encode())
    return digest.hexdigest()


def read_day(day: Day, root: str, schema: pa.Schema) -> tuple[pa.Table, set[str]]:
    """
    Return all rows of a day, with the columns of a schema.

    Columns are matched by name. One that a file lacks is null.

    :param root: Folder of the datasets, with the credentials of its storage.
    :return: The rows; and the names of columns that files have beside those of the schema.
    :raises AssistantWarehouseError: A file cannot be read or is not one of a dataset, or a column has another type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    storage = object_storage_path(root).fs
    tables = []
    others: set[str] = set()
    for path in day.files:
        try:
            with storage.open(path, "rb") as file:
                # Not read_table(): it imports pandas.
                table = pq.ParquetFile(file).read()
            if OWNER not in table.column_names:
                raise foreign_file(path)
            others.update(table.column_names)
            columns = [
                table[field.name].cast(field.type) if field.name in table.column_names else _nulls(field, table)
                for field in schema
            ]
        except (OSError, pa.ArrowException) as error:
            raise AssistantWarehouseError(
                f"{path} cannot be read: {error}",
                safe=NOTHING_CHANGED,
                todo="Export that day again, then run the task again.",
            ) from error
        tables.append(pa.table(columns, schema=nullable(schema)))
    return pa.concat_tables(tables), others - set(schema.names)


def is_own(schema: pa.Schema) -> bool:
    """Return whether a Parquet file was written by this package, which its metadata says."""
    return any(name.startswith(b"assistant.") for name in schema.metadata or {})


def foreign_file(path: str) -> AssistantWarehouseError:
    """Return the error of a file in a dataset's folder that another program has put there."""
    return AssistantWarehouseError(
        f"{path} is not a file of a dataset: it has no column {OWNER!r}",
        retryable=False,
        todo="Move it out of the folder of the dataset, then run the task again.",
    )


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns are nullable: a file of an older version may lack one."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in schema])


def _nulls(field: pa.Field, table: pa.Table) -> pa.Array:
    import pyarrow as pa

    return pa.nulls(table.num_rows, field.type)
