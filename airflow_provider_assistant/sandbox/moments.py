"""Times as the service shows them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: float) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond.

    :param moment: seconds since the epoch.
    """
    text = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def maybe_iso(moment: float | None) -> str | None:
    """Return a time as :func:`iso` does, or ``None`` for one that has not come.

    :param moment: seconds since the epoch.
    """
    return None if moment is None else iso(moment)


def next_month(moment: float) -> float:
    """Return when the calendar month (UTC) after this time begins.

    :param moment: seconds since the epoch.
    """
    day = datetime.fromtimestamp(moment, UTC)
    year, month = divmod(day.year * 12 + day.month, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC).timestamp()
