"""Documents as a Parquet file, for a load in another task."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.knowledge.documents import COLUMNS, DocumentRow
from airflow_provider_assistant.source_account import ACCOUNT, AccountedRows, SourceAccount
from airflow_provider_assistant.storage.write import replace_bytes

# Rows in memory. A file is at most 10 MB, and a chunk a few kilobytes.
BATCH = 1000


def write_documents(rows: Iterable[DocumentRow], path: str | Path | ObjectStoragePath) -> dict[str, Any]:
    """
    Write documents to a Parquet file, replacing an existing one as a whole.

    A load that reads the file does not depend on the source being available, and its retries see the same rows. The
    account of the source, what was read and what was left out, is logged and becomes a part of the file: a load of the
    file reports it, too.

    :param rows: The documents. If reading them fails, an existing file stays as it is.
    :param path: Local path or object storage URL.
    :return: ``path``; ``rows``, the number of rows; and ``left_out``, the number of files, pages and chunks that
        the source left out.
    :raises AssistantStorageError: The file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    account = rows.account if isinstance(rows, AccountedRows) else SourceAccount()
    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    count = 0
    with tempfile.TemporaryFile(prefix="assistant-documents-") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in _batches(rows):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                count += len(batch)
            # The account is complete only now.
            writer.add_key_value_metadata({ACCOUNT: json.dumps(account.as_dict()).encode()})
        file.seek(0)
        replace_bytes(file.read(), ObjectStoragePath(str(path)))
    return {"path": str(path), "rows": count, "left_out": account.count}


def _batches(rows: Iterable[DocumentRow]) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch
