"""Fingerprints of rows: the hash of the key and the content hash, which is all that the preflight needs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_column, whole_label
from airflow_provider_assistant.ledger import DocumentGroup, document_group

# Raises a TypeError for anything but a string, unlike len().
_length = str.__len__


class RowFingerprint(NamedTuple):
    """
    Hold the hashes of one row.

    :param key: Hash of the row's key: its key columns, or its whole content.
    :param content_hash: Hash of what the row says; it differs once the row has changed.
    :param group: None if the row has none, or if its group columns are bad.
    :param has_key: Whether ``key`` is the key of the row. False if the row cannot be read or has no key.
    """

    key: str
    content_hash: str
    group: DocumentGroup | None = None
    has_key: bool = True


class KeyTexts(NamedTuple):
    """
    Hold the values of key or group columns as text.

    :param columns: Values of each column, None for a value that identifies nothing.
    :param problems: Why a row has no key, by its position from 0.
    """

    columns: list[list[str | None]]
    problems: dict[int, str]


def key_texts(columns: Mapping[str, Sequence[Any]], names: Sequence[str], what: str = "key column") -> KeyTexts:
    """
    Return the values of the columns that identify rows or groups.

    :param what: Word for such a column in a problem.
    """
    texts: list[list[str | None]] = []
    problems: dict[int, str] = {}
    for name in names:
        column, invalid = key_column(columns[name])
        texts.append(column)
        if None not in column:
            continue
        for position, text in enumerate(column):
            if text is None:
                reason = invalid.get(position, "is empty")
                problems.setdefault(position, f"{what} {name!r} {reason}")
    return KeyTexts(texts, problems)


def groups_of(
    columns: Mapping[str, Sequence[Any]], names: Sequence[str]
) -> tuple[list[DocumentGroup | None], dict[int, str]]:
    """
    Return the group of each row.

    :return: The groups; and why a row has none, by its position from 0.
    """
    # A cache, because the rows of a page usually follow each other and have the same group.
    group_of = functools.lru_cache(lambda values: document_group(whole_label(names, values)))
    texts, problems = key_texts(columns, names, "group column")
    groups: list[DocumentGroup | None] = []
    for position, values in enumerate(zip(*texts, strict=True)):
        if position in problems:
            groups.append(None)
        else:
            groups.append(group_of(values))
    return groups, problems


def bad_row_key(number: int) -> str:
    """
    Return the key of a row without one, so that such rows do not count as duplicates of each other.

    :param number: Number of the row in the source, from 1.
    """
    return hash_of(encoded([None, str(number)]))


def without_blanks(column: list[Any]) -> list[Any]:
    """
    Return the values of an optional field, with None for blank text.

    CSV has no other way to omit a value.
    """
    with contextlib.suppress(TypeError):
        # Most columns have no blank text. str.strip raises a TypeError for other types.
        if all(map(str.strip, column)):
            return column
    return [None if isinstance(value, str) and not value.strip() else value for value in column]


def check_count(count: int, allow_empty: bool) -> None:
    """Refuse an empty source."""
    if not count and not allow_empty:
        raise AssistantInputError(
            "source has no rows",
            safe=NOTHING_SENT,
            todo="If it may be empty, set allow_empty=True (--allow-empty).",
            field="source",
        )


def hashes_of(columns: Sequence[Sequence[Any]], count: int, prefix: str = "") -> list[str]:
    """
    Return ``hash_of(prefix + encoded(row))`` of each row.

    A column of strings is formatted without a loop in Python, which halves the time of the preflight's hashing.

    :param columns: Values of the rows by column.
    :param prefix: Text that all rows have in common.
    """
    if not columns:
        return [hash_of(prefix)] * count
    try:
        # Each value is preceded by its length, as in encoded().
        lengths_and_columns: list[Iterable[Any]] = []
        for column in columns:
            lengths_and_columns.append(map(_length, column))
            lengths_and_columns.append(column)
        rows = zip(*lengths_and_columns, strict=True)
        row_format = prefix.replace("%", "%%") + "%d:%s" * len(columns)
        row_texts = map(row_format.__mod__, rows)
        return [hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for text in row_texts]
    except (TypeError, UnicodeEncodeError):
        # A value is not a string (see _length), or has a lone surrogate: hash row by row.
        return [hash_of(prefix + encoded(row)) for row in zip(*columns, strict=True)]


def encoded(values: Sequence[Any]) -> str:
    """
    Encode values as one string, which is different for different values and stable across versions of Python.

    :param values: Values of any type; values other than strings are encoded with the names of their types.
    """
    try:
        return "".join([f"{_length(value)}:{value}" for value in values])
    except TypeError:
        # A value is not a string. The names of the types make 7 differ from "7", and None from "".
        texts = ["" if value is None else str(value) for value in values]
        type_names = ",".join(type(value).__name__ for value in values)
        return "".join(f"{len(text)}:{text}" for text in (*texts, type_names))


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
