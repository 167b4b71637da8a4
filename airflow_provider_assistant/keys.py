"""
Keys of rows: the values of the key columns as text.

Dataframes, Parquet, CSV, JSON lines and the command line deliver the same value as different types, and one missing id
turns a whole pandas column of integers into floats. Keys are therefore compared by value, not by type.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from numbers import Integral, Number, Real
from pathlib import PurePath
from typing import Any
from uuid import UUID

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import storable

# Maximum characters of a label.
LABEL_LENGTH = 250
_DIGEST_LENGTH = 8
_WHOLE = re.compile(r"\A(-?(?:0|[1-9][0-9]*))\.0+\Z")
# Texts that are written in another way than their value.
_USUAL_SPELLINGS = {"True": "true", "False": "false", "-0": "0"}
# From this value on, a float cannot represent every integer.
_INEXACT = 2**53
_MAX_DIGITS = 1000


def hash_of(text: str) -> str:
    """Return a hash of a text: 16 bytes as hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def key_text(value: Any) -> str | None:
    """
    Convert a value of a key column to the text by which keys are compared; None if it is missing.

    Text stays as it is except for surrounding whitespace: ``007`` differs from ``7``, ``1.10`` from ``1.1``, and no
    text is taken for a time. Only whole numbers with zeros after the point, ``True`` and ``False`` count as the value
    that they spell. Numbers are compared by value: 7, 7.0 and ``Decimal("7.00")`` are ``7``. Times with a zone are in
    UTC; times without one stay as they are, and at midnight are the date alone.

    :raises ValueError: The value cannot identify a row: it is of another type, or a float so large that it may have
        lost digits.
    :raises OverflowError: The value is a time that UTC does not have.
    """
    if isinstance(value, str):
        text = _WHOLE.sub(r"\1", str.strip(value))
        return _USUAL_SPELLINGS.get(text, text) or None
    if is_missing(value):
        return None
    # NumPy's booleans are not of Python's type.
    if type(value).__name__ in {"bool", "bool_"}:
        return "true" if value else "false"
    if isinstance(value, Real | Decimal):
        return _text_of_number(value)
    if isinstance(value, datetime) and value.tzinfo:
        value = value.astimezone(UTC)
    if isinstance(value, datetime | time):
        return _without_zeros(str(value))
    if isinstance(value, date | UUID | PurePath):
        return str(value)
    raise ValueError(
        f"holds a {type(value).__name__}, and a key must be text, a number, a boolean, a date, a time, a UUID or a path"
    )


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT or ``pd.NA``."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, Number) and bool(value != value)  # noqa: PLR0124 (true of NaN only)


def _text_of_number(value: Any) -> str:
    if isinstance(value, Integral):
        return str(int(value))
    if not isinstance(value, Decimal):
        value = float(value)
        if abs(value) >= _INEXACT:
            raise ValueError("is a float too large to be exact; read the column as text or as Int64")
        # repr() has the shortest digits that give this float; Decimal(0.1) would have 55.
        value = Decimal(repr(value))
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
        raise ValueError("is not a finite number of at most 1,000 digits")
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return _USUAL_SPELLINGS.get(text, text)


def _without_zeros(text: str) -> str:
    """Return a time without zeros at the end of its fraction; at midnight, the date alone."""
    return re.sub(r"(\.\d*?)0+(?=$|[+-])", r"\1", text).removesuffix(" 00:00:00")


def key_column(values: Iterable[Any]) -> tuple[list[str | None], dict[int, str]]:
    """Convert a key column to texts, None for invalid values; with the reason for each of them by position from 0."""
    values = list(values)
    with contextlib.suppress(TypeError):
        # Most keys are strings that need no conversion. str.strip raises a TypeError for other types.
        stripped = list(map(str.strip, values))
        is_plain = all(stripped) and _USUAL_SPELLINGS.keys().isdisjoint(stripped)
        if is_plain and ".0" not in "\n".join(stripped):
            return [*stripped], {}
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
    """Return a key as readable text of at most ``LABEL_LENGTH`` characters."""
    return short_label(whole_label(names, texts))


def whole_label(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """Return a key as readable text: the value of one column, or ``name=value`` pairs. Characters may be escaped."""
    values = ["" if text is None else text for text in texts]
    if len(names) == 1:
        return storable(values[0])
    return storable(", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True)))


def short_label(label: str) -> str:
    """Cut a label to ``LABEL_LENGTH`` characters; a cut one ends in a digest, so that it differs from others."""
    if len(label) <= LABEL_LENGTH:
        return label
    # A byte is two hexadecimal digits.
    digest = hashlib.blake2b(label.encode(), digest_size=_DIGEST_LENGTH // 2).hexdigest()
    return f"{label[: LABEL_LENGTH - _DIGEST_LENGTH - len('…')]}…{digest}"


def key_names(given: Any, parameter: str = "key_columns") -> list[str]:
    """
    Return one name, several names or None as a list without repetitions.

    Text in brackets is parsed as a list, because Airflow renders a template of a list as text.

    :raises AssistantInputError: An element is not a non-empty string.
    """
    if isinstance(given, str):
        given = given.strip()
        if given.startswith("[") and given.endswith("]"):
            with contextlib.suppress(ValueError, SyntaxError):
                given = ast.literal_eval(given)
    is_several = isinstance(given, Iterable) and not isinstance(given, str)
    names = list(given) if is_several else [] if given in (None, "") else [given]
    for name in names:
        if not isinstance(name, str) or not name:
            raise AssistantInputError(
                f"{parameter} must be the name of a column or a list of names, not {name!r}", field=parameter
            )
    return list(dict.fromkeys(names))
