"""What the operators that write Parquet datasets share: the day, and the file of its rows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.failures import FailureContext
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.lake.datasets import Dataset
from airflow_provider_assistant.lake.files import Written
from airflow_provider_assistant.operators.base import AssistantBaseOperator
from airflow_provider_assistant.operators.datasets import publish
from airflow_provider_assistant.operators.links import AssistantDataLink
from airflow_provider_assistant.operators.runs import day_of_run
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

ONE_DAY = datetime.timedelta(days=1)
# Number of days that a message or a result names.
NAMED_DAYS = 31


class ExportOperator(AssistantBaseOperator):
    """
    Base of the operators that write Parquet datasets.

    A file has the name of what its rows belong to, such as a site. So a run replaces what any task has written for the
    same rows and day, and no row is there twice.

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: Day of the partition, ``YYYY-MM-DD``. Default: the day of the DAG run.
    :param timezone: IANA name of the zone of the days, such as ``Europe/Berlin``. Default: the zone of the DAG's
        schedule.
    """

    template_fields: Sequence[str] = ("output_path", "date", "timezone")
    operator_extra_links = (AssistantDataLink(),)

    def __init__(
        self, *, output_path: str, date: str | None = None, timezone: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.output_path = output_path
        self.date = date
        self.timezone = timezone
        check_given(self)

    def day(self, context: Context) -> datetime.date:
        """Return the day of the partition: ``date``, or the day of the DAG run in its zone."""
        return day_of_run(self.date, context, self.timezone)

    def publish(
        self, context: Context, table: pa.Table, dataset: Dataset, day: datetime.date, whose: Sequence[str | None]
    ) -> Written:
        """
        Replace a file of a day.

        :param whose: Whose rows they are.
        :raises AssistantStorageError: The file cannot be written; an existing one is as it was.
        """
        return publish(self, context, table, self.output_path, dataset.name, day, whose)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the target of the export and the files that it replaced, for the log lines of a failure."""
        files = [f"{dataset.uri} ({counted(dataset.rows or 0, 'row')})" for dataset in self.lineage_outputs]
        written = "Nothing was written: the partition is unchanged."
        if files:
            written = f"This run wrote {counted(len(files), 'file')}: {', '.join(files)}."
        return FailureContext(f"export of task {self.task_id!r} to {self.output_path}", written)


def days_between(first: datetime.date, end: datetime.date) -> list[datetime.date]:
    """Return the days from the first one up to the end, without it."""
    return [first + ONE_DAY * number for number in range((end - first).days)]


def listed_days(days: Sequence[datetime.date]) -> str:
    """Return days for a message, such as ``2 days (2026-11-20, 2026-11-21)``."""
    more = ", …" if len(days) > NAMED_DAYS else ""
    return f"{counted(len(days), 'day')} ({', '.join(map(str, days[:NAMED_DAYS]))}{more})"
