"""What the exports of a reply share: one request, and a row for each of its values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.failures import FailureContext
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.lake.datasets import Dataset
from airflow_provider_assistant.lake.files import days_of
from airflow_provider_assistant.lake.rows import reply_table
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.transfers.base import NAMED_DAYS, ONE_DAY, ExportOperator, days_between, listed_days

if TYPE_CHECKING:
    import pyarrow as pa


class ReplyExportOperator(ExportOperator, AssistantOperator):
    """
    Base of the exports of a reply. The dataset has one row per value, whatever fields the reply has.

    The service reports only the current values, so an earlier ``date`` gets today's values; ``captured_at`` is the time
    of the request.

    :param list_keys: Mapping from the path of a list to the field that names its items, such as
        ``{"documents.by_kind": "kind"}``. Default: None, the position names an item.

    The other parameters are those of :class:`~airflow_provider_assistant.transfers.base.ExportOperator` and
    :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (*AssistantOperator.template_fields, *ExportOperator.template_fields, "list_keys")

    def __init__(self, *, list_keys: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.list_keys = list_keys
        check_given(self)

    def write(
        self,
        context: Context,
        dataset: Dataset,
        reply: ApiReply,
        origin: Mapping[str, Any],
        whose: Sequence[str | None],
    ) -> dict[str, Any]:
        """
        Write a reply.

        :param origin: Its columns that do not depend on its fields.
        :param whose: Whose values they are.
        :return: ``rows``, ``path`` and ``bytes`` of the file; ``gaps``, the number of days since the last file whose
            values nobody has read, and ``gap_days``, the first of them; and ``date``.
        """
        day = self.day(context)
        gaps = []
        if self.date is None:
            before = [one for one in days_of(self.output_path, dataset.name, whose) if one < day]
            gaps = days_between(max(before) + ONE_DAY, day) if before else []
        file = self.publish(context, self.table(dataset, reply, origin), dataset, day, whose)
        if gaps:
            self.log.warning(
                "%s has no rows for %s: no run has read the values on these days, and the service only has the current "
                "ones.",
                dataset.name,
                listed_days(gaps),
            )
        self.log.info("Wrote %s to %s.", counted(file.rows, "value"), file.path)
        named_gaps = [gap.isoformat() for gap in gaps[:NAMED_DAYS]]
        return {**file._asdict(), "gaps": len(gaps), "gap_days": named_gaps, "date": day.isoformat()}

    def table(self, dataset: Dataset, reply: ApiReply, origin: Mapping[str, Any]) -> pa.Table:
        """Return the rows of a reply."""
        return reply_table(dataset, reply.raw_json, origin, self.list_keys)

    def origin(self, context: Context, site_id: str | None, tenant_id: str | None) -> dict[str, Any]:
        """Return the columns of a reply that has just arrived: when, in which run, and whose it is."""
        return {
            "captured_at": datetime.datetime.now(datetime.UTC),
            "logical_date": context["dag_run"].logical_date,
            "service": self.hook.settings.service,
            "tenant_id": tenant_id,
            "site_id": site_id,
        }

    def failure_context(self, context: Context) -> FailureContext:
        """Return the target of the export and the files that it replaced, for the log lines of a failure."""
        known = super().failure_context(context)
        return FailureContext(f"{known.doing} from {self.hook.location()}", known.safe)
