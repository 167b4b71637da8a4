"""The report of a load: counts by outcome, and findings, the rows that a person should look at."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn, Self, TypeAlias, cast

from airflow_provider_assistant.api.models import ApiReply
from airflow_provider_assistant.client.rate_limiter import AdaptiveRateLimiter
from airflow_provider_assistant.exceptions import AssistantStorageError, escaped
from airflow_provider_assistant.lake import storable
from airflow_provider_assistant.ledger import ClaimOutcome, LedgerEntry
from airflow_provider_assistant.loading.rows import PreparedRow
from airflow_provider_assistant.storage.paths import StoragePath

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Kind: TypeAlias = Literal["rejected", "failed", "ambiguous", "possibly_duplicated", "superseded", "skipped", "stale"]
FLUSH = 1000
# Number of rejected rows to log; the others are only in the findings.
LOGGED = 20
# Seconds between two progress messages.
PROGRESS = 10.0
# The outcomes of a row; every row has exactly one.
ENDS = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """
    Count the rows of a load by outcome.

    ``rows = created + unchanged + skipped + rejected + ambiguous + failed``.

    :param rows: Rows of the source.
    :param created: Rows whose documents this run created; the service acknowledged them.
    :param unchanged: Rows whose documents are already on the site with this content, and duplicates of other rows.
    :param skipped: Changed rows that ``on_change`` leaves as they are, and rows that another task is loading.
    :param rejected: Bad rows: refused by this package, or by the service with 400 or another 4xx about one row.
    :param ambiguous: Rows that were sent and may or may not have been created.
    :param failed: Good rows that were not created, because the service failed or the load stopped.
    :param changed: Created rows whose key was loaded before with other content; the older documents remain.
    :param possibly_duplicated: Created rows of which an earlier attempt may have created another document.
    :param stale: Documents that were loaded from this source before and are no longer in it; None if not determined.
    :param requests: Requests sent.
    :param throttled: Requests answered with 429.
    :param seconds: Duration in seconds.
    """

    rows: int = 0
    created: int = 0
    unchanged: int = 0
    skipped: int = 0
    rejected: int = 0
    ambiguous: int = 0
    failed: int = 0
    changed: int = 0
    possibly_duplicated: int = 0
    stale: int | None = None
    requests: int = 0
    throttled: int = 0
    seconds: float = 0.0

    @property
    def ends(self) -> dict[str, int]:
        """Number of rows by outcome."""
        return {end: getattr(self, end) for end in ENDS}

    @property
    def done(self) -> int:
        """Number of rows that have an outcome."""
        return sum(self.ends.values())

    def as_dict(self) -> dict[str, Any]:
        """
        Return the counts as plain JSON types for XCom.

        :return: Mapping with one key per count, ``seconds`` and ``rows_per_second``.
        """
        rate = self.rows / self.seconds if self.seconds else 0.0
        return {**asdict(self), "seconds": round(self.seconds, 3), "rows_per_second": round(rate, 1)}

    def __str__(self) -> str:
        parts = [f"{count} {end}" for end, count in self.ends.items() if count or end == "created"]
        notes = [
            f"{getattr(self, note) or 0} {text}"
            for note, text in (
                ("changed", "of them changed"),
                ("possibly_duplicated", "possibly duplicated"),
                ("stale", "stale"),
            )
            if getattr(self, note)
        ]
        return f"{self.rows} rows: {', '.join(parts)}" + (f" ({', '.join(notes)})" if notes else "")


class Findings:
    """
    Write a Parquet file that lists the rows that a person should look at.

    Columns: ``kind``, ``row`` (number in the source, null if the row is no longer in it), ``key``, ``reason``, and
    ``document_ids``, the documents concerned.

    :param path: Path of the file.
    :param always: Whether to write the file even if it has no rows. Default: True.
    """

    def __init__(self, path: StoragePath, *, always: bool = True) -> None:
        self.path = path
        self.count = 0
        self._always = always
        self._rows: list[dict[str, Any]] = []
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._error: OSError | None = None

    @property
    def listed(self) -> str | None:
        """Path of the file as text, or None if there are no findings."""
        return str(self.path) if self.count else None

    def add(
        self, kind: Kind, key: str, reason: str, *, row: int | None = None, document_ids: list[str] | None = None
    ) -> None:
        """
        Add a finding.

        :param kind: Kind of the finding.
        :param key: Key of the row as readable text.
        :param reason: Why a person should look at the row.
        :param row: Number of the row in the source, from 1; None if it is no longer in the source.
        :param document_ids: Ids of the documents concerned.
        """
        self.count += 1
        finding = {"kind": kind, "row": row, "key": key, "reason": storable(reason), "document_ids": document_ids or []}
        self._rows.append(finding)
        if len(self._rows) >= FLUSH:
            self._flush()

    def close(self) -> None:
        """
        Write the remaining findings and close the file.

        :raises AssistantStorageError: This write or an earlier one failed.
        """
        if self.count or self._always:
            self._flush()
        with self._noting_errors():
            try:
                if self._writer:
                    self._writer.close()
            finally:
                if self._file:
                    self._file.close()
        if self._error:
            # An incomplete Parquet file cannot be read.
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
            raise AssistantStorageError(
                f"the findings cannot be written to {str(self.path)!r}: {self._error}. The ledger contains all created "
                f"documents, but the list of {self.count} rows that need attention is lost. Free some space or set "
                "another path, then run the task again to get the list.",
                code=self._error.errno,
            ) from self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            self.close()
        except AssistantStorageError as problem:
            if error is None:
                raise
            # The error that ends the load is the more important one.
            log.error("%s", problem)  # noqa: TRY400 (the traceback would only show the failed write)

    @contextlib.contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Defer a storage error until the file is closed: a load must not lose outcomes because it cannot list them."""
        try:
            yield
        except OSError as error:
            self._error = self._error or error
        except ValueError:
            # pyarrow raises this for a file whose previous write failed.
            if not self._error:
                raise

    def _flush(self) -> None:
        if not self._error:
            with self._noting_errors():
                self._append()
        self._rows = []

    def _append(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = _schema()
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = cast("BinaryIO", self.path.open("wb"))
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=schema))


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("kind", pa.string(), nullable=False),
            pa.field("row", pa.int64()),
            pa.field("key", pa.string(), nullable=False),
            pa.field("reason", pa.string(), nullable=False),
            pa.field("document_ids", pa.list_(pa.string()), nullable=False),
        ]
    )


