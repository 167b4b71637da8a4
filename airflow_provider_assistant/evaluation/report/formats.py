"""Format numbers, dates and texts for the report."""

from __future__ import annotations

import re
from datetime import UTC, datetime

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
# Show control characters as Unicode control pictures, and direction marks as code points: they could make a text look
# like another one.
_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_DIRECTIONS = {code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_LEGIBLE: dict[int, int | str] = {**_CONTROLS, **_DIRECTIONS}
_UNENCODABLE = re.compile("[\x80-\x9f\ud800-\udfff\ufffe\uffff]")


def legible(text: str) -> str:
    """
    Make every character visible and encodable.

    :param text: Any text. Lone surrogates and unassigned control characters become the replacement character.
    """
    text = text.replace("\r\n", "\n").translate(_LEGIBLE)
    return _UNENCODABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def count(value: int) -> str:
    """Format a count, with thousands separators."""
    return f"{value:,}"


def score(value: float | None) -> str:
    """Format a score with three decimals. A score below 1 is never rounded to 1."""
    if value is None:
        return NONE
    text = f"{value:.3f}".replace("-", MINUS)
    if text == "1.000" and value < 1:
        text = "0.999"
    return text


def percent(value: float | None) -> str:
    """Format a share of 1 as percent. A share between 0 and 1 is never rounded to 0 % or 100 %."""
    if value is None:
        return NONE
    text = f"{100 * value:.1f}"
    if text == "100.0" and value < 1:
        text = "99.9"
    elif text == "0.0" and value > 0:
        text = "0.1"
    return f"{text}\u202f%"


def seconds(value: float | None) -> str:
    """Format a duration in seconds with three significant digits, or as whole seconds from 100 on."""
    if value is None:
        return NONE
    digits = 0
    if abs(value) < 10:
        digits = 2
    elif abs(value) < 100:
        digits = 1
    return f"{value:,.{digits}f}\u202fs".replace("-", MINUS)


def signed(value: float | None) -> str:
    """Format a difference with its sign and three decimals."""
    if value is None:
        return NONE
    text = f"{value:+.3f}"
    # A difference that is rounded to zero has no sign.
    if float(text) == 0:
        return text.lstrip("+-")
    return text.replace("-", MINUS)


def exact(value: float | None) -> str:
    """Format the value of a rule, with more digits close to a round number, which may be the threshold."""
    if value is None:
        return NONE
    four_digits = round(value, 4)
    is_nearly_round = value != four_digits and four_digits == round(value, 2)
    digits = 8 if is_nearly_round else 4
    return f"{value:.{digits}f}".replace("-", MINUS)


def moment(value: str | None) -> str:
    """Format a time in UTC, given in ISO 8601. Any other text is returned unchanged."""
    if not value:
        return NONE
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return value
    # A time without a zone is in UTC.
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    time = time.astimezone(UTC)
    return f"{time:%Y-%m-%d %H:%M} UTC"


def day(value: str | None) -> str:
    """Format the UTC day of a time for an axis (``MM-DD``). Empty without a time."""
    text = moment(value)
    # A text that is not a time has no day.
    if not text.endswith(" UTC"):
        return ""
    return text[len("YYYY-") : len("YYYY-MM-DD")]
