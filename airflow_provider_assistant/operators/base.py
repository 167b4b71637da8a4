"""Base classes and helpers of all operators."""

from __future__ import annotations

import datetime
import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import Asset, BaseOperator, Context, ObjectStoragePath

from airflow_provider_assistant import lake, metrics
from airflow_provider_assistant.assets import Kind, site_uri
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerErrorForGood
from airflow_provider_assistant.failures import Situation, explained, place_of
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.ledger.store import airflow_home
from airflow_provider_assistant.lineage import Data, operator_lineage, table_at
from airflow_provider_assistant.loading.report import Findings
from airflow_provider_assistant.loading.source import as_given
from airflow_provider_assistant.operators.links import AssistantDataLink

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.openlineage.extractors import OperatorLineage

log = logging.getLogger(__name__)

UNWRITTEN = "Nothing was written: the day is as it was before."


class SourceField:
    """A template field for a source: whatever it is set to, when the DAG is parsed or by Airflow, is kept as given."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, operator: Any, owner: type | None = None) -> Any:
        return self if operator is None else vars(operator)[self._name]

    def __set__(self, operator: Any, source: Any) -> None:
        vars(operator)[self._name] = as_given(source)


class ResultOperator(BaseOperator):
    """Base of all operators: their result is a dict, for XCom and for assets."""

    ui_color = "#e4e9fb"

    # What this run has written, for lineage and links.
    written: tuple[Data, ...] = ()

    def __init__(self, **kwargs: Any) -> None:
        # So that task.output["request_id"] is what it looks like: an item of the returned dict.
        kwargs.setdefault("multiple_outputs", True)
        super().__init__(**kwargs)

    def tell(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """Add the result to the event of every asset among the outlets, and return it."""
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra = result
        return result

    def reads(self) -> Sequence[Data]:
        """Return the data that the task has read, for lineage; called when the task has ended."""
        return ()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:  # noqa: ARG002
        """
        Return what was read and written; OpenLineage's provider asks for it, where it is installed.

        :param task_instance: What was run.
        :return: Nothing if nothing was written; then OpenLineage looks at inlets and outlets.
        """
        return operator_lineage(self.reads() if self.written else (), self.written)

    def situation(self, context: Context) -> Situation:  # noqa: ARG002
        """Return what the task was doing, for the log lines of a failure."""
        return Situation(f"task {self.task_id!r}")

    def part(self, context: Context) -> str:
        """Return the name of this task's file in a partition: no other task writes it."""
        return f"{self.dag_id}.{self.task_id}{_instance(RunRef.of(context))}"

    def publish(
        self, context: Context, table: pa.Table, root: str, dataset: str, day: datetime.date, *, part: str | None = None
    ) -> lake.Published:
        """
        Replace a part of a day of a dataset, and note it as written.

        :param table: The rows.
        :param root: Folder of the datasets: a local path or an object storage URL.
        :param dataset: The dataset.
        :param day: The day.
        :param part: Name of the part; by default this task's.
        """
        ti = context["ti"]
        provenance = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
        file = lake.publish(table, root, dataset, day, part or self.part(context), provenance=provenance)
        self.written = (*self.written, table_at(str(ObjectStoragePath(root) / dataset), table, file.bytes))
        metrics.exported_rows(dataset, file.rows)
        return file


