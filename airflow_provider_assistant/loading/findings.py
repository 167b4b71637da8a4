"""Findings: the rows that a person should look at, in a Parquet file."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, TypeAlias

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantStorageError
from airflow_provider_assistant.ledger.location import airflow_home
from airflow_provider_assistant.ledger.tries import MOST_FINDINGS
from airflow_provider_assistant.storage.opening import StoragePath, usable_path
from airflow_provider_assistant.storage.private import make_folder, open_to_write
from airflow_provider_assistant.texts import counted, escaped, shortened, storable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Kind: TypeAlias = Literal[
    "rejected",
    "failed",
    "ambiguous",
    "possibly_duplicated",
    "draft",
    "superseded",
    "skipped",
    "stale",
    "repeated",
    "left_out",
]
# Metadata key of a file: the DAG whose task wrote it, empty if none did. Those of datasets have it, too.
DAG_ID = b"assistant.dag_id"
FLUSH = 1000
# Number of findings of a kind to show or log; the others are only in the file.
LOGGED = 20
# Characters of a key in the log, if the findings cannot be written.
KEY_LENGTH = 80

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """
    Hold a row that a person should look at. The fields are the columns of the findings.

    :param key: Key of the row as readable text.
    :param row: Number of the row in the source, from 1. None if it is no longer in the source.
    :param document_ids: Ids of the documents concerned.
    :param group: Name of the group of the row, such as its page. None if it has none.
    """

    kind: Kind
    key: str
    reason: str
    row: int | None = None
    document_ids: Sequence[str] = ()
    group: str | None = None


class FindingsFile:
    """
    Write findings to a Parquet file. Use it as a context manager.

    :param path: Path of the file. None for a dry run, which writes nothing.
    :param always: Whether to write the file even if there are no findings.
    :param dag_id: The DAG of the task, for the file's metadata: pages show the file only as one of this DAG. Default:
        empty, no task.
    :ivar first: The first findings of each kind.
    :ivar head: The first findings, of which the ledger keeps so many.
    """

    def __init__(self, path: StoragePath | None, *, always: bool = True, dag_id: str = "") -> None:
        self.path = path
        self.first: list[Finding] = []
        self.head: list[Finding] = []
        self._dag_id = dag_id
        self._always = always
        self._counts: Counter[Kind] = Counter()
        self._waiting: list[Finding] = []
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._error: Exception | None = None
        self._is_closed = False

    @property
    def count(self) -> int:
        """Number of findings."""
        return self._counts.total()

    @property
    def listed(self) -> str | None:
        """Path of the file as text; None if there are no findings, or no file with them."""
        return str(self.path) if self.path and self.count and not self._error else None

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self._counts[finding.kind] += 1
        if self._counts[finding.kind] <= LOGGED:
            self.first.append(finding)
        if len(self.head) < MOST_FINDINGS:
            self.head.append(finding)
        self._waiting.append(finding)
        if len(self._waiting) >= FLUSH:
            self._flush()

    def close(self) -> AssistantStorageError | None:
        """
        Write the remaining findings and close the file, once.

        :return: The error if this write or an earlier one failed. The log then has the first keys of each kind.
        """
        if self._is_closed:
            return None
        self._is_closed = True
        if self.count or self._always:
            self._flush()
        self._end_file()
        return self._lost() if self._error else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        problem = self.close()
        if problem and error is None:
            raise problem
        if problem:
            # The error that ends the load is the more important one.
            log.error("%s", problem)

    def _flush(self) -> None:
        """Write what waits. An error waits until the end: a load must not lose outcomes because it cannot list them."""
        waiting, self._waiting = self._waiting, []
        if self.path is None or self._error:
            return
        try:
            self._write(self.path, waiting)
        except Exception as error:  # noqa: BLE001 (each storage raises different errors)
            self._error = error

    def _write(self, path: StoragePath, findings: Sequence[Finding]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = findings_schema().with_metadata({DAG_ID: self._dag_id.encode()})
        if self._writer is None:
            make_folder(path.parent)
            self._file = open_to_write(path)
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        if findings:
            rows = [asdict(finding) | {"reason": storable(finding.reason)} for finding in findings]
            self._writer.write_table(pa.Table.from_pylist(rows, schema=schema))

    def _end_file(self) -> None:
        try:
            with contextlib.ExitStack() as stack:
                if self._file:
                    stack.callback(self._file.close)
                if self._writer:
                    self._writer.close()
        except Exception as error:  # noqa: BLE001 (as above)
            self._error = self._error or error
        if self._error and self.path:
            # An incomplete Parquet file cannot be read.
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _lost(self) -> AssistantStorageError:
        """Log the first keys of each kind, and return the error that says that the list is lost."""
        for kind, count in self._counts.items():
            keys = [shortened(escaped(finding.key), KEY_LENGTH) for finding in self.first if finding.kind == kind]
            more = " and others" if count > LOGGED else ""
            log.error("Findings that are in no file, %d %s: %s%s.", count, kind, ", ".join(keys), more)
        error = AssistantStorageError(
            f"the findings cannot be written to {str(self.path)!r}: {self._error}",
            safe=f"The list of what needs attention ({counted(self.count, 'row')}) is lost, except for the first "
            f"{LOGGED} keys of each kind in the log.",
            todo="Free some space or set another path, then run the task again to get the list.",
            errno=getattr(self._error, "errno", None),
        )
        error.__cause__ = self._error
        return error


def read_findings(path: StoragePath) -> list[dict[str, Any]]:
    """
    Return the rows of a file of findings.

    :raises AssistantInputError: The file cannot be read, or is not a file of findings.
    """
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            table = pq.ParquetFile(file).read()
            if table.schema.names != findings_schema().names:
                raise ValueError(f"it has the columns {table.schema.names}")  # noqa: TRY301
    except (OSError, ValueError) as error:
        raise AssistantInputError(
            f"{str(path)!r} is not a findings file or cannot be read: {error}", field="file"
        ) from error
    return list(table.to_pylist())


def first_findings(path: StoragePath) -> list[Finding]:
    """Return those rows of a file of findings that the ledger keeps: the first ones."""
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        batches = pq.ParquetFile(file).iter_batches(batch_size=MOST_FINDINGS)
        return [Finding(**row) for row in next(batches).to_pylist()]


def findings_folder() -> StoragePath:
    """
    Return the folder for the findings of tasks without a ``findings_path``.

    :return: The folder ``[assistant] findings_folder``; if this option is empty, ``assistant_loads`` in AIRFLOW_HOME.
    """
    from airflow.providers.common.compat.sdk import conf

    configured: str = conf.get("assistant", "findings_folder", fallback="")
    return usable_path(configured) if configured else airflow_home() / "assistant_loads"


def findings_schema() -> pa.Schema:
    """Return the columns of a file of findings."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("kind", pa.string(), nullable=False),
            pa.field("row", pa.int64()),
            pa.field("key", pa.string(), nullable=False),
            pa.field("reason", pa.string(), nullable=False),
            pa.field("document_ids", pa.list_(pa.string()), nullable=False),
            pa.field("group", pa.string()),
        ]
    )
