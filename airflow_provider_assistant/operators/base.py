"""Base classes and shared helpers of the operators."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import Asset, BaseOperator, Context, ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.assets import AssetKind, site_uri
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.failures import FailureContext
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.mixins import AssistantLedgerMixin, AssistantServiceMixin, AssistantTaskMixin
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.loading.findings import FindingsFile, findings_folder
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import LineageDataset, operator_lineage, table_at
from airflow_provider_assistant.storage.paths import StoragePath

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.openlineage.extractors import OperatorLineage

log = logging.getLogger(__name__)


class AssistantBaseOperator(AssistantTaskMixin, BaseOperator):
    """Base of all operators. ``execute`` returns a dict, which goes to XCom and to the events of outlet assets."""

    # The data that this run wrote, for lineage and links.
    lineage_outputs: tuple[LineageDataset, ...] = ()

    def emit_asset_events(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """
        Set the result as the extra of every outlet asset's event.

        :param context: Airflow's task context.
        :param result: The result of the task.
        :return: The result.
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
        """
        Return what the task was doing, for the log lines of a failure.

        :param context: Airflow's task context.
        :return: The operation and its object; what is safe; and the path of the findings.
        """
        return FailureContext(f"task {self.task_id!r}")

    def part_name(self, context: Context) -> str:
        """
        Return the name of this task's file in a partition. The name is unique to the task instance.

        :param context: Airflow's task context.
        :return: The name, without ``.parquet``.
        """
        return f"{self.dag_id}.{self.task_id}{instance_suffix(RunRef.of(context))}"

    def publish(
        self,
        context: Context,
        table: pa.Table,
        root: str,
        dataset: str,
        day: datetime.date,
        *,
        part_name: str | None = None,
    ) -> lake.Published:
        """
        Replace one file of a partition, and record it in ``lineage_outputs``.

        :param context: Airflow's task context.
        :param table: The rows.
        :param root: Folder of the datasets: a local path or an object storage URL.
        :param dataset: Name of the dataset.
        :param day: UTC day of the partition.
        :param part_name: Name of the file without ``.parquet``. Default: the name of this task's file.
        :return: ``rows``, ``path`` and ``bytes`` of the file.
        """
        ti = context["ti"]
        provenance = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
        file = lake.publish(table, root, dataset, day, part_name or self.part_name(context), provenance=provenance)
        self.lineage_outputs = (
            *self.lineage_outputs,
            table_at(str(ObjectStoragePath(root) / dataset), table, file.bytes),
        )
        metrics.exported_rows(dataset, file.rows)
        return file


class AssistantOperator(AssistantServiceMixin, AssistantBaseOperator):
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

    def asset_uri(self, kind: AssetKind, site_id: str | None = None) -> str:
        """
        Return the asset URI of a part of the site, see :func:`airflow_provider_assistant.assets.assistant_asset`.

        :param kind: The part of the site, such as ``documents`` or ``chat``.
        :param site_id: The site. Default: that of the task.
        :return: The URI, such as ``assistant://assistant.example.com/help/documents``.
        """
        return site_uri(urlsplit(self.hook.settings.client.base_url).netloc, self.hook.resolve_site_id(site_id), kind)


class AssistantLedgerOperator(AssistantLedgerMixin, AssistantOperator):
    """
    Base of the operators that use the ledger.

    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    def __init__(self, *, ledger_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ledger_conn_id = ledger_conn_id


class AssistantConcurrentOperator(AssistantOperator):
    """
    Base of the operators that send many requests at once.

    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    def __init__(self, *, max_concurrency: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_concurrency = max_concurrency

    @property
    def client_settings(self) -> ClientSettings:
        """Settings of the task's client: those of the connection, with the task's own ``max_concurrency`` if set."""
        settings = self.hook.settings.client
        return replace(settings, max_concurrency=self.max_concurrency or settings.max_concurrency)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """
    Check an argument that has a fixed set of values.

    :param name: Name of the argument.
    :param value: Its value.
    :param choices: The values that are allowed, at least two.
    :raises ValueError: The value is none of them.
    """
    if value not in choices:
        *first, last = map(repr, choices)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}, not {value!r}")


def seconds_of(duration: float | datetime.timedelta) -> float:
    """
    Return a duration in seconds.

    :param duration: A number of seconds, or a timedelta.
    :return: The number of seconds.
    """
    return duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration


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
    :return: The limit as a count, which may have a fraction.
    """
    # Rounded because 0.29 * 100 is less than 29 in binary floating point.
    return round(limit * total, 6) if limit < 1 else limit


def day_of_run(date: str | None, context: Context) -> datetime.date:
    """
    Return the UTC day that a DAG run is for.

    :param date: An explicit day, ``YYYY-MM-DD``, or None for the day of the DAG run.
    :param context: Airflow's task context.
    :return: The day.
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


def instance_suffix(run: RunRef) -> str:
    """
    Return a suffix for file names that is unique per instance of a task in one DAG run.

    :param run: The task instance.
    :return: ``.`` and the map index, ``.loop`` and the region, both, or an empty string.
    """
    mapped = "" if run.map_index < 0 else f".{run.map_index}"
    return mapped if run.region is None else f"{mapped}.loop{run.region}"


def findings_of(run: RunRef) -> FindingsFile:
    """
    Return the findings of a task that has no ``findings_path``.

    :param run: The task instance.
    :return: The findings, a file in :func:`.findings_folder` that is written only if there are findings.
    """
    return FindingsFile(findings_file(run), always=False)


def findings_file(run: RunRef) -> StoragePath:
    """
    Return the path of the findings of a task that has no ``findings_path``.

    :param run: The task instance.
    """
    name = f"{run.run_id}{instance_suffix(run)}.parquet".replace("/", "_")
    return findings_folder() / run.dag_id / run.task_id / name
