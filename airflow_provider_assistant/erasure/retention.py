"""
Delete what is older than it has to be, one function for each place.

Each function deletes what is from before a time, and returns how much that was. With ``dry_run``, it only counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from datetime import UTC, datetime

from airflow_provider_assistant.evaluation.runs import kept_for_comparison, runs_in
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.files import days_of
from airflow_provider_assistant.loading.findings import findings_folder
from airflow_provider_assistant.storage.opening import object_storage_path, usable_path


def prune_findings(before: datetime, *, dry_run: bool = False) -> int:
    """
    Delete the files in the default folder of findings that were last written before a time.

    :return: Number of files.
    """
    folder = usable_path(str(findings_folder()))
    files = [file for file in folder.rglob("*.parquet") if file.stat().st_mtime < before.timestamp()]
    for file in () if dry_run else files:
        file.unlink(missing_ok=True)
    return len(files)


def prune_lake(root: str, before: datetime, *, dry_run: bool = False) -> int:
    """
    Delete the files of the days before a time. A PostgreSQL warehouse keeps what it has loaded.

    :return: Number of days, over all datasets.
    """
    storage = object_storage_path(root).fs
    days = [day for dataset in DATASETS for day in days_of(root, dataset).values() if day.day < before.date()]
    for day in () if dry_run else days:
        for file in day.files:
            storage.rm_file(file)
    return len(days)


def prune_evaluations(output_path: str, before: datetime, *, keep: Collection[str] = (), dry_run: bool = False) -> int:
    """
    Delete the folders of evaluations whose run was before a time, but none that a later run compares with.

    :param output_path: Folder of all evaluations.
    :param keep: Paths of evaluations to keep, such as an approved ``baseline``.
    :return: Number of folders.
    """
    root = object_storage_path(output_path)
    kept = {path.rstrip("/") for path in keep}
    found = 0
    for name in (entry for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else ():
        kept_here = kept | {str(run.path) for run in kept_for_comparison(name)}
        for run in runs_in(name):
            path = str(run.path)
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
