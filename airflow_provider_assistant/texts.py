"""Texts of unknown origin: what makes them safe to show and to store."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

# Control characters that change the writing direction, so that a line is displayed in another order.
BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


# What is wrong with a text that is not encodable, after its name.
NOT_TEXT = "is not valid text: it holds half a character (a lone surrogate), or bytes of another encoding"


def is_encodable(text: str) -> bool:
    """Return whether a text has no lone surrogates, which UTF-8 cannot encode."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_words(text: str) -> bool:
    """Return whether a text has a letter or a digit of any script."""
    return any(map(str.isalnum, text))


def escaped(text: str, kept: str = "") -> str:
    """
    Escape the control characters of a text, so that it is safe in a log and on a terminal.

    A newline could forge a log line, and an escape sequence could move the cursor.

    :param kept: Control characters that are not escaped.
    """
    if text.isprintable():
        return text
    chars: list[str] = []
    for char in text:
        if char not in kept and _is_control(char):
            chars.append(_escape(char))
        else:
            chars.append(char)
    return "".join(chars)


def _is_control(char: str) -> bool:
    # Control characters, lone surrogates, and the separators of lines and paragraphs.
    return char in BIDI or unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def storable(text: str) -> str:
    """
    Return a text that every database and file format can store.

    Lone surrogates, which JSON allows and UTF-8 does not, and NUL characters, which PostgreSQL
    refuses, are escaped.
    """
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\0", "\\x00")


def storable_value(value: Any) -> Any:
    """Return a value as it is, or if it is a text, as :func:`storable` returns it."""
    return storable(value) if isinstance(value, str) else value


def cell_text(value: Any) -> str:
    """Return a value of a table as text: a list or a mapping as JSON, anything else as ``str`` returns it."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return storable(str(value))


def counted(number: int, one: str, many: str = "") -> str:
    """
    Return a number with what is counted, such as ``1 row was`` or ``1,000 rows were``.

    :param one: What follows the number 1.
    :param many: What follows every other number, also 0. Default: ``one`` with an s.
    """
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def shortened(text: str, limit: int) -> str:
    """
    Return a text on one line, cut to a maximum length.

    :param limit: Maximum number of characters, including the ellipsis of a text that is cut.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{line[: limit - 1].rstrip()}…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    Return the known name that is most similar, as the end of a message; empty if none is similar.

    Case, blanks, signs and invisible characters do not count.
    """
    # Airflow parses DAG files every few seconds, and hardly any has a misspelt name.
    import difflib

    by_letters = {_letters(one): one for one in known}
    close = difflib.get_close_matches(_letters(name), list(by_letters), 1)
    return f"; did you mean {by_letters[close[0]]!r}?" if close else ""


def _letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case; the name itself if it has none."""
    return "".join(filter(str.isalnum, name.casefold())) or name


def time_of_day(moment: float) -> str:
    """
    Return a time as text, such as ``02:13:05 UTC``.

    :param moment: Seconds since the epoch.
    """
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M:%S} UTC"