class LoadReport:
    """
    Count the outcomes of rows, and add the rows that a person should look at to the findings.

    :param counts: Counts to increase.
    :param findings: Findings to extend.
    """

    def __init__(self, counts: Counts, findings: Findings) -> None:
        self._counts = counts
        self._findings = findings

    def created(self, item: PreparedRow, reply: ApiReply, entry: LedgerEntry | None) -> None:
        """
        Count a created document.

        :param item: The row.
        :param reply: The service's acknowledgement.
        :param entry: The ledger entry of the row's key before this load; None if it had none.
        """
        self._counts.created += 1
        if reply.call_info.ambiguous or (entry and entry.state == "ambiguous"):
            self._counts.possibly_duplicated += 1
            reason = "an earlier attempt may have created it as well"
            self._find("possibly_duplicated", item, reason, reply.created_id)
        if entry and entry.content_hash not in {None, item.digest.content}:
            self._counts.changed += 1
            reason = "its content has changed; the older document remains on the site"
            self._find("superseded", item, reason, entry.created_id)

    def rejected(self, item: PreparedRow, reason: str) -> None:
        """Count a bad row."""
        self._counts.rejected += 1
        self._find("rejected", item, reason)
        if self._counts.rejected <= LOGGED:
            log.warning("Row %d (%s) is rejected: %s", item.number, escaped(item.label), escaped(reason))

    def skipped(self, item: PreparedRow, reason: str, document_id: str | None = None) -> None:
        """Count a row that was deliberately not sent."""
        self._counts.skipped += 1
        self._find("skipped", item, reason, document_id)

    def ambiguous(self, item: PreparedRow, reason: str) -> None:
        """Count a row that may have been created."""
        self._counts.ambiguous += 1
        self._find("ambiguous", item, reason)

    def failed(self, item: PreparedRow, reason: str) -> None:
        """Count a row that was not created."""
        self._counts.failed += 1
        self._find("failed", item, reason)

    def doubled(self, found: Iterable[tuple[str, str | None, int, list[str]]]) -> None:
        """
        List documents that earlier tries of this task instance created, whose findings files are lost.

        :param found: Key label, document id, number of ambiguous attempts and ids of superseded documents.
        """
        for label, document_id, ambiguous, superseded in found:
            if ambiguous:
                self._counts.possibly_duplicated += 1
                reason = "an earlier try of this task may have created it as well"
                self._findings.add("possibly_duplicated", label, reason, document_ids=_ids(document_id))
            if superseded:
                reason = "its content has changed; the older documents remain on the site"
                self._findings.add("superseded", label, reason, document_ids=superseded)

    def stale(self, found: Iterable[tuple[str, str | None]]) -> None:
        """
        Count and list the documents whose rows are no longer in the source.

        :param found: Key label and document id of each.
        """
        self._counts.stale = 0
        for label, document_id in found:
            self._counts.stale += 1
            reason = "no longer in the source; the API cannot delete its document"
            self._findings.add("stale", label, reason, document_ids=_ids(document_id))

    def unrecorded(self, created: Iterable[ClaimOutcome]) -> None:
        """List documents that were created but could not be recorded in the ledger."""
        for settlement in created:
            label, ids = settlement.claim.label, _ids(settlement.created_id)
            log.error("Created, but not in the ledger: %s (%s)", escaped(label), escaped(str(settlement.created_id)))
            self._findings.add("ambiguous", label, "created, but the ledger could not record it", document_ids=ids)

    def _find(self, kind: Kind, item: PreparedRow, reason: str, document_id: str | None = None) -> None:
        self._findings.add(kind, item.label, reason, row=item.number, document_ids=_ids(document_id))


async def report_progress(counts: Counts, limiter: AdaptiveRateLimiter, started: float) -> NoReturn:
    """
    Log the progress of a load every 10 seconds until cancelled.

    :param counts: Counts of the load.
    :param limiter: Rate limiter of the load.
    :param started: Start of the load on the monotonic clock, in seconds.
    """
    before = counts.done
    while True:
        await asyncio.sleep(PROGRESS)
        rate = (counts.done - before) / PROGRESS
        log.info(
            "%d of %d rows after %.0f s, %.0f rows/s, %s; at most %d in flight; %d answers were 429.",
            counts.done,
            counts.rows,
            time.monotonic() - started,
            rate,
            f"{(counts.rows - counts.done) / rate:.0f} s left" if rate else "remaining time unknown",
            int(limiter.limit),
            limiter.throttled,
        )
        before = counts.done


def _ids(document_id: str | None) -> list[str]:
    return [document_id] if document_id else []
