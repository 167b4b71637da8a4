"""Export of the reply of any other route to Parquet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api.privacy import without_addresses
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given
from airflow_provider_assistant.lake.datasets import DATASETS, Dataset, dataset_of
from airflow_provider_assistant.lake.rows import reply_table
from airflow_provider_assistant.lake.warehouse import views
from airflow_provider_assistant.operators.tries import recorded_as
from airflow_provider_assistant.transfers.replies import ReplyExportOperator

if TYPE_CHECKING:
    import pyarrow as pa


def _new_name(value: Any) -> str:
    """Accept the name of a dataset that is none of this package."""
    name = parameters.text(value)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name):
        raise ValueError(f"must be small letters, digits and _, such as usage, not {name[:100]!r}")
    if name in {*DATASETS, *views(), "partitions"}:
        raise ValueError(f"is {name!r}, which is a name of this package")
    return name


class AssistantReadToParquetOperator(ReplyExportOperator):
    """
    Export the reply of a route that has no operator of its own, such as the usage, to a Parquet dataset.

    One request is sent, and the dataset has one row per value of its reply. A run replaces the file of this path
    and day. E-mail addresses in a reply are replaced by labels, such as ``user-3f2a9c51d2e8``.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    :param path: Path of a route that is read with ``GET``, below the base URL and percent-encoded, such as
        ``/m2m/tenants/acme-inc/usage``.
    :param dataset: Name of the dataset, such as ``usage``: small letters, digits and ``_``.

    The other parameters are those of :class:`~airflow_provider_assistant.transfers.replies.ReplyExportOperator`.
    """

    template_fields: Sequence[str] = (*ReplyExportOperator.template_fields, "path", "dataset")
    parameter_checks: ClassVar[Checks] = {"dataset": _new_name}

    def __init__(self, *, path: str, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.path = path
        self.dataset = dataset
        check_given(self)

    @explained
    @recorded_as("export")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the route and write the partition.

        :param context: Airflow's task context.
        :return: ``rows``, ``path`` and ``bytes`` of the file; ``gaps``, the number of days since the last file whose
            values nobody has read, and ``gap_days``, the first of them; and ``date``.
        :raises AssistantInputError: A parameter is invalid, and nothing was sent.
        :raises AssistantError: The route cannot be read, and nothing was written; or the file cannot be written.
        """
        # A date that is none is an error before the request.
        self.day(context)
        reply = self.hook.call("GET", self.path)
        origin = self.origin(context, self.site_id, self.hook.known_tenant_id())
        whose = (self.hook.settings.service, without_addresses(self.path))
        result = self.write(context, dataset_of(self.dataset), reply, origin, whose)
        return self.emit_asset_events(context, result)

    def table(self, dataset: Dataset, reply: ApiReply, origin: Mapping[str, Any]) -> pa.Table:
        """Return the rows of a reply, without e-mail addresses."""
        return reply_table(dataset, reply.raw_json, origin, self.list_keys, without_addresses)
