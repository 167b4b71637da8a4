"""Fingerprints of rows: the hash of the key and the content hash, which is all that the preflight needs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.api.payloads import Payload
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, whole_label
from airflow_provider_assistant.ledger import DocumentGroup, document_group
from airflow_provider_assistant.loading.columns import Batch
from airflow_provider_assistant.loading.sources import Source

# Raises a TypeError for anything but a string, unlike len().
_length = str.__len__


class RowFingerprint(NamedTuple):
    """
    Hold the hashes of one row.

    :param key: Hash of the row's key: its key columns, or its whole content.
    :param content_hash: Hash of what the row says; it differs once the row has changed.
    :param group: Group of the row; None if it has none, or if its group columns are bad.
    :param has_key: Whether ``key`` is the key of the row. False if the row cannot be read or has no key.
    """

    key: str
    content_hash: str
    group: DocumentGroup | None = None
    has_key: bool = True


class FingerprintedBatch(NamedTuple):
    """
    Hold the fingerprints of a batch.

    :param fingerprints: One per row.
    :param keys: Values of the key columns as text, one tuple per row; empty if there are no key columns.
    :param problems: Why a row is bad, by position in the batch.
    """

    fingerprints: list[RowFingerprint]
    keys: list[tuple[str | None, ...]]
    problems: dict[int, str]


class DataframeFingerprints:
    """
    Hash the rows of a tabular source.

    :param source: Source of the rows.
    :param payload: Model of the document that a row becomes.
    :param columns: Mapping of each field that varies by row to its column.
    :param constants: Mapping of each field that is the same for all rows to its value.
    :param key_columns: Columns that identify a row. If empty, the whole content identifies it.
    :param group_columns: Columns that name the group of a row, such as its page. Default: none.
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
        group_columns: Sequence[str] = (),
        allow_empty: bool = False,
    ) -> None:
        self._source = source
        self._columns = columns
        self._key_columns = key_columns
        self._group_columns = group_columns
        self._allow_empty = allow_empty
        self._content_prefix = encoded(
            [payload.__name__, *(text for constant in sorted(constants.items()) for text in constant)]
        )
        self._optional = {name for name, field in payload.model_fields.items() if not field.is_required()}

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """
        Yield the fingerprints of all rows, in batches.

        :return: One list per batch.
        :raises AssistantInputError: The source has no rows and ``allow_empty`` is False.
        """
        count = 0
        for batch in self._source.batches():
            count += len(batch)
            yield self.of_batch(batch).fingerprints
        check_count(count, self._allow_empty)

    def of_batch(self, batch: Batch) -> FingerprintedBatch:
        """
        Hash the rows of one batch.

        :param batch: The batch.
        """
        contents = _hashes(self._contents(batch), len(batch), self._content_prefix)
        problems = dict(batch.problems)
        texts = []
        for name in self._key_columns:
            column, bad = key_column(batch.columns[name])
            for position, text in enumerate(column) if None in column else ():
                if text is None:
                    problems.setdefault(position, f"key column {name!r} {bad.get(position, 'is empty')}")
            texts.append(column)
        keys = list(zip(*texts, strict=True))
        hashes = [_hashes(texts, len(batch)) if texts else contents, contents]
        groups, bad_groups = self._groups(batch) if self._group_columns else ((), {})
        fingerprints = list(map(RowFingerprint, *hashes, groups) if groups else map(RowFingerprint, *hashes))
        for position in problems:
            # Bad rows get distinct keys from their numbers; otherwise they would count as duplicates of each other.
            key = hash_of(encoded([None, str(batch.start + position)]))
            fingerprints[position] = RowFingerprint(key, key, fingerprints[position].group, has_key=False)
        for position in bad_groups.keys() - problems.keys():
            # The row keeps its key, as the source contains it, but is never equal to the document of the key.
            row = fingerprints[position]
            fingerprints[position] = row._replace(content_hash=hash_of(encoded([None, row.content_hash])))
        return FingerprintedBatch(fingerprints, keys, bad_groups | problems)

    def _groups(self, batch: Batch) -> tuple[list[DocumentGroup | None], dict[int, str]]:
        """Return the group of each row, and why a row has none, by position in the batch."""
        texts: list[list[str | None]] = []
        problems: dict[int, str] = {}
        for name in self._group_columns:
            column, bad = key_column(batch.columns[name])
            texts.append(column)
            for position in [position for position, text in enumerate(column) if text is None]:
                problems.setdefault(position, f"group column {name!r} {bad.get(position, 'is empty')}")
        # The rows of a page follow each other.
        group = functools.lru_cache(lambda values: document_group(whole_label(self._group_columns, values)))
        named = enumerate(zip(*texts, strict=True))
        return [None if position in problems else group(values) for position, values in named], problems

    def _contents(self, batch: Batch) -> list[list[Any]]:
        """Return the fields by column; blank optional fields are None, because CSV has no other way to omit them."""
        return [
            _unless_blank(batch.columns[column]) if field in self._optional else batch.columns[column]
            for field, column in self._columns.items()
        ]


def _unless_blank(column: list[Any]) -> list[Any]:
    """Return a column with None for blank texts."""
    with contextlib.suppress(TypeError):
        if all(map(str.strip, column)):
            return column
    return list(map(unless_blank, column))


def unless_blank(value: Any) -> Any:
    """
    Return a value, or None for blank text.

    :param value: The value.
    """
    return None if isinstance(value, str) and not value.strip() else value


def check_count(count: int, allow_empty: bool) -> None:
    """
    Refuse an empty source.

    :param count: Number of rows.
    :param allow_empty: Whether there may be none.
    :raises AssistantInputError: There are no rows and ``allow_empty`` is False.
    """
    if not count and not allow_empty:
        raise AssistantInputError(
            "source has no rows; nothing was sent. If it may be empty, set allow_empty=True (--allow-empty)",
            field="source",
        )


def _hashes(columns: Sequence[Sequence[Any]], count: int, prefix: str = "") -> list[str]:
    """
    Return ``hash_of(prefix + encoded(row))`` of each row.

    A column of strings is formatted without a loop in Python, which halves the time of the preflight's hashing.
    """
    if not columns:
        return [hash_of(prefix)] * count
    try:
        texts = zip(*(part for column in columns for part in (map(_length, column), column)), strict=True)
        formatted = map((prefix.replace("%", "%%") + "%d:%s" * len(columns)).__mod__, texts)
        return [hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for text in formatted]
    except (TypeError, UnicodeEncodeError):
        return [hash_of(prefix + encoded(row)) for row in zip(*columns, strict=True)]


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


def hash_of(text: str) -> str:
    """
    Return the hash that is used for keys and content hashes.

    :param text: Any text, lone surrogates included.
    :return: 32 hexadecimal digits (BLAKE2b, 16 bytes).
    """
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        octets = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(octets, digest_size=16).hexdigest()
