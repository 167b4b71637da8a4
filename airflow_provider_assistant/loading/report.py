"""What a load reports: counts that add up, and findings: the rows that a person should look at."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn, Self, TypeAlias, cast

from airflow_provider_assistant.api.models import ApiReply
from airflow_provider_assistant.exceptions import AssistantStorageError, escaped
from airflow_provider_assistant.lake import storable
from airflow_provider_assistant.ledger import Known, Settlement
from airflow_provider_assistant.loading.limiter import Limiter
from airflow_provider_assistant.loading.rows import Item
from airflow_provider_assistant.loading.source import Path_

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Kind: TypeAlias = Literal["rejected", "failed", "ambiguous", "possibly_duplicated", "superseded", "skipped", "stale"]
FLUSH = 1000
# Rejected rows beyond so many are only listed in the findings.
LOGGED = 20
# Seconds between two lines of progress.
PROGRESS = 10.0
# What becomes of a row; of every row one of these.
ENDS = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """
    What became of the rows.

    ``rows = created + unchanged + skipped + rejected + ambiguous + failed``.

    :param rows: Rows of the source.
    :param created: Created by this run, as the service acknowledged.
    :param unchanged: Already on the site with this content, or a repetition of another row.
    :param skipped: Changed, but ``on_change`` says not to create them anew; or being created by another task.
    :param rejected: Bad by themselves: refused here, or by the service with 400 or another 4xx that is about one row.
    :param ambiguous: May or may not have been created.
    :param failed: Not created, although nothing is wrong with them: the service failed, or the load stopped.
    :param changed: Created although the key was loaded before, with other content; the older documents remain.
    :param possibly_duplicated: Created, after an attempt that may have created them as well.
    :param stale: Loaded from this source before, and no longer in it; None where that was not judged.
    :param requests: Requests sent.
    :param throttled: Requests answered 429.
    :param seconds: How long it took.
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
        """How many rows have come to which end."""
        return {end: getattr(self, end) for end in ENDS}

    @property
    def done(self) -> int:
        """How many rows have found their end."""
        return sum(self.ends.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON types, fit for XCom."""
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
    A Parquet file with one row for everything that a person should look at.

    Columns: ``kind``, ``row`` (number in the source, null for what is no longer in it), ``key``, ``reason``, and
    ``document_ids``, the documents concerned.

    :param path: Where to write it.
    :param always: Whether to write it even if there is nothing to find.
    """

    def __init__(self, path: Path_, *, always: bool = True) -> None:
        self.path = path
        self.count = 0
        self._always = always
        self._rows: list[dict[str, Any]] = []
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._error: OSError | None = None

    @property
    def listed(self) -> str | None:
        """The path as text, or None if there are no findings."""
        return str(self.path) if self.count else None

    def add(
        self, kind: Kind, key: str, reason: str, *, row: int | None = None, document_ids: list[str] | None = None
    ) -> None:
        """Add a finding."""
        self.count += 1
        said = storable(reason)
        self._rows.append({"kind": kind, "row": row, "key": key, "reason": said, "document_ids": document_ids or []})
        if len(self._rows) >= FLUSH:
            self._flush()

    def close(self) -> None:
        """
        Finish the file.

        :raises AssistantStorageError: It could not be written, now or before.
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
            # Half a Parquet file cannot be read.
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
            raise AssistantStorageError(
                f"the findings cannot be written to {str(self.path)!r}: {self._error}. What was created is in the "
                f"ledger, but the list of {self.count} rows that need attention is lost. Free some space or choose "
                "another path, then run the task again: it lists them again.",
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
            # The error that ends the load says more.
            log.error("%s", problem)  # noqa: TRY400 (the traceback is that of the log's own write)

    @contextlib.contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Keep an error of the disk for the end: a load must not lose an outcome because it cannot be listed."""
        try:
            yield
        except OSError as error:
            self._error = self._error or error
        except ValueError:
            # pyarrow's own, of a file that it could not write a moment before.
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


class Tally:
    """
    Counts the ends of rows, and lists those that want attention.

    :param counts: The counts.
    :param findings: The list.
    """

    def __init__(self, counts: Counts, findings: Findings) -> None:
        self._counts = counts
        self._findings = findings

    def created(self, item: Item, reply: ApiReply, known: Known | None) -> None:
        """Count a created document."""
        self._counts.created += 1
        if reply.exchange.ambiguous or (known and known.state == "unclear"):
            self._counts.possibly_duplicated += 1
            reason = "an earlier attempt may have created it as well"
            self._find("possibly_duplicated", item, reason, reply.created_id)
        if known and known.content_hash not in {None, item.digest.content}:
            self._counts.changed += 1
            reason = "its content has changed; the older document remains on the site"
            self._find("superseded", item, reason, known.document_id)

    def rejected(self, item: Item, reason: str) -> None:
        """Count a bad row."""
        self._counts.rejected += 1
        self._find("rejected", item, reason)
        if self._counts.rejected <= LOGGED:
            log.warning("Row %d (%s) is rejected: %s", item.number, escaped(item.label), escaped(reason))

    def skipped(self, item: Item, reason: str, document_id: str | None = None) -> None:
        """Count a row that was left alone."""
        self._counts.skipped += 1
        self._find("skipped", item, reason, document_id)

    def ambiguous(self, item: Item, reason: str) -> None:
        """Count a row that may have been created."""
        self._counts.ambiguous += 1
        self._find("ambiguous", item, reason)

    def failed(self, item: Item, reason: str) -> None:
        """Count a row that was not created."""
        self._counts.failed += 1
        self._find("failed", item, reason)

    def doubled(self, found: Iterable[tuple[str, str | None, int, list[str]]]) -> None:
        """List anew what earlier tries of this task found, because their lists are gone."""
        for label, document_id, ambiguous, superseded in found:
            if ambiguous:
                self._counts.possibly_duplicated += 1
                reason = "an attempt of an earlier try may have created it as well"
                self._findings.add("possibly_duplicated", label, reason, document_ids=_ids(document_id))
            if superseded:
                reason = "its content has changed; the older documents remain on the site"
                self._findings.add("superseded", label, reason, document_ids=superseded)

    def stale(self, found: Iterable[tuple[str, str | None]]) -> None:
        """Count the documents that the source no longer has."""
        self._counts.stale = 0
        for label, document_id in found:
            self._counts.stale += 1
            reason = "no longer in the source; the API cannot delete its document"
            self._findings.add("stale", label, reason, document_ids=_ids(document_id))

    def unrecorded(self, made: Iterable[Settlement]) -> None:
        """List documents that were created although the ledger does not say so."""
        for settlement in made:
            label, ids = settlement.claim.label, _ids(settlement.document_id)
            log.error("Created, but not in the ledger: %s (%s)", escaped(label), escaped(str(settlement.document_id)))
            self._findings.add("ambiguous", label, "created, but the ledger could not record it", document_ids=ids)

    def _find(self, kind: Kind, item: Item, reason: str, document_id: str | None = None) -> None:
        self._findings.add(kind, item.label, reason, row=item.number, document_ids=_ids(document_id))


async def report_progress(counts: Counts, limiter: Limiter, started: float) -> NoReturn:
    """
    Log now and then how far a load is.

    :param counts: What has been done so far.
    :param limiter: How fast it may go.
    :param started: When it began, on the monotonic clock.
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
            f"{(counts.rows - counts.done) / rate:.0f} s left" if rate else "no end in sight",
            int(limiter.limit),
            limiter.throttled,
        )
        before = counts.done


def _ids(document_id: str | None) -> list[str]:
    return [document_id] if document_id else []
