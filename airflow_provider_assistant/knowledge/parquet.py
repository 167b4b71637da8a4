"""Documents as a Parquet file, for a load in another task."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge.rows import COLUMNS, DocumentRow
from airflow_provider_assistant.source_account import ACCOUNT, AccountedRows, SourceAccount
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.storage.write import replace_bytes

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

# Rows in memory. A file is at most 10 MB, and a chunk a few kilobytes.
BATCH = 1000


def write_documents(rows: Iterable[DocumentRow], path: str | Path | ObjectStoragePath) -> dict[str, Any]:
    """
    Write documents to a Parquet file, replacing an existing one as a whole.

    A load that reads the file does not depend on the source being available, and its retries see the same rows. The
    account of the source, what was read and what was left out, is logged and becomes a part of the file: a load of the
    file reports it, too.

    :param rows: The documents, which may have further columns. If reading them fails, an existing file stays as it is.
    :param path: Local path or object storage URL.
    :return: ``path``; ``rows``, the number of rows; and ``left_out``, the number of files, pages and chunks that
        the source left out.
    :raises AssistantInputError: A row has a column, or a type of value, that the first thousand rows have not.
    :raises AssistantStorageError: The file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = _batches(rows)
    batch: list[Any] = next(batches, [])
    schema = _schema(batch)
    count = 0
    with tempfile.TemporaryFile(prefix="assistant-documents-") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            while batch:
                new = {name for row in batch for name in row}.difference(schema.names)
                try:
                    if new:
                        raise pa.ArrowInvalid(f"new columns {', '.join(sorted(new))}")
                    writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                except pa.ArrowException as error:
                    raise AssistantInputError(
                        f"rows {count + 1} to {count + len(batch)} do not have the columns of the rows before: {error}",
                        todo="Give all rows the same columns, and each column values of one type.",
                        field="rows",
                    ) from error
                count += len(batch)
                batch = next(batches, [])
            # The account is complete only now.
            account = rows.account if isinstance(rows, AccountedRows) else SourceAccount()
            writer.add_key_value_metadata({ACCOUNT: json.dumps(account.as_dict()).encode()})
        file.seek(0)
        replace_bytes(file.read(), object_storage_path(str(path)))
    return {"path": str(path), "rows": count, "left_out": account.count}


def _batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch


def _schema(rows: list[Any]) -> Any:
    """Return the columns of a document, which are texts, and those that the rows have beside them."""
    import pyarrow as pa

    types = dict.fromkeys(COLUMNS, pa.string())
    for name in dict.fromkeys(name for row in rows for name in row):
        kind = pa.array([row.get(name) for row in rows]).type if name not in types else pa.string()
        types[name] = pa.string() if pa.types.is_null(kind) else kind
    return pa.schema(types)
