"""Findings and answers in files that tasks wrote, read in parts: only a file of this package is shown."""

from __future__ import annotations

import csv
import io
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.chat_batch.answers import STATUSES
from airflow_provider_assistant.loading.findings import findings_schema
from airflow_provider_assistant.texts import for_spreadsheet
from airflow_provider_assistant.ui.models import Problem
from airflow_provider_assistant.ui.task_models import Bin, Finding, FindingsKind

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

log = logging.getLogger(__name__)

# Maximum number of findings that are read, and of answers: about a second.
MOST_FINDINGS, MOST_ANSWERS = 1_000_000, 200_000
BINS = 20
COLUMNS = ("kind", "row", "key", "reason", "document_ids", "group")
# Number of columns of files that versions without groups wrote.
FORMER = 5


class UnreadableError(Exception):
    """
    A file cannot be shown.

    :param text: A sentence for the user.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(code="unreadable", text=text)


def open_findings(path: str) -> pq.ParquetFile:
    """
    Open a file of findings; close it after use.

    DAG authors choose the path, so a file with other columns is refused.

    :raises UnreadableError: The file cannot be read, or is not a file of findings.
    """
    import pyarrow as pa

    file = _open_parquet(path, "findings")
    schema = findings_schema()
    former_schema = pa.schema(list(schema)[:FORMER])
    if file.schema_arrow not in (schema, former_schema):
        file.close(force=True)
        raise UnreadableError(f"{path} is not a file of findings.")
    return file


def kinds_of(file: pq.ParquetFile) -> list[FindingsKind]:
    """Return the number of findings by kind, in the order of their first appearance."""
    counts: Counter[str] = Counter()
    for batch in _batches(file, ["kind"]):
        for kind_count in batch.column(0).value_counts().to_pylist():
            counts[kind_count["values"]] += kind_count["counts"]
    return [FindingsKind(kind=kind, count=count) for kind, count in counts.items()]


def page_of_findings(file: pq.ParquetFile, kind: str | None, limit: int, offset: int) -> list[Finding]:
    """
    Return a page of findings, in the order of the file.

    :param kind: None for all.
    """
    findings: list[Finding] = []
    # Rows that are still to be skipped.
    remaining_offset = offset
    for batch in _batches_of_kind(file, kind):
        if remaining_offset >= batch.num_rows:
            remaining_offset -= batch.num_rows
            continue
        missing = limit - len(findings)
        rows = batch.slice(remaining_offset, missing).to_pylist()
        findings += [Finding(**row) for row in rows]
        remaining_offset = 0
        if len(findings) >= limit:
            break
    return findings


def csv_of(file: pq.ParquetFile, kind: str | None) -> Iterator[str]:
    """
    Yield the findings as CSV, and close the file.

    :param kind: None for all.
    """
    try:
        yield _csv([COLUMNS])
        for batch in _batches_of_kind(file, kind):
            lines = []
            for row in batch.to_pylist():
                row["document_ids"] = " ".join(row["document_ids"])
                # A file without groups has no such column: its cells are empty.
                lines.append([_safe(row.get(name)) for name in COLUMNS])
            yield _csv(lines)
    finally:
        file.close(force=True)


def answers_of(path: str) -> tuple[list[Bin], dict[str, int]]:
    """
    Return a histogram of the latencies of the complete answers of a chat batch, and the number of rows by status.

    :return: At most :data:`BINS` equal bins in seconds, none if no answer has a latency; and counts, of which ``rows``
        is the sum.
    :raises UnreadableError: The file cannot be read, or is not the output of a chat batch.
    """
    file = _open_parquet(path, "answers")
    latencies: list[float] = []
    # All statuses are in the result, also those that no row has.
    count_by_status = Counter(dict.fromkeys(STATUSES, 0))
    try:
        if not {"status", "seconds"} <= set(file.schema_arrow.names):
            raise UnreadableError(f"{path} is not a file of answers.")
        for batch in _batches(file, ["status", "seconds"], MOST_ANSWERS):
            statuses, seconds = batch["status"].to_pylist(), batch["seconds"].to_pylist()
            for status, latency in zip(statuses, seconds, strict=True):
                count_by_status[str(status)] += 1
                if status == "complete" and isinstance(latency, float):
                    latencies.append(latency)
    finally:
        file.close(force=True)
    counts = {**count_by_status, "rows": count_by_status.total()}
    return histogram(latencies), counts


def histogram(values: Sequence[float]) -> list[Bin]:
    """
    Return a histogram with equal bins from 0 to the greatest value.

    :param values: Values of at least 0.
    """
    if not values:
        return []
    # If all values are 0, any width greater than 0 does.
    greatest = max(values) or 1.0
    width = greatest / BINS
    counts: Counter[int] = Counter()
    for value in values:
        number = int(value / width)
        # The greatest value is in the last bin, which has no other bin after it.
        number = min(BINS - 1, max(0, number))
        counts[number] += 1
    bins = []
    for number in range(BINS):
        low, high = number * width, (number + 1) * width
        bins.append(Bin(low=low, high=high, count=counts[number]))
    return bins


def _batches_of_kind(file: pq.ParquetFile, kind: str | None) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for batch in _batches(file, file.schema_arrow.names):
        if kind is None:
            yield batch
        else:
            yield batch.filter(pc.equal(batch.column("kind"), kind))


def _batches(file: pq.ParquetFile, columns: list[str], max_rows: int = MOST_FINDINGS) -> Iterator[pa.RecordBatch]:
    """
    Yield columns of a file in parts.

    :param max_rows: No part follows once this number of rows has been read.
    :raises UnreadableError: The file is damaged.
    """
    rows_read = 0
    try:
        for batch in file.iter_batches(batch_size=10_000, columns=columns, use_threads=False):
            yield batch
            rows_read += batch.num_rows
            if rows_read >= max_rows:
                return
    except (OSError, ValueError) as error:
        raise UnreadableError(f"The file cannot be read ({type(error).__name__}): it is damaged.") from error


def _open_parquet(path: str, what: str) -> pq.ParquetFile:
    """
    Open a Parquet file.

    :param what: Its content, for messages: ``findings`` or ``answers``.
    :raises UnreadableError: The file cannot be read.
    """
    import pyarrow.parquet as pq

    # Requests to web servers from the API server's network are not for DAG authors to choose.
    if path.startswith("http"):
        raise UnreadableError(f"{path} is not a file of {what}.")
    try:
        return pq.ParquetFile(ObjectStoragePath(path).open("rb"))
    except Exception as error:
        # Log only the type: the message may contain details of the storage that the user must not see.
        log.warning("The file %s cannot be read: %s", path, type(error).__name__)
        raise UnreadableError(
            f"The {what} are in {path}, but this API server cannot read them ({type(error).__name__}). If the file is "
            "on the disk of a worker, write it to a storage that both can reach: set findings_path or output_path, or "
            "[assistant] findings_folder."
        ) from error


def _safe(value: Any) -> Any:
    """Return a value that a spreadsheet does not take for a formula."""
    return for_spreadsheet(value) if isinstance(value, str) else value


def _csv(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
