"""Base classes and shared helpers of the operators."""

from __future__ import annotations

import datetime
import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import Asset, BaseOperator, Context, ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.assets import Kind, site_uri
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerPermanentError
from airflow_provider_assistant.failures import FailureContext, explained, place_of
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.ledger.store import airflow_home
from airflow_provider_assistant.loading.findings import Findings
from airflow_provider_assistant.loading.untemplated import without_templating
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import LineageDataset, operator_lineage, table_at
from airflow_provider_assistant.operators.links import AssistantDataLink

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.openlineage.extractors import OperatorLineage

log = logging.getLogger(__name__)

UNWRITTEN = "Nothing was written: the partition is unchanged."


class UntemplatedField:
    """A template field that keeps a source as given, whether the DAG file or Airflow's rendering sets it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, operator: Any, owner: type | None = None) -> Any:
        return self if operator is None else vars(operator)[self._name]

    def __set__(self, operator: Any, source: Any) -> None:
        vars(operator)[self._name] = without_templating(source)


class AssistantBaseOperator(BaseOperator):
    """Base of all operators. ``execute`` returns a dict, which goes to XCom and to the events of outlet assets."""

    ui_color = "#e4e9fb"

    # The data that this run wrote, for lineage and links.
    lineage_outputs: tuple[LineageDataset, ...] = ()

    def __init__(self, **kwargs: Any) -> None:
        # Makes task.output["request_id"] return that item of the result.
        kwargs.setdefault("multiple_outputs", True)
        super().__init__(**kwargs)

    def emit_asset_events(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """
        Set the result as the extra of every outlet asset's event, and return it.

        :param context: Airflow's task context.
        :param result: The result of the task.
        """
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra = result
        return result

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the data that the task read, for lineage. Called after the task has ended."""
        return ()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:  # noqa: ARG002
        """
        Return the inputs and outputs of the run. OpenLineage's provider calls this if it is installed.

        :param task_instance: The task instance that ended.
        :return: The datasets that were read and written. Empty if nothing was written: OpenLineage then uses the
            task's inlets and outlets.
        """
        return operator_lineage(self.lineage_inputs() if self.lineage_outputs else (), self.lineage_outputs)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return what the task was doing, for the log lines of a failure."""
        return FailureContext(f"task {self.task_id!r}")

    def part(self, context: Context) -> str:
        """Return the name of this task's file in a partition. The name is unique to the task instance."""
        return f"{self.dag_id}.{self.task_id}{_instance(RunRef.of(context))}"

    def publish(
        self, context: Context, table: pa.Table, root: str, dataset: str, day: datetime.date, *, part: str | None = None
    ) -> lake.Published:
        """
        Replace one file of a partition, and record it in ``written``.

        :param context: Airflow's task context.
        :param table: The rows.
        :param root: Folder of the datasets: a local path or an object storage URL.
        :param dataset: Name of the dataset.
        :param day: UTC day of the partition.
        :param part: Name of the file without ``.parquet``. Default: the name of this task's file.
        :return: ``rows``, ``path`` and ``bytes`` of the file.
        """
        ti = context["ti"]
        provenance = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
        file = lake.publish(table, root, dataset, day, part or self.part(context), provenance=provenance)
        self.lineage_outputs = (
            *self.lineage_outputs,
            table_at(str(ObjectStoragePath(root) / dataset), table, file.bytes),
        )
        metrics.exported_rows(dataset, file.rows)
        return file


