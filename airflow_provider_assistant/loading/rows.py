"""What a load is made of: rows or files, each with its key, its content hash, and the call that creates it."""

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
from airflow_provider_assistant.api.models import Payload, checked
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label, shortened
from airflow_provider_assistant.lake import storable
from airflow_provider_assistant.loading.source import Batch, Path_, Source, Wanted

log = logging.getLogger(__name__)

# Of strings and nothing else.
_length = str.__len__
READ_SIZE = 1 << 20


class Digest(NamedTuple):
    """
    One row, as far as the look before the first request goes.

    :param key: Tells the row from the others; a digest.
    :param content: Tells the row from its earlier self; a digest.
    """

    key: str
    content: str


@dataclass(frozen=True, slots=True)
class Item:
    """
    One row that may be sent.

    :param number: Its number in the source, from 1.
    :param digest: Its key and content.
    :param label: Its key in words.
    :param call: Creates its document; None where the row is bad.
    :param problem: What is bad about it.
    :param place: Where it is in the source, in words.
    """

    number: int
    digest: Digest
    label: str
    call: Call[Any] | None = None
    problem: str | None = None
    place: str = ""


class Rows(Protocol):
    """Rows in their order, as often as asked."""

    def digests(self) -> Iterator[list[Digest]]:
        """Yield the digests of all rows, in pieces."""

    def items(self, wanted: Callable[[int], bool]) -> Iterator[Item]:
        """Yield those rows whose number is wanted."""


class DataframeRows:
    """
    Rows of a dataframe, each a document.

    :param source: The rows.
    :param payload: The kind of document.
    :param columns: Column of each field that differs from row to row.
    :param constants: Value of each field that does not.
    :param key_columns: Columns that tell the rows apart; without any, the whole content does.
    :param call: Returns the call that creates a document.
    :param allow_empty: Whether there may be no rows.
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

    def digests(self) -> Iterator[list[Digest]]:
        """
        Yield the digests of all rows, in pieces.

        :raises AssistantInputError: There are no rows.
        """
        count = 0
        for batch in self._source.batches():
            count += len(batch)
            yield self._read(batch).digests
        _check_count(count, self._allow_empty)
        self._count = count

    def items(self, wanted: Callable[[int], bool]) -> Iterator[Item]:
        """Yield those rows whose number is wanted."""
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
        digests = [Digest(content, content) for content in contents]
        if keys:
            digests = [Digest(digest_of(encoded(key)), content) for key, content in zip(keys, contents, strict=True)]
        for position in problems:
            # Rows without a key, and those that cannot be read, are bad one by one; they are not the same row.
            key = digest_of(encoded([None, str(batch.start + position)]))
            digests[position] = Digest(key, key)
        return _Read(digests, keys, problems)

    def _contents(self, batch: Batch) -> Iterator[tuple[Any, ...]]:
        """Yield the fields of every row; a file cannot say that an optional one is missing but by an empty cell."""
        columns = [
            list(map(_unless_blank, batch.columns[column])) if field in self._optional else batch.columns[column]
            for field, column in self._columns.items()
        ]
        return zip(*columns, strict=True) if columns else iter([()] * len(batch))

    def _item(self, batch: Batch, position: int, read: _Read) -> Item:
        number = batch.start + position
        fields = {field: batch.columns[column][position] for field, column in self._columns.items()}
        fields |= {field: _unless_blank(fields[field]) for field in self._optional & fields.keys()}
        item = Item(number, read.digests[position], self._label(fields, read, position), place=batch.place(position))
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
    """What a batch's rows are told apart by: digests, values of the key columns, and why rows are bad by position."""

    digests: list[Digest]
    keys: list[tuple[str | None, ...]]
    problems: dict[int, str]


class FileRows:
    """
    Files, each a document.

    :param files: Name of each file, by which it is told apart, with its path.
    :param upload: Describes how to send a file, under the name that the service sees.
    :param call: Returns the call that creates a document.
    :param allow_empty: Whether there may be no files.
    :raises AssistantInputError: Two files have the same name.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, Path_]],
        *,
        upload: Callable[[Path_, str], Upload],
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

    def digests(self) -> Iterator[list[Digest]]:
        """
        Yield the digests of all files, reading each once, in pieces.

        :raises AssistantInputError: There are no files.
        """
        _check_count(len(self._files), self._allow_empty)
        for number, (name, path) in enumerate(self._files, start=1):
            read = self._read[number] = _read_file(name, path)
            yield [read.digest]

    def items(self, wanted: Callable[[int], bool]) -> Iterator[Item]:
        """Yield those files whose number is wanted."""
        for number, (name, path) in enumerate(self._files, start=1):
            if wanted(number):
                yield self._item(number, name, path)

    def _item(self, number: int, name: str, path: Path_) -> Item:
        read = self._read[number]
        item = Item(number, read.digest, shortened(storable(name)), place=f"file {name!r}")
        if read.problem:
            return replace(item, problem=read.problem)
        try:
            upload = self._upload(path, self._sent_as[name])
        except AssistantInputError as error:
            return replace(item, problem=str(error))
        unchanged = replace(upload, open=lambda: _opened(upload, path, read.size))
        return replace(item, call=self._call(unchanged))


@contextlib.contextmanager
def _opened(upload: Upload, path: Path_, size: int) -> Iterator[BinaryIO]:
    """Open a file that has to be as large as it was when it was checked."""
    with upload.open() as file:
        found = file.seek(0, os.SEEK_END) if file.seekable() else size
        if found != size:
            raise _changed(path, f"from {size} to {found} bytes")
        if file.seekable():
            file.seek(0)
        yield cast("BinaryIO", _Checked(file, path, size))


class _Checked(io.RawIOBase):
    """
    A file while it is sent: as many bytes as it had when it was checked, or an error.

    A request announces its length first. With fewer bytes than that, the service would wait for the rest until the
    timeout, and the file would count as one that may have been created.
    """

    def __init__(self, file: BinaryIO, path: Path_, size: int) -> None:
        self._file, self._path, self._size = file, path, size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the file itself is."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position, as far as the file had bytes when it was checked."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = self._file.seek(start + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer with the next bytes, and return their number; 0 at the end."""
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


