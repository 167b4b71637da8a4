"""Open a transaction on a warehouse: DuckDB or PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    AssistantInputError,
    AssistantWarehouseError,
)
from airflow_provider_assistant.storage.private import make_folder, private_umask

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# Default schema of tables and views.
SCHEMA = "assistant"
# Default maximum wait for another process that holds a lock on the warehouse, in seconds.
LOCK_TIMEOUT = 300
POLL = 1.0
UNUSABLE_FILE = (
    "Give the path of a DuckDB file that this user may write. If the file is damaged, move it away: the next load "
    "creates it again, with all days of the lake. If a newer DuckDB has written it, upgrade duckdb on this worker."
)
# The first bytes of a SQLite file.
_SQLITE = b"SQLite format 3\0"
# DuckDB's own lock is one of processes: threads of one process share the database.
_one_load_per_process = threading.Lock()


class WarehouseTransaction(Protocol):
    """
    A transaction on a warehouse, for SQL that DuckDB and PostgreSQL both support.

    ``schema`` is where tables and views are; ``date_index`` is whether the database needs an index
    on the date column; ``uri`` names the database in OpenLineage.
    """

    schema: str
    date_index: bool
    uri: str

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """
        Run a statement.

        :param sql: The statement, without parameters.
        :return: Its rows; for a statement without rows, one row with the number of changed rows.
        """

    def define(self, *statements: str, timeout: float | None = None) -> bool:
        """
        Run statements that need a table or view for themselves.

        Such a statement waits for the readers of the table, and new readers wait for it. So it
        waits only briefly at a time.

        :param timeout: Maximum wait in seconds, after which nothing is changed. Default: None, as
            long as for other locks; then it is an error.
        :return: Whether the statements were run.
        """

    def insert(self, table: str, rows: pa.Table) -> None:
        """
        Append rows to a table; columns are matched by name.

        :param table: Quoted name of the table.
        """


class DuckDBTransaction:
    """A :class:`WarehouseTransaction` in a DuckDB file."""

    date_index = False

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path, schema: str) -> None:
        self._connection = connection
        self.schema = schema
        # DuckDB names a database after its file.
        self.uri = f"duckdb://{path.absolute()}/{path.name.partition('.')[0]}"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._connection.execute(sql).fetchall()

    def define(self, *statements: str, timeout: float | None = None) -> bool:  # noqa: ARG002
        """Run statements: nobody else has the database open."""
        for statement in statements:
            self.run(statement)
        return True

    def insert(self, table: str, rows: pa.Table) -> None:
        """Insert rows by the names of their columns."""
        self._connection.register("assistant_rows", rows)
        self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM assistant_rows")  # noqa: S608 (quoted)
        self._connection.unregister("assistant_rows")


@contextlib.contextmanager
def duckdb_transaction(
    path: str,
    *,
    schema: str = SCHEMA,
    lock_timeout: float = LOCK_TIMEOUT,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[WarehouseTransaction]:
    """
    Open a transaction on a DuckDB file for a ``with`` block; the file is created if it is missing.

    DuckDB lets only one process open a file for writing, and no other process can read it
    meanwhile.

    :param schema: Schema of tables and views.
    :param lock_timeout: Maximum wait for another process that has the file open, in seconds.
    :return: The transaction; it is committed at the end of the block, and rolled back after an
        error.
    :raises AssistantInputError: DuckDB is not installed.
    :raises AssistantWarehouseError: The file cannot be opened or written; it is unchanged.
    """
    try:
        import duckdb
    except ImportError as error:
        raise AssistantInputError(
            "DuckDB is not installed on this worker",
            safe=NOTHING_CHANGED,
            todo="Run pip install 'airflow-provider-assistant[warehouse]'.",
            field="database",
        ) from error
    if not _one_load_per_process.acquire(timeout=lock_timeout):
        raise AssistantWarehouseError(
            f"{path}: another load of this process has not ended for {lock_timeout:g} s",
            safe=NOTHING_CHANGED,
        )
    try:
        try:
            make_folder(Path(path).parent)
        except OSError as error:
            raise AssistantWarehouseError(
                f"{path}: its folder cannot be created: {error}", safe=NOTHING_CHANGED, todo=UNUSABLE_FILE
            ) from error
        # DuckDB writes further files beside the database.
        with private_umask(), contextlib.closing(_connected(path, lock_timeout, clock, sleep)) as connection:
            connection.begin()
            yield DuckDBTransaction(connection, Path(path), schema)
            # Closing the connection rolls back a transaction that was not committed.
            connection.commit()
    except duckdb.Error as error:
        # default_safe says that the transaction was rolled back.
        safe = AssistantWarehouseError.default_safe
        raise AssistantWarehouseError(f"{path}: {error}", safe=safe) from error
    finally:
        _one_load_per_process.release()


def _is_sqlite(path: Path) -> bool:
    """
    Return whether a file is one of SQLite.

    Not of a file that this process has open, which DuckDB has accepted then: closing it here would drop the locks of
    the process on it.
    """
    try:
        with os.scandir("/proc/self/fd") as descriptors:
            opened = [descriptor.path for descriptor in descriptors]
        if any(os.path.samefile(one, path) for one in opened if os.path.exists(one)):  # noqa: PTH110, PTH121 (faster)
            return False
    except OSError:
        # This operating system has no /proc, or the file does not exist yet.
        pass
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _connected(
    path: str,
    lock_timeout: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file, as soon as no other process has it open."""
    import duckdb

    if _is_sqlite(Path(path)):
        # DuckDB would try to download an extension.
        raise AssistantWarehouseError(f"{path} is a SQLite file", safe=NOTHING_CHANGED, todo=UNUSABLE_FILE)
    deadline = clock() + lock_timeout
    while True:
        try:
            return duckdb.connect(path)
        except duckdb.Error as error:
            # The second text is that of this process, if it reads the file elsewhere.
            texts = ("lock on file", "different configuration")
            is_locked = any(text in str(error) for text in texts)
            if not is_locked or clock() >= deadline:
                if is_locked:
                    raise AssistantWarehouseError(
                        f"{path}: another process has had it open for {lock_timeout:g} s: {error}", safe=NOTHING_CHANGED
                    ) from error
                raise AssistantWarehouseError(
                    f"{path}: it cannot be opened: {error}", safe=NOTHING_CHANGED, todo=UNUSABLE_FILE
                ) from error
        sleep(POLL)
