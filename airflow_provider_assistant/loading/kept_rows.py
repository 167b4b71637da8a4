"""
Rows that a function returned, kept in a file while their task is deferred.

The resumed task is a new process, maybe on another machine. A second call of the function may return other rows, which
the load would create beside the first ones.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any

from airflow_provider_assistant.keys import key_text
from airflow_provider_assistant.loading.columns import BATCH, Batch, ColumnSelection
from airflow_provider_assistant.loading.sources import Source
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount
from airflow_provider_assistant.storage.paths import StoragePath, storage_path
from airflow_provider_assistant.storage.private_files import make_folder, open_to_write

log = logging.getLogger(__name__)


class KeptRows:
    """
    Read the rows of a file that :meth:`write` wrote.

    An object is a source of rows: a callable that yields batches.
    """

    def __init__(self, path: StoragePath | str) -> None:
        self.path = storage_path(path)

    def write(self, source: Source, wanted: ColumnSelection) -> bool:
        """
        Write the account of the source, and the rows, one JSON object a line.

        :param source: It was read as a whole before, so that its account is complete.
        :return: Whether they were written. If not, a warning is logged.
        """
        try:
            make_folder(self.path.parent)
            with open_to_write(self.path) as file:
                file.write(f"{json.dumps(source.account.as_dict())}\n".encode())
                for batch in source.batches():
                    for row in _rows(batch, set(wanted.any)):
                        file.write(f"{json.dumps(row)}\n".encode())
        except Exception as error:  # noqa: BLE001 (each storage raises different errors)
            log.warning("The rows cannot be kept in %s: %s. The function will be called again.", self.path, error)
            return False
        return True

    def exist(self) -> bool:
        """Return whether this machine can read the file; if not, log a warning."""
        if self.path.exists():
            return True
        log.warning("The rows in %s are gone. The function is called again.", self.path)
        return False

    def __call__(self) -> AccountedRows[list[dict[str, Any]]]:
        """Return batches of rows."""
        return AccountedRows(self._batches)

    def _batches(self, account: SourceAccount) -> Iterator[list[dict[str, Any]]]:
        with self.path.open("rb") as file:
            account.add(SourceAccount.from_dict(json.loads(file.readline())))
            while batch := [json.loads(line) for line in islice(file, BATCH)]:
                yield batch

    def remove(self) -> None:
        """Remove the file; log a warning if that fails."""
        try:
            self.path.unlink(missing_ok=True)
        except Exception as error:  # noqa: BLE001 (each storage raises different errors)
            log.warning("The rows in %s are not needed any more, but could not be removed: %s", self.path, error)


def _rows(batch: Batch, key_columns: set[str]) -> Iterator[dict[str, Any]]:
    if batch.problems:
        raise ValueError("some rows cannot be read")
    for values in zip(*batch.columns.values(), strict=True):
        row: dict[str, Any] = {}
        for name, value in zip(batch.columns, values, strict=True):
            row[name] = _json_value(value, is_key=name in key_columns)
        yield row


def _json_value(value: Any, *, is_key: bool) -> Any:
    """Return a value that JSON can hold."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if is_key:
        # The text by which keys are compared.
        return key_text(value)
    # The load rejects a list where it needs text, as it would reject the original value.
    return [str(value)]
