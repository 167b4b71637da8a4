"""Numbers of Excel as their formats show them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any

from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format, is_timedelta_format
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

GENERAL = "General"
# Excel has no more digits. Greater numbers are shown in full, and smaller ones with an exponent.
_MOST_DIGITS, _GREATEST, _SMALLEST = 15, 1e21, 1e-9
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_.|\*.|\[(?P<brackets>[^\]]*)\]'
    r"|(?P<place>General|[eE][+-]|[0#?.,%/@])|(?P<end>;)|(?P<other>.)",
    re.DOTALL,
)
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_THOUSANDS = re.compile(r"(?<=\d)(?=(?:\d{3})+$)")


class NumberFormats:
    """
    The number formats of a file.

    :param styles: Roots of the parts with the styles.
    :param starts_in_1904: Whether dates are counted from 1904 on, as old Macs did.
    """

    def __init__(self, styles: Iterable[Any], *, starts_in_1904: bool) -> None:
        self._first_day = CALENDAR_MAC_1904 if starts_in_1904 else CALENDAR_WINDOWS_1900
        self._codes: list[str] = []
        code_by_id = {str(number): code for number, code in BUILTIN_FORMATS.items()}
        for root in styles:
            for element in root.iterfind("{*}numFmts/{*}numFmt"):
                code_by_id[element.get("numFmtId", "")] = element.get("formatCode") or GENERAL
            for style in root.iterfind("{*}cellXfs/{*}xf"):
                self._codes.append(code_by_id.get(style.get("numFmtId", ""), GENERAL))

    def shown(self, value: str, style: int) -> str:
        """
        Return a number as Excel shows it, but a date or a time in ISO format.

        A fraction, an exponent and a condition in a format are not understood: the plain number is shown.

        :param value: The number as the file has it. Another text is returned as it is.
        :param style: Number of the cell's style.
        """
        code = self._codes[style] if 0 <= style < len(self._codes) else GENERAL
        try:
            number = float(value)
        except ValueError:
            return value
        if not math.isfinite(number):
            return value
        if is_date_format(code):
            return self._date(number, code) or _general(number)
        return _formatted(number, code)

    def _date(self, number: float, code: str) -> str:
        """Return a date with what its format shows; empty for a number that is no date."""
        shown = _LITERAL.sub("", code).lower()
        has_seconds = "s" in shown
        found: datetime | time | timedelta | None = None
        with contextlib.suppress(OverflowError, ValueError):
            found = from_excel(number, self._first_day, timedelta=is_timedelta_format(code))
        if isinstance(found, timedelta):
            minutes, seconds = divmod(round(found.total_seconds()), 60)
            text = f"{minutes // 60}:{minutes % 60:02}"
            return f"{text}:{seconds:02}" if has_seconds else text
        if found is None:
            return ""
        parts = []
        has_time = "h" in shown or has_seconds
        if isinstance(found, datetime) and ("y" in shown or "d" in shown or not has_time):
            parts.append("%Y-%m-%d" if "d" in shown else "%Y-%m" if "m" in shown else "%Y")
        if has_time or isinstance(found, time):
            parts.append("%H:%M:%S" if has_seconds else "%H:%M")
        return found.strftime(" ".join(parts))


def _general(number: float) -> str:
    text = f"{number:.{_MOST_DIGITS}g}"
    if number == 0 or _SMALLEST <= abs(number) < _GREATEST:
        return f"{Decimal(text):f}"
    return text


@dataclass
class _Section:
    """
    The part of a format for positive, negative or no numbers.

    :param tokens: Its places for digits and signs as they are, and other text behind a zero character.
    """

    tokens: list[str] = field(default_factory=list)

    @property
    def places(self) -> str:
        return "".join(token for token in self.tokens if not token.startswith("\0"))


@lru_cache(maxsize=1000)
def _sections(code: str) -> list[_Section] | None:
    """Return the sections of a format; None if it has a condition."""
    sections = [_Section()]
    for token in _TOKEN.finditer(code):
        if token["end"]:
            sections.append(_Section())
        elif token["place"]:
            sections[-1].tokens.append(token["place"])
        elif token["brackets"] is not None:
            if token["brackets"].startswith(("<", ">", "=")):
                return None
            # A currency, such as $€-407. Other brackets are colours.
            if token["brackets"].startswith("$"):
                sections[-1].tokens.append("\0" + token["brackets"][1:].split("-")[0])
        else:
            # A blank for what is as wide as another character.
            sections[-1].tokens.append("\0" + (token["quoted"] or token["escaped"] or token["other"] or " "))
    return sections


def _formatted(number: float, code: str) -> str:
    sections = _sections(code)
    if sections is None or abs(number) >= 10**_MOST_DIGITS:
        return _general(number)
    section, sign = sections[0], "-" if number < 0 else ""
    if number < 0 and len(sections) > 1:
        section, sign = sections[1], ""
    elif number == 0 and len(sections) > 2:  # noqa: PLR2004 (the third section)
        section = sections[2]
    places = section.places
    if "General" in places or "@" in places:
        pieces = [_general(abs(number))]
    elif "/" in places or "e" in places.lower():
        return _general(number)
    else:
        pieces = _digits(abs(number), places)
        if not re.search("[1-9]", "".join(pieces)):
            sign = ""
    shown = [sign]
    for token in section.tokens:
        if token.startswith("\0"):
            shown.append(token[1:])
        elif token == "%":
            shown.append(token)
        elif pieces:
            shown.append(pieces.pop(0))
    return " ".join("".join(shown).split())


def _digits(number: float, places: str) -> list[str]:
    """Return what stands at each place of a format but percent signs."""
    before, point, after = places.replace("%", "").partition(".")
    # A comma behind the last place divides by a thousand.
    thousands = len(before) - len(before.rstrip(",")) + after.count(",")
    decimals = sum(map(after.count, "0#?"))
    scaled = Decimal(repr(number)).scaleb(2 * places.count("%") - 3 * thousands)
    rounded = scaled.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    integer, _, fraction = f"{rounded:f}".partition(".")
    while len(fraction) > after.count("0") and fraction.endswith("0"):
        fraction = fraction[:-1]
    integer = integer.lstrip("0").zfill(before.count("0"))
    slots = sum(map(before.count, "0#?"))
    if "," in before.rstrip(","):
        pieces = [_THOUSANDS.sub(",", integer)]
    else:
        # One digit for each place but the first, which has the rest: other text may stand between them.
        integer = integer.rjust(slots)
        rest = len(integer) - max(slots - 1, 0)
        pieces = [integer[:rest].strip(), *integer[rest:]]
    shown = [pieces.pop(0) if place in "0#?" and pieces else "" for place in before]
    if point:
        shown.append("".join(pieces if slots == 0 else []) + (fraction and f".{fraction}"))
    return [*shown, *[""] * len(after)]
