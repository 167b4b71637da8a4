"""The operator that reads the tenant's limits (``GET …/limits``)."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_rendered
from airflow_provider_assistant.operators.base import AssistantOperator


class AssistantLimitsOperator(AssistantOperator):
    """
    Read the tenant's limits (``GET …/limits``), which needs no ``site_id``.

    The API's specification recommends this request before any other.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return what the task was reading, for the log lines of a failure."""
        return FailureContext(f"limits on {self.hook.location()}")

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the limits.

        :param context: Airflow's task context.
        :return: ``tenant_id``, and ``raw``, the reply as received.
        :raises AssistantError: It could not be read.
        """
        check_rendered(self, context)
        tenant_id = self.hook.resolve_tenant_id()
        limits = self.hook.get_limits()
        self.log.info("Read the limits of tenant %r.", tenant_id)
        return {"tenant_id": tenant_id, **limits.as_dict()}
