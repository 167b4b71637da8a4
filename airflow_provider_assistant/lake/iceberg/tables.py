"""Bring the partitions that changed into Iceberg tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from airflow_provider_assistant.exceptions import AssistantWarehouseError
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.iceberg.catalog import (
    attempts,
    existing_table,
    explained,
    first_line,
    no_warnings,
)
from airflow_provider_assistant.lake.partitions import Partition, partitions_of, read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

# The table property with the fingerprint of the partition that the rows of a day came from.
RECORD = "assistant.partition."
# Limits of a commit: its days, and the bytes of rows from which on it takes no further day.
DAYS_PER_COMMIT = 100
BYTES_PER_COMMIT = 128 * 1024 * 1024


@dataclass(slots=True)
class Loaded:
    """
    The result of a load of one dataset.

    :param location: URL of the table; None if the dataset has no partitions, so that no table was created.
    :param columns: Types of the table by column.
    :param days: Days that were loaded.
    :param rows: Number of rows that the table now has for these days.
    :param replaced: Number of rows that it had for them before.
    :param unchanged: Number of partitions that were not read, because the table has them.
    :param kept: Number of days of the table that the lake no longer has.
    :param last_day: The newest day in the table, or None.
    :param missing: Given days that the lake does not have; the table keeps what it has of them.
    """

    location: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    days: set[date] = field(default_factory=set)
    rows: int = 0
    replaced: int = 0
    unchanged: int = 0
    kept: int = 0
    last_day: date | None = None
    missing: list[date] = field(default_factory=list)


def load(
    catalog: Catalog,
    namespace: str,
    root: str,
    dataset: str,
    days: Collection[date] | None = None,
) -> Loaded:
    """
    Bring the partitions of a dataset that changed since the last load into its Iceberg table.

    Namespace and table are created if they are missing. The rows of a day are replaced as a whole, those of up
    to 100 days in one commit. A day that the lake has no partition for any more keeps its rows; a partition
    without rows empties its day. Other loads may run at the same time.

    :param namespace: Namespace of the table; levels are separated by dots.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param days: Days to load whether they changed or not. Default: all that changed.
    :raises AssistantWarehouseError: The catalog or the table cannot be read or written.
    """
    loaded = Loaded()
    with explained(f"Iceberg table {namespace}.{dataset}"):
        is_done = False
        while not is_done:
            for attempt in attempts():
                with attempt:
                    is_done = _load_some(catalog, f"{namespace}.{dataset}", root, dataset, days, loaded)
    return loaded


def _load_some(
    catalog: Catalog,
    identifier: str,
    root: str,
    dataset: str,
    days: Collection[date] | None,
    loaded: Loaded,
) -> bool:
    """Load the oldest days that are left with one commit. Return whether there are none."""
    table = existing_table(catalog, identifier)
    # The table is read before the lake. A load that read the lake earlier than this one and commits later fails,
    # because the table changed, and reads both again. So older rows never replace newer ones.
    partitions = partitions_of(root, dataset)
    recorded = _recorded(table)
    due = []
    for day, partition in partitions.items():
        is_changed = partition.fingerprint != recorded.get(day)
        is_due = is_changed if days is None else day in days
        # Each day once, even if the storage reports a new version of the same file each time.
        if is_due and day not in loaded.days:
            due.append(partition)
    if not due:
        loaded.last_day = max(recorded, default=None)
        loaded.kept = len(recorded.keys() - partitions.keys())
        loaded.missing = sorted(set(days or ()) - partitions.keys())
        loaded.unchanged = len(partitions.keys() - loaded.days) if days is None else 0
        if table is not None:
            loaded.location = table.location()
            loaded.columns = {column.name: str(column.field_type) for column in table.schema().fields}
        return True
    if table is None:
        table = _created(catalog, identifier)
    rows, included = _read(due, root, dataset)
    replaced = _replace(table, dataset, rows, included)
    loaded.days.update(partition.day for partition in included)
    loaded.rows += rows.num_rows
    loaded.replaced += replaced
    return False


def _read(due: list[Partition], root: str, dataset: str) -> tuple[pa.Table, list[Partition]]:
    """Read as many partitions as one commit may have. Return their rows with the day, and the partitions."""
    import pyarrow as pa

    schema = DATASETS[dataset].schema()
    date_column = pa.field("date", pa.date32(), nullable=False)
    tables: list[pa.Table] = []
    for partition in due[:DAYS_PER_COMMIT]:
        rows = read_partition(partition, root, schema)
        dates = pa.repeat(pa.scalar(partition.day, pa.date32()), rows.num_rows)
        rows = rows.add_column(0, date_column, dates)
        # Days whose columns differ get a commit of their own.
        if tables and rows.schema != tables[0].schema:
            break
        tables.append(rows)
        if sum(table.nbytes for table in tables) >= BYTES_PER_COMMIT:
            break
    return pa.concat_tables(tables), due[: len(tables)]


def _replace(table: Table, dataset: str, rows: pa.Table, partitions: list[Partition]) -> int:
    """Replace the rows of days, and record their partitions. Return how many rows were replaced."""
    is_of_days = is_of(partition.day for partition in partitions)
    record = {f"{RECORD}{partition.day}": partition.fingerprint for partition in partitions}
    replaced = table.scan(row_filter=is_of_days).count()
    with table.transaction() as transaction, no_warnings():
        _add_columns(transaction, dataset, rows.schema)
        # This also validates that no other writer has added rows of these days meanwhile, which append() does not.
        transaction.overwrite(rows, is_of_days)
        transaction.set_properties(record)
    return replaced


def is_of(days: Iterable[date]) -> str:
    """Return a filter for the rows of some days."""
    literals = ", ".join(f"'{day.isoformat()}'" for day in days)
    return f"date IN ({literals})"


def _add_columns(transaction: Transaction, dataset: str, columns: pa.Schema) -> None:
    """Add the columns that a table lacks, widen types, and set descriptions. Raise for types that conflict."""
    import pyarrow as pa
    from pyiceberg.exceptions import ResolveError, ValidationError

    # A new column is nullable, because existing rows have no value for it. The ids of Parquet's fields, which are in
    # their metadata, mean nothing here.
    descriptions = {"date": "Day of the partition", **DATASETS[dataset].descriptions()}
    fields = []
    for column in columns:
        metadata = {"doc": descriptions[column.name]} if column.name in descriptions else None
        fields.append(column.with_metadata(metadata))
    try:
        with transaction.update_schema() as update:
            update.union_by_name(pa.schema(fields))
    except (ResolveError, TypeError, ValidationError, ValueError) as error:
        raise AssistantWarehouseError(
            f"the columns of {dataset} do not match those of its table: {first_line(error)}",
            safe="These days are unchanged.",
            todo="Export these days again with this version of the package, or drop the table and run the task again.",
        ) from error


def _recorded(table: Table | None) -> dict[date, str]:
    """Return the fingerprints of the partitions that the rows of a table came from."""
    if table is None:
        return {}
    recorded = {}
    for name, fingerprint in table.properties.items():
        if name.startswith(RECORD):
            recorded[date.fromisoformat(name.removeprefix(RECORD))] = fingerprint
    return recorded


def _created(catalog: Catalog, identifier: str) -> Table:
    """Create a table with the date only; the commit of its first rows adds the other columns."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType, NestedField

    namespace, _, dataset = identifier.rpartition(".")
    if not catalog.namespace_exists(namespace):
        catalog.create_namespace(namespace)
    schema = Schema(NestedField(1, "date", DateType(), required=True))
    day = PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="date")
    # Without this property, each commit leaves a file with all metadata forever.
    properties = {"write.metadata.delete-after-commit.enabled": "true", "comment": DATASETS[dataset].description}
    return catalog.create_table(identifier, schema, partition_spec=PartitionSpec(day), properties=properties)
