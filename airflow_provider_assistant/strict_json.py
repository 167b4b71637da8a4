"""
Read JSON that comes from outside: replies of the service and of models, JSON lines.

Python's own reader guesses the encoding, accepts NaN, and builds whatever a text describes: a
megabyte of nested objects becomes a hundred megabytes of dicts. This one knows the encoding, and
limits depth and size before it builds anything.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import Any

# Far more than any reply or row needs, and far below Python's recursion limit, which limits XCom, too.
MAX_DEPTH = 100
# An empty dict takes 64 bytes and a dict with one key 232, so these limits allow about 100 MB.
MAX_CONTAINERS = 250_000
MAX_VALUES = 1_000_000
# PostgreSQL's jsonb takes numbers with more digits and larger exponents; Python's int() as many digits.
MAX_DIGITS = 4300
MAX_EXPONENT = 9999

# UTF-32 comes first: its mark in little-endian order begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Possessive quantifiers make a search take linear time. A string may have no end.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_TO_MARK = r'(?:[^"{0}]*+(?:' + _STRING + r'[^"{0}]*+)*+[{0}]){{{1}}}+'
_NOT_STRUCTURE = re.compile(rf"{_STRING}|[^\"\[\]{{}}]++", re.DOTALL)
_NUMBER = re.compile(rf"{_STRING}|-?Infinity|NaN|-?\d++(?:\.\d++)?+(?:[eE]([+-]?\d++))?+", re.DOTALL)
# A pair of surrogates, one without the other or NUL, or another escape.
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..|\\u0000)|\\.", re.DOTALL)
_HAS_BAD_ESCAPE = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")
_HALVES = re.compile("[\ud800-\udfff]")


class LimitError(ValueError):
    """Raised for JSON that is nested too deeply or has too many values."""


class RepeatedNameError(ValueError):
    """Raised for a JSON object that has a name twice."""


@dataclass(frozen=True, slots=True)
class Document:
    """
    A JSON text and its value.

    :param text: Valid JSON with every digit as received. NaN, infinities and numbers that are too
        long are null; halves of characters (lone surrogates) and NUL are U+FFFD.
    :param value: Its value. A number that a float cannot hold, such as 1e400, is None.
    """

    text: str
    value: Any


def read(content: bytes) -> Document:
    """
    Read a reply: replace what a destination (XCom, Parquet, PostgreSQL) does not take.

    Of equal names in an object, the last one counts.

    :param content: The text, in UTF-8, or in UTF-16 or UTF-32 with a byte order mark.
    :raises LimitError: The text is nested too deeply or has too many values.
    :raises ValueError: The text is not JSON, or not in a known encoding.
    """
    mark, encoding = encoding_of(content)
    if b"\0" in content and not mark:
        raise ValueError("it has NUL bytes: save it as UTF-8, or with a byte order mark")
    text = content[len(mark) :].decode(encoding, "surrogatepass")
    if _HALVES.search(text):
        # Some services encode both halves of a character as if they were characters.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    check_limits(text)
    if _HAS_BAD_ESCAPE.search(text):
        text = _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text)
    try:
        return Document(text, _STRICT.decode(text))
    except json.JSONDecodeError:
        raise
    except ValueError:
        # _STRICT refuses an unusual number: replace it and read the text again.
        text = _NUMBER.sub(_storable_number, text)
        return Document(text, _LENIENT.decode(text))


def loads_row(text: str) -> Any:
    """
    Read the value of a row. Lone surrogates are kept.

    :raises LimitError: The text is nested too deeply or has too many values.
    :raises RepeatedNameError: An object has a name twice.
    :raises ValueError: The text is not JSON, or has NaN or a number that a float cannot hold.
    """
    check_limits(text)
    return _ROW.decode(text)


def items(text: str) -> Iterator[tuple[int, Any]]:
    """
    Yield the items of an array as :func:`loads_row` returns them, and where in the text they begin.

    :raises ValueError: See :func:`loads_row`. The text may have ten times as many values.
    """
    check_limits(text, 10)
    blanks = re.compile(r"[ \t\r\n]*")
    position = blanks.match(text, text.index("[") + 1).end()  # type: ignore[union-attr]
    while text[position : position + 1] != "]":
        value, end = _ROW.raw_decode(text, position)
        yield position, value
        end = blanks.match(text, end).end()  # type: ignore[union-attr]
        position = blanks.match(text, end + 1).end()  # type: ignore[union-attr]
        is_last = text[end : end + 1] == "]"
        if is_last:
            position = end
        elif text[end : end + 1] != "," or text[position : position + 1] == "]":
            raise json.JSONDecodeError("Expecting ',' and an item, or ']'", text, end)
    if position + 1 != len(text):
        raise json.JSONDecodeError("Extra data", text, position + 1)


def encoding_of(start: bytes) -> tuple[bytes, str]:
    """Return the byte order mark that a text starts with, empty if there is none, and the encoding that it says."""
    found = ((mark, encoding) for mark, encoding in _MARKS.items() if start.startswith(mark))
    return next(found, (b"", "utf-8"))


def check_limits(text: str, factor: int = 1) -> None:
    """Refuse a text that is nested too deeply or describes too many values, before it is parsed."""
    # The counts include characters inside of strings, so they are never too low. They are fast, and
    # most texts need no exact count.
    containers = text.count("[") + text.count("{")
    most, most_values = MAX_CONTAINERS * factor, MAX_VALUES * factor
    if containers > most and _has_more(text, r"\[{", most):
        raise LimitError(f"made of more than {most:,} objects and arrays")
    if containers + text.count(",") > most_values and _has_more(text, r"\[{,", most_values):
        raise LimitError(f"made of more values than {most_values:,}")
    if containers > MAX_DEPTH:
        # Near its recursion limit, Python's parser fails in other ways than with an error.
        brackets = _NOT_STRUCTURE.sub("", text)
        depths = accumulate(1 if bracket in "[{" else -1 for bracket in brackets)
        if max(depths, default=0) > MAX_DEPTH:
            raise LimitError(f"nested more than {MAX_DEPTH} levels deep")


def _has_more(text: str, marks: str, most: int) -> bool:
    """Return whether a text has more than so many of these characters outside of strings."""
    return bool(re.match(_TO_MARK.format(marks, most + 1), text, re.DOTALL))


def _storable_number(match: re.Match[str]) -> str:
    """Replace NaN, infinities and numbers that are too long by null; keep strings and other numbers."""
    token, exponent = match[0], match[1]
    if token.startswith('"'):
        return token
    is_too_long = len(token) > MAX_DIGITS or abs(int(exponent or 0)) > MAX_EXPONENT
    return "null" if is_too_long or token[-1].isalpha() else token


def _usual_float(digits: str) -> float:
    value = float(digits)
    # Zero may be what is left of 1e-99999, which PostgreSQL refuses.
    is_odd_zero = not value and "e" in digits.lower()
    if is_odd_zero or not isfinite(value) or len(digits) > MAX_DIGITS:
        raise ValueError(f"the number {digits[:20]} is unusual")
    return value


def _finite_or_none(digits: str) -> float | None:
    value = float(digits)
    return value if isfinite(value) else None


def _object_of_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in value if names.count(name) > 1)
        raise RepeatedNameError(f"with the name {repeated!r} more than once in one object")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")


# json.loads would make a new decoder for each text.
_STRICT = json.JSONDecoder(parse_float=_usual_float, parse_constant=_refuse_constant)
_LENIENT = json.JSONDecoder(parse_float=_finite_or_none, parse_constant=lambda _: None)
_ROW = json.JSONDecoder(
    parse_float=_usual_float, parse_constant=_refuse_constant, object_pairs_hook=_object_of_unique_names
)