class AssistantOperator(AssistantBaseOperator):
    """
    Base of the operators that call the service.

    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = ("assistant_conn_id", "tenant_id", "site_id")

    def __init__(
        self,
        *,
        assistant_conn_id: str = AssistantHook.default_conn_name,
        tenant_id: str | None = None,
        site_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.assistant_conn_id = assistant_conn_id
        self.tenant_id = tenant_id
        self.site_id = site_id

    @cached_property
    def hook(self) -> AssistantHook:
        """The hook of this task."""
        return AssistantHook(self.assistant_conn_id, tenant_id=self.tenant_id, site_id=self.site_id)

    def place(self) -> str:
        """Return site, host and connection, to end a sentence with. Parts that cannot be read are omitted."""
        return place_of(self.hook)

    def asset_uri(self, kind: Kind, site_id: str | None = None) -> str:
        """
        Return the asset URI of a part of the site, see :func:`airflow_provider_assistant.assets.assistant_asset`.

        :param kind: The part of the site, such as ``documents`` or ``chat``.
        :param site_id: The site. Default: that of the task.
        """
        return site_uri(urlsplit(self.hook.settings.client.base_url).netloc, self.hook.resolve_site_id(site_id), kind)


def _named(written: Sequence[LineageDataset]) -> str:
    return ", ".join(f"{data.uri} ({data.rows} rows)" for data in written)


def warn_of_findings(listed: str | None, count: int | None = None) -> None:
    """
    Log a warning with the path of the findings, if there are any.

    :param listed: Path of the findings file, or None if there are no findings.
    :param count: Number of findings, or None if it is not known.
    """
    if listed:
        log.warning("%s need attention. They are listed in %s.", f"{count} findings" if count else "Findings", listed)


def tolerance(limit: float, total: int) -> float:
    """
    Return the number of failures that a limit allows.

    :param limit: A count, or a fraction of ``total`` if it is below 1.
    :param total: Number of rows, questions or sites.
    """
    # Rounded because 0.29 * 100 is less than 29 in binary floating point.
    return round(limit * total, 6) if limit < 1 else limit


def day_of_run(date: str | None, context: Context) -> datetime.date:
    """
    Return the UTC day that a DAG run is for.

    :param date: An explicit day, ``YYYY-MM-DD``, or None for the day of the DAG run.
    :param context: Airflow's task context.
    :raises AssistantInputError: ``date`` is not a date.
    """
    if date is None:
        # Runs that were started by hand or by an asset have no logical date.
        run = context["dag_run"]
        return (run.logical_date or run.run_after).astimezone(datetime.UTC).date()
    try:
        return datetime.date.fromisoformat(date)
    except ValueError:
        raise AssistantInputError(f"date must be YYYY-MM-DD, not {date!r}", field="date") from None


def _instance(run: RunRef) -> str:
    """Return a suffix for file names that is unique per instance of a task in one DAG run."""
    mapped = "" if run.map_index < 0 else f".{run.map_index}"
    return mapped if run.region is None else f"{mapped}.loop{run.region}"


def findings_of(run: RunRef) -> Findings:
    """Return the findings of a run: a file in AIRFLOW_HOME that is written only if there are findings."""
    name = f"{run.run_id}{_instance(run)}.parquet".replace("/", "_")
    return Findings(airflow_home() / "assistant_loads" / run.dag_id / run.task_id / name, always=False)


class ExportOperator(AssistantOperator):
    """
    Base of the operators that write Parquet datasets.

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: UTC day of the partition, ``YYYY-MM-DD``. Default: the day of the DAG run.
    :param file_name: Name of this task's file in a partition, without ``.parquet``. Default: ``<dag_id>.<task_id>``.
        After renaming a task, set the old name here: the task then replaces its earlier files. A mapped task appends
        its index.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = (*AssistantOperator.template_fields, "output_path", "date", "file_name")
    operator_extra_links = (AssistantDataLink(),)

    def __init__(
        self, *, output_path: str, date: str | None = None, file_name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.output_path = output_path
        self.date = date
        self.file_name = file_name

    def part(self, context: Context) -> str:
        """Return the name of this task's file in a partition."""
        return f"{self._task_part()}{_instance(RunRef.of(context))}"

    def failure_context(self, context: Context) -> FailureContext:
        """Return the target of the export and the files that it replaced, for the log lines of a failure."""
        doing = f"export of {self.part(context)!r} to {self.output_path} from {self.place()}"
        files = len(self.lineage_outputs)
        return FailureContext(
            doing, f"{files} file(s) of this run were written: {_named(self.lineage_outputs)}." if files else UNWRITTEN
        )

    def _task_part(self) -> str:
        return self.file_name or f"{self.dag_id}.{self.task_id}"

    def publish(
        self, context: Context, table: pa.Table, root: str, dataset: str, day: datetime.date, *, part: str | None = None
    ) -> lake.Published:
        """
        Replace this task's file in a partition.

        :param context: Airflow's task context.
        :param table: The rows.
        :param root: Folder of the datasets: a local path or an object storage URL.
        :param dataset: Name of the dataset.
        :param day: UTC day of the partition.
        :param part: Name of the file without ``.parquet``. Default: the name of this task's file.
        :return: ``rows``, ``path`` and ``bytes`` of the file.
        :raises AssistantInputError: Another file of the partition already contains some of the rows. Nothing was
            written.
        """
        part = part or self.part(context)
        if other := lake.counted_twice(table, root, dataset, day, part, self._task_part()):
            raise AssistantInputError(
                f"{other} already contains rows that this task would write for {day}, and readers would count them "
                f"twice. Nothing was written to {dataset}. If the DAG or the task was renamed, keep the old name: "
                f"file_name={other.rpartition('/')[2].removesuffix('.parquet')!r}, or delete that file. If another "
                "task exports the same rows, give each task a separate output_path.",
                field="file_name",
            )
        return super().publish(context, table, root, dataset, day, part=part)

    def day(self, context: Context) -> datetime.date:
        """
        Return the UTC day of the partition that this run writes.

        :param context: Airflow's task context.
        :raises AssistantInputError: ``date`` is not a date.
        """
        return day_of_run(self.date, context)


class LedgerExportOperator(ExportOperator):
    """
    Base of the operators that export entries of the ledger to a Parquet dataset.

    A run replaces whole UTC days, so a re-run creates no duplicates.

    :param site_id: Export only the entries of this site. Default: the entries of all sites in the ledger.
    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: Last UTC day to write, ``YYYY-MM-DD``. Default: the day of the DAG run.
    :param days: Number of days to write, ending with ``date``. Default: 2, because entries were added to the day before
        after yesterday's run.
    :param file_name: Name of this task's file in a partition, without ``.parquet``. Default: ``<dag_id>.<task_id>``.
        After renaming a task, set the old name here: the task then replaces its earlier files. A mapped task appends
        its index.
    :param assistant_conn_id: Airflow connection of type ``assistant``, used only if ``site_id`` is set. Default:
        ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    """

    dataset: ClassVar[str]

    def __init__(self, *, days: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if days < 1:
            raise AssistantInputError(f"days must be at least 1, not {days}", field="days")
        self.days = days

    @abstractmethod
    def table(self, ledger: Ledger, start: datetime.datetime, end: datetime.datetime, scope: str | None) -> pa.Table:
        """
        Return the rows of a time range.

        :param ledger: The ledger.
        :param start: First moment of the range, in UTC.
        :param end: First moment after the range, in UTC.
        :param scope: API URL of the site, or None for all sites.
        """

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Write the partitions.

        :param context: Airflow's task context.
        :return: ``rows`` and ``bytes`` of all files, ``paths`` of all files, ``path`` of the last day's file, and
            ``date``, the last day.
        :raises AssistantLedgerError: The ledger cannot be read.
        :raises AssistantLedgerPermanentError: The ledger has no entries up to a day whose partition has rows: the run
            would replace these rows by nothing. Airflow does not retry the task.
        :raises AssistantInputError: ``date`` is not a date, or another file of a partition already contains the rows.
        """
        last = self.day(context)
        written: list[lake.Published] = []
        scope = self.hook.site_url() if self.site_id else None
        with Ledger.open() as ledger:
            for back in reversed(range(self.days)):
                day = last - datetime.timedelta(days=back)
                start = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
                end = start + datetime.timedelta(days=1)
                table = self.table(ledger, start, end, scope)
                if not table.num_rows:
                    self._check_emptiness(ledger, day, end, self.part(context))
                written.append(self.publish(context, table, self.output_path, self.dataset, day))
        paths = [file.path for file in written]
        result = {
            "rows": sum(file.rows for file in written),
            "path": paths[-1],
            "paths": paths,
            "bytes": sum(file.bytes for file in written),
            "date": last.isoformat(),
        }
        values = (result["rows"], self.dataset, self.days, last, paths[-1])
        self.log.info("Wrote %d rows of dataset %s for the %d day(s) up to %s. Last file: %s.", *values)
        return self.emit_asset_events(context, result)

    def _check_emptiness(self, ledger: Ledger, day: datetime.date, end: datetime.datetime, part: str) -> None:
        """
        Raise if an empty table would replace rows that came from another ledger.

        :raises AssistantLedgerPermanentError: The partition has rows, but this ledger has no entries up to that day.
        """
        rows = lake.rows_there(self.output_path, self.dataset, day, part)
        if rows and not ledger.has_entries_before(end):
            raise AssistantLedgerPermanentError(
                f"{self.dataset} of {day} in {self.output_path} has {rows} rows, but the ledger ({ledger.name}) has no "
                "entry of that day or earlier: the rows came from another ledger and were not replaced. Check "
                "[assistant] ledger_conn_id. A ledger in a file is not shared between machines."
            )
