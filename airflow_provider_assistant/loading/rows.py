"""Rows and files to load, each with its key, its content hash, and the call that creates its document."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.payloads import Payload, checked
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label, shortened
from airflow_provider_assistant.lake import storable
from airflow_provider_assistant.loading.columns import Batch, ColumnSelection
from airflow_provider_assistant.loading.sources import Source
from airflow_provider_assistant.storage.paths import StoragePath

log = logging.getLogger(__name__)

# Raises a TypeError for anything but a string, unlike len().
_length = str.__len__
READ_SIZE = 1 << 20


class RowFingerprint(NamedTuple):
    """
    Hold the key and the content hash of one row, which is all that the preflight needs.

    :param key: RowFingerprint of the row's key: its key columns, or its whole content.
    :param content: Content hash; it differs once the row has changed.
    """

    key: str
    content: str


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """
    Hold one row to load.

    :param number: Number of the row in the source, from 1.
    :param digest: Key and content hash of the row.
    :param label: Key as readable text.
    :param call: Call that creates the document. None if the row is bad.
    :param problem: Why the row is bad. None if it is not.
    :param place: Position in the source as text, such as ``faq.csv, line 7``.
    """

    number: int
    digest: RowFingerprint
    label: str
    call: Call[Any] | None = None
    problem: str | None = None
    place: str = ""


class Rows(Protocol):
    """Rows that can be read repeatedly, always in the same order."""

    def digests(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield key and content hash of all rows, in batches.

        :return: One list per batch.
        """

    def items(self, wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the rows with the wanted numbers.

        :param wanted: Returns whether a row number, from 1, is wanted.
        :return: The rows in their order.
        """


class DataframeRows:
    """
    Read the rows of a tabular source; each row is one document.

    :param source: Source of the rows.
    :param payload: Model of the document to create.
    :param columns: Mapping of each field that varies by row to its column.
    :param constants: Mapping of each field that is the same for all rows to its value.
    :param key_columns: Columns that identify a row. If empty, the whole content identifies it.
    :param call: Returns the call that creates a given document.
    :param allow_empty: Whether the source may have no rows. Default: False.
    """

    def __init__(
        self,
        source: Source,
        *,
        payload: type[Payload],
        columns: Mapping[str, str],
        constants: Mapping[str, str],
        key_columns: Sequence[str],
        call: Callable[[Any], Call[Any]],
        allow_empty: bool = False,
    ) -> None:
        self._source = source
        self._payload = payload
        self._columns = columns
        self._constants = constants
        self._key_columns = key_columns
        self._call = call
        self._allow_empty = allow_empty
        self._content_prefix = encoded(
            [payload.__name__, *(text for item in sorted(constants.items()) for text in item)]
        )
        self._optional = {name for name, field in payload.model_fields.items() if not field.is_required()}
        self._names = {field: f"column {column!r}" for field, column in columns.items()}
        self._count: int | None = None

    def digests(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield key and content hash of all rows, in batches.

        :return: One list per batch.
        :raises AssistantInputError: The source has no rows and ``allow_empty`` is False.
        """
        count = 0
        for batch in self._source.batches():
            count += len(batch)
            yield self._read(batch).digests
        _check_count(count, self._allow_empty)
        self._count = count

    def items(self, wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the rows with the wanted numbers.

        :param wanted: Returns whether a row number, from 1, is wanted.
        :return: The rows in their order.
        """
        count = 0
        for batch in self._source.batches():
            count += len(batch)
            if not any(map(wanted, range(batch.start, batch.start + len(batch)))):
                continue
            read = self._read(batch)
            for position in range(len(batch)):
                if wanted(batch.start + position):
                    yield self._item(batch, position, read)
        if self._count not in {None, count}:
            log.warning(
                "The source had %d rows when it was checked and %d when it was sent: it changed in between. The next "
                "run loads the rest.",
                self._count,
                count,
            )

    def _read(self, batch: Batch) -> _Read:
        contents = [digest_of(self._content_prefix + encoded(row)) for row in self._contents(batch)]
        problems = dict(batch.problems)
        texts = []
        for name in self._key_columns:
            column, bad = key_column(batch.columns[name])
            for position, text in enumerate(column) if None in column else ():
                if text is None:
                    problems.setdefault(position, f"key column {name!r} {bad.get(position, 'is empty')}")
            texts.append(column)
        keys = list(zip(*texts, strict=True))
        digests = [RowFingerprint(content, content) for content in contents]
        if keys:
            digests = [
                RowFingerprint(digest_of(encoded(key)), content) for key, content in zip(keys, contents, strict=True)
            ]
        for position in problems:
            # Bad rows get distinct keys from their numbers; otherwise they would count as duplicates of each other.
            key = digest_of(encoded([None, str(batch.start + position)]))
            digests[position] = RowFingerprint(key, key)
        return _Read(digests, keys, problems)

    def _contents(self, batch: Batch) -> Iterator[tuple[Any, ...]]:
        """Yield the fields of every row; blank optional fields are None, because CSV has no other way to omit them."""
        columns = [
            list(map(_unless_blank, batch.columns[column])) if field in self._optional else batch.columns[column]
            for field, column in self._columns.items()
        ]
        return zip(*columns, strict=True) if columns else iter([()] * len(batch))

    def _item(self, batch: Batch, position: int, read: _Read) -> PreparedRow:
        number = batch.start + position
        fields = {field: batch.columns[column][position] for field, column in self._columns.items()}
        fields |= {field: _unless_blank(fields[field]) for field in self._optional & fields.keys()}
        item = PreparedRow(
            number, read.digests[position], self._label(fields, read, position), place=batch.place(position)
        )
        problem = read.problems.get(position)
        if problem is None:
            try:
                document = checked(self._payload, {**self._constants, **fields}, names=self._names)
                return replace(item, call=self._call(document))
            except AssistantInputError as error:
                problem = str(error)
        return replace(item, problem=f"{item.place}: {problem}" if batch.file else problem)

    def _label(self, fields: Mapping[str, Any], read: _Read, position: int) -> str:
        if read.keys:
            return storable(key_label(self._key_columns, read.keys[position]))
        values = {name: str(value) for name, value in fields.items() if value is not None}
        return storable(key_label(tuple(values), tuple(values.values())))


def _unless_blank(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


class _Read(NamedTuple):
    """A batch's digests, values of the key columns, and problems by position."""

    digests: list[RowFingerprint]
    keys: list[tuple[str | None, ...]]
    problems: dict[int, str]


class FileRows:
    """
    Read files to upload; each file is one document.

    :param files: Pairs of name and path. The name identifies the file.
    :param upload: Returns the upload for a path and the file name that the service sees.
    :param call: Returns the call that creates a document from an upload.
    :param allow_empty: Whether the list may be empty. Default: False.
    :raises AssistantInputError: Two files have the same name.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, StoragePath]],
        *,
        upload: Callable[[StoragePath, str], Upload],
        call: Callable[[Upload], Call[Any]],
        allow_empty: bool = False,
    ) -> None:
        _check_names(files)
        self._files = files
        self._sent_as = shortest_names([name for name, _ in files])
        self._upload = upload
        self._call = call
        self._allow_empty = allow_empty
        self._read: dict[int, _ReadFile] = {}

    def digests(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield key and content hash of all files, reading each file once.

        :return: One list per file.
        :raises AssistantInputError: There are no files and ``allow_empty`` is False.
        """
        _check_count(len(self._files), self._allow_empty)
        for number, (name, path) in enumerate(self._files, start=1):
            read = self._read[number] = _read_file(name, path)
            yield [read.digest]

    def items(self, wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """
        Yield the files with the wanted numbers.

        :param wanted: Returns whether a file number, from 1, is wanted.
        :return: The files in their order.
        """
        for number, (name, path) in enumerate(self._files, start=1):
            if wanted(number):
                yield self._item(number, name, path)

    def _item(self, number: int, name: str, path: StoragePath) -> PreparedRow:
        read = self._read[number]
        item = PreparedRow(number, read.digest, shortened(storable(name)), place=f"file {name!r}")
        if read.problem:
            return replace(item, problem=read.problem)
        try:
            upload = self._upload(path, self._sent_as[name])
        except AssistantInputError as error:
            return replace(item, problem=str(error))
        unchanged = replace(upload, open=lambda: _opened(upload, path, read.size))
        return replace(item, call=self._call(unchanged))


@contextlib.contextmanager
def _opened(upload: Upload, path: StoragePath, size: int) -> Iterator[BinaryIO]:
    """Open a file; raise an error if its size has changed since the preflight."""
    with upload.open() as file:
        found = file.seek(0, os.SEEK_END) if file.seekable() else size
        if found != size:
            raise _changed(path, f"from {size} to {found} bytes")
        if file.seekable():
            file.seek(0)
        yield cast("BinaryIO", _Checked(file, path, size))


class _Checked(io.RawIOBase):
    """
    A file that yields exactly as many bytes as it had at the preflight, or raises an error.

    A request announces its length first. If the file had become shorter, the service would wait for the rest until the
    timeout, and the row would become ambiguous.
    """

    def __init__(self, file: BinaryIO, path: StoragePath, size: int) -> None:
        self._file, self._path, self._size = file, path, size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the wrapped file is seekable."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position; the end of the file is its size at the preflight."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = self._file.seek(start + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes and return their number; 0 at the end."""
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._position)
        try:
            piece = self._file.read(wanted)
        except OSError as error:
            raise AssistantInputError(f"file {str(self._path)!r} cannot be read: {error}", field="file") from error
        if wanted > 0 and not piece:
            raise _changed(self._path, f"from {self._size} to {self._position} bytes")
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


def _changed(path: StoragePath, how: str) -> AssistantInputError:
    return AssistantInputError(
        f"file {str(path)!r} has changed {how} since it was checked; the next run sends it", field="file"
    )


class _ReadFile(NamedTuple):
    digest: RowFingerprint
    size: int = 0
    problem: str | None = None


def _read_file(name: str, path: StoragePath) -> _ReadFile:
    key = digest_of(encoded([name]))
    content = hashlib.blake2b(digest_size=16)
    size = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(READ_SIZE):
                content.update(piece)
                size += len(piece)
    except OSError as error:
        # A placeholder that equals no content hash.
        unread = digest_of(encoded([name, None]))
        return _ReadFile(RowFingerprint(key, unread), problem=f"file {str(path)!r} cannot be read: {error}")
    return _ReadFile(RowFingerprint(key, content.hexdigest()), size)


def _check_names(files: Sequence[tuple[str, StoragePath]]) -> None:
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, path in files:
        by_name[name].append(str(path))
    if twice := [" and ".join(map(repr, paths)) for paths in by_name.values() if len(paths) > 1]:
        raise AssistantInputError(
            f"{len(twice)} file names are not unique, such as {twice[0]}: a file is identified by its path below the "
            "given folder. Nothing was sent. Pass the common parent folder, or load the folders with two tasks.",
            field="files",
        )


def shortest_names(names: Sequence[str]) -> dict[str, str]:
    """
    Return the shortest distinct file names for uploads.

    A name is the last part of its path, preceded by as many parent folders as it takes to make it unique, joined by
    hyphens. Slashes would not do: RFC 7578 asks services to drop everything before them.

    :param names: Distinct paths.
    :return: Mapping of each path to its file name.
    """
    shortest: dict[str, str] = {}
    remaining, parts = list(names), 1
    while remaining:
        ends = {name: "-".join(name.strip("/").split("/")[-parts:]) for name in remaining}
        count = Counter([*ends.values(), *shortest.values()])
        longest = max(name.count("/") for name in remaining) < parts
        # "a/b" and "a-b" still collide when all parts are used; a digest separates them.
        found = {
            name: end if count[end] == 1 else _with_digest(name, end)
            for name, end in ends.items()
            if count[end] == 1 or longest
        }
        shortest |= found
        remaining = [name for name in remaining if name not in found]
        parts += 1
    return shortest


def _with_digest(name: str, end: str) -> str:
    stem, dot, suffix = end.rpartition(".")
    digest = digest_of(name)[:8]
    return f"{stem}-{digest}.{suffix}" if dot else f"{end}-{digest}"


def _check_count(count: int, allow_empty: bool) -> None:
    if not count and not allow_empty:
        raise AssistantInputError(
            "source has no rows; nothing was sent. If it may be empty, set allow_empty=True (--allow-empty)",
            field="source",
        )


def encoded(values: Sequence[Any]) -> str:
    """
    Encode values as one string, which is different for different values and stable across versions of Python.

    :param values: Values of any type; values other than strings are encoded with the names of their types.
    :return: The string to hash.
    """
    try:
        return "".join([f"{_length(value)}:{value}" for value in values])
    except TypeError:
        texts = ["" if value is None else str(value) for value in values]
        kinds = ",".join(type(value).__name__ for value in values)
        return "".join(f"{len(text)}:{text}" for text in (*texts, kinds))


def digest_of(text: str) -> str:
    """
    Return the digest that is used for keys and content hashes.

    :param text: Any text, lone surrogates included.
    :return: 32 hexadecimal digits (BLAKE2b, 16 bytes).
    """
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        octets = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(octets, digest_size=16).hexdigest()


def mapping_of(
    payload: type[Payload], columns: Mapping[str, str] | None, constants: Mapping[str, str] | None
) -> dict[str, str]:
    """
    Return the column of each field that varies by row.

    :param payload: Model of the document.
    :param columns: Mapping of a field to its column, for columns that are not named like their field.
    :param constants: Mapping of a field to its value for all rows.
    :return: Mapping of each remaining field to its column.
    :raises AssistantInputError: A field does not exist or is in both mappings, or a constant is not a non-empty string.
    """
    columns, constants, fields = columns or {}, constants or {}, payload.model_fields
    if unknown := sorted({*columns, *constants} - set(fields)):
        raise AssistantInputError(
            f"columns or constants contain unknown fields: {', '.join(unknown)}; a {payload.__name__} has "
            f"{', '.join(fields)}",
            field="columns",
        )
    if both := sorted(set(columns) & set(constants)):
        raise AssistantInputError(
            f"{', '.join(both)} given in both columns and constants; remove one of them", field="columns"
        )
    if bad := sorted(field for field, value in constants.items() if not isinstance(value, str) or not value.strip()):
        raise AssistantInputError(f"constants: {', '.join(bad)} must be a non-empty string", field="constants")
    return {field: columns.get(field, field) for field in fields if field not in constants}


def wanted_columns(payload: type[Payload], columns: Mapping[str, str], key_columns: Sequence[str]) -> ColumnSelection:
    """
    Return the columns to read from a source.

    :param payload: Model of the document.
    :param columns: Column of each field, see :func:`mapping_of`.
    :param key_columns: Columns that identify a row.
    :return: Required, optional and key columns.
    """
    # A column that the user named is required even if its field is optional.
    required = [
        column for field, column in columns.items() if column != field or payload.model_fields[field].is_required()
    ]
    optional = [column for column in columns.values() if column not in required]
    return ColumnSelection(text=tuple(required), any=tuple(key_columns), optional=tuple(optional))