def _changed(path: Path_, how: str) -> AssistantInputError:
    return AssistantInputError(
        f"file {str(path)!r} has changed {how} since it was checked; the next run sends it", field="file"
    )


class _ReadFile(NamedTuple):
    digest: Digest
    size: int = 0
    problem: str | None = None


def _read_file(name: str, path: Path_) -> _ReadFile:
    key = digest_of(encoded([name]))
    content = hashlib.blake2b(digest_size=16)
    size = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(READ_SIZE):
                content.update(piece)
                size += len(piece)
    except OSError as error:
        # No content has this hash.
        unread = digest_of(encoded([name, None]))
        return _ReadFile(Digest(key, unread), problem=f"file {str(path)!r} cannot be read: {error}")
    return _ReadFile(Digest(key, content.hexdigest()), size)


def _check_names(files: Sequence[tuple[str, Path_]]) -> None:
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, path in files:
        by_name[name].append(str(path))
    if twice := [" and ".join(map(repr, paths)) for paths in by_name.values() if len(paths) > 1]:
        raise AssistantInputError(
            f"{len(twice)} names stand for more than one file each, such as {twice[0]}: files are told apart by their "
            "path below the folder that was given. Nothing was sent. Give the folder above both, or load them with "
            "two tasks",
            field="files",
        )


def shortest_names(names: Sequence[str]) -> dict[str, str]:
    """
    Return the name that the service sees of each file.

    :param names: Paths, different from each other.
    :return: Of each path its last part, and as many parts before it as tell it from the others, joined by hyphens:
        services drop what stands before a slash, as RFC 7578 asks them to.
    """
    shortest: dict[str, str] = {}
    remaining, parts = list(names), 1
    while remaining:
        ends = {name: "-".join(name.strip("/").split("/")[-parts:]) for name in remaining}
        count = Counter([*ends.values(), *shortest.values()])
        longest = max(name.count("/") for name in remaining) < parts
        # A name that is not told apart by all of its parts is "a/b" beside "a-b".
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
            "source has no rows; nothing was sent. If that may be so: allow_empty=True, --allow-empty", field="source"
        )


def encoded(values: Sequence[Any]) -> str:
    """Return values as one string that no other values have; it stays the same in every version of Python."""
    try:
        return "".join([f"{_length(value)}:{value}" for value in values])
    except TypeError:
        texts = ["" if value is None else str(value) for value in values]
        kinds = ",".join(type(value).__name__ for value in values)
        return "".join(f"{len(text)}:{text}" for text in (*texts, kinds))


def digest_of(text: str) -> str:
    """Return the digest that keys and contents are known by."""
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        octets = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(octets, digest_size=16).hexdigest()


def mapping_of(
    payload: type[Payload], columns: Mapping[str, str] | None, constants: Mapping[str, str] | None
) -> dict[str, str]:
    """
    Return the column of each field that differs from row to row.

    :param payload: The kind of document.
    :param columns: Column of a field whose name differs.
    :param constants: Fields with one value for all rows.
    :raises AssistantInputError: They name a field that there is not, or the same field twice.
    """
    columns, constants, fields = columns or {}, constants or {}, payload.model_fields
    if unknown := sorted({*columns, *constants} - set(fields)):
        raise AssistantInputError(
            f"columns and constants name {', '.join(unknown)}; a {payload.__name__} has {', '.join(fields)}",
            field="columns",
        )
    if both := sorted(set(columns) & set(constants)):
        raise AssistantInputError(f"{', '.join(both)} stand in columns and in constants", field="columns")
    if bad := sorted(field for field, value in constants.items() if not isinstance(value, str) or not value.strip()):
        raise AssistantInputError(f"constants: {', '.join(bad)} must be a non-empty string", field="constants")
    return {field: columns.get(field, field) for field in fields if field not in constants}


def wanted_columns(payload: type[Payload], columns: Mapping[str, str], key_columns: Sequence[str]) -> Wanted:
    """
    Return what to read of a source.

    :param payload: The kind of document.
    :param columns: The column of each field, see :func:`mapping_of`.
    :param key_columns: Columns that tell the rows apart.
    """
    # A column that somebody has named has to be there.
    required = [
        column for field, column in columns.items() if column != field or payload.model_fields[field].is_required()
    ]
    optional = [column for column in columns.values() if column not in required]
    return Wanted(text=tuple(required), any=tuple(key_columns), optional=tuple(optional))
