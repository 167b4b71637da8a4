"""Hashes of rows: of the key that identifies a row, and of what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_assistant.keys import hash_of, key_column


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
    Return the hash of each row.

    :param columns: Values of the rows by column.
    :param prefix: Text that all rows have in common.
    """
    if not columns:
        return [hash_of(prefix)] * count
    return [hash_of(prefix + ascii(row)) for row in zip(*columns, strict=True)]


def encoded(values: Sequence[Any]) -> str:
    """
    Return values as one text, which is different for different values and stable across versions of Python.

    Unlike ``repr``, ``ascii`` does not depend on which characters a version can print.
    """
    return ascii(tuple(values))
