"""Read numbers as people write them: ``1,000``, ``1.000``, ``1 000``, ``1'000``, ``3,50``, ``10:30``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

# A time, or any other number. A sign is part of a number at the beginning of a word.
NUMBER = r"""(?:(?<![^\s(\["'|=:<>])-)?(?:\d{1,2}:\d\d(?::\d\d)?(?!\d)|\d+(?:[.,']\d+)*)"""
_TIME_WITH_POINT = re.compile("(?:[01]?[0-9]|2[0-4])[.][0-5][0-9]")
_DIGIT = re.compile("[0-9]")
_SEPARATORS = re.compile("([.,'])")
# Thousands with spaces, but not telephone numbers; a range with a space before its dash
_THOUSANDS = re.compile(r"(?<![\w.,'])[1-9]\d{0,2}(?: \d{3})+(?:[.,]\d+)?(?![.,']?\d| \d)")
_RANGE = re.compile(r"(?<=\d )-(?=\d)")
# The German 5,- for 5,00
_NO_CENTS = re.compile(r"(?<=\d)[.,]-(?!\w)")


def with_plain_numbers(text: str) -> str:
    """Return a text with ``1'000`` instead of ``1 000``, ``10 - 20`` of ``10 -20``, and ``5`` of ``5,-``."""
    if not _DIGIT.search(text):
        return text
    text = _THOUSANDS.sub(lambda number: number[0].replace(" ", "'"), text)
    return _NO_CENTS.sub("", _RANGE.sub("- ", text))


@lru_cache(maxsize=4096)
def readings(number: str, is_quantity: bool) -> frozenset[str]:
    """
    Return the values that a number can have. Two numbers are equal if they have a value in common.

    ``1.500`` is 1500 or 1.5, and ``10.30`` is 10.30 or half past ten. Zeros at the end of a fraction make no
    difference, except after a point without a unit: versions 3.1 and 3.10 differ.

    :param number: Text that matches ``NUMBER``.
    :param is_quantity: Whether the number has a unit.
    """
    sign = "-" if number.startswith("-") else ""
    values = _unsigned(number.removeprefix("-"), is_quantity)
    return frozenset(sign + value for value in values)


def _unsigned(number: str, is_quantity: bool) -> set[str]:
    if ":" in number:
        hours, _, minutes = number.partition(":")
        return _time(hours, minutes)
    pieces = _SEPARATORS.split(number)
    digits, separators = pieces[::2], pieces[1::2]
    if not separators:
        return {_whole(number)}
    values: set[str] = set()
    if len(set(separators)) == 1 and _are_groups(digits, separators[0]):
        values.add("".join(digits))
        if separators == [","] and digits[1] == "000":
            # Hardly anybody writes one with three zeros behind a comma.
            return values
    fraction, last = digits[-1], separators[-1]
    groups, other_separators = digits[:-1], set(separators[:-1])
    is_grouped = len(other_separators) == 1 and _are_groups(groups, separators[0])
    if last in ".," and last not in other_separators and (is_grouped or len(groups) == 1):
        decimal = f"{_whole(''.join(groups))}.{fraction}"
        values.add(decimal)
        if is_quantity or is_grouped or last == "," or fraction == "000":
            values.add(decimal.rstrip("0").removesuffix("."))
        if _TIME_WITH_POINT.fullmatch(number):
            values |= _time(groups[0], fraction)
    if not values:
        # A date, a version or an address
        parts = [_whole(part) for part in digits]
        values.add(last.join(parts))
    return values


def _time(hours: str, minutes: str) -> set[str]:
    hour = _whole(hours)
    if minutes == "00":
        return {f"{hour}:00", hour}
    return {f"{hour}:{minutes}"}


def _are_groups(digits: Sequence[str], separator: str) -> bool:
    """Return whether digits are grouped by thousands, or as in India: ``1,00,000``."""
    first, *middle, last = [len(group) for group in digits] if len(digits) > 1 else (0, 0)
    if digits[0].startswith("0") or last != 3:
        return False
    is_indian = separator == "," and first <= 2 and all(size == 2 for size in middle)
    return is_indian or (first <= 3 and all(size == 3 for size in middle))


def _whole(digits: str) -> str:
    """Return digits without the first zero of ``05``. Longer numbers, such as ``007``, are not quantities."""
    return digits[1] if len(digits) == 2 and digits.startswith("0") else digits
