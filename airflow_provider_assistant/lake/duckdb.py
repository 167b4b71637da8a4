"""
The warehouse in DuckDB: views over the Parquet files.

Nothing is loaded, so the file holds no rows, and a reader always sees what the lake has. The file is written only when
a dataset has its first file, and after an upgrade.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tenacity

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake.datasets import DATASETS, dataset_of
from airflow_provider_assistant.lake.files import OWNER, Day, days_of, foreign_file
from airflow_provider_assistant.lake.warehouse import Loaded, literal, quoted, views
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.storage.private import private_umask

if TYPE_CHECKING:
    import duckdb
    from airflow.providers.common.compat.sdk import ObjectStoragePath

# Maximum wait for other processes that have the file open, and the pause between two attempts, in seconds.
LOCK_TIMEOUT, PAUSE = 300.0, 1.0
# The day of a file. With hive_partitioning, a folder above the lake such as site_id=x would be a column as well.
_DAY = r"TRY_CAST(regexp_extract(filename, '/date=([^/]*)/[^/]*$', 1) AS DATE)"
_TYPES = {
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
    "string": "VARCHAR",
    "double": "DOUBLE",
    "int32": "INTEGER",
    "bool": "BOOLEAN",
}


def load(path: str, schema: str, root: str, lake: Mapping[str, Mapping[date, Day]]) -> Loaded:
    """
    Create the views over the files, unless they are there, and count their rows.

    :param path: The DuckDB file, which is created if it is missing.
    :param schema: Schema of the views.
    :param root: Folder of the datasets.
    :param lake: The days of the lake, by dataset.
    :raises AssistantInputError: DuckDB is not installed, or the folder of the file does not exist.
    :raises AssistantWarehouseError: The file cannot be opened or written, or a file of the lake cannot be read or is
        not one of a dataset.
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
    definitions = _definitions(schema, root, lake)
    file = Path(path)
    if not file.parent.is_dir():
        raise AssistantInputError(
            f"database {path!r} is in a folder that does not exist on this worker",
            safe=NOTHING_CHANGED,
            todo="Correct the path, or create the folder.",
            field="database",
        )
    folder = object_storage_path(root)
    try:
        if not (file.exists() and _has(file, schema, definitions, folder)):
            # DuckDB writes further files beside the database.
            with private_umask(), _open(file, folder) as connection:
                _create(connection, schema, definitions)
        with _open(file, folder, read_only=True) as connection:
            _check_files(connection, folder, lake)
            return _counted(connection, schema, lake)
    except (duckdb.Error, OSError) as error:
        raise AssistantWarehouseError(f"{path}: {error}", safe=AssistantWarehouseError.default_safe) from error


def _definitions(schema: str, root: str, lake: Mapping[str, Any]) -> dict[str, str]:
    """Return the SQL of all views by name, also of those datasets that are not loaded."""
    folder = object_storage_path(root)
    of_files = {
        name: _view_of_files(name, folder, has_files=name in lake or bool(days_of(root, name)))
        for name in {**DATASETS, **lake}
    }
    return of_files | {name: sql.replace("$schema", quoted(schema)) for name, sql in views().items()}


def _view_of_files(name: str, root: ObjectStoragePath, *, has_files: bool) -> str:
    """Return the SQL of a view of the files of a dataset, with null in the columns that a file lacks."""
    schema = dataset_of(name).schema()
    types = {field.name: _TYPES[str(field.type)] for field in schema}
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(column)}" for column, kind in types.items())
    rows = f"SELECT '' AS filename, {nothing} WHERE false"
    if has_files:
        options = "filename = true, hive_partitioning = false, union_by_name = true"
        rows += f" UNION ALL BY NAME SELECT * FROM read_parquet({_files(root, name)}, {options})"  # noqa: S608 (quoted)
    # A file that is not one of the dataset lacks this column. An evaluation may be of no known service.
    required = "name" if schema.field(OWNER).nullable else OWNER
    selected = f"SELECT {_DAY} AS date, {', '.join(map(quoted, types))} FROM ({rows})"  # noqa: S608 (quoted)
    return f"{selected} WHERE {quoted(required)} IS NOT NULL AND {_DAY} IS NOT NULL"


def _files(root: ObjectStoragePath, name: str) -> str:
    """Return the pattern of the files of a dataset for SQL."""
    return literal(f"{_url(root)}/{name}/date=*/[!._]*.parquet")


def _url(root: ObjectStoragePath) -> str:
    """Return the URL or path of the lake, in which a pattern has no special characters but those that follow."""
    path = root.path if root.protocol in {"file", ""} else f"{root.protocol}://{root.path}"
    return re.sub(r"[\[*?]", lambda match: f"[{match[0]}]", path)


def _has(file: Path, schema: str, definitions: Mapping[str, str], root: ObjectStoragePath) -> bool:
    """Return whether a file has these views. Reading it does not disturb other readers."""
    with _open(file, root, read_only=True) as connection:
        query = "SELECT view_name, comment FROM duckdb_views() WHERE schema_name = ?"
        return definitions.items() <= dict(connection.execute(query, [schema]).fetchall()).items()


def _create(connection: duckdb.DuckDBPyConnection, schema: str, definitions: Mapping[str, str]) -> None:
    connection.begin()
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    for name, sql in definitions.items():
        view = f"{quoted(schema)}.{quoted(name)}"
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS {sql}")
        connection.execute(f"COMMENT ON VIEW {view} IS {literal(sql)}")
    connection.commit()


def _check_files(connection: duckdb.DuckDBPyConnection, root: ObjectStoragePath, names: Iterable[str]) -> None:
    """Refuse files that are not those of a dataset. The views do not show their rows."""
    for name in names:
        rows = connection.execute(
            f"SELECT file_name FROM parquet_schema({_files(root, name)}) "  # noqa: S608 (quoted)
            f"GROUP BY file_name HAVING NOT bool_or(name = '{OWNER}') ORDER BY file_name LIMIT 1"
        ).fetchall()
        for (path,) in rows:
            raise foreign_file(path)


def _counted(connection: duckdb.DuckDBPyConnection, schema: str, lake: Mapping[str, Mapping[date, Day]]) -> Loaded:
    loaded = Loaded()
    for name, days in lake.items():
        rows = connection.sql(f"SELECT count(*) FROM {quoted(schema)}.{quoted(name)}").fetchall()  # noqa: S608 (quoted)
        loaded.rows[name] = rows[0][0]
        loaded.partitions += len(days)
    loaded.last_day = max((max(days) for days in lake.values()), default=None)
    return loaded


def _is_locked(error: BaseException) -> bool:
    # The second text is that of this process, if it has the file open in another way.
    return any(text in str(error) for text in ("lock on file", "different configuration"))


@tenacity.retry(
    retry=tenacity.retry_if_exception(_is_locked),
    stop=tenacity.stop_after_delay(LOCK_TIMEOUT),
    wait=tenacity.wait_fixed(PAUSE),
    reraise=True,
)
def _open(file: Path, root: ObjectStoragePath, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file, as soon as no other process writes it."""
    import duckdb

    # DuckDB would download an extension for a file of another database, such as SQLite.
    connection = duckdb.connect(file, read_only=read_only, config={"autoinstall_known_extensions": "false"})
    if root.protocol not in {"file", ""}:
        connection.register_filesystem(root.fs)
    return connection
