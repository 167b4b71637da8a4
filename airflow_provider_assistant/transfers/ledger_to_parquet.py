"""Exports of feedback, async chat requests and tries of tasks from the ledger to Parquet."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context
from sqlalchemy.engine import Connection

from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.lake.datasets import FEEDBACK, REQUESTS, TRIES, Dataset
from airflow_provider_assistant.lake.files import Written, days_of
from airflow_provider_assistant.lake.rows import rows_table
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.exports import feedback_between, requests_between, tries_between
from airflow_provider_assistant.ledger.queries import ledger_id, pruned_before
from airflow_provider_assistant.operators.runs import start_of_day, zone_of_run
from airflow_provider_assistant.operators.tries import recorded_as
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.transfers.base import NAMED_DAYS, ONE_DAY, ExportOperator, days_between, listed_days

# Most days that one run writes, unless the task asks for more.
MOST_DAYS = 400
NEVER = datetime.min.replace(tzinfo=UTC)


class LedgerExportOperator(ExportOperator):
    """
    Base of the operators that export entries of the ledger, of all services and sites, to a Parquet dataset.

    A run replaces whole days. It also writes the days that this ledger lacks in the dataset since its first one, at
    most 400: after a pause, no day is missing. A day whose entries ``airflow assistant ledger prune`` has deleted is
    not written: its file stays as it is.

    :param days: Number of days that every run writes, ending with ``date``. Default: 2, because entries were added to
        the day before after yesterday's run.

    The other parameters are those of :class:`~airflow_provider_assistant.transfers.base.ExportOperator`.
    """

    dataset: ClassVar[Dataset]

    def __init__(self, *, days: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.days = days
        check_given(self)

    @abstractmethod
    def rows_between(self, connection: Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
        """
        Return the rows of a time range.

        :param start: First moment of the range, in UTC.
        :param end: First moment after the range, in UTC.
        """

    @explained
    @recorded_as("export")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Write the partitions.

        :param context: Airflow's task context.
        :return: ``rows`` and ``bytes`` of the files that were written, their ``paths``, and ``path``, the last of them;
            ``kept``, the number of pruned days whose files were not changed; ``gaps``, the number of pruned days
            without a file, and ``gap_days``, the first of them; and ``date``, the last day.
        :raises AssistantLedgerError: The ledger cannot be read, or would be a file that the workers do not share.
        :raises AssistantInputError: ``date`` is not a date.
        """
        last = self.day(context)
        zone = zone_of_run(self.timezone, context)
        written: list[Written] = []
        with Ledger.open() as ledger:
            whose = [ledger.read(ledger_id)]
            there = days_of(self.output_path, self.dataset.name, whose)
            pruned_until = ledger.read(pruned_before) or NEVER
            pruned = {day for day in self._window(last) if start_of_day(day, zone) < pruned_until}
            days = self._days(last, there.keys() | pruned if there else ())
            for day in days:
                if day not in pruned:
                    rows = ledger.read(self.rows_between, start_of_day(day, zone), start_of_day(day + ONE_DAY, zone))
                    written.append(self.publish(context, rows_table(self.dataset, rows), self.dataset, day, whose))
        # Pruned days with a file, and those without one since the first day of the dataset.
        kept = sorted(day for day in days if day in pruned and day in there)
        first = min([days[0], *there])
        gaps = sorted(day for day in pruned if day >= first and day not in there)
        if kept or gaps:
            self.log.warning(
                "The ledger's entries of %s have been pruned, so the files of these days stay as they are. %s has no "
                "rows for %s.",
                listed_days(kept + gaps),
                self.dataset.name,
                listed_days(gaps),
            )
        rows_written = sum(file.rows for file in written)
        self.log.info(
            "Wrote %s of dataset %s for %s up to %s.",
            counted(rows_written, "row"),
            self.dataset.name,
            counted(len(written), "day"),
            last,
        )
        paths = [file.path for file in written]
        result = {
            "rows": rows_written,
            "path": paths[-1] if paths else None,
            "paths": paths,
            "bytes": sum(file.bytes for file in written),
            "kept": len(kept),
            "gaps": len(gaps),
            "gap_days": [day.isoformat() for day in gaps[:NAMED_DAYS]],
            "date": last.isoformat(),
        }
        return self.emit_asset_events(context, result)

    def _window(self, last: date) -> list[date]:
        """Return the days that one run writes at most."""
        return days_between(last - ONE_DAY * (max(self.days, MOST_DAYS) - 1), last + ONE_DAY)

    def _days(self, last: date, there: Collection[date]) -> list[date]:
        """
        Return the days to write, the earliest first.

        :param there: The days that need no file, or have one. Empty if the dataset has no file.
        """
        first = last - ONE_DAY * (self.days - 1)
        window = self._window(last)
        # The run of an earlier day, such as that of a backfill, writes its own days only.
        if self.date is None and there and max(there) <= last:
            begin = max(min(there), window[0])
            missing = [day for day in days_between(begin, last) if day not in there]
            if missing:
                # Entries were added to the days before a pause after they were written.
                first = max(min(first, missing[0] - ONE_DAY * (self.days - 1)), window[0])
            if max(there) < begin:
                self.log.warning(
                    "The last file of %s is of %s. To write the days before %s, set date and days.",
                    self.dataset.name,
                    max(there),
                    begin,
                )
        return days_between(first, last + ONE_DAY)


class AssistantFeedbackToParquetOperator(LedgerExportOperator):
    """
    Export the ratings in the ledger to the Parquet dataset ``feedback``: one row per rating, on the day it was sent.

    Each rating is joined with the latency of its answer.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.ledger_to_parquet.LedgerExportOperator`.
    """

    dataset = FEEDBACK

    def rows_between(self, connection: Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
        """Return the rows of a time range."""
        return feedback_between(connection, start, end)


class AssistantRequestsToParquetOperator(LedgerExportOperator):
    """
    Export chat requests in the ledger to the dataset ``requests``: one row per request, on the day of its claim.

    The rows are the requests that
    :class:`~airflow_provider_assistant.operators.submit_chat.AssistantSubmitChatOperator` and
    :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator` submitted with the ledger on. A
    request that finishes after midnight changes the partition of the day before.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.ledger_to_parquet.LedgerExportOperator`.
    """

    dataset = REQUESTS

    def rows_between(self, connection: Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
        """Return the rows of a time range."""
        return requests_between(connection, start, end)


class AssistantLoadsToParquetOperator(LedgerExportOperator):
    """
    Export the tries of tasks in the ledger, such as loads, to the Parquet dataset ``tries``, on the day they started.

    A try that ends after midnight changes the partition of the day before.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.ledger_to_parquet.LedgerExportOperator`.
    """

    dataset = TRIES

    def rows_between(self, connection: Connection, start: datetime, end: datetime) -> list[dict[str, Any]]:
        """Return the tries of a time range, with their counts as columns."""
        rows = tries_between(connection, start, end)
        return [{**row, **(row["counts"] or {}), "counts": json.dumps(row["counts"] or {})} for row in rows]
