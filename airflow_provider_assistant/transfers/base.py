"""Base classes of the operators that write Parquet datasets."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException, Context, ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.exceptions import (
    AssistantInputError,
    AssistantLedgerError,
    AssistantStorageError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.ledger import Ledger, RunRef, Site
from airflow_provider_assistant.ledger.queries import has_rows_before, pruned_before
from airflow_provider_assistant.names import file_name, task_name
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.operators.datasets import publish
from airflow_provider_assistant.operators.links import AssistantDataLink
from airflow_provider_assistant.operators.runs import day_of_run, instance_suffix, start_of_day, zone_of_run
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.transfers.progress import (
    ONE_DAY,
    Progress,
    days_between,
    gap_counts,
    listed_days,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy.engine import Connection

UNWRITTEN = "Nothing was written: the partition is unchanged."
SEPARATE_PATHS = "If another task exports the same rows, give each task a separate output_path."


class ExportOperator(AssistantOperator):
    """
    Base of the operators that write Parquet datasets.

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: Day of the partition, ``YYYY-MM-DD``. The task writes what is asked for, and does not catch up.
        Default: the day of the DAG run.
    :param timezone: IANA name of the zone of the days, such as ``Europe/Berlin``. Default: the zone of the DAG's
        schedule.
    :param file_name: Name of this task's file in a partition, without ``.parquet``. Default: ``<dag_id>.<task_id>``.
        After renaming a task, set the old name here: the task then replaces its earlier files. A mapped task appends
        its index. A name that some readers or file systems would not take gets a hash.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "output_path",
        "date",
        "timezone",
        "file_name",
    )
    operator_extra_links = (AssistantDataLink(),)

    def __init__(
        self,
        *,
        output_path: str,
        date: str | None = None,
        timezone: str | None = None,
        file_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_path = output_path
        self.date = date
        self.timezone = timezone
        self.file_name = file_name
        check_given(self)

    def part_name(self, context: Context) -> str:
        """
        Return the name of this task's file in a partition.

        :return: The name, without ``.parquet``: ``file_name``, and the index of a mapped task.
        """
        run = RunRef.of(context)
        return f"{file_name(self.base_name(run))}{instance_suffix(run)}"

    def base_name(self, run: RunRef) -> str:
        """
        Return the name that all files of this task begin with.

        :param run: The task instance.
        :return: ``file_name``, or the name of the task.
        """
        return self.file_name or task_name(run.dag_id, run.task_id)

    def day(self, context: Context) -> datetime.date:
        """
        Return the day of the partition.

        :return: ``date``, or the day of the DAG run in its zone.
        """
        return day_of_run(self.date, context, self.timezone)

    def progress(self, context: Context, dataset: str) -> Progress | None:
        """
        Return what earlier runs of the task have exported.

        :param dataset: Name of the dataset.
        :return: The progress; None with an explicit ``date``.
        """
        if self.date is not None:
            return None
        zone = zone_of_run(self.timezone, context)
        return Progress(self.output_path, dataset, self.part_name(context), zone)

    def gaps(self, progress: Progress | None, dataset: str, day: datetime.date) -> list[datetime.date]:
        """
        Return the days since the last export whose values nobody can read any more, with a warning.

        :param progress: What earlier runs have exported.
        :param dataset: Name of the dataset.
        :param day: Day that is written now.
        """
        if progress is None:
            return []
        gaps = progress.gaps(day)
        if gaps:
            self.log.warning(
                "%s has no rows for %s: no run of this task has read the values on these days, and the service only "
                "has the current ones.",
                dataset,
                listed_days(gaps),
            )
        return gaps

    def failure_context(self, context: Context) -> FailureContext:
        """Return the target of the export and the files that it replaced, for the log lines of a failure."""
        part_name = self.part_name(context)
        doing = f"export of {part_name!r} to {self.output_path} from {self.hook.location()}"
        files = [f"{dataset.uri} ({counted(dataset.rows or 0, 'row')})" for dataset in self.lineage_outputs]
        written = UNWRITTEN
        if files:
            written = f"This run wrote {counted(len(files), 'file')}: {', '.join(files)}."
        return FailureContext(doing, written)

    def publish(
        self,
        context: Context,
        table: pa.Table,
        dataset: str,
        day: datetime.date,
    ) -> lake.Published:
        """
        Replace this task's file in a partition.

        :param day: Day of the partition.
        :return: ``rows``, ``path`` and ``bytes`` of the file.
        :raises AssistantInputError: Another file of the partition already contains some of the rows. Nothing was
            written.
        :raises AssistantStorageError: Another task wrote some of the rows at the same moment. This task has removed its
            file again.
        """
        other_file = self._other_file(context, table, dataset, day)
        if other_file is not None:
            _, _, other_name = other_file.rpartition("/")
            old_name = other_name.removesuffix(".parquet")
            raise AssistantInputError(
                f"{other_file} already contains rows that this task would write for {day}, and "
                "readers would count them twice",
                safe=f"Nothing of {dataset} was written for {day}.",
                todo="If the DAG or the task was renamed, keep the old name: "
                f"file_name={old_name!r}, or delete that file. {SEPARATE_PATHS}",
                field="file_name",
            )
        part_name = self.part_name(context)
        file = publish(self, context, table, self.output_path, dataset, day, part_name=part_name)
        # Another task may have looked before this file was there. Each of the two sees the other now, or one of them
        # does, so at most one file stays.
        other_file = self._other_file(context, table, dataset, day)
        if other_file is not None:
            ObjectStoragePath(file.path).unlink()
            raise AssistantStorageError(
                f"{other_file} contains some of the rows that this task has written for {day}, and readers would "
                "count them twice: another task wrote them at the same moment",
                safe=f"This task removed its own file again: {file.path}.",
                todo=f"Run the task again. {SEPARATE_PATHS}",
            )
        return file

    def _other_file(self, context: Context, table: pa.Table, dataset: str, day: datetime.date) -> str | None:
        return lake.counted_twice(
            table,
            self.output_path,
            lake.DATASETS[dataset],
            day,
            part=self.part_name(context),
            task=self.base_name(RunRef.of(context)),
        )


class LedgerExportOperator(ExportOperator):
    """
    Base of the operators that export entries of the ledger to a Parquet dataset.

    A run replaces whole days, so a re-run creates no duplicates. It also writes all days since the last run of this
    task that succeeded, at most 400: after a pause, no day is missing.

    A day whose entries ``airflow assistant ledger prune`` has deleted is not written: its file stays as it is.

    Without ``site_id``, the entries of all sites in the ledger are exported, and the connection ``assistant_default``
    need not exist. ``date`` is the last day to write.

    :param days: Number of days that every run writes, ending with ``date``. Default: 2, because entries were added to
        the day before after yesterday's run.

    The other parameters are those of :class:`~airflow_provider_assistant.transfers.base.ExportOperator`.
    """

    dataset: ClassVar[lake.Dataset]

    def __init__(self, *, days: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.days = days
        check_given(self)

    @staticmethod
    @abstractmethod
    def rows_between(
        connection: Connection,
        start: datetime.datetime,
        end: datetime.datetime,
        site: Site | None = None,
    ) -> list[dict[str, Any]]:
        """
        Return the rows of a time range.

        :param start: First moment of the range, in UTC.
        :param end: First moment after the range, in UTC.
        :param site: Only this site. Default: None, all sites.
        :return: The rows, with the columns of the dataset.
        """

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Write the partitions.

        :param context: Airflow's task context.
        :return: ``rows`` and ``bytes`` of the files that were written, their ``paths``, and ``path``, the
            last of them; ``kept``, the number of pruned days whose files were not changed; ``gaps``,
            the number of pruned days without a file, and ``gap_days``, the first of them; and
            ``date``, the last day.
        :raises AssistantLedgerError: The ledger cannot be read.
        :raises AssistantLedgerError: The ledger would be a file that the workers do not share; or it has no
            entries up to a day whose partition has rows: the run would replace these rows by nothing. Airflow does not
            retry the task.
        :raises AssistantInputError: ``date`` is not a date, or another file of a partition already contains the rows.
        """
        check_rendered(self, context)
        dataset = self.dataset.name
        zone = zone_of_run(self.timezone, context)
        last = self.day(context)
        progress = self.progress(context, dataset)
        first = last - ONE_DAY * (self.days - 1)
        if progress is not None:
            first = progress.first_day(last, self.days)
        part_name = self.part_name(context)
        written: list[lake.Published] = []
        kept: list[datetime.date] = []
        gaps: list[datetime.date] = []
        site = None
        if self.site_id is not None:
            site = self.hook.site()
        with Ledger.open() as ledger:
            pruned = ledger.read(pruned_before)
            for day in days_between(first, last + ONE_DAY):
                start, end = start_of_day(day, zone), start_of_day(day + ONE_DAY, zone)
                if pruned is not None and start < pruned:
                    has_file = lake.rows_there(self.output_path, dataset, day, part_name) is not None
                    (kept if has_file else gaps).append(day)
                    continue
                rows = ledger.read(self.rows_between, start, end, site)
                for row in rows:
                    row["tenant_id"] = self._tenant_of(row["service"])
                table = lake.rows_table(self.dataset, rows)
                if not table.num_rows:
                    self._check_emptiness(ledger, day, end, part_name)
                written.append(self.publish(context, table, dataset, day))
        if progress is not None:
            progress.record(last)
        self._warn_of_pruned_days(kept, gaps)
        paths = [file.path for file in written]
        result = {
            "rows": sum(file.rows for file in written),
            "path": paths[-1] if paths else None,
            "paths": paths,
            "bytes": sum(file.bytes for file in written),
            "kept": len(kept),
            **gap_counts(gaps),
            "date": last.isoformat(),
        }
        self.log.info(
            "Wrote %s of dataset %s for %s up to %s%s.",
            counted(sum(file.rows for file in written), "row"),
            dataset,
            counted(len(written), "day"),
            last,
            f"; last file: {paths[-1]}" if paths else "",
        )
        return self.emit_asset_events(context, result)

    def _tenant_of(self, service: str) -> str | None:
        """Return the tenant of the connection for its own service: the ledger does not know tenants."""
        try:
            settings = self.hook.settings
        except AirflowNotFoundException:
            return None
        return self.hook.known_tenant_id() if service == settings.service else None

    def _warn_of_pruned_days(self, kept: Sequence[datetime.date], gaps: Sequence[datetime.date]) -> None:
        if kept:
            self.log.warning(
                "The ledger's entries of %s have been pruned, so the files of these days stay as they are.",
                listed_days(kept),
            )
        if gaps:
            self.log.warning(
                "The ledger's entries of %s have been pruned before this task exported them: dataset %s has no rows "
                "for these days.",
                listed_days(gaps),
                self.dataset.name,
            )

    def _check_emptiness(self, ledger: Ledger, day: datetime.date, end: datetime.datetime, part_name: str) -> None:
        """
        Raise if an empty table would replace rows that came from another ledger.

        :raises AssistantLedgerError: The partition has rows, but this ledger has no entries up to that day.
        """
        dataset = self.dataset.name
        rows = lake.rows_there(self.output_path, dataset, day, part_name)
        if rows and not ledger.read(has_rows_before, end):
            raise AssistantLedgerError(
                f"{dataset} of {day} in {self.output_path} has {counted(rows, 'row')}, but the ledger ({ledger.name}) "
                "has no entry of that day or earlier: the rows came from another ledger",
                retryable=False,
                safe="The rows were not replaced.",
                todo="Check [assistant] ledger_conn_id. A ledger in a file is not shared between machines.",
            )
