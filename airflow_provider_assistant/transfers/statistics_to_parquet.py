"""Export of the statistics of a site (``GET …/statistics``) to Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.lake.datasets import STATISTICS, STATISTICS_RAW
from airflow_provider_assistant.lake.rows import rows_table
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.tries import recorded_as
from airflow_provider_assistant.transfers.replies import ReplyExportOperator


class AssistantStatisticsToParquetOperator(ReplyExportOperator):
    """
    Export the statistics of a site (``GET …/statistics``) to the datasets ``statistics`` and ``statistics_raw``.

    ``statistics`` has one row per value of the reply, whatever fields it has; ``statistics_raw`` has the reply as
    received. A run replaces the site's files of its day. For several sites, map the task:
    ``.partial(…).expand(site_id=[…])``.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.replies.ReplyExportOperator`.
    """

    @explained
    @recorded_as("export")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the statistics and write the partitions.

        :param context: Airflow's task context.
        :return: ``rows`` and ``path`` of the ``statistics`` file; ``raw_path`` of the ``statistics_raw`` file;
            ``bytes`` of both; ``site_id``; ``gaps``, the number of days since the last file whose statistics nobody has
            read, and ``gap_days``, the first of them; and ``date``.
        :raises AssistantInputError: ``date`` is not a date, and nothing was sent.
        :raises AssistantError: The statistics cannot be read, and nothing was written; or a file cannot be written.
        """
        # A date that is none is an error before the request.
        day = self.day(context)
        site_id = self.hook.resolve_site_id()
        reply = self.hook.get_statistics()
        origin = self.origin(context, site_id, self.hook.known_tenant_id())
        whose = (self.hook.settings.service, site_id)
        # An empty reply is stored as the JSON value null.
        raw_table = rows_table(STATISTICS_RAW, [{**origin, "raw": reply.raw_json or "null"}])
        raw_file = self.publish(context, raw_table, STATISTICS_RAW, day, whose)
        result = self.write(context, STATISTICS, reply, origin, whose)
        result |= {"raw_path": raw_file.path, "bytes": result["bytes"] + raw_file.bytes, "site_id": site_id}
        return self.emit_asset_events(context, result)

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the statistics asset of the site."""
        return [LineageDataset(self.asset_uri("statistics"))]
