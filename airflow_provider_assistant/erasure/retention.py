"""
Delete what is older than it has to be, one function for each place.

Each function takes a time or a day, deletes what is from before it, and returns how much that was. With ``dry_run``,
it only counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.asking.answers import SCOPE
from airflow_provider_assistant.asking.state import BatchState
from airflow_provider_assistant.erasure.ours import BATCH_STATE
from airflow_provider_assistant.evaluation.runs import kept_for_comparison, runs_in
from airflow_provider_assistant.lake import DATASETS
from airflow_provider_assistant.lake.partitions import partitions_of
from airflow_provider_assistant.lake.warehouse import WarehouseTransaction
from airflow_provider_assistant.lake.warehouse.names import literal, quoted
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.database import transaction
from airflow_provider_assistant.ledger.schema import attempts
from airflow_provider_assistant.ledger.settle import prune
from airflow_provider_assistant.storage.opening import StoragePath, object_storage_path, usable_path

# Beginning of what replaces the id of a request.
PRUNED = "pruned-"


def prune_ledger(ledger: Ledger, before: datetime, *, dry_run: bool = False) -> dict[str, int]:
    """
    Delete old entries as :func:`.settle.prune` does, and the ids in old ratings.

    A rating that was sent keeps its key, so that it is not sent again. Its session is removed, and its key, a hash,
    replaces the id of its request.

    :return: Number of entries by kind, and of ``tries``; ``ids_of_ratings`` is the number of ratings that lost their
        ids.
    """
    counts = prune(ledger, before, dry_run=dry_run)
    c = attempts.c
    # Exports have a rating on the day when it was recorded.
    is_old = sa.and_(c.kind == "rating", c.state == "created", c.recorded_at < before, c.session_id != "")
    without_ids = {"session_id": "", "label": "", "remote_id": sa.literal(PRUNED) + c.key}

    def change(connection: sa.Connection) -> int:
        count = connection.scalar(sa.select(sa.func.count()).select_from(attempts).where(is_old)) or 0
        if not dry_run:
            connection.execute(sa.update(attempts).where(is_old).values(without_ids))
        return count

    counts["ids_of_ratings"] = transaction(ledger.engine, change, writes=True)
    return counts


def prune_files(folder: str, before: datetime, *, dry_run: bool = False) -> int:
    """
    Delete the findings and the answers of chat batches below a folder that were last written before a time.

    Other files are kept, also other Parquet files.

    :return: Number of files.
    """
    files = [file for file in _files(folder, "*.parquet") if _is_old(file, before) and _is_ours(file)]
    if not dry_run:
        for file in files:
            file.unlink(missing_ok=True)
    return len(files)


def prune_batch_states(folder: str, before: datetime, *, dry_run: bool = False) -> int:
    """
    Delete the states of chat batches below a folder of which no file was written since a time.

    Such a batch was never finished: a finished one deletes its state.

    :return: Number of folders.
    """
    found = 0
    for state in _files(folder, f"*{BATCH_STATE}"):
        files: Iterable[StoragePath] = state.iterdir()
        if all(_is_old(file, before) for file in files):
            found += 1
            if not dry_run:
                BatchState(str(state)).remove()
    return found


def prune_lake(root: str, before: date, *, datasets: Collection[str] = (), dry_run: bool = False) -> int:
    """
    Delete the partitions of the days before a day.

    A warehouse keeps what it has loaded.

    :param datasets: Default: all.
    :return: Number of partitions.
    """
    found = 0
    for dataset in datasets or DATASETS:
        for day, partition in partitions_of(root, dataset).items():
            if day >= before:
                continue
            found += 1
            if not dry_run:
                folder = usable_path(root) / dataset / f"date={day.isoformat()}"
                for name in partition.files:
                    (folder / name.rpartition("/")[2]).unlink(missing_ok=True)
                # Object storage has no folders to remove, and other programs may have files there.
                with contextlib.suppress(OSError):
                    folder.rmdir()
    return found


def prune_warehouse(store: WarehouseTransaction, before: date, *, dry_run: bool = False) -> int:
    """
    Delete the rows of the days before a day.

    A load does not bring them back, unless their partition changes in the lake or their day is given.

    :return: Number of rows.
    """
    tables = store.run(
        "SELECT table_name FROM information_schema.tables WHERE table_catalog = current_database() "  # noqa: S608
        f"AND table_type = 'BASE TABLE' AND table_schema = {literal(store.schema)}"
    )
    found = 0
    for (name,) in tables:
        if name not in DATASETS:
            continue
        old = f"{quoted(store.schema)}.{quoted(name)} WHERE {quoted('date')} < {literal(before.isoformat())}"
        verb = "SELECT count(*) FROM" if dry_run else "DELETE FROM"
        [(count,)] = store.run(f"{verb} {old}")
        found += int(count)
    return found


def prune_evaluations(output_path: str, before: datetime, *, keep: Collection[str] = (), dry_run: bool = False) -> int:
    """
    Delete the folders of evaluations whose run was before a time.

    The runs that ``baseline="previous"`` of the next run compares with are kept.

    :param output_path: Folder of all evaluations.
    :param keep: Paths of further evaluations to keep, such as a ``baseline`` that is given by its path.
    :return: Number of folders.
    """
    kept = {str(path).rstrip("/") for path in keep}
    found = 0
    for name in _folders(object_storage_path(output_path)):
        baselines = {str(run.path) for run in kept_for_comparison(name)}
        for run in runs_in(name):
            path = str(run.path)
            is_old = run.time < before.astimezone(UTC)
            is_kept = path in baselines or any(one == path or one.startswith(f"{path}/") for one in kept)
            if not is_old or is_kept:
                continue
            found += 1
            if not dry_run:
                for file in run.path.iterdir():
                    file.unlink()
                with contextlib.suppress(OSError):
                    run.path.rmdir()
    return found


def _folders(path: ObjectStoragePath) -> list[ObjectStoragePath]:
    if not path.is_dir():
        return []
    return [entry for entry in path.iterdir() if entry.is_dir()]


def _files(folder: str, pattern: str) -> list[StoragePath]:
    root = usable_path(folder)
    if not root.is_dir():
        return []
    found: Iterable[StoragePath] = root.rglob(pattern)
    return sorted(found, key=str)


def _is_old(file: StoragePath, before: datetime) -> bool:
    return bool(file.stat().st_mtime < before.timestamp())


def _is_ours(file: StoragePath) -> bool:
    """Return whether a Parquet file is one of findings or of answers."""
    import pyarrow.parquet as pq

    from airflow_provider_assistant.loading.findings import findings_schema

    try:
        with file.open("rb") as opened:
            schema = pq.read_schema(opened)
    except (OSError, ValueError):
        return False
    return SCOPE in (schema.metadata or {}) or schema.names == findings_schema().names
