"""
Erase a person from the files of this package: Parquet, JSON, CSV, reports, and databases that are files.

A file of another program is never changed. If it names the person, it is listed as not reached.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_assistant import lake
from airflow_provider_assistant.asking.state import BatchState
from airflow_provider_assistant.erasure.databases import erase_from_duckdb, erase_from_ledger, is_ledger
from airflow_provider_assistant.erasure.ours import ANSWERS, BATCH_STATE, is_our_table, kind_of_text
from airflow_provider_assistant.erasure.person import Person
from airflow_provider_assistant.evaluation.runs import VERDICTS
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.lake.publish import encoded
from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.opening import StoragePath, local_path, object_storage_path, usable_path

if TYPE_CHECKING:
    import pyarrow as pa

# Bytes. A larger file is not read.
LARGEST = 1_000_000_000
GZIP, PARQUET, SQLITE, DUCKDB = b"\x1f\x8b", b"PAR1", b"SQLite format 3\0", b"DUCK"
# Files beside a SQLite database, which SQLite keeps itself.
SQLITE_FILES = ("-wal", "-shm", "-journal")

FOREIGN = "it names the person, and is not of this package"

# Numbers of what was erased, such as {"rows": 3, "files": 1}.
Counts: TypeAlias = Counter[str]
# Content of a file, and the counts. None if the file is to be deleted.
Erased: TypeAlias = tuple[bytes | None, Counts]


class NotReached(Exception):
    """A file has data of the person, or may have, and cannot be changed."""


class FileEraser:
    """
    Read or change the files below some folders.

    :param person: Learns from the files of this package.
    """

    def __init__(self, person: Person) -> None:
        self._person = person
        # Keys and repetitions of the person's questions, by the folder of the evaluation.
        self._questions: dict[str, set[str]] = {}
        self._dry_run = True
        # Paths that could not be read or changed, with the reason.
        self.not_reached: dict[str, str] = {}
        # Batch states that wait for an answer of the person.
        self.waiting: set[str] = set()

    @property
    def size(self) -> int:
        """Number of questions that are known, which grows while this reads."""
        return sum(map(len, self._questions.values()))

    def run(self, root: str, *, dry_run: bool) -> Counts:
        """
        Erase the person from all files below a folder, or from one file.

        :param dry_run: Change nothing, but learn and count.
        """
        self._dry_run = dry_run
        counts = Counts()
        for path in self._files(root):
            try:
                counts += self._file(path)
            except FileNotFoundError:
                # It was deleted meanwhile, such as a batch state.
                continue
            except NotReached as reason:
                self.not_reached[str(path)] = str(reason)
            except AssistantInputError:
                # A task uses the data right now.
                raise
            except Exception as error:  # noqa: BLE001 (storages and libraries raise any exception)
                self.not_reached[str(path)] = f"{type(error).__name__}: {error}"
        return counts

    def _files(self, root: str) -> list[StoragePath]:
        folder = usable_path(root)
        if folder.is_file():
            return [folder]
        if not folder.is_dir():
            raise AssistantInputError(f"there is no file or folder {root!r}", field="path")
        try:
            found = storage_files(folder, allow_empty=True, reason_skipped=lambda _: None)
        except AssistantInputError as error:
            self.not_reached[str(folder)] = error.happened
            return []
        # The answers come last: if this is interrupted, the next run still knows the keys.
        return sorted((path for _name, path in found), key=lambda path: (path.name in ANSWERS, str(path)))

    def _file(self, path: StoragePath) -> Counts:
        local = local_path(path)
        if local is not None:
            # A new file must replace the one that a link leads to.
            path = local = local.resolve()
        if path.name.endswith(SQLITE_FILES):
            return Counts()
        with path.open("rb") as file:
            start = file.read(16)
            if start == SQLITE:
                return self._sqlite(local)
            if start[8:12] == DUCKDB:
                return self._duckdb(local)
            content = start + file.read(LARGEST)
        if len(content) > LARGEST:
            raise NotReached("it is too large to be read")
        new, counts = self._content(path, content)
        if path.parent.name.endswith(BATCH_STATE) and counts:
            self._check_waiting(path.parent)
        if counts and not self._dry_run:
            _replace(path, new)
        return counts

    def _content(self, path: StoragePath, content: bytes) -> Erased:
        """Return the content of a file without the person."""
        if content.startswith(PARQUET):
            return self._parquet(path, content)
        if content.startswith(GZIP):
            self._check_foreign(path, gzip.decompress(content))
            return content, Counts()
        text = content.decode("utf-8", "surrogateescape")
        changes = {"json lines": self._json_lines, "summary": self._json, "page": self._page}
        kind = kind_of_text(path, text)
        if kind is None:
            self._check_foreign(path, content)
            return content, Counts()
        # A session may have the id of a DAG run, which names files of other people as well.
        if self._person.has_address(path.name):
            return None, Counts({"files": 1})
        new_text, counts = changes[kind](path, text)
        return None if new_text is None else new_text.encode("utf-8", "surrogateescape"), counts

    def _check_foreign(self, path: StoragePath, content: bytes) -> None:
        """Check that a file of another program does not name the person: it is not changed."""
        text = content.decode("utf-8", "surrogateescape")
        if self._person.has_address(path.name) or self._person.is_in(text):
            raise NotReached(FOREIGN)

    def _parquet(self, path: StoragePath, content: bytes) -> Erased:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        table = pq.ParquetFile(io.BytesIO(content)).read()
        if not is_our_table(path, table.schema):
            if self._person.has_address(path.name) or pc.any(self._person.rows(table)).as_py():
                raise NotReached(FOREIGN)
            return content, Counts()
        # Verdicts quote answers and know no question, and a finished evaluation does not need them.
        if self._person.has_address(path.name) or (path.name == VERDICTS and self._keys(path)):
            return None, Counts({"files": 1})
        is_erased = self._person.learn(table)
        if path.name in ANSWERS:
            self._learn_questions(path, table, is_erased)
        count = pc.sum(is_erased).as_py() or 0
        if count and not self._dry_run:
            content = encoded(table.filter(pc.invert(is_erased)))
        return content, _counted("rows", count)

    def _learn_questions(self, path: StoragePath, table: pa.Table, is_erased: pa.ChunkedArray) -> None:
        """Note which questions of an evaluation are the person's: its summary and its report name them."""
        keys = table.filter(is_erased)["key"].to_pylist()
        self._questions.setdefault(str(path.parent), set()).update(keys)

    def _keys(self, path: StoragePath) -> set[str]:
        """Return the keys of the person's questions in the evaluation of a file."""
        return self._questions.get(str(path.parent), set())

    def _json_lines(self, _path: StoragePath, text: str) -> tuple[str, Counts]:
        lines = []
        removed = 0
        for line in _lines(text):
            try:
                value = json.loads(line)
            except ValueError:
                # The last line of a file is incomplete after a kill.
                value = line
            self._person.learn_json(value)
            _, count = self._person.without(value)
            removed += bool(count)
            if not count:
                lines.append(line)
        return "".join(lines), _counted("rows", removed)

    def _json(self, path: StoragePath, text: str) -> tuple[str | None, Counts]:
        value = json.loads(text)
        self._person.learn_json(value)
        value, count = self._person.without(value, self._keys(path))
        if value is None:
            return None, _counted("files", count)
        return json.dumps(value, indent=2 if "\n" in text else None), _counted("texts", count)

    def _page(self, path: StoragePath, text: str) -> tuple[str | None, Counts]:
        """Delete a report: it can be written again, from files without the person."""
        if self._keys(path) or self._person.is_in(text) or self._person.is_quoted(text):
            return None, _counted("files", 1)
        return text, Counts()

    def _sqlite(self, file: Path | None) -> Counts:
        if file is None:
            raise NotReached("a database in object storage cannot be changed")
        engine = sqlite_engine(file)
        if not is_ledger(engine):
            engine.dispose()
            raise NotReached("it is a SQLite database, but not a ledger")
        with Ledger(engine, warn_if_new=False) as ledger:
            return erase_from_ledger(ledger, self._person, dry_run=self._dry_run)

    def _duckdb(self, file: Path | None) -> Counts:
        if file is None:
            raise NotReached("a database in object storage cannot be changed")
        counts, foreign_tables = erase_from_duckdb(file, self._person, dry_run=self._dry_run)
        for table in foreign_tables:
            self.not_reached[f"{file}: {table}"] = FOREIGN
        return counts

    def _check_waiting(self, folder: StoragePath) -> None:
        """Note a batch state that waits for an answer to a question of the person."""
        open_ids = set()
        # The questions were not written yet, or were deleted.
        with contextlib.suppress(AssistantError):
            open_ids = {request.request_id for request in BatchState(str(folder)).read_open()}
        if open_ids & self._person.requests:
            self.waiting.add(str(folder))


def _replace(path: StoragePath, content: bytes | None) -> None:
    """Replace a file as a whole, or delete it. A file of this machine keeps its mode."""
    if content is None:
        path.unlink()
        return
    local = local_path(path)
    mode = local.stat().st_mode if local else None
    lake.replace_bytes(content, object_storage_path(str(path)))
    if local and mode is not None:
        local.chmod(mode & 0o777)


def _counted(what: str, count: int) -> Counts:
    return Counts({what: count}) if count else Counts()


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends. str.splitlines() also splits at characters that JSON may contain."""
    return list(io.StringIO(text, newline=""))
