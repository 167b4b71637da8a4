"""Numbers of Excel as their formats show them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format, is_timedelta_format
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

GENERAL = "General"
# Excel has no more digits.
_MOST_DIGITS = 15
# A part of a format. A blank stands for what is as wide as another character, and other brackets are colours.
_PART = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|(?P<blank>_.)|\*.|\[\$(?P<currency>[^\]-]*)[^\]]*\]'
    r"|(?P<condition>\[[<>=][^\]]*\])|\[[^\]]*\]|(?P<places>General|@|[0#?.][0#?,.]*)|(?P<end>;)|(?P<other>.)",
    re.DOTALL,
)
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
                code_by_id[element.get("numFmtId", "")] = element.get("formatCode", "")
            for style in root.iterfind("{*}cellXfs/{*}xf"):
                self._codes.append(code_by_id.get(style.get("numFmtId", "")) or GENERAL)

    def shown(self, value: str, style: int) -> str:
        """
        Return a number as Excel shows it, but a date in ISO format.

        :param value: The number as the file has it. Another text is returned as it is.
        :param style: Number of the cell's style.
        """
        code = self._codes[style] if style < len(self._codes) else GENERAL
        try:
            number = float(value)
        except ValueError:
            return value
        if not math.isfinite(number):
            return value
        if is_date_format(code):
            return self._date(number, code)
        return formatted(number, code)

    def _date(self, number: float, code: str) -> str:
        try:
            date = from_excel(number, self._first_day, timedelta=is_timedelta_format(code))
        except (OverflowError, ValueError):
            return formatted(number, GENERAL)
        text = str(date).split(".", maxsplit=1)[0].removesuffix(" 00:00:00")
        shows_day = "d" in _PART.sub(lambda part: part["other"] or "", code).lower()
        return text if shows_day or not isinstance(date, datetime) else text.removesuffix("-01")


def formatted(number: float, code: str) -> str:
    """
    Return a number as a format shows it.

    A condition, a fraction, an exponent and text between digits are not understood: the plain number is returned.
    """
    if code == GENERAL or abs(number) >= 10**_MOST_DIGITS:
        return _plain(number)
    sections: list[list[re.Match[str]]] = [[]]
    for part in _PART.finditer(code):
        if part["end"]:
            sections.append([])
        else:
            sections[-1].append(part)
    section, sign = sections[0], "-" if number < 0 else ""
    if number < 0 and len(sections) > 1:
        section, sign = sections[1], ""
    elif number == 0 and len(sections) > 2:
        section = sections[2]
    others = [part["other"] for part in section]
    places = [part["places"] for part in section if part["places"]]
    is_unknown = "/" in others or any(part["condition"] for part in section)
    if len(places) > 1 or is_unknown:
        return _plain(number)
    digits = "".join(_digits(abs(number), place, others.count("%")) for place in places)
    if not re.search("[1-9]", digits):
        sign = ""
    shown = [sign]
    for part in section:
        text = part["quoted"] or part["escaped"] or part["currency"] or part["other"]
        shown.append(text or (digits if part["places"] else " " if part["blank"] else ""))
    return " ".join("".join(shown).split())


def _plain(number: float) -> str:
    text = f"{number:.{_MOST_DIGITS}g}"
    # The digits of a long number may identify something.
    is_long = "e+" in text and abs(number) < 10 ** (_MOST_DIGITS + 6)
    return f"{Decimal(text):f}" if is_long else text


def _digits(number: float, places: str, percents: int) -> str:
    if places in {GENERAL, "@"}:
        return _plain(number)
    before, _, after = places.partition(".")
    # A comma behind the last place divides by a thousand.
    thousands = len(before) - len(before.rstrip(",")) + after.count(",")
    decimals = len(after.replace(",", ""))
    scaled = Decimal(repr(number)).scaleb(2 * percents - 3 * thousands)
    rounded = scaled.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    integer, _, fraction = f"{rounded:f}".partition(".")
    while len(fraction) > after.count("0") and fraction.endswith("0"):
        fraction = fraction[:-1]
    integer = integer.lstrip("0").zfill(before.count("0"))
    if "," in before.rstrip(","):
        integer = _THOUSANDS.sub(",", integer)
    return f"{integer}.{fraction}" if fraction else integer
