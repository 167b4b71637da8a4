"""
Read JSON that comes from outside: replies of the service and of models, JSON lines, settings.

Python's own reader guesses the encoding, accepts NaN, and builds whatever a text describes: a megabyte of nested
objects becomes a hundred megabytes of dicts. This one knows the encoding, limits depth and size before it builds
anything, and returns only what every destination takes.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

# Far more than any reply or row needs, and far below Python's recursion limit, which also limits XCom.
MAX_DEPTH = 100
# An empty dict takes 64 bytes and a dict with one key 232, so these limits allow about 100 MB.
MAX_CONTAINERS = 250_000
MAX_VALUES = 1_000_000
# Halves of characters that are encoded as if they were characters. Python decodes them a hundred times slower.
MAX_SURROGATES = 100_000
_TOO_MANY_HALVES = f"made of more than {MAX_SURROGATES:,} halves of characters"
# PostgreSQL's jsonb takes numbers with more digits and larger exponents, and Python's int() takes as many digits.
MAX_DIGITS = 4300
MAX_EXPONENT = 9999
_LARGEST = sys.float_info.max

# UTF-32 comes first: its mark in little-endian order begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# The quantifiers are possessive, so a search takes linear time. The closing quotation mark is optional for the same
# reason: a string may have no end.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOO_MANY_CONTAINERS, _TOO_MANY_VALUES = (
    re.compile(rf'(?:[^"{marks}]*+(?:{_STRING}[^"{marks}]*+)*+[{marks}]){{{most + 1}}}+', re.DOTALL)
    for marks, most in ((r"\[{", MAX_CONTAINERS), (r"\[{,", MAX_VALUES))
)
_TOO_MANY_SURROGATES = re.compile(rf"(?:[^\ud800-\udfff]*+[\ud800-\udfff]){{{MAX_SURROGATES + 1}}}+")
_TOO_MANY_IN_UTF_8 = re.compile(
    rb"(?:[^\xed]*+(?:\xed[^\xa0-\xbf][^\xed]*+)*+\xed[\xa0-\xbf]){%d}+" % (MAX_SURROGATES + 1), re.DOTALL
)
_TOKENS = re.compile(rf"{_STRING}|-?Infinity|NaN|-?\d++(?:\.\d++)?+(?:[eE]([+-]?\d++))?+", re.DOTALL)
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_HIGH, _LOW = (rf"\\u[dD][{second}][0-9a-fA-F]{{2}}" for second in ("89abAB", "c-fC-F"))
_ANY_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ONLY_PAIRS = re.compile(rf"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|{_HIGH}{_LOW})*+")
# A text without such escapes, then one of them or the end of the whole text.
_TO_BAD_ESCAPE = re.compile(
    rf"((?:[^\\]++|\\[^u]|\\u(?!0000|[dD][89a-fA-F])|{_HIGH}{_LOW})*+)(\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{{2}})|)"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACED = r"\ufffd"


class LimitError(ValueError):
    """Raised for JSON that is nested too deeply or has too many values."""


class RepeatedNameError(ValueError):
    """Raised for a JSON object that has a name twice."""


@dataclass(frozen=True, slots=True)
class Document:
    """
    A JSON text and its value.

    :param text: Valid JSON with every digit as received. NaN, infinities and numbers that are too long are null; lone
        surrogates and NUL are U+FFFD.
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
    if _TOO_MANY_IN_UTF_8.match(content):
        raise LimitError(_TOO_MANY_HALVES)
    text = decoded(content, "surrogatepass")
    if _SURROGATES.search(text):
        if _TOO_MANY_SURROGATES.match(text):
            raise LimitError(_TOO_MANY_HALVES)
        # Some services encode both halves of a character as if they were characters.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    _check_limits(text)
    if not _has_only_pairs(text) or r"\u0000" in text:
        # Two matches are what follows the last bad escape, and the end.
        text, count = _TO_BAD_ESCAPE.subn(_storable_escape, text, count=MAX_SURROGATES + 3)
        if count > MAX_SURROGATES + 2:
            raise LimitError(_TOO_MANY_HALVES)
    try:
        return Document(text, _STRICT.decode(text))
    except json.JSONDecodeError:
        raise
    except ValueError:
        # _STRICT refuses an unusual number: replace it and read the text again.
        text = _TOKENS.sub(_storable_token, text)
        return Document(text, _LENIENT.decode(text))


def loads(content: bytes | str) -> Any:
    """
    Read the value of a text whose characters must stay as they are, such as a setting.

    NaN, infinities and numbers that a float cannot hold become None. Of equal names in an object, the last one counts.

    :param content: The text; bytes are UTF-8, or UTF-16 or UTF-32 with a byte order mark.
    :raises LimitError: The text is nested too deeply or has too many values.
    :raises ValueError: The text is not JSON, not in a known encoding, or has lone surrogates.
    """
    text = content if isinstance(content, str) else decoded(content)
    _check_limits(text)
    if not _has_only_pairs(text):
        raise ValueError(r"a lone surrogate, such as \ud800, is half of a character")
    return _LENIENT.decode(text)


