"""Findings and answers in files that tasks wrote, read in parts: only a file of this package is shown."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_assistant.asking.answers import STATUSES
from airflow_provider_assistant.loading.findings import findings_schema
from airflow_provider_assistant.texts import for_spreadsheet
from airflow_provider_assistant.ui.parquet_reader import ParquetReader
from airflow_provider_assistant.ui.task_models import Bin, Finding, FindingsKind

if TYPE_CHECKING:
    import pyarrow as pa

    Batches: TypeAlias = Generator[pa.RecordBatch, None, None]

# Maximum number of findings that are read, and of answers: about a second.
MOST_FINDINGS, MOST_ANSWERS = 1_000_000, 200_000
# Maximum number of characters of a CSV file.
MOST_CSV = 200_000_000
# Kinds that are counted: this package has ten.
MOST_KINDS = 100
BINS = 20
COLUMNS = ("kind", "row", "key", "reason", "document_ids", "group")


class FindingsReader:
    """
    Read a file of findings.

    :param dag_id: DAG whose task must have written it.
    """

    def __init__(self, file: ParquetReader, dag_id: str) -> None:
        self._file, self._dag_id = file, dag_id

    def kinds(self) -> list[FindingsKind]:
        """Return the number of findings by kind, in the order of their first appearance."""
        counts: Counter[str] = Counter()
        with closing(self._batches(["kind"])) as batches:
            for batch in batches:
                for kind_count in batch.column(0).value_counts().to_pylist():
                    counts[kind_count["values"]] += kind_count["counts"]
                if len(counts) > MOST_KINDS:
                    break
        return [FindingsKind(kind=kind, count=count) for kind, count in counts.items()]

    def page(self, kind: str | None, limit: int, offset: int) -> list[Finding]:
        """
        Return a page of findings, in the order of the file.

        :param kind: None for all.
        """
        findings: list[Finding] = []
        # Rows that are still to be skipped.
        remaining_offset = offset
        with closing(self._batches_of_kind(kind)) as batches:
            for batch in batches:
                if remaining_offset >= batch.num_rows:
                    remaining_offset -= batch.num_rows
                    continue
                missing = limit - len(findings)
                rows = _rows(batch.slice(remaining_offset, missing))
                findings += [Finding(**row) for row in rows]
                remaining_offset = 0
                if len(findings) >= limit:
                    break
        return findings

    def csv(self, kind: str | None) -> Iterator[str]:
        """
        Yield the findings as CSV.

        :param kind: None for all.
        """
        yield _csv([COLUMNS])
        length = 0
        for batch in self._batches_of_kind(kind):
            lines = []
            for row in _rows(batch):
                row["document_ids"] = " ".join(row["document_ids"])
                lines.append([_safe(row[name]) for name in COLUMNS])
            text = _csv(lines)
            length += len(text)
            if length > MOST_CSV:
                yield _csv(
                    [["", "", "", "The list is cut here: it is too long. The file of the findings has the rest."]]
                )
                return
            yield text

    def _batches_of_kind(self, kind: str | None) -> Batches:
        import pyarrow.compute as pc

        for batch in self._batches(COLUMNS):
            if kind is None:
                yield batch
            else:
                yield batch.filter(pc.equal(batch.column("kind"), kind))

    def _batches(self, names: Sequence[str]) -> Batches:
        import pyarrow as pa

        schema = findings_schema()
        columns = pa.schema([schema.field(name) for name in names])
        yield from _first(self._file.batches(columns, self._dag_id), MOST_FINDINGS)


def answers_of(file: ParquetReader, dag_id: str) -> tuple[list[Bin], dict[str, int]]:
    """
    Return a histogram of the latencies of the complete answers of a chat batch, and the number of rows by status.

    :param dag_id: DAG whose task must have written the file.
    :return: At most :data:`BINS` equal bins in seconds, none if no answer has a latency; and counts, of which ``rows``
        is the sum.
    :raises UnreadableError: The file cannot be read, or is not the output of a chat batch.
    """
    import pyarrow as pa

    columns = pa.schema({"status": pa.string(), "seconds": pa.float64()})
    latencies: list[float] = []
    # All statuses are in the result, also those that no row has.
    count_by_status = Counter(dict.fromkeys(STATUSES, 0))
    with closing(_first(file.batches(columns, dag_id), MOST_ANSWERS)) as batches:
        for batch in batches:
            statuses, seconds = batch["status"].to_pylist(), batch["seconds"].to_pylist()
            for status, latency in zip(statuses, seconds, strict=True):
                if status in count_by_status:
                    count_by_status[status] += 1
                if status == "complete" and latency is not None:
                    latencies.append(latency)
    counts = {**count_by_status, "rows": count_by_status.total()}
    return histogram(latencies), counts


def histogram(values: Sequence[float]) -> list[Bin]:
    """
    Return a histogram with equal bins from 0 to the greatest value.

    :param values: Those that are not finite or less than 0 are left out.
    """
    counted = [value for value in values if math.isfinite(value) and value >= 0]
    if not counted:
        return []
    # If all values are 0, any width greater than 0 does.
    greatest = max(counted) or 1.0
    width = greatest / BINS
    counts: Counter[int] = Counter()
    for value in counted:
        # The greatest value is in the last bin, which has no other bin after it.
        number = min(BINS - 1, int(value / width)) if width else 0
        counts[number] += 1
    bins = []
    for number in range(BINS):
        low, high = number * width, (number + 1) * width
        bins.append(Bin(low=low, high=high, count=counts[number]))
    return bins


def _first(batches: Iterator[pa.RecordBatch], most_rows: int) -> Batches:
    """Yield parts of a file until a number of rows has been read."""
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        if rows >= most_rows:
            break


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for row in batch.to_pylist():
        row["document_ids"] = [document_id for document_id in row["document_ids"] if document_id is not None]
        yield row


def _safe(value: Any) -> Any:
    """Return a value that a spreadsheet does not take for a formula."""
    return for_spreadsheet(value) if isinstance(value, str) else value


def _csv(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
