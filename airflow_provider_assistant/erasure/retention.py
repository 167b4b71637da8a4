"""
Delete what is older than it has to be, one function for each place.

Each function deletes what is from before a time, and returns how much that was. With ``dry_run``, it only counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.runs import kept_for_comparison, runs_in
from airflow_provider_assistant.lake.files import Day, days_of, is_own
from airflow_provider_assistant.loading.findings import findings_folder, findings_schema
from airflow_provider_assistant.storage.opening import object_storage_path, usable_path

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath


def prune_findings(before: datetime, *, dry_run: bool = False) -> int:
    """
    Delete the files of findings in their default folder that were last written before a time.

    :return: Number of files.
    """
    found = 0
    names = findings_schema().names
    for file in usable_path(str(findings_folder())).rglob("*.parquet"):
        path = object_storage_path(str(file))
        if path.fs.modified(path.path) >= before:
            continue
        # The folder may have datasets and files of other programs, too.
        if _schema(path.fs, path.path).names != names:
            continue
        found += 1
        if not dry_run:
            path.unlink(missing_ok=True)
    return found


def prune_lake(root: str, before: datetime, *, dry_run: bool = False) -> int:
    """
    Delete the files of the days before a time. A PostgreSQL warehouse keeps what it has loaded.

    :return: Number of days, over all datasets.
    """
    folder = object_storage_path(root)
    if not folder.is_dir():
        return 0
    found = 0
    datasets = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    for dataset in datasets:
        for day in days_of(root, dataset).values():
            if day.day < before.date():
                found += _prune_day(folder.fs, day, dry_run=dry_run)
    return found


def _prune_day(storage: Any, day: Day, *, dry_run: bool) -> bool:
    """Delete the files of a day that this package has written. Return whether there were any."""
    own = [file for file in day.files if is_own(_schema(storage, file))]
    if not dry_run:
        for file in own:
            storage.rm_file(file)
    return bool(own)


def _schema(storage: Any, path: str) -> pa.Schema:
    """Return the columns of a Parquet file; none if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with storage.open(path, "rb") as file:
            return pq.ParquetFile(file).schema_arrow
    except (OSError, pa.ArrowInvalid):
        return pa.schema([])


def prune_evaluations(output_path: str, before: datetime, *, keep: Collection[str] = (), dry_run: bool = False) -> int:
    """
    Delete the folders of evaluations whose run was before a time, but none that a later run compares with.

    :param output_path: Folder of all evaluations.
    :param keep: Paths of evaluations to keep, such as an approved ``baseline``.
    :return: Number of folders.
    """
    root = object_storage_path(output_path)
    kept = {_url(object_storage_path(path)) for path in keep}
    found = 0
    for name in (entry for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else ():
        kept_here = kept | {_url(run.path) for run in kept_for_comparison(name)}
        for run in runs_in(name):
            path = _url(run.path)
            is_kept = any(one == path or one.startswith(f"{path}/") for one in kept_here)
            if is_kept or run.time >= before.astimezone(UTC):
                continue
            found += 1
            if not dry_run:
                for file in run.path.iterdir():
                    file.unlink()
                with contextlib.suppress(OSError):
                    run.path.rmdir()
    return found


def _url(path: ObjectStoragePath) -> str:
    """Return a path as it compares with others, which may be relative or have a connection."""
    return str(path.fs.unstrip_protocol(path.path))
