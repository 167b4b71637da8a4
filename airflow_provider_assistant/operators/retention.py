"""The operator that deletes what is older than it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.settle import prune
from airflow_provider_assistant.operators.base import AssistantBaseOperator
from airflow_provider_assistant.operators.tries import recorded_as


class AssistantRetentionOperator(AssistantBaseOperator):
    """
    Delete old entries of the ledger, old findings, and if their folders are given, old days and evaluations.

    Documents on a site, what may exist, and the evaluations that a later run compares with are kept at any age. Exports
    and the load of the warehouse must run more often than ``days``.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/operate/security`

    :param days: Age in days. Default: 400.
    :param output_path: Folder of the datasets. Default: None, no datasets.
    :param evaluations: Folders of evaluations: the ``output_path`` of each. Default: None, no evaluations.
    :param baselines: Paths of approved baselines, which are kept. Default: None.
    """

    template_fields: Sequence[str] = ("output_path", "evaluations", "baselines")

    def __init__(
        self,
        *,
        days: int = 400,
        output_path: str | None = None,
        evaluations: Sequence[str] | None = None,
        baselines: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.days = days
        self.output_path = output_path
        self.evaluations = evaluations
        self.baselines = baselines
        check_given(self)

    @explained
    @recorded_as("retention")
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """
        Delete what is old.

        :param context: Airflow's task context.
        :return: ``ledger``, the number of deleted entries by kind; ``findings_files``, of files; ``days``, of days
            of datasets; and ``evaluations``, of evaluations.
        :raises AssistantLedgerError: The ledger cannot be changed.
        """
        from airflow_provider_assistant.erasure import retention

        before = datetime.now(UTC) - timedelta(days=self.days)
        with Ledger.open() as ledger:
            entries = prune(ledger, before)
        evaluations = [
            retention.prune_evaluations(folder, before, keep=self.baselines or ()) for folder in self.evaluations or ()
        ]
        return {
            "ledger": entries,
            "findings_files": retention.prune_findings(before),
            "days": retention.prune_lake(self.output_path, before) if self.output_path else 0,
            "evaluations": sum(evaluations),
        }
