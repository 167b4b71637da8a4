"""Folders with a meaning: partitions of Hive, whose names hold values, and tables that only their own library reads."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.storage.paths import StoragePath

# Name of the partition of rows without a value.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def partition_values(path: StoragePath, names: Iterable[str]) -> dict[str, str | None]:
    """
    Return the values of columns that the folders of a file name, as in ``category=returns/part-0.parquet``.

    :param names: The columns to look for. Other folders with an equals sign have no meaning.
    :return: Values by column; None for the partition of rows without a value.
    """
    wanted_names = set(names)
    values: dict[str, str | None] = {}
    folder_names = str(path).split("/")[:-1]
    for folder_name in folder_names:
        encoded_name, equals, value = folder_name.partition("=")
        name = unquote(encoded_name)
        if equals and name in wanted_names:
            values[name] = None if value == NO_VALUE else unquote(value)
    return values


def check_no_tables(files: Iterable[StoragePath]) -> None:
    """
    Refuse the Parquet files of a Delta, Hudi or Iceberg table: they also have rows that were deleted or replaced.

    :raises AssistantInputError: There is such a file. The message has the line that reads the table.
    """
    checked: set[str] = set()
    for file in files:
        if file.suffix != ".parquet":
            continue
        folder = file.parent
        while str(folder) not in checked:
            checked.add(str(folder))
            _check_no_table(folder)
            is_below_table = "=" in folder.name or folder.name == "data"
            if is_below_table:
                folder = folder.parent


def _check_no_table(folder: StoragePath) -> None:
    if (folder / "_delta_log").is_dir():
        library, line = "deltalake", f"deltalake.DeltaTable({str(folder)!r}).to_pyarrow_table()"
        raise _refused(folder, "Delta", library, line)
    if (folder / ".hoodie").is_dir():
        reader = f"hudi.HudiTableBuilder.from_base_uri({str(folder)!r}).build()"
        line = f"pyarrow.Table.from_batches({reader}.read_snapshot())"
        raise _refused(folder, "Hudi", "hudi", line)
    metadata_folder = folder / "metadata"
    if metadata_folder.is_dir():
        names = [entry.name for entry in metadata_folder.iterdir()]
        versions = [name for name in names if name.endswith(".metadata.json")]
        if versions:
            # v10 follows v9.
            newest = max(versions, key=lambda name: (len(name), name))
            line = f"StaticTable.from_metadata({str(metadata_folder / newest)!r}).scan().to_arrow()"
            raise _refused(folder, "Iceberg", "pyiceberg", f"pyiceberg.table.{line}")


def _refused(folder: StoragePath, kind: str, library: str, line: str) -> AssistantInputError:
    return AssistantInputError(
        f"{str(folder)!r} is a {kind} table: its files also have rows that were deleted or replaced",
        safe=NOTHING_SENT,
        todo=f"Read it with its library (pip install {library}): source=lambda: {line}. For the command line, write "
        "the result to a Parquet file.",
        field="source",
    )
