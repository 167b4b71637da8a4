"""Formatting of times, which are in seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: float) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond."""
    text = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def maybe_iso(moment: float | None) -> str | None:
    """Return a time as :func:`iso` does, or ``None`` if the event has not happened."""
    if moment is None:
        return None
    return iso(moment)


def month(moment: float) -> str:
    """Return the calendar month (UTC) whose quota a message counts against."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m")


def next_month(moment: float) -> float:
    """Return the start of the next calendar month (UTC)."""
    now = datetime.fromtimestamp(moment, UTC)
    if now.month == 12:
        start = datetime(now.year + 1, 1, 1, tzinfo=UTC)
    else:
        start = datetime(now.year, now.month + 1, 1, tzinfo=UTC)
    return start.timestamp()
