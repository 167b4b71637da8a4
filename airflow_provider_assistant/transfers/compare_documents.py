"""Comparison of the ledger with the documents of a site, written to Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake, parameters
from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_ledger import ledger_location
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered
from airflow_provider_assistant.ledger import Ledger, RunRef
from airflow_provider_assistant.loading.site_diff import compare
from airflow_provider_assistant.transfers.base import ExportOperator


class AssistantCompareDocumentsOperator(ExportOperator):
    """
    Compare the ledger with the documents of a site, and write what differs to a dataset.

    The dataset is ``document_differences``, with one row per document.

    The connection needs ``manage_documents`` with the list of documents. The list is read once, and
    a second time if documents seem to be gone. A run replaces this task's file in the partition of
    its day. Differences that need attention make a warning in the log, and the task succeeds.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/operate/correct-the-ledger`

    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection,
        or else of Airflow's configuration.

    The other parameters are those of
    :class:`~airflow_provider_assistant.transfers.base.ExportOperator`.
    """

    template_fields: Sequence[str] = (*ExportOperator.template_fields, "ledger_conn_id")
    parameter_checks: ClassVar[Checks] = {"ledger_conn_id": parameters.text}

    def __init__(self, *, ledger_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ledger_conn_id = ledger_conn_id
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Compare, and write the partition.

        :param context: Airflow's task context.
        :return: ``documents``, the number of documents on the site; ``in_ledger`` and
            ``without_id``, the numbers of documents in the ledger with and without an id;
            ``gone``, ``doubled``, ``superseded``, ``removed``, ``draft``, ``not_ready`` and
            ``unknown``, the numbers of differences; ``rows``, ``path`` and ``bytes`` of the file;
            ``site_id`` and ``date``.
        :raises AssistantInputError: The connection does not describe the list of documents,
            ``date`` is not a date, or another file of the partition already contains the rows.
        :raises AssistantLedgerError: The ledger cannot be read.
        :raises AssistantError: The list cannot be read, see
            :class:`~airflow_provider_assistant.hooks.assistant.AssistantHook`.
        """
        check_rendered(self, context)
        day = self.day(context)
        site = self.hook.site()
        compared_at = datetime.now(UTC)
        with Ledger.open(ledger_location(self.hook, self.ledger_conn_id)) as ledger:
            found = compare(ledger, site, self.hook.list_documents)
        run = RunRef.of(context).columns()
        common = {"compared_at": compared_at, **site.columns(), **run}
        del common["region"]
        rows = [{**common, **asdict(difference)} for difference in found.differences]
        table = lake.rows_table(lake.DOCUMENT_DIFFERENCES, rows)
        file = self.publish(context, table, lake.DOCUMENT_DIFFERENCES.name, day)
        log = self.log.warning if found.problems else self.log.info
        log("Site %r: %s. Differences: %s.", site.site_id, found.summary(), file.path)
        result = {
            **found.counts(),
            "rows": file.rows,
            "path": file.path,
            "bytes": file.bytes,
            "site_id": site.site_id,
            "date": day.isoformat(),
        }
        return self.emit_asset_events(context, result)