class AssistantOperator(ResultOperator):
    """
    Base of the operators that call the service.

    :param assistant_conn_id: The Airflow connection.
    :param tenant_id: Tenant to use instead of the connection's.
    :param site_id: Site to use instead of the connection's.
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
        """Return site, host and connection as the end of a sentence; what cannot be read is left out."""
        return place_of(self.hook)

    def asset_uri(self, kind: Kind, site_id: str | None = None) -> str:
        """
        Return the URI of a part of the site, see :func:`airflow_provider_assistant.assets.assistant_asset`.

        :param kind: The part.
        :param site_id: Another site.
        """
        return site_uri(urlsplit(self.hook.settings.client.base_url).netloc, self.hook.site(site_id), kind)


def _named(written: Sequence[Data]) -> str:
    """Return the datasets that were written, with their rows."""
    return ", ".join(f"{data.uri} ({data.rows} rows)" for data in written)


def warn_of_findings(listed: str | None, count: int | None = None) -> None:
    """
    Log a warning with the path of the findings of a task that succeeds, if there are any.

    :param listed: The path, or None.
    :param count: How many there are, if that is known.
    """
    if listed:
        log.warning("%s need attention. They are listed in %s.", f"{count} findings" if count else "Findings", listed)


def allowed(limit: float, total: int) -> float:
    """Return how many of all may go wrong: a limit is a count, or a fraction if it is below 1."""
    # Rounded, so that 0.29 of 100 are 29.
    return round(limit * total, 6) if limit < 1 else limit


def day_of_run(date: str | None, context: Context) -> datetime.date:
    """
    Return the UTC day that a run is for.

    :param date: The day that was asked for, ``YYYY-MM-DD``; None for the run's own.
    :raises AssistantInputError: ``date`` is no date.
    """
    if date is None:
        # A run that was started by hand or by an asset has no logical date.
        run = context["dag_run"]
        return (run.logical_date or run.run_after).astimezone(datetime.UTC).date()
    try:
        return datetime.date.fromisoformat(date)
    except ValueError:
        raise AssistantInputError(f"date must be YYYY-MM-DD, not {date!r}", field="date") from None


def _instance(run: RunRef) -> str:
    """Return what tells the instances of one task in one run apart, for file names."""
    mapped = "" if run.map_index < 0 else f".{run.map_index}"
    return mapped if run.region is None else f"{mapped}.loop{run.region}"


def findings_of(run: RunRef) -> Findings:
    """Return the list of what wants attention, in AIRFLOW_HOME; it is written if there is anything to list."""
    name = f"{run.run_id}{_instance(run)}.parquet".replace("/", "_")
    return Findings(airflow_home() / "assistant_loads" / run.dag_id / run.task_id / name, always=False)


class ExportOperator(AssistantOperator):
    """
    Base of the operators that write Parquet datasets.

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: The day to write, ``YYYY-MM-DD``; by default the day of the DAG run.
    :param file_name: Name of this task's file in the folder of a day, without ``.parquet``; by default
        ``<dag_id>.<task_id>``. Give the old name to a task that was renamed, so that it replaces its earlier files.
        A mapped task adds its index.
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
        """Return the name of this task's part of a partition."""
        return f"{self._task_part()}{_instance(RunRef.of(context))}"

    def situation(self, context: Context) -> Situation:
        """Return what the export was writing, and which files it has replaced."""
        doing = f"export of {self.part(context)!r} to {self.output_path} from {self.place()}"
        files = len(self.written)
        return Situation(
            doing, f"{files} file(s) of this run are written: {_named(self.written)}." if files else UNWRITTEN
        )

    def _task_part(self) -> str:
        return self.file_name or f"{self.dag_id}.{self.task_id}"

    def publish(
        self, context: Context, table: pa.Table, root: str, dataset: str, day: datetime.date, *, part: str | None = None
    ) -> lake.Published:
        """
        Replace this task's part of a day of a dataset.

        :raises AssistantInputError: Another file of that day has the same, and nothing was written.
        """
        part = part or self.part(context)
        if other := lake.counted_twice(table, root, dataset, day, part, self._task_part()):
            raise AssistantInputError(
                f"{other} already has some of what this task is about to write for {day}, and readers would count it "
                f"twice. Nothing was written to {dataset}. Was the DAG or the task renamed? Then keep the old name: "
                f"file_name={other.rpartition('/')[2].removesuffix('.parquet')!r}, or delete that file. If another "
                "task exports the same, give each an output_path of its own.",
                field="file_name",
            )
        return super().publish(context, table, root, dataset, day, part=part)

    def day(self, context: Context) -> datetime.date:
        """
        Return the day whose partition this run writes: a UTC day.

        :raises AssistantInputError: ``date`` is no date.
        """
        return day_of_run(self.date, context)


class LedgerExportOperator(ExportOperator):
    """
    Base of the operators that write what the ledger has of some days to a Parquet dataset.

    Whole UTC days are replaced, so that a re-run doubles nothing.

    :param site_id: The one site whose rows are written; without it, those of all sites in the ledger.
    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: The last day to write, ``YYYY-MM-DD``; by default the day of the DAG run.
    :param days: How many days up to that one are written. Two, the default, complete the day before, which went
        on after yesterday's run.
    """

    dataset: ClassVar[str]

    def __init__(self, *, days: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if days < 1:
            raise AssistantInputError(f"days must be at least 1, not {days}", field="days")
        self.days = days

    @abstractmethod
    def table(self, ledger: Ledger, start: datetime.datetime, end: datetime.datetime, scope: str | None) -> pa.Table:
        """Return the rows of a span of time, its end excluded, of one site or of all."""

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Write the partitions.

        :return: ``rows``, ``path`` of the last day's file, ``paths`` and ``bytes`` of all, and ``date``.
        :raises AssistantLedgerError: The ledger cannot be read. AssistantLedgerErrorForGood if it is empty and a day
            that has rows would be replaced by nothing.
        :raises AssistantInputError: Another file of a day has the same rows.
        """
        last = self.day(context)
        written: list[lake.Published] = []
        scope = self.hook.target() if self.site_id else None
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
        said = (result["rows"], self.dataset, self.days, last, paths[-1])
        self.log.info("Wrote %d rows of %s of %d day(s) up to %s to %s.", *said)
        return self.tell(context, result)

    def _check_emptiness(self, ledger: Ledger, day: datetime.date, end: datetime.datetime, part: str) -> None:
        """
        Refuse to replace rows by nothing from a ledger that did not exist on that day.

        :raises AssistantLedgerErrorForGood: This is not the ledger that the rows came from.
        """
        rows = lake.rows_there(self.output_path, self.dataset, day, part)
        if rows and not ledger.has_entries_before(end):
            raise AssistantLedgerErrorForGood(
                f"{self.dataset} of {day} in {self.output_path} has {rows} rows, and the ledger ({ledger.name}) has no "
                "entry of that day or earlier: the rows came from another ledger, and are left as they are. Check "
                "[assistant] ledger_conn_id; a file ledger belongs to one machine."
            )
