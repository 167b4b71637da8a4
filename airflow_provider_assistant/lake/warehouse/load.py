"""Load the partitions of the Parquet datasets that changed into the tables of a warehouse."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.partitions import Partition, partitions_of, read_partition
from airflow_provider_assistant.lake.warehouse.metric_rows import MetricNames
from airflow_provider_assistant.lake.warehouse.names import literal
from airflow_provider_assistant.lake.warehouse.tables import PARTITIONS, Warehouse
from airflow_provider_assistant.lake.warehouse.views import create_views
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.lake.warehouse.stores import WarehouseTransaction

log = logging.getLogger(__name__)

# Limits of the partitions that are deleted and inserted together.
DAYS_AT_ONCE = 100
BYTES_AT_ONCE = 64 * 1024 * 1024
# Days that a log line lists.
LISTED = 20


@dataclass(slots=True)
class Loaded:
    """
    The result of a load into the warehouse.

    :param rows: Number of rows that were loaded, by dataset.
    :param replaced: Number of rows that were deleted, because they were there before.
    :param partitions: Number of partitions that were loaded.
    :param unchanged: Number of partitions that were not read, because the warehouse has them.
    :param kept: Number of partitions that the lake no longer has; their rows stay.
    :param missing: Partitions of the given days that do not exist; what the warehouse has of these
        days stays.
    :param last_day: The newest day that the warehouse now has of these datasets; None if it has
        none.
    :param views_behind: Views that other sessions were reading, so that they lack new columns
        until the next load.
    """

    rows: dict[str, int] = field(default_factory=dict)
    replaced: int = 0
    partitions: int = 0
    unchanged: int = 0
    kept: int = 0
    missing: list[str] = field(default_factory=list)
    last_day: date | None = None
    views_behind: list[str] = field(default_factory=list)


def load(
    store: WarehouseTransaction,
    root: str,
    datasets: Iterable[str],
    days: Sequence[date] | None = None,
) -> Loaded:
    """
    Load the partitions that changed since they were loaded, and update the views.

    The tables of all datasets are created, because the views need them. A partition without rows
    empties its day. A day whose partition is not in the lake any more keeps its rows.

    :param store: Other sessions see the changes only after its commit.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param days: Days to load, whether they changed or not. Default: None, all days that changed.
    :raises AssistantWarehouseError: A file cannot be read, or its columns do not match its table.
    """
    warehouse = Warehouse.of(store)
    now = datetime.now(UTC)
    loaded = Loaded()
    metrics = MetricNames(warehouse)
    days_there: set[date] = set()
    for dataset in datasets:
        loaded.rows[dataset] = 0
        partitions = partitions_of(root, dataset)
        known = _known_partitions(warehouse, dataset)
        _note_kept(warehouse, dataset, known, partitions, now, loaded)
        if days is None:
            chosen = [
                partition
                for day, partition in partitions.items()
                if day not in known or known[day].fingerprint != partition.fingerprint
            ]
            loaded.unchanged += len(partitions) - len(chosen)
        else:
            chosen = [partitions[day] for day in days if day in partitions]
            loaded.missing += [f"{dataset}/date={day}" for day in days if day not in partitions]
        days_there.update(known, (partition.day for partition in chosen))
        for group in _in_groups(chosen, root, dataset):
            loaded.replaced += _replace(warehouse, dataset, group, now)
            for _, rows in group:
                loaded.partitions += 1
                loaded.rows[dataset] += rows.num_rows
                metrics.add(dataset, rows)
    loaded.last_day = max(days_there, default=None)
    metrics.save(now)
    loaded.views_behind = create_views(warehouse, metrics.columns())
    return loaded


@dataclass(frozen=True, slots=True)
class _Known:
    """A partition as the warehouse has it; ``is_kept`` if the lake no longer has it."""

    fingerprint: str
    is_kept: bool


def _known_partitions(warehouse: Warehouse, dataset: str) -> dict[date, _Known]:
    rows = warehouse.store.run(
        f"SELECT date, fingerprint, kept_since IS NOT NULL FROM {warehouse.name_of('partitions')} "  # noqa: S608
        f"WHERE dataset = {literal(dataset)}"
    )
    return {day: _Known(fingerprint, is_kept) for day, fingerprint, is_kept in rows}


def _note_kept(
    warehouse: Warehouse,
    dataset: str,
    known: dict[date, _Known],
    partitions: dict[date, Partition],
    now: datetime,
    loaded: Loaded,
) -> None:
    """Count the days that the lake no longer has; log and record those that are new."""
    gone = sorted(known.keys() - partitions.keys())
    loaded.kept += len(gone)
    new = [day for day in gone if not known[day].is_kept]
    back = [day for day in partitions if day in known and known[day].is_kept]
    if new:
        log.info(
            "The lake no longer has %s of %s, whose rows stay in the warehouse: %s.",
            counted(len(new), "partition"),
            dataset,
            ", ".join(map(str, new[:LISTED])) + (", …" if len(new) > LISTED else ""),
        )
    for days, value in ((new, literal(now.isoformat())), (back, "NULL")):
        if days:
            warehouse.store.run(
                f"UPDATE {warehouse.name_of('partitions')} SET kept_since = {value} "  # noqa: S608
                f"WHERE dataset = {literal(dataset)} AND date IN ({_dates(days)})"
            )


def _in_groups(partitions: Iterable[Partition], root: str, dataset: str) -> Iterator[list[tuple[Partition, pa.Table]]]:
    """Read partitions, and return them with their rows in groups of a bounded size."""
    schema = DATASETS[dataset].schema()
    group: list[tuple[Partition, pa.Table]] = []
    size = 0
    for partition in partitions:
        rows = read_partition(partition, root, schema)
        group.append((partition, rows))
        size += rows.nbytes
        if size > BYTES_AT_ONCE or len(group) >= DAYS_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _replace(
    warehouse: Warehouse,
    dataset: str,
    group: Sequence[tuple[Partition, pa.Table]],
    now: datetime,
) -> int:
    """Replace the rows of some days, record their partitions, and return how many were deleted."""
    import pyarrow as pa

    store = warehouse.store
    table, state = warehouse.name_of(dataset), warehouse.name_of("partitions")
    dates = _dates(partition.day for partition, _ in group)
    # The result of a DELETE is one row with the number of deleted rows.
    [(deleted,)] = store.run(f"DELETE FROM {table} WHERE date IN ({dates})")  # noqa: S608
    store.run(
        f"DELETE FROM {state} WHERE dataset = {literal(dataset)} AND date IN ({dates})"  # noqa: S608
    )
    moment = pa.scalar(now, pa.timestamp("us", tz="UTC"))
    records = []
    for partition, rows in group:
        record = {"dataset": dataset, "date": partition.day, "fingerprint": partition.fingerprint}
        records.append({**record, "rows": rows.num_rows, "loaded_at": now})
        if not rows.num_rows:
            continue
        warehouse.add_columns(dataset, rows.schema)
        with_date = rows.append_column("date", pa.repeat(partition.day, rows.num_rows))
        loaded_at = pa.repeat(moment, rows.num_rows)
        store.insert(table, with_date.append_column("loaded_at", loaded_at))
    store.insert(state, pa.Table.from_pylist(records, PARTITIONS.schema()))
    return int(deleted)


def _dates(days: Iterable[date]) -> str:
    return ", ".join(f"DATE {literal(day.isoformat())}" for day in days)
