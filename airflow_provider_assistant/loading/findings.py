"""Findings: the rows that a person should look at, in a Parquet file."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, Self, TypeAlias

from airflow_provider_assistant.exceptions import AssistantStorageError
from airflow_provider_assistant.ledger.location import airflow_home
from airflow_provider_assistant.ledger.tries import MOST_FINDINGS
from airflow_provider_assistant.storage.paths import StoragePath, usable_path
from airflow_provider_assistant.storage.private_files import make_folder, open_to_write
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
# Number of findings of a kind to log; the others are only in the file.
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


class Findings(Protocol):
    """Takes the findings of a load."""

    def add(self, finding: Finding) -> None:
        """Add a finding."""


class FindingsFile:
    """
    Write findings to a Parquet file. Use it as a context manager.

    :param always: Whether to write the file even if there are no findings.
    :param dag_id: The DAG of the task, for the file's metadata: pages show the file only as one of this DAG. Default:
        empty, no task.
    """

    def __init__(self, path: StoragePath, *, always: bool = True, dag_id: str = "") -> None:
        self.path = path
        self._dag_id = dag_id
        self.count = 0
        self._always = always
        self._waiting: list[Finding] = []
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        # The ledger keeps the first ones.
        self.first: list[Finding] = []
        self._error: Exception | None = None
        self._is_closed = False
        # Number of findings and first keys by kind, for the log if the file cannot be written.
        self._counts: Counter[Kind] = Counter()
        self._first_keys: defaultdict[Kind, list[str]] = defaultdict(list)

    @property
    def listed(self) -> str | None:
        """Path of the file as text; None if there are no findings, or if the file cannot be written."""
        return str(self.path) if self.count and not self._error else None

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self.count += 1
        self._counts[finding.kind] += 1
        first_keys = self._first_keys[finding.kind]
        if len(first_keys) < LOGGED:
            first_keys.append(shortened(escaped(finding.key), KEY_LENGTH))
        self._waiting.append(finding)
        if len(self.first) < MOST_FINDINGS:
            self.first.append(finding)
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
        with self._noting_errors():
            try:
                if self._writer:
                    self._writer.close()
            finally:
                if self._file:
                    self._file.close()
        if self._error is None:
            return None
        # An incomplete Parquet file cannot be read.
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        for kind, count in self._counts.items():
            keys = ", ".join(self._first_keys[kind])
            more = " and others" if count > LOGGED else ""
            log.error("Findings that are in no file, %d %s: %s%s.", count, kind, keys, more)
        error = AssistantStorageError(
            f"the findings cannot be written to {str(self.path)!r}: {self._error}",
            safe=f"The list of what needs attention ({counted(self.count, 'row')}) is lost, except for the first "
            f"{LOGGED} keys of each kind in the log.",
            todo="Free some space or set another path, then run the task again to get the list.",
            errno=getattr(self._error, "errno", None),
        )
        error.__cause__ = self._error
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        problem = self.close()
        if problem is None:
            return
        if error is None:
            raise problem
        # The error that ends the load is the more important one.
        log.error("%s", problem)

    @contextlib.contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Defer an error until the file is closed: a load must not lose outcomes because it cannot list them."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (each storage raises different errors)
            self._error = self._error or error

    def _flush(self) -> None:
        if not self._error:
            with self._noting_errors():
                self._write()
        self._waiting = []

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = findings_schema().with_metadata({DAG_ID: self._dag_id.encode()})
        if self._writer is None:
            make_folder(self.path.parent)
            self._file = open_to_write(self.path)
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        if self._waiting:
            rows = []
            for finding in self._waiting:
                row = asdict(finding)
                row["reason"] = storable(finding.reason)
                rows.append(row)
            self._writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def read_findings(path: StoragePath) -> list[dict[str, Any]]:
    """Return the rows of a file of findings; nothing if the file does not exist."""
    import pyarrow.parquet as pq

    if not path.is_file():
        return []
    with path.open("rb") as file:
        rows: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist()
    return rows


def first_findings(path: StoragePath) -> list[Finding]:
    """Return the first rows of a file of findings, of which the ledger keeps so many."""
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
    if configured:
        return usable_path(configured)
    return airflow_home() / "assistant_loads"


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
