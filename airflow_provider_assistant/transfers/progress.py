"""What an export task remembers between its runs: the last day that it wrote, so that the next run can catch up."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.names import LONGEST_WITH_SUFFIX, file_name
from airflow_provider_assistant.texts import counted

# Most days that one run writes, unless the task asks for more.
MOST_DAYS = 400
# Number of days that a message or a result names.
NAMED_DAYS = 31
ONE_DAY = datetime.timedelta(days=1)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _State:
    """
    Content of the file.

    :param last: Last day that was written.
    :param before: Last day that was written by an earlier run. A repetition of the last run starts from it.
    """

    last: datetime.date
    before: datetime.date | None
    timezone: str


class Progress:
    """
    The last day that a task has exported to a dataset.

    It is in the file ``<dataset>/_state/<part>.json``, which readers of datasets skip.

    :param root: Folder of the datasets.
    :param part: Name of the task's file in a partition.
    :param zone: Zone of the days.
    """

    def __init__(self, root: str, dataset: str, part: str, zone: datetime.tzinfo) -> None:
        folder = ObjectStoragePath(root) / dataset / "_state"
        self._path = folder / f"{file_name(part, LONGEST_WITH_SUFFIX)}.json"
        self._dataset = dataset
        self._zone = zone
        self._state = self._read()
        if self._state is not None and self._state.timezone != str(zone):
            log.warning(
                "The days of %s up to %s began at midnight in %s, and from now on in %s. Around this change, rows may "
                "be missing or counted twice. If the dataset comes from the ledger, export its earlier days again: set "
                "days to their number for one run.",
                dataset,
                self._state.last,
                self._state.timezone,
                zone,
            )

    def first_day(self, last: datetime.date, days: int) -> datetime.date:
        """
        Return the first day to write.

        :param last: Last day to write.
        :param days: Number of days that each run writes, because the last days may still change.
        :return: The first of these days, or an earlier one that was not written after its last change.
        """
        first = last - ONE_DAY * (days - 1)
        written = self._written_before(last)
        if written is None:
            return first
        first = min(first, written - ONE_DAY * max(days - 2, 0))
        earliest = last - ONE_DAY * (max(days, MOST_DAYS) - 1)
        if first < earliest:
            log.warning(
                "The last run wrote %s up to %s. This one writes at most %s, so these are not written: %s. To "
                "write them, set date and days.",
                self._dataset,
                written,
                counted(max(days, MOST_DAYS), "day"),
                listed_days(days_between(first, earliest)),
            )
        return max(first, earliest)

    def gaps(self, day: datetime.date) -> list[datetime.date]:
        """Return the days between the last one that was written and a day."""
        written = self._written_before(day)
        if written is None:
            return []
        return days_between(written + ONE_DAY, day)

    def record(self, day: datetime.date) -> None:
        """Record that all days up to this one have been written."""
        # A run that was started with a logical date in the future must not stop later runs from catching up.
        day = min(day, datetime.datetime.now(self._zone).date())
        if self._state is not None and day <= self._state.last:
            return
        before = None if self._state is None else self._state.last.isoformat()
        content = {"last": day.isoformat(), "before": before, "timezone": str(self._zone)}
        lake.replace_bytes(json.dumps(content).encode(), self._path)

    def _written_before(self, day: datetime.date) -> datetime.date | None:
        """Return the last day that was written before the run of a day; of a later run, None."""
        if self._state is None or self._state.last < day:
            return None if self._state is None else self._state.last
        return self._state.before if self._state.last == day else None

    def _read(self) -> _State | None:
        try:
            content = json.loads(self._path.read_text())
            before = content["before"]
            return _State(
                last=datetime.date.fromisoformat(content["last"]),
                before=None if before is None else datetime.date.fromisoformat(before),
                timezone=str(content["timezone"]),
            )
        except FileNotFoundError:
            return None
        except (PermissionError, ValueError, KeyError, TypeError) as error:
            log.warning(
                "%s cannot be read (%s), so days since the last run are not caught up.",
                self._path,
                error,
            )
            return None


def days_between(first: datetime.date, end: datetime.date) -> list[datetime.date]:
    """Return the days from the first one up to the end, without it."""
    return [first + ONE_DAY * number for number in range((end - first).days)]


def gap_counts(gaps: Sequence[datetime.date]) -> dict[str, Any]:
    """Return the number of gaps, and the first of their days, for the result of a task."""
    return {"gaps": len(gaps), "gap_days": [day.isoformat() for day in gaps[:NAMED_DAYS]]}


def listed_days(days: Sequence[datetime.date]) -> str:
    """Return days for a message, such as ``2 days (2026-11-20, 2026-11-21)``."""
    named = ", ".join(day.isoformat() for day in days[:NAMED_DAYS])
    more = ", …" if len(days) > NAMED_DAYS else ""
    return f"{counted(len(days), 'day')} ({named}{more})"
