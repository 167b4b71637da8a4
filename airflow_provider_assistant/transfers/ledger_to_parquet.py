"""Exports of feedback, async chat requests and tries of tasks from the ledger to Parquet."""

from __future__ import annotations

import json
from abc import abstractmethod
from datetime import date, datetime
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context
from sqlalchemy.engine import Connection

from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.lake.datasets import FEEDBACK, REQUESTS, TRIES, Dataset
from airflow_provider_assistant.lake.files import Written, days_of
from airflow_provider_assistant.lake.rows import rows_table
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import (
    feedback_between,
    ledger_id,
    pruned_before,
    requests_between,
    tries_between,
)
from airflow_provider_assistant.operators.runs import start_of_day, zone_of_run
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.transfers.base import ONE_DAY, ExportOperator, days_between, listed_days

# Most days that one run writes, unless the task asks for more.
MOST_DAYS = 400


class LedgerExportOperator(ExportOperator):
    """
    Base of the operators that export entries of the ledger, of all services and sites, to a Parquet dataset.

    A run replaces whole days. It also writes all days since the last one that this ledger has in the dataset, at most
    400: after a pause, no day is missing. A day whose entries ``airflow assistant ledger prune`` has deleted is not
    written: its file stays as it is.

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
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Write the partitions.

        :param context: Airflow's task context.
        :return: ``rows`` and ``bytes`` of the files that were written, their ``paths``, and ``path``, the last of them;
            ``pruned``, the number of days that the ledger does not have any more; and ``date``, the last day.
        :raises AssistantLedgerError: The ledger cannot be read, or would be a file that the workers do not share.
        :raises AssistantInputError: ``date`` is not a date.
        """
        check_rendered(self, context)
        last = self.day(context)
        zone = zone_of_run(self.timezone, context)
        with Ledger.open() as ledger:
            whose: list[str | None] = [ledger.read(ledger_id)]
            pruned: list[date] = []
            written: list[Written] = []
            pruned_until = ledger.read(pruned_before)
            for day in days_between(self._first_day(last, whose), last + ONE_DAY):
                start, end = start_of_day(day, zone), start_of_day(day + ONE_DAY, zone)
                if pruned_until is not None and start < pruned_until:
                    pruned.append(day)
                    continue
                rows = ledger.read(self.rows_between, start, end)
                written.append(self.publish(context, rows_table(self.dataset, rows), self.dataset, day, whose))
        if pruned:
            self.log.warning(
                "The ledger's entries of %s have been pruned, so the files of these days stay as they are.",
                listed_days(pruned),
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
            "pruned": len(pruned),
            "date": last.isoformat(),
        }
        return self.emit_asset_events(context, result)

    def _first_day(self, last: date, whose: list[str | None]) -> date:
        """Return the first day to write: after a pause, that of the last file of this ledger."""
        first = last - ONE_DAY * (self.days - 1)
        if self.date is not None:
            return first
        # A later day says nothing: a backfill writes the days of its run only.
        there = days_of(self.output_path, self.dataset.name, whose)
        if not there or max(there) > last:
            return first
        # Entries were added to the last days after they were written. A repeated run begins where the first one did.
        before = [day for day in there if day < last]
        begin = min(first, (max(before) if before else last) - ONE_DAY * (self.days - 2))
        earliest = last - ONE_DAY * (max(self.days, MOST_DAYS) - 1)
        if begin < earliest:
            self.log.warning(
                "The last file of %s is older than %s, which is the most that one run writes. To write the days "
                "before, set date and days.",
                self.dataset.name,
                counted(MOST_DAYS, "day"),
            )
        return max(begin, earliest)


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
    Export chat requests in the ledger to the dataset ``requests``: one row per request, on the day it was submitted.

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
