"""Read the rows of a partition."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantWarehouseError

if TYPE_CHECKING:
    import pyarrow as pa


def exported(root: str, dataset: str) -> bool:
    """Return whether a dataset has a folder, so whether it was ever exported."""
    return bool((ObjectStoragePath(root) / dataset).is_dir())


def read_day(root: str, dataset: str, day: date, schema: pa.Schema) -> pa.Table | None:
    """
    Return all rows of a partition, or None if there is no such partition.

    Columns are matched by name. A column that a file of an older version lacks is null. Additional columns in a file of
    a newer version come after the known ones.

    :param schema: Columns that this version knows.
    :raises AssistantWarehouseError: A column of a file has an incompatible type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = ObjectStoragePath(root) / dataset / f"date={day.isoformat()}"
    if not folder.is_dir():
        return None
    # The empty table puts the known columns first, and adds those that the files lack.
    tables = [_nullable(schema.empty_table())]
    for path in sorted(folder.iterdir(), key=str):
        # Skip names that begin with a dot or an underscore, like other dataset readers.
        if path.suffix != ".parquet" or path.name.startswith((".", "_")):
            continue
        with path.open("rb") as file:
            table = pq.ParquetFile(file).read()
        tables.append(_nullable(table.replace_schema_metadata()))
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise AssistantWarehouseError(
            f"the files of {folder} have columns of conflicting types: {error}",
            safe=NOTHING_CHANGED,
            todo="Export that day again with this version of the package.",
        ) from error


def _nullable(table: pa.Table) -> pa.Table:
    """Return a table with nullable columns: tables that differ in this cannot be joined."""
    import pyarrow as pa

    fields = [field.with_nullable(True) for field in table.schema]
    return table.cast(pa.schema(fields))
