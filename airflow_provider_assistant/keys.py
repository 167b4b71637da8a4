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
from pathlib import PurePath
from typing import Any
from uuid import UUID

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import storable

# Whole numbers, and times of whole seconds.
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*)|[0-9]{2}:[0-9]{2}:[0-9]{2})\.0+")
# Python 3.14 reads 24:00 as a time, and earlier versions do not. Without seconds, "08:30-12" may be a range.
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])"
    r"(?:(:[0-5][0-9])(?:[.,]([0-9]+))?"
    r" ?(Z|UTC|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
    r"|(Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)"
)
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
    - Text: unchanged except for surrounding whitespace: ``007`` differs from ``7``, ``1.10`` from ``1.1``, and ``1e3``
      from ``1000``. Three kinds of text count as the value that they spell: whole numbers with zeros after the point,
      ``True`` and ``False``, and timestamps.
    - Numbers: by value, regardless of type: 7, 7.0, ``Decimal("7.00")`` and ``numpy.int64(7)`` are ``7``; 0.50 is
      ``0.5``. A text ``0.50`` is another key: read both columns as numbers, or both as text.
    - Booleans: ``true`` and ``false``.
    - Timestamps: with a time zone in UTC, ``2026-01-31 08:30:00+00:00``; without one as they are,
      ``2026-01-31 08:30:00``, and at midnight the date alone. Fractions of a second have no zeros at their end. Texts
      are timestamps if they are a date ``2026-01-31``, a ``T`` or a space, a time, and ``Z``, ``UTC``, an offset or
      nothing. A timestamp with a time zone differs from one without.
    - Dates: ``2026-01-31``.
    - Times, durations, UUIDs and paths: the result of ``str``. Bytes: as UTF-8 text, or as hexadecimal digits if they
      are not UTF-8.

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
    if kind.__module__ == "numpy":
        value = _from_numpy(value)
    if isinstance(value, str):
        return _of_text(str.__str__(value))
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
        joined = "\n".join(stripped)
        may_be_other = (".0" in joined or ":" in joined) and any(map(_may_be_other, stripped))
        if is_plain and not may_be_other:
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


def _may_be_other(text: str) -> bool:
    """Return whether a text may be a whole number or a timestamp. This is faster than a regular expression."""
    return (text[-1:] == "0" and "." in text) or (text[13:14] == ":" and text[4:5] == "-")


def _of_text(value: str) -> str | None:
    text = value.strip()
    if _may_be_other(text):
        if whole := _WHOLE.fullmatch(text):
            text = whole[1]
        elif timestamp := _TIMESTAMP.fullmatch(text):
            # A text such as 2026-02-30 08:00 is not a timestamp.
            with contextlib.suppress(ValueError, OverflowError):
                text = _of_timestamp(timestamp)
    # "True" becomes "true", most other texts stay, and an empty text is a missing value.
    return _USUAL_SPELLINGS.get(text, text) or None


def _of_timestamp(parts: re.Match[str]) -> str:
    day, minute, second, fraction, zone, full_zone = parts.groups(default="")
    zone = zone or full_zone
    # This checks the day as well.
    moment = datetime.fromisoformat(f"{day} {minute}{second or ':00'}")
    if zone.strip("+-0:") not in {"", "Z", "UTC"}:
        offset = datetime.fromisoformat(f"2026-01-01 00:00{zone}").utcoffset()
        moment -= offset or timedelta()
    text = str(moment)
    fraction = fraction.rstrip("0")
    if fraction:
        # Python's datetimes have microseconds only.
        text = f"{text}.{fraction}"
    if zone:
        return f"{text}+00:00"
    # At midnight, the date alone.
    return text.removesuffix(" 00:00:00")


def _from_numpy(value: Any) -> Any:
    """Convert a NumPy scalar to the corresponding Python type."""
    match value.dtype.name:
        case "datetime64[ns]":
            # item() would return an int.
            return str(value)
        case "timedelta64[ns]":
            return value.astype("timedelta64[us]").item()
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


def _of_moment(value: Any) -> str | None:
    if isinstance(value, datetime):
        return _of_text(str(value.astimezone(UTC) if value.tzinfo else value))
    if isinstance(value, timedelta):
        # pandas writes its durations in another way.
        return str(timedelta(value.days, value.seconds, value.microseconds))
    if isinstance(value, date | time | UUID | PurePath):
        return str(value)
    raise ValueError(
        f"holds a {type(value).__name__}, and a key must be text, a number, a boolean, a date, a time, a UUID or a path"
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
