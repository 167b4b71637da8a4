"""Numbers of Excel as their formats show them."""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format, is_timedelta_format
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

# Excel has no more digits.
_MOST_DIGITS = 15
# Excel has 30 decimal places.
_CONTEXT = Context(prec=60, rounding=ROUND_HALF_UP)
# Blanks as wide as another character, fillers, colours, conditions, and the brackets of a currency with its locale.
_NOT_SHOWN = re.compile(r"_.|\*.|\[\$|(?<=[^\]])-[\w-]{1,40}\]|\[[^\]$]*\]|\]")
_TEXT = r"""((?:"[^"]*"|\\.|[^0#?.,"\\/E])*)"""
_FORMAT = re.compile(rf"{_TEXT}([0#?][0#?,]*)(\.[0#?]*)?{_TEXT}")
_QUOTED = re.compile(r'"([^"]*)"|\\(.)')
# Dates of Chinese, Japanese and Korean, which have no code in the file.
_EASTERN_DATES = (*range(27, 37), *range(50, 59))


def codes_of(styles: Any) -> list[str]:
    """Return the codes of the number formats of all styles of cells, by the root of their part."""
    codes = {**BUILTIN_FORMATS, **dict.fromkeys(_EASTERN_DATES, BUILTIN_FORMATS[14])}
    code_by_id = {str(number): code for number, code in codes.items()}
    for element in styles.iterfind("{*}numFmts/{*}numFmt"):
        code_by_id[element.get("numFmtId", "")] = element.get("formatCode", "")
    ids = [style.get("numFmtId", "") for style in styles.iterfind("{*}cellXfs/{*}xf")]
    return [code_by_id.get(each) or "General" for each in ids]


def shown(value: str, code: str, *, starts_in_1904: bool) -> str:
    """
    Return a number as Excel shows it, but a date in ISO format.

    :param value: The number as the file has it. Another text is returned as it is.
    :param starts_in_1904: Whether dates are counted from 1904 on, as old Macs did.
    """
    try:
        number = float(value)
    except ValueError:
        return value
    if not math.isfinite(number):
        return value
    if not is_date_format(code):
        return formatted(number, code)
    first_day = CALENDAR_MAC_1904 if starts_in_1904 else CALENDAR_WINDOWS_1900
    try:
        date = from_excel(number, first_day, timedelta=is_timedelta_format(code))
    except (OverflowError, ValueError):
        return _plain(number)
    text = str(date).split(".", maxsplit=1)[0].removesuffix(" 00:00:00")
    shows_day = "d" in _QUOTED.sub("", _NOT_SHOWN.sub("", code)).lower()
    return text if shows_day or not isinstance(date, datetime) else text.removesuffix("-01")


def formatted(number: float, code: str) -> str:
    """
    Return a number as its format shows it: digits, percent, separators of thousands, and texts around them.

    The first section of a format, which is that of positive numbers, counts for all. If it has something else, such as
    a fraction, the number is plain. A format without any section shows nothing.
    """
    if not code.strip(";"):
        return ""
    found = _FORMAT.fullmatch(_NOT_SHOWN.sub("", code.split(";", maxsplit=1)[0]))
    if not found or found[2].endswith(",") or abs(number) >= 10**_MOST_DIGITS:
        return _plain(number)
    before, after = (_QUOTED.sub(r"\1\2", text) for text in found.group(1, 4))
    fraction = (found[3] or ".")[1:]
    # A sign in quotes is only text.
    exact = Decimal(repr(abs(number))).scaleb(2 * _QUOTED.sub("", found[1] + found[4]).count("%"))
    try:
        rounded = exact.quantize(Decimal(1).scaleb(-len(fraction)), context=_CONTEXT)
    except InvalidOperation:  # no person writes so many places
        return _plain(number)
    digits = f"{rounded:,f}" if "," in found[2] else f"{rounded:f}"
    whole, _, decimals = digits.partition(".")
    shown = whole.zfill(found[2].count("0"))
    decimals = decimals[: fraction.count("0")] + decimals[fraction.count("0") :].rstrip("0")
    sign = "-" if number < 0 and rounded else ""
    return " ".join(f"{sign}{before}{shown}{'.' * bool(decimals)}{decimals}{after}".split())


def _plain(number: float) -> str:
    text = f"{number:.{_MOST_DIGITS}g}"
    # The digits of a long number may identify something.
    is_long = "e+" in text and abs(number) < 10 ** (_MOST_DIGITS + 6)
    return f"{Decimal(text):f}" if is_long else text
