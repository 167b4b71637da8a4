"""
What the path of a metric says: its column in ``statistics_daily``, or its day.

A reply may list days, weeks or times itself, as keys or as names of list items. Their metrics would
add columns without end, so they are rows of ``statistics_history`` instead. Everything here depends
on the path alone: a metric has the same column in every warehouse, in whatever order days are
loaded.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

# PostgreSQL truncates longer names.
NAME_BYTES = 63
# Columns of statistics_daily that are not metrics.
KEYS = ("date", "service", "tenant_id", "site_id", "captured_at")
# The metric of a value that is itself the item of a day, and the series at the top of a reply.
ITSELF = "$"

_YEAR = "(?P<year>(?:19|20|21)[0-9]{2})"
_MONTH = "(?P<month>[0-9]{2})"
_DAY = rf"{_YEAR}(?P<separator>[-/_.]?){_MONTH}(?P=separator)(?P<day>[0-9]{{2}})"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?"
_CLOCK = rf"[0-9]{{2}}(?::?[0-9]{{2}}(?::?[0-9]{{2}}(?:[.,][0-9]+)?)?)?{_ZONE}"
# A time or the end of an interval may follow a date; the date before it counts.
_PERIODS = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_DAY}(?:[T _-]?{_CLOCK})?(?:(?:/|--|_)[0-9][^.]*)?",
        rf"{_YEAR}-?W(?P<week>[0-9]{{2}})(?:-?(?P<weekday>[1-7]))?",
        rf"{_YEAR}-?Q(?P<quarter>[1-4])",
        rf"{_YEAR}[-/_.]?{_MONTH}",
        rf"{_YEAR}-(?P<yearday>[0-9]{{3}})",
        r"(?P<seconds>1[4-9][0-9]{8})(?:[0-9]{3})?",
    )
)
# A dotted path may hold a date in several names: daily.2026.11.21, or a fraction of a second.
_NAMES_OF_A_PERIOD = 3


@dataclass(frozen=True, slots=True)
class Dated:
    """
    A metric of a period that the reply lists.

    :param series: Path before the period: ``daily``.
    :param date: First day of the period.
    :param period: The period as in the path: ``2026-11-21`` or ``2026-W47``.
    :param metric: Path after the period: ``documents.total``.
    """

    series: str
    date: date
    period: str
    metric: str


def dated(metric: str) -> Dated | None:
    """
    Return the period in the path of a metric; None if it has none.

    Names that only contain a date do not count: ``gpt-4o-2024-08-06`` is a model and not a day. Of
    several periods, the last one counts, and the path before it has ``*`` in place of the others.
    """
    names = metric.split(".")
    for start in reversed(range(len(names))):
        for end in range(min(start + _NAMES_OF_A_PERIOD, len(names)), start, -1):
            period = ".".join(names[start:end])
            first_day = _first_day(period)
            if first_day is not None:
                series = _without_periods(".".join(names[:start]))
                rest = ".".join(names[end:])
                return Dated(series or ITSELF, first_day, period, rest or ITSELF)
    return None


def _without_periods(path: str) -> str:
    found = dated(path)
    if found is None:
        return path
    names = [name for name in (found.series, "*", found.metric) if name != ITSELF]
    return ".".join(names)


def _first_day(text: str) -> date | None:
    """Return the first day of a period; None if the text is none, such as 2026-02-30."""
    for pattern in _PERIODS:
        # A second item of a list with the same name has a number: 2026-11-21#2.
        found = pattern.fullmatch(re.sub("#[0-9]+$", "", text))
        if found is None:
            continue
        try:
            return _day_of(found.groupdict())
        except ValueError:
            continue
    return None


def _day_of(fields: dict[str, str | None]) -> date:
    numbers = {name: int(text) for name, text in fields.items() if text and text.isdigit()}
    if "seconds" in numbers:
        return datetime.fromtimestamp(numbers["seconds"], UTC).date()
    year = numbers["year"]
    if "week" in numbers:
        return date.fromisocalendar(year, numbers["week"], numbers.get("weekday", 1))
    if "quarter" in numbers:
        return date(year, 3 * numbers["quarter"] - 2, 1)
    if "yearday" in numbers:
        day = date(year, 1, 1) + timedelta(days=numbers["yearday"] - 1)
        if day.year != year:
            raise ValueError(numbers["yearday"])
        return day
    return date(year, numbers["month"], numbers.get("day", 1))


def column_of(metric: str) -> str:
    """
    Return the column of a metric: its name, or a name with a hash.

    DuckDB ignores case in names and PostgreSQL truncates them, so only short names without capital
    letters are kept as they are.
    """
    is_plain = metric == metric.lower() and metric not in KEYS
    if is_plain and len(metric.encode()) <= NAME_BYTES and not re.search("_[0-9a-f]{8}$", metric):
        return metric
    suffix = "_" + hashlib.blake2b(metric.encode(), digest_size=4).hexdigest()
    beginning = metric.encode()[: NAME_BYTES - len(suffix)]
    # The cut may have split a character of several bytes; its rest is dropped.
    return beginning.decode(errors="ignore") + suffix


def is_numbered(metric: str) -> bool:
    """
    Return whether a name of the path has four or more digits, as ids and odd dates have.

    Such metrics may become many without end.
    """
    return any(len(re.findall("[0-9]", name)) >= 4 for name in metric.split("."))