def loads_row(text: str) -> Any:
    """
    Read the value of a row like :func:`loads`, but keep lone surrogates, and refuse repeated names.

    :raises RepeatedNameError: An object has a name twice.
    """
    _check_limits(text)
    return _ROW.decode(text)


def decoded(content: bytes, errors: str = "strict") -> str:
    """
    Decode a text whose encoding is known: UTF-8, or what its byte order mark says.

    :param errors: As of :meth:`bytes.decode`.
    :raises ValueError: It is in another encoding.
    """
    mark, encoding = encoding_of(content)
    if b"\0" in content and not mark:
        raise ValueError("it has NUL bytes: save it as UTF-8, or with a byte order mark")
    return content[len(mark) :].decode(encoding, errors)


def encoding_of(start: bytes) -> tuple[bytes, str]:
    """
    Return the byte order mark of a text, and the encoding that it says.

    :param start: At least the first four bytes of the text.
    :return: The mark, empty if there is none, and the encoding, UTF-8 if there is no mark.
    """
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return mark, encoding
    return b"", "utf-8"


def _check_limits(text: str) -> None:
    """Refuse a text that is nested too deeply or too large."""
    # The counts include characters inside of strings, so they are never too low. They are fast, and most texts need
    # no exact count.
    containers = text.count("[") + text.count("{")
    if containers > MAX_CONTAINERS and _TOO_MANY_CONTAINERS.match(text):
        raise LimitError(f"made of more than {MAX_CONTAINERS:,} objects and arrays")
    if containers + text.count(",") > MAX_VALUES and _TOO_MANY_VALUES.match(text):
        raise LimitError(f"made of more than {MAX_VALUES:,} values")
    if containers > MAX_DEPTH and _is_too_deep(text):
        # Python's parser calls itself for each level. Near the recursion limit, the garbage collector may interrupt
        # it, and the finalizers of other objects then fail. So the depth is counted before the text is parsed.
        raise LimitError(f"nested more than {MAX_DEPTH} levels deep")


def _is_too_deep(text: str) -> bool:
    text_without_strings = _STRINGS.sub("", text)
    # Only the brackets remain, and each brace as a bracket.
    brackets = text_without_strings.encode().translate(_ONE_KIND, _NO_BRACKETS)
    remaining = brackets
    # Each round removes the innermost level; most texts have only a few.
    for _ in range(MAX_DEPTH):
        remaining = remaining.replace(b"[]", b"")
    if not remaining:
        return False
    # Something remains of a text that is too deep, and of one whose brackets do not match.
    steps = (1 if bracket == ord("[") else -1 for bracket in brackets)
    return max(accumulate(steps)) > MAX_DEPTH


def _has_only_pairs(text: str) -> bool:
    """Return whether every escaped surrogate is one of a pair."""
    return not _ANY_SURROGATE.search(text) or bool(_ONLY_PAIRS.fullmatch(text))


def _storable_escape(match: re.Match[str]) -> str:
    """Return a text whose last escape, if any, is replaced: it is a lone surrogate or NUL."""
    return match[1] + (_REPLACED if match[2] else "")


def _storable_token(match: re.Match[str]) -> str:
    """Replace NaN, infinities and numbers that are too long by null; keep strings and other numbers."""
    token = match.group()
    exponent = match.group(1)
    if token.startswith('"'):
        return token
    is_word = token[-1].isalpha()
    if is_word or len(token) > MAX_DIGITS:
        return "null"
    if exponent is not None and abs(int(exponent)) > MAX_EXPONENT:
        return "null"
    return token


def _finite_or_none(digits: str) -> float | None:
    value = float(digits)
    if -_LARGEST <= value <= _LARGEST:
        return value
    return None


def _usual_float(digits: str) -> float:
    value = float(digits)
    # The first condition holds for nearly all numbers, and this function runs once per number.
    if value and -_LARGEST <= value <= _LARGEST and len(digits) <= MAX_DIGITS:
        return value
    # Zero may be what is left of 1e-99999, which PostgreSQL refuses.
    if value or "e" in digits or "E" in digits or len(digits) > MAX_DIGITS:
        raise ValueError("an unusual number")
    return value


def _object_of_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in value if names.count(name) > 1)
        raise RepeatedNameError(f"with the name {repeated!r} more than once in one object")
    return value


def _refuse_constant(name: str) -> Any:
    """Refuse NaN, Infinity and -Infinity."""
    raise ValueError(f"an unusual number: {name}")


# json.loads would make a new decoder for each text.
_STRICT = json.JSONDecoder(parse_float=_usual_float, parse_constant=_refuse_constant)
_LENIENT = json.JSONDecoder(parse_float=_finite_or_none, parse_constant=lambda _: None)
_ROW = json.JSONDecoder(
    parse_float=_finite_or_none, parse_constant=lambda _: None, object_pairs_hook=_object_of_unique_names
)
