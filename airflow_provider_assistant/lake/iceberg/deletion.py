"""Remove rows from Iceberg tables, and the files that still have them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_assistant.exceptions import AssistantWarehouseError
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.iceberg.catalog import attempts, existing_table, explained, no_warnings
from airflow_provider_assistant.lake.iceberg.tables import is_of
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

log = logging.getLogger(__name__)

# Takes the name of a dataset and rows of one day. Returns the rows that remain, and how many of the rows
# were removed or changed.
Eraser: TypeAlias = "Callable[[str, pa.Table], tuple[pa.Table, int]]"


def delete_rows(catalog: Catalog, namespace: str, erase: Eraser, *, dry_run: bool = False) -> dict[str, int]:
    """
    Remove rows from the Iceberg tables of a namespace, and the files that still have them.

    Afterwards, a table has no earlier snapshots, except those of branches and tags, and the files that only earlier
    snapshots used are deleted. What remains: branches and tags; files that killed loads left, which belong to no
    snapshot; old versions that an object storage keeps itself.

    :param erase: Takes the name of a dataset and the rows of one day, with the column ``date``. Returns the rows that
        remain, and the number of rows that it removed or changed.
    :param dry_run: Count, but change nothing.
    :return: Number of rows removed or changed by dataset, for each table.
    :raises AssistantWarehouseError: A table cannot be read or written, a file cannot be deleted, or a branch or tag
        keeps an earlier snapshot.
    """
    counts: dict[str, int] = {}
    with explained(f"Iceberg namespace {namespace}"):
        for dataset in DATASETS:
            table = existing_table(catalog, f"{namespace}.{dataset}")
            if table is None:
                continue
            counts[dataset] = 0
            for day in _days(table):
                for attempt in attempts():
                    with attempt:
                        counts[dataset] += _erase_day(table.refresh(), dataset, day, erase, dry_run=dry_run)
            if not dry_run:
                for attempt in attempts():
                    with attempt:
                        _forget_history(table.refresh())
    return counts


def _days(table: Table) -> list[date]:
    days = table.scan(selected_fields=("date",)).to_arrow()["date"]
    return sorted(days.unique().to_pylist())


def _erase_day(table: Table, dataset: str, day: date, erase: Eraser, *, dry_run: bool) -> int:
    is_of_day = is_of([day])
    remaining, count = erase(dataset, table.scan(row_filter=is_of_day).to_arrow())
    if count and not dry_run:
        with table.transaction() as transaction, no_warnings():
            transaction.overwrite(remaining, is_of_day)
    return count


def _forget_history(table: Table) -> None:
    """Expire the earlier snapshots of a table, and delete the files that only they used."""
    branches_and_tags = sorted(name for name in table.refs() if name != "main")
    heads = {ref.snapshot_id for ref in table.refs().values()}
    earlier = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id not in heads]
    files = _files(table)
    if earlier:
        table.maintenance.expire_snapshots().by_ids(earlier).commit()
    remaining = []
    for path in files - _files(table.refresh()):
        try:
            table.io.delete(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("%s cannot be deleted: %s", path, error)
            remaining.append(path)
    if remaining:
        raise AssistantWarehouseError(
            f"{counted(len(remaining), 'file')} of earlier snapshots of {table.location()} cannot be deleted",
            safe="No snapshot uses them any more.",
            todo="Delete the files that the log names.",
        )
    if branches_and_tags:
        raise AssistantWarehouseError(
            f"{table.location()} has branches or tags that keep earlier rows: {', '.join(branches_and_tags)}",
            safe="The current rows are as they should be.",
            todo="Delete these branches and tags, then run this again.",
        )


def _files(table: Table) -> set[str]:
    """Return all files of all snapshots: lists of manifests, manifests, and files of rows and deletes."""
    files = set()
    for snapshot in table.snapshots():
        files.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in files:
                continue
            files.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            files.update(entry.data_file.file_path for entry in entries)
    return files
