"""Numbers, dates and texts, as a reader sees them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
# Control characters have pictures of their own in Unicode. Marks that change the direction of what follows could make a
# text look like another one.
_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_DIRECTIONS = {code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_LEGIBLE: dict[int, int | str] = {**_CONTROLS, **_DIRECTIONS}
_UNSEEN = re.compile("[\x80-\x9f\ud800-\udfff\ufffe\uffff]")


def legible(text: str) -> str:
    """
    Make every character visible and encodable.

    :param text: Anything; lone surrogates and unassigned controls become the replacement character.
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").translate(_LEGIBLE))


def shortened(text: str, limit: int) -> str:
    """
    Cut a text to be named rather than read.

    :param text: Of any length.
    :param limit: Characters, without the ellipsis.
    """
    line = " ".join(legible(text[: 8 * limit]).split())
    return line if len(line) <= limit and len(text) <= 8 * limit else f"{line[:limit].rstrip()}…"


def count(value: int) -> str:
    """Return a number of things."""
    return f"{value:,}"


def counted(value: int, one: str, many: str | None = None) -> str:
    """
    Return a number of things and their name.

    :param one: The name of one.
    :param many: Of none or several, if that is not an s more.
    """
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def score(value: float | None) -> str:
    """Return a score; what is not quite 1 is not shown as 1."""
    if value is None:
        return NONE
    text = f"{value:.3f}".replace("-", MINUS)
    return "0.999" if text == "1.000" and value < 1 else text


def percent(value: float | None) -> str:
    """Return a share of 1; what is not quite all is not shown as all, and something is not shown as nothing."""
    if value is None:
        return NONE
    text = f"{100 * value:.1f}"
    if text == "100.0" and value < 1:
        text = "99.9"
    elif text == "0.0" and value > 0:
        text = "0.1"
    return f"{text}\u202f%"


def seconds(value: float | None) -> str:
    """Return a duration with three significant digits, or whole seconds."""
    if value is None:
        return NONE
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}\u202fs".replace("-", MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """Return a difference."""
    if value is None:
        return NONE
    text = f"{value:+.{digits}f}".replace("-", MINUS)
    return text.lstrip(f"+{MINUS}") if float(f"{value:.{digits}f}") == 0 else text


def exact(value: float | None) -> str:
    """Return what a rule looked at, with more digits if it lies next to a round number, which may be the limit."""
    if value is None:
        return NONE
    nearly_round = value != round(value, 4) == round(value, 2)
    return f"{value:.{8 if nearly_round else 4}f}".replace("-", MINUS)


def moment(value: str | None) -> str:
    """
    Return a time in UTC.

    :param value: ISO 8601; what is none is returned as it is.
    """
    if not value:
        return NONE
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return value
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return f"{time:%Y-%m-%d %H:%M} UTC"


def day(value: str | None) -> str:
    """Return the day of a time in UTC, short enough for an axis; empty if there is none."""
    text = moment(value)
    return text[5:10] if text.endswith(" UTC") else ""
