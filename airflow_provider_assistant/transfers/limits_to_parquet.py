"""Export of the tenant's limits (``GET …/limits``) to Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.transfers.base import ExportOperator


class AssistantLimitsToParquetOperator(ExportOperator):
    """
    Export the tenant's limits and their usage (``GET …/limits``) to the Parquet dataset ``limits``.

    The dataset has one row per value of the reply, whatever fields the reply has. A run replaces this task's file in
    the partition of its day.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/howto/nightly-export`

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: UTC day of the partition, ``YYYY-MM-DD``. Default: the day of the DAG run. The service reports only the
        current values, so an earlier day gets today's values; ``captured_at`` is the time of the request.
    :param list_keys: Mapping from the path of a list to the field that names its items. Default: None, the position
        names an item.
    :param file_name: Name of this task's file in a partition, without ``.parquet``. Default: ``<dag_id>.<task_id>``.
        After renaming a task, set the old name here: the task then replaces its earlier files. A mapped task appends
        its index.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: Not used by this operator.
    """

    template_fields: Sequence[str] = (*ExportOperator.template_fields, "list_keys")

    def __init__(self, *, list_keys: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.list_keys = list_keys

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the limits and write the partition.

        :param context: Airflow's task context.
        :return: ``rows``, ``path`` and ``bytes`` of the file, ``tenant_id`` and ``date``.
        :raises AssistantInputError: ``date`` is not a date, or another file of the partition already contains the rows.
        :raises AssistantError: Any other error, see :func:`airflow_provider_assistant.api.flow.perform`.
        """
        tenant_id, day = self.hook.resolve_tenant_id(), self.day(context)
        limits = self.hook.get_limits()
        capture = lake.Capture(
            datetime.now(UTC),
            limits.raw_json,
            tenant_id=tenant_id,
            logical_date=context["dag_run"].logical_date,
        )
        table = lake.metrics_table(lake.LIMITS, [capture], self.list_keys)
        file = self.publish(context, table, self.output_path, "limits", day)
        self.log.info("Wrote %d values of tenant %r to %s.", file.rows, tenant_id, file.path)
        return self.emit_asset_events(context, {**file._asdict(), "tenant_id": tenant_id, "date": day.isoformat()})
