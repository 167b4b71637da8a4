"""Export of the tenant's limits (``GET …/limits``) to Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.transfers.base import ExportOperator
from airflow_provider_assistant.transfers.progress import gap_counts


class AssistantLimitsToParquetOperator(ExportOperator):
    """
    Export the tenant's limits and their usage (``GET …/limits``) to the Parquet dataset ``limits``.

    The dataset has one row per value of the reply, whatever fields the reply has. A run replaces this task's file in
    the partition of its day.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The service reports only the current values, so an earlier ``date`` gets today's values; ``captured_at`` is the time
    of the request. ``site_id`` is not used.

    :param list_keys: Mapping from the path of a list to the field that names its items. Default: None, the position
        names an item.

    The other parameters are those of :class:`~airflow_provider_assistant.transfers.base.ExportOperator`.
    """

    template_fields: Sequence[str] = (*ExportOperator.template_fields, "list_keys")

    def __init__(self, *, list_keys: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.list_keys = list_keys
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the limits and write the partition.

        :param context: Airflow's task context.
        :return: ``rows``, ``path`` and ``bytes`` of the file; ``tenant_id``; ``gaps``, the number of
            days since the last run whose limits nobody has read, and ``gap_days``, the first of them;
            and ``date``.
        :raises AssistantInputError: ``date`` is not a date, or another file of the partition already contains the rows.
        :raises AssistantError: Any other error.
        """
        check_rendered(self, context)
        tenant_id = self.hook.resolve_tenant_id()
        day = self.day(context)
        progress = self.progress(context, "limits")
        limits = self.hook.get_limits()
        capture = lake.Capture(
            datetime.now(UTC),
            limits.raw_json,
            service=self.hook.settings.service,
            tenant_id=tenant_id,
            logical_date=context["dag_run"].logical_date,
        )
        table = lake.metrics_table(lake.LIMITS, [capture], self.list_keys)
        file = self.publish(context, table, "limits", day)
        gaps = self.gaps(progress, "limits", day)
        if progress is not None:
            progress.record(day)
        self.log.info("Wrote %s of tenant %r to %s.", counted(file.rows, "value"), tenant_id, file.path)
        result = {
            "path": file.path,
            "rows": file.rows,
            "bytes": file.bytes,
            "tenant_id": tenant_id,
            **gap_counts(gaps),
            "date": day.isoformat(),
        }
        return self.emit_asset_events(context, result)
