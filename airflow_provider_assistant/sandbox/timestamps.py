"""Formatting of times."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: float) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond.

    :param moment: seconds since the epoch.
    """
    text = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def maybe_iso(moment: float | None) -> str | None:
    """Return a time as :func:`iso` does, or ``None``.

    :param moment: seconds since the epoch, or ``None`` if the event has not happened.
    """
    return None if moment is None else iso(moment)


def next_month(moment: float) -> float:
    """Return the start of the next calendar month (UTC).

    :param moment: seconds since the epoch.
    """
    day = datetime.fromtimestamp(moment, UTC)
    year, month = divmod(day.year * 12 + day.month, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC).timestamp()
