"""What a load is made of: rows or files, each with its key, its content hash, and the call that creates it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.models import Payload, checked
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lake import storable
from airflow_provider_assistant.loading.source import Batch, Path_, Source, Wanted

# Of strings and nothing else.
_length = str.__len__
LABEL_LENGTH = 250
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
    """

    number: int
    digest: Digest
    label: str
    call: Call[Any] | None = None
    problem: str | None = None


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
    ) -> None:
        self._source = source
        self._payload = payload
        self._columns = columns
        self._constants = constants
        self._key_columns = key_columns
        self._call = call
        self._content_prefix = encoded(
            [payload.__name__, *(text for item in sorted(constants.items()) for text in item)]
        )

    def digests(self) -> Iterator[list[Digest]]:
        """Yield the digests of all rows, in pieces."""
        for batch in self._source.batches():
            yield self._digests_of(batch)

    def items(self, wanted: Callable[[int], bool]) -> Iterator[Item]:
        """Yield those rows whose number is wanted."""
        for batch in self._source.batches():
            if not any(map(wanted, range(batch.start, batch.start + len(batch)))):
                continue
            for offset, digest in enumerate(self._digests_of(batch)):
                if wanted(batch.start + offset):
                    yield self._item(batch, offset, digest)

    def _digests_of(self, batch: Batch) -> list[Digest]:
        prefix = self._content_prefix
        contents = [
            digest_of(prefix + encoded(row))
            for row in zip(*(batch.columns[column] for column in self._columns.values()), strict=True)
        ]
        if not self._key_columns:
            return [Digest(content, content) for content in contents]
        keys = zip(*(batch.columns[column] for column in self._key_columns), strict=True)
        # Rows without a key are bad, each by itself; they are not the same row.
        numbered = ((*key, number) if None in key else key for number, key in enumerate(keys, start=batch.start))
        return [Digest(digest_of(encoded(key)), content) for key, content in zip(numbered, contents, strict=True)]

    def _item(self, batch: Batch, offset: int, digest: Digest) -> Item:
        number = batch.start + offset
        fields = {field: batch.columns[column][offset] for field, column in self._columns.items()}
        label = self._label(batch, offset, fields)
        if empty := [column for column in self._key_columns if batch.columns[column][offset] is None]:
            return Item(number, digest, label, problem=f"key column {', '.join(empty)} is empty")
        try:
            return Item(number, digest, label, self._call(checked(self._payload, {**self._constants, **fields})))
        except AssistantInputError as problem:
            return Item(number, digest, label, problem=str(problem))

    def _label(self, batch: Batch, offset: int, fields: Mapping[str, Any]) -> str:
        named = {column: batch.columns[column][offset] for column in self._key_columns} or fields
        values = list(named.values())
        label = str(values[0]) if len(values) == 1 else ", ".join(f"{name}={value}" for name, value in named.items())
        return storable(label)[:LABEL_LENGTH]


class FileRows:
    """
    Files, each a document.

    :param files: Name of each file, as the service is to see it and as it is told apart, with its path.
    :param upload: Describes how to send a file.
    :param call: Returns the call that creates a document.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, Path_]],
        *,
        upload: Callable[[Path_, str], Upload],
        call: Callable[[Upload], Call[Any]],
    ) -> None:
        self._files = files
        self._upload = upload
        self._call = call
        self._contents: dict[int, Digest] = {}

    def digests(self) -> Iterator[list[Digest]]:
        """Yield the digests of all files, reading each once, in pieces."""
        for number, (name, path) in enumerate(self._files, start=1):
            digest = Digest(digest_of(encoded([name])), _content_of(path))
            self._contents[number] = digest
            yield [digest]

    def items(self, wanted: Callable[[int], bool]) -> Iterator[Item]:
        """Yield those files whose number is wanted."""
        for number, (name, path) in enumerate(self._files, start=1):
            if wanted(number):
                yield self._item(number, name, path)

    def _item(self, number: int, name: str, path: Path_) -> Item:
        digest, label = self._contents[number], storable(name)[-LABEL_LENGTH:]
        try:
            return Item(number, digest, label, self._call(self._upload(path, name)))
        except AssistantInputError as problem:
            return Item(number, digest, label, problem=str(problem))


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


def _content_of(path: Path_) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(READ_SIZE):
            digest.update(piece)
    return digest.hexdigest()


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


def wanted_columns(columns: Mapping[str, str], key_columns: Sequence[str]) -> Wanted:
    """Return what to read of a source."""
    return Wanted(text=tuple(columns.values()), any=tuple(key_columns))
