"""Hashes of rows: of the key that identifies a row, and of what it says."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_assistant.keys import hash_of, key_column

# Raises a TypeError for anything but a string, unlike len().
_length = str.__len__


def key_texts(
    columns: Mapping[str, Sequence[Any]], names: Sequence[str], what: str = "key column"
) -> tuple[list[list[str | None]], dict[int, str]]:
    """
    Return the values of the columns that identify rows or groups, as text.

    :param what: Word for such a column in a problem.
    :return: Values of each column, None for a value that identifies nothing; and why a row has no key, by its
        position.
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
                problems.setdefault(position, f"{what} {name!r} {invalid.get(position, 'is empty')}")
    return texts, problems


def bad_row_key(number: int) -> str:
    """
    Return the key of a row without one, so that such rows do not count as repetitions of each other.

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
        texts = map(row_format.__mod__, rows)
        return [hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for text in texts]
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
