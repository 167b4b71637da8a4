"""Export of the statistics of sites (``GET …/statistics``) to Parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.errors import short_reason
from airflow_provider_assistant.client.cancellation import run_coroutine
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.fan_out import SiteReplies, read_sites
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantIncompleteExportError,
    AssistantInputError,
)
from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.parameters import tolerance
from airflow_provider_assistant.texts import counted, shortened, storable
from airflow_provider_assistant.transfers.base import ExportOperator
from airflow_provider_assistant.transfers.progress import gap_counts

# Size limit of the list of failed sites in XCom, in bytes of JSON. The log names all of them.
FAILED_SITES_BYTES = 5000
# Number of failed sites in the error message, and length limit of each reason in XCom, in characters.
FAILED_SITES_NAMED = 10
REASON_LENGTH = 200


class AssistantStatisticsToParquetOperator(ExportOperator):
    """
    Export the statistics of sites (``GET …/statistics``) to the datasets ``statistics`` and ``statistics_raw``.

    ``statistics`` has one row per metric of a reply, whatever fields the reply has; ``statistics_raw`` has the replies
    as received. A run replaces this task's files in the partitions of its day.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    :param site_ids: Sites to read concurrently, instead of the site of ``site_id`` or the connection. If a site fails,
        the others are still written. Default: None.
    :param list_keys: Mapping from the path of a list to the field that names its items, such as
        ``{"documents.by_kind": "kind"}``. Default: None, the position names an item.
    :param max_failed_sites: Number of failed sites that the task tolerates: a count, or a fraction below 1 of
        ``site_ids``. Default: 0.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.

    The service reports only the current values, so an earlier ``date`` gets today's values; ``captured_at`` is the time
    of the request.

    The other parameters are those of :class:`~airflow_provider_assistant.transfers.base.ExportOperator`.
    """

    template_fields: Sequence[str] = (*ExportOperator.template_fields, "site_ids", "list_keys")

    def __init__(
        self,
        *,
        site_ids: Sequence[str] | None = None,
        list_keys: Mapping[str, str] | None = None,
        max_failed_sites: float = 0,
        max_concurrency: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if site_ids is not None and self.site_id is not None:
            raise AssistantInputError(f"task {self.task_id!r}: give site_id or site_ids, not both", field="site_ids")
        self.site_ids = site_ids
        self.list_keys = list_keys
        self.max_failed_sites = max_failed_sites
        self.max_concurrency = max_concurrency
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read the statistics and write the partitions.

        :param context: Airflow's task context.
        :return: ``rows`` and ``path`` of the ``statistics`` file; ``raw_path`` of the ``statistics_raw`` file;
            ``bytes`` of both; ``sites``, the number of sites; ``failed``, the number of sites that could not be read;
            ``failed_sites``, a list of ``site_id`` and ``error`` of the first of them; ``site_id``, None with
            ``site_ids``; ``gaps``, the number of days since the last run whose statistics nobody has read, and
            ``gap_days``, the first of them; and ``date``.
        :raises AssistantInputError: ``site_ids`` or ``date`` is invalid, and nothing was sent; or another file of the
            partition already contains the rows.
        :raises AssistantIncompleteExportError: More than ``max_failed_sites`` sites could not be read. The others are
            written; if all failed, the partition is unchanged.
            Airflow does not retry the task.
        :raises AssistantError: Reading a single site failed; or, with ``site_ids``, the service answered 401 or asked
            for too long a pause (429). Nothing was written.
        """
        check_rendered(self, context)
        day = self.day(context)
        if self.site_ids is None:
            site_replies = self._one_site()
        else:
            reading = self._many_sites(self.site_ids)
            site_replies = run_coroutine(reading)
        if site_replies.errors and not site_replies.replies:
            self._fail(site_replies, "Nothing was written, and the partition is unchanged.")
        result = self._write(context, site_replies, day)
        if len(site_replies.errors) > tolerance(self.max_failed_sites, result["sites"]):
            written = f"The other {len(site_replies.replies)} are in {result['path']}."
            self._fail(site_replies, written)
        return self.emit_asset_events(context, result)

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the statistics assets of the sites."""
        site_ids = [self.hook.resolve_site_id()] if self.site_ids is None else self.site_ids
        return [LineageDataset(self.asset_uri("statistics", site_id)) for site_id in site_ids]

    def _one_site(self) -> SiteReplies:
        reply = self.hook.get_statistics()
        captured_at = datetime.now(UTC)
        site_id = self.hook.resolve_site_id()
        return SiteReplies({site_id: (captured_at, reply)})

    async def _many_sites(self, site_ids: Sequence[str]) -> SiteReplies:
        calls = {site_id: endpoints.get_statistics(site_id) for site_id in dict.fromkeys(site_ids)}
        if not calls:
            self.log.warning("site_ids is empty: writing the partition without rows.")
        async with AssistantClient(self.hook.client_settings(self.max_concurrency)) as client:
            return await read_sites(client, calls)

    def _write(self, context: Context, site_replies: SiteReplies, day: Any) -> dict[str, Any]:
        """Write both partitions, and return the result of the task."""
        logical_date = context["dag_run"].logical_date
        captures = [
            lake.Capture(
                captured_at=captured_at,
                raw=reply.raw_json,
                **self.hook.site(site_id).columns(),
                logical_date=logical_date,
            )
            for site_id, (captured_at, reply) in site_replies.replies.items()
        ]
        raw_file = self.publish(context, lake.replies_table(captures), "statistics_raw", day)
        table = lake.metrics_table(lake.STATISTICS, captures, self.list_keys)
        file = self.publish(context, table, "statistics", day)
        progress = self.progress(context, "statistics")
        gaps = self.gaps(progress, "statistics", day)
        if progress is not None:
            progress.record(day)
        self.log.info(
            "Wrote %s of %s to %s.",
            counted(file.rows, "metric"),
            counted(len(captures), "site"),
            file.path,
        )
        site_id_of_task = None
        if self.site_ids is None:
            site_id_of_task = self.hook.resolve_site_id()
        return {
            "rows": file.rows,
            "path": file.path,
            "raw_path": raw_file.path,
            "bytes": file.bytes + raw_file.bytes,
            "sites": len(site_replies.replies) + len(site_replies.errors),
            "failed": len(site_replies.errors),
            "failed_sites": _first_failed_sites(site_replies.errors),
            "site_id": site_id_of_task,
            **gap_counts(gaps),
            "date": day.isoformat(),
        }

    def _fail(self, site_replies: SiteReplies, written: str) -> None:
        """
        Raise the error for sites that could not be read.

        :param written: What the task has written, as a sentence.
        """
        errors = site_replies.errors
        sites = len(site_replies.replies) + len(errors)
        first = list(errors.items())[:FAILED_SITES_NAMED]
        reasons = [f"{site_id!r} ({short_reason(error)})" for site_id, error in first]
        more = ""
        if len(errors) > len(reasons):
            more = f" and {len(errors) - len(reasons)} more"
        is_retryable = any(error.retryable for error in errors.values())
        retry = "A retry"
        if not is_retryable:
            retry = (
                "The service would refuse them again: correct site_ids or the API key, or raise "
                "max_failed_sites. Running the task again"
            )
        named_sites = ", ".join(reasons)
        raise AssistantIncompleteExportError(
            f"{len(errors)} of {counted(sites, 'site')} could not be read: {named_sites}{more}, more than "
            f"max_failed_sites={self.max_failed_sites:g} allows",
            safe=written,
            retryable=is_retryable,
            todo=f"{retry} reads all sites again and replaces the day. The warnings in the log name all reasons.",
        )


def _first_failed_sites(errors: Mapping[str, AssistantError]) -> list[dict[str, str]]:
    """Return the first failed sites with their errors, within ``FAILED_SITES_BYTES``."""
    failed_sites: list[dict[str, str]] = []
    size = 0
    for site_id, error in errors.items():
        reason = shortened(storable(str(error)), REASON_LENGTH)
        failed_site = {"site_id": site_id, "error": reason}
        # In the JSON of the list, a comma and a space follow each site.
        size += len(json.dumps(failed_site)) + 2
        if size > FAILED_SITES_BYTES:
            break
        failed_sites.append(failed_site)
    return failed_sites
