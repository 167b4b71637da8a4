"""Export of the tenant's limits (``GET …/limits``) to Parquet."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.lake.datasets import LIMITS
from airflow_provider_assistant.operators.tries import recorded_as
from airflow_provider_assistant.transfers.replies import ReplyExportOperator


class AssistantLimitsToParquetOperator(ReplyExportOperator):
    """
    Export the tenant's limits and their usage (``GET …/limits``) to the Parquet dataset ``limits``.

    A run replaces the tenant's file of its day. ``site_id`` is not used.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.replies.ReplyExportOperator`.
    """

    @explained
    @recorded_as("export")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the limits and write the partition.

        :param context: Airflow's task context.
        :return: ``rows``, ``path`` and ``bytes`` of the file; ``tenant_id``; ``gaps``, the number of days since the
            last file whose limits nobody has read, and ``gap_days``, the first of them; and ``date``.
        :raises AssistantInputError: ``date`` is not a date, and nothing was sent.
        :raises AssistantError: The limits cannot be read, and nothing was written; or the file cannot be written.
        """
        # A date that is none is an error before the request.
        self.day(context)
        tenant_id = self.hook.resolve_tenant_id()
        reply = self.hook.get_limits()
        origin = self.origin(context, None, tenant_id)
        result = self.write(context, LIMITS, reply, origin, (self.hook.settings.service, tenant_id))
        return self.emit_asset_events(context, {**result, "tenant_id": tenant_id})
