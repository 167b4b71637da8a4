"""Operators that read the tenant's limits and the site's statistics: endpoints 1 and 10."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.operators.base import AssistantOperator, ExportOperator


class AssistantLimitsOperator(AssistantOperator):
    """Read the tenant's limits (endpoint 1); the specification asks for it before traffic starts."""

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """
        Read the limits.

        :return: ``tenant_id``, and ``raw``, the reply as received.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        tenant_id = self.hook.tenant()
        limits = self.hook.get_limits()
        self.log.info("Read the limits of tenant %r.", tenant_id)
        return {"tenant_id": tenant_id, **limits.as_dict()}


class AssistantStatisticsToParquetOperator(ExportOperator):
    """
    Write a site's statistics (endpoint 10) to the Parquet datasets ``statistics`` and ``statistics_raw``.

    ``statistics`` has one row per metric of the reply, whatever its fields are; ``statistics_raw`` has the
    reply as it was. A run for a day replaces what this task wrote for that day.

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: The day to write, ``YYYY-MM-DD``; by default the day of the DAG run. Statistics are a snapshot
        of the moment they are read, whatever the day: ``captured_at`` says when.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the statistics and write the partitions.

        :return: ``rows`` and ``path`` of ``statistics``, ``raw_path`` of ``statistics_raw``, ``site_id``, ``date``.
        :raises AssistantError: See :func:`airflow_provider_assistant.api.flow.perform`.
        """
        site_id, day, part = self.hook.site(), self.day(context), self.part(context)
        capture = lake.Capture(datetime.now(UTC), site_id, self.hook.get_statistics().raw)
        table = lake.statistics_table([capture])
        raw_path = lake.publish(lake.statistics_raw_table([capture]), self.output_path, "statistics_raw", day, part)
        path = lake.publish(table, self.output_path, "statistics", day, part)
        self.log.info("Wrote %d metrics of site %r to %s.", table.num_rows, site_id, path)
        return {
            "rows": table.num_rows,
            "path": path,
            "raw_path": raw_path,
            "site_id": site_id,
            "date": day.isoformat(),
        }
