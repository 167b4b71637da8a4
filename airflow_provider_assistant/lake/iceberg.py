"""
Load the Parquet datasets into Iceberg tables, and delete rows from them.

Each dataset has a table of the same name, partitioned by day. One commit replaces the rows of days and
records which partitions they came from: rows and record never differ, whatever is killed when.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa
from airflow.sdk.log import redact  # type: ignore[attr-defined]  # no public module has it
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    AssistantError,
    AssistantInputError,
    AssistantWarehouseError,
)
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.partitions import Partition, partitions_of, read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

log = logging.getLogger(__name__)

# The table property with the fingerprint of the partition that the rows of a day came from.
RECORD = "assistant.partition."
# A commit has at most so many days, and no further day above so many bytes of rows.
DAYS_PER_COMMIT = 100
BYTES_PER_COMMIT = 128 * 1024 * 1024
# Attempts to commit against concurrent writers. Each includes the retries of pyiceberg.
ATTEMPTS = 10
EACH_DAY_IS_WHOLE = "Each day has its old rows or its new ones."
# Takes the name of a dataset and rows of one day. Returns the rows that remain, and how many of the rows
# were removed or changed.
Eraser: TypeAlias = "Callable[[str, pa.Table], tuple[pa.Table, int]]"


@dataclass(slots=True)
class Loaded:
    """
    The result of a load of one dataset.

    :param location: URL of the table; None if there is none, because there are no partitions.
    :param columns: Types of the table by column.
    :param days: Days that were loaded.
    :param rows: Number of rows that the table now has for these days.
    :param replaced: Number of rows that it had for them before.
    :param unchanged: Number of partitions that were not read, because the table has them.
    :param kept: Number of days of the table that the lake no longer has.
    :param missing: Given days that the lake does not have; the table keeps what it has of them.
    """

    location: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    days: set[date] = field(default_factory=set)
    rows: int = 0
    replaced: int = 0
    unchanged: int = 0
    kept: int = 0
    missing: list[date] = field(default_factory=list)


def open_catalog(name: str, properties: Mapping[str, Any]) -> Catalog:
    """
    Return an Iceberg catalog.

    :param name: Name of the catalog in the configuration of pyiceberg: its environment variables, such as
        ``PYICEBERG_CATALOG__DEFAULT__URI``, or the file ``.pyiceberg.yaml``.
    :param properties: Properties that override the configuration.
    :raises AssistantInputError: pyiceberg is not installed, or the properties are incomplete.
    :raises AssistantWarehouseError: The catalog cannot be opened.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise AssistantInputError(
            "pyiceberg is not installed on this worker",
            safe=NOTHING_CHANGED,
            todo="Run pip install 'airflow-provider-assistant[iceberg]'.",
            field="catalog",
        ) from error
    with _explained(f"Iceberg catalog {name!r}"):
        return load_catalog(name, **properties)


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
    with _explained(f"Iceberg table {namespace}.{dataset}"):
        is_done = False
        while not is_done:
            for attempt in _attempts():
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
    table = _existing(catalog, identifier)
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
    is_of_days = _is_of(partition.day for partition in partitions)
    record = {f"{RECORD}{partition.day}": partition.fingerprint for partition in partitions}
    replaced = table.scan(row_filter=is_of_days).count()
    with table.transaction() as transaction, _no_warnings():
        _add_columns(transaction, dataset, rows.schema)
        # This also validates that no other writer has added rows of these days meanwhile, which append() does not.
        transaction.overwrite(rows, is_of_days)
        transaction.set_properties(record)
    return replaced


def _is_of(days: Iterable[date]) -> str:
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
            f"the columns of {dataset} do not match those of its table: {_first_line(error)}",
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


def _existing(catalog: Catalog, identifier: str) -> Table | None:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(identifier)
    except (NoSuchNamespaceError, NoSuchTableError):
        return None


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
    with _explained(f"Iceberg namespace {namespace}"):
        for dataset in DATASETS:
            table = _existing(catalog, f"{namespace}.{dataset}")
            if table is None:
                continue
            counts[dataset] = 0
            for day in _days(table):
                for attempt in _attempts():
                    with attempt:
                        counts[dataset] += _erase_day(table.refresh(), dataset, day, erase, dry_run=dry_run)
            if not dry_run:
                for attempt in _attempts():
                    with attempt:
                        _forget_history(table.refresh())
    return counts


def _days(table: Table) -> list[date]:
    days = table.scan(selected_fields=("date",)).to_arrow()["date"]
    return sorted(days.unique().to_pylist())


def _erase_day(table: Table, dataset: str, day: date, erase: Eraser, *, dry_run: bool) -> int:
    is_of_day = _is_of([day])
    remaining, count = erase(dataset, table.scan(row_filter=is_of_day).to_arrow())
    if count and not dry_run:
        with table.transaction() as transaction, _no_warnings():
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
            f"{len(remaining)} files of earlier snapshots of {table.location()} cannot be deleted",
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


def _attempts() -> Retrying:
    from pyiceberg import exceptions

    # A conflict with a concurrent writer, or a commit with an unknown result. The next attempt reads the table again,
    # so a commit that took effect is not repeated.
    retried = (
        exceptions.CommitFailedException,
        exceptions.CommitStateUnknownException,
        exceptions.NamespaceAlreadyExistsError,
        exceptions.ServiceUnavailableError,
        exceptions.TableAlreadyExistsError,
        exceptions.ValidationException,
        # Catalogs in a database.
        sa.exc.IntegrityError,
        sa.exc.OperationalError,
    )
    return Retrying(
        retry=retry_if_exception_type(retried),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.1, max=10),
        reraise=True,
    )


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Convert any error of a catalog or its storage into an AssistantWarehouseError."""
    try:
        yield
    except AssistantError:
        raise
    except Exception as error:  # noqa: BLE001
        # Catalogs and storages raise many exceptions, without a common base class. Their texts may contain rows, and
        # secrets that a catalog refused.
        raise AssistantWarehouseError(
            str(redact(f"{what}: {_first_line(error)}")),
            safe=EACH_DAY_IS_WHOLE,
            todo="Correct the properties of the catalog or the rights of its user, then run the task again.",
        ) from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]:.300}" if lines else type(error).__name__


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Ignore the warning of pyiceberg that there was nothing to delete."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match any records", UserWarning)
        yield
