"""Folders with a meaning: partitions of Hive, whose names hold values, and tables that only their own library reads."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from urllib.parse import unquote

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.storage.paths import StoragePath

# Name of the partition of rows without a value.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Such as v9.metadata.json and 00009-<UUID>.gz.metadata.json.
_ICEBERG_VERSION = re.compile(r"(v\d+|\d{5,}-[0-9a-f-]{36})(\.\w+)?\.metadata\.json")


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
        if file.suffix.lower() != ".parquet":
            continue
        for folder in file.parents:
            if str(folder) in checked:
                break
            checked.add(str(folder))
            # A partition is below the folder of its table.
            if "=" not in folder.name:
                _check_no_table(folder)


def _check_no_table(folder: StoragePath) -> None:
    if _is_folder(folder / "_delta_log"):
        library, line = "deltalake", f"deltalake.DeltaTable({_plain(folder)!r}).to_pyarrow_table()"
        raise _refused(folder, "Delta", library, line)
    if _is_folder(folder / ".hoodie"):
        reader = f"hudi.HudiTableBuilder.from_base_uri({_plain(folder)!r}).build()"
        line = f"pyarrow.Table.from_batches({reader}.read_snapshot())"
        raise _refused(folder, "Hudi", "hudi", line)
    metadata_folder = folder / "metadata"
    if _is_folder(metadata_folder):
        versions = [name for name in _names_in(metadata_folder) if _ICEBERG_VERSION.fullmatch(name)]
        if versions:
            # v10 follows v9.
            newest = max(versions, key=lambda name: (len(name), name))
            line = f"StaticTable.from_metadata({_plain(metadata_folder / newest)!r}).scan().to_arrow()"
            raise _refused(folder, "Iceberg", "pyiceberg", f"pyiceberg.table.{line}")


def _plain(path: StoragePath) -> str:
    """Return a path without its Airflow connection, which only Airflow knows."""
    return re.sub(r"://[^/@]*@", "://", str(path))


def _is_folder(path: StoragePath) -> bool:
    # Folders above the source may be closed.
    with contextlib.suppress(OSError):
        return path.is_dir()
    return False


def _names_in(folder: StoragePath) -> list[str]:
    with contextlib.suppress(OSError):
        return [entry.name for entry in folder.iterdir()]
    return []


def _refused(folder: StoragePath, kind: str, library: str, line: str) -> AssistantInputError:
    return AssistantInputError(
        f"{str(folder)!r} is a {kind} table: its files also have rows that were deleted or replaced",
        safe=NOTHING_SENT,
        todo=f"Read it with its library (pip install {library}): source=lambda: {line}. For the command line, write "
        "the result to a Parquet file.",
        field="source",
    )
