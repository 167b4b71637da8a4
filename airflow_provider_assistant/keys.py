"""
Keys of rows: the values of the key columns as text.

Dataframes, Parquet, CSV, JSON lines and the command line deliver the same value as different types, and one missing
id turns a whole pandas column of integers into floats. Keys are therefore compared by value, not by type.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Number, Real
from typing import Any
from uuid import UUID

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import storable

_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
# Texts that are written in another way than :func:`key_text` writes their value.
_USUAL_SPELLINGS = {"True": "true", "False": "false", "-0": "0"}
# From this value on, a float cannot represent every integer.
_INEXACT = 2**53
_MAX_DIGITS = 1000
# Maximum characters of a label: the length of the ledger's column in its first version.
LABEL_LENGTH = 250
_DIGEST_LENGTH = 8


def key_text(value: Any) -> str | None:
    """
    Convert a value of a key column to the text by which keys are compared.

    - Missing: None, NaN, NaT, ``pd.NA``, and text that contains only whitespace.
    - Text: unchanged except for surrounding whitespace: ``007`` differs from ``7``, and ``1.10`` from ``1.1``. Texts in
      which programs commonly write other types count as those types: ``7.0`` and ``7.00`` are the number 7; ``True``
      and ``False`` are booleans.
    - Numbers: by value, regardless of type: 7, 7.0, ``Decimal("7.00")`` and ``numpy.int64(7)`` are ``7``; 0.50 is
      ``0.5``.
    - Booleans: ``true`` and ``false``.
    - Dates: ``2026-01-31``. A datetime with a time zone is converted to UTC: ``2026-01-31 08:30:00+00:00``. One without
      a zone is ``2026-01-31 08:30:00``, and at midnight the date alone.
    - Times, durations and UUIDs: the result of ``str``. Bytes: as UTF-8 text, or as hexadecimal digits if they are not
      UTF-8.

    :raises ValueError: The value cannot identify a row: it is a list, a mapping or another object, or a float so large
        that it may have lost digits.
    """
    kind = type(value)
    if kind is str:
        return _of_text(value)
    if kind is int:
        return str(value)
    if is_missing(value):
        return None
    if isinstance(value, str):
        return _of_text(str.__str__(value))
    if kind.__module__ == "numpy":
        value = _from_numpy(value)
    return _of_other(value)


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT or ``pd.NA``."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    is_comparable = isinstance(value, Number) or type(value).__name__ in {"datetime64", "timedelta64"}
    return is_comparable and bool(value != value)  # noqa: PLR0124 (true of NaN only)


def key_column(values: Iterable[Any]) -> tuple[list[str | None], dict[int, str]]:
    """
    Convert a key column to text.

    :return: The texts, None for missing and invalid values; and the reason for each invalid value by position from 0.
    """
    values = list(values)
    with contextlib.suppress(TypeError):
        # Most keys are strings that need no conversion. str.strip raises a TypeError for other types.
        stripped = list(map(str.strip, values))
        is_plain = all(stripped) and _USUAL_SPELLINGS.keys().isdisjoint(stripped)
        # A text such as "7.0" may be a whole number.
        if is_plain and not any(text[-1] == "0" and "." in text for text in stripped):
            no_problems: dict[int, str] = {}
            return [*stripped], no_problems
    texts: list[str | None] = []
    problems: dict[int, str] = {}
    for position, value in enumerate(values):
        try:
            texts.append(key_text(value))
        except (ValueError, OverflowError) as problem:
            problems[position] = str(problem)
            texts.append(None)
    return texts, problems


def key_label(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """
    Return a key as readable text: the value of one column, or ``name=value`` pairs of several columns.

    A label longer than ``LABEL_LENGTH`` is cut and ends in a digest of the whole label, so that different keys have
    different labels. Characters that cannot be stored are escaped, see
    :func:`~airflow_provider_assistant.texts.storable`.

    :param texts: Values of the key columns, see :func:`key_text`.
    """
    return short_label(whole_label(names, texts))


def whole_label(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """
    Return the label of :func:`key_label` at its full length.

    :param texts: Values of the columns, see :func:`key_text`.
    """
    values = ["" if text is None else text for text in texts]
    if len(names) == 1:
        return storable(values[0])
    pairs = [f"{name}={value}" for name, value in zip(names, values, strict=True)]
    return storable(", ".join(pairs))


def short_label(label: str) -> str:
    """Cut a label to ``LABEL_LENGTH`` characters; a cut one ends in a digest of the whole."""
    if len(label) <= LABEL_LENGTH:
        return label
    # A byte is two hexadecimal digits.
    digest = hashlib.blake2b(label.encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()
    beginning = label[: LABEL_LENGTH - _DIGEST_LENGTH - len("…")]
    return f"{beginning}…{digest}"


def key_names(given: Any, parameter: str = "key_columns") -> list[str]:
    """
    Return the names of the key columns as a list.

    :param given: One name, several names, or None. Text in brackets is parsed as a list, because Airflow renders a
        template of a list as text.
    :param parameter: Name of the parameter, for the error.
    :return: The names without repetitions; empty if there are none.
    :raises AssistantInputError: An element is not a non-empty string.
    """
    if isinstance(given, str):
        given = _parsed_names(given.strip())
    if given is None:
        return []
    is_several = isinstance(given, Iterable) and not isinstance(given, str)
    names = list(given) if is_several else [given]
    for name in names:
        if not isinstance(name, str) or not name:
            raise AssistantInputError(
                f"{parameter} must be the name of a column or a list of names, not {name!r}",
                field=parameter,
            )
    return list(dict.fromkeys(names))


def _parsed_names(text: str) -> Any:
    """Return the list that a text in brackets writes, None for no text, and any other text as it is."""
    if not text:
        return None
    if text.startswith("[") and text.endswith("]"):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text
    return text


def _of_text(value: str) -> str | None:
    text = value.strip()
    # A fast check before the regular expression.
    if text.endswith("0"):
        whole_number = _WHOLE.fullmatch(text)
        if whole_number:
            text = whole_number[1]
    # "True" becomes "true", most other texts stay, and an empty text is a missing value.
    return _USUAL_SPELLINGS.get(text, text) or None


def _from_numpy(value: Any) -> Any:
    """Convert a NumPy scalar to the corresponding Python type."""
    type_name = type(value).__name__
    if type_name in {"datetime64", "timedelta64"}:
        # Of nanoseconds, item() would return an int.
        value = value.astype(f"{type_name}[us]")
    return value.item()


def _of_other(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case Integral():
            return str(int(value))
        case Decimal():
            return _of_decimal(value)
        case Real():
            return _of_float(float(value))
        case bytes():
            return _of_bytes(value)
    return _of_moment(value)


def _of_moment(value: Any) -> str:
    if isinstance(value, datetime):
        if value.tzinfo:
            return str(value.astimezone(UTC))
        # At midnight, the date alone.
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, date | time | timedelta | UUID):
        return str(value)
    raise ValueError(
        f"holds a {type(value).__name__}, and a key must be text, a number, a boolean, a date, a time or a UUID"
    )


def _of_float(value: float) -> str:
    if abs(value) >= _INEXACT:
        raise ValueError("is a float too large to be exact; read the column as text or as Int64")
    if value.is_integer():
        return str(int(value))
    # repr() has the shortest digits that give this float; Decimal(0.1) would have 55.
    return _of_decimal(Decimal(repr(value)))


def _of_decimal(value: Decimal) -> str:
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
        raise ValueError("is not a finite number of at most 1,000 digits")
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    # "-0" becomes "0".
    return _USUAL_SPELLINGS.get(text, text)


def _of_bytes(value: bytes) -> str | None:
    try:
        return _of_text(value.decode())
    except UnicodeDecodeError:
        return value.hex()
