"""Exports of feedback, async chat requests and loads from the ledger to Parquet."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from airflow_provider_assistant import lake
from airflow_provider_assistant.ledger import Site
from airflow_provider_assistant.ledger.queries import feedback_between, requests_between, tries_between
from airflow_provider_assistant.transfers.base import LedgerExportOperator


class AssistantFeedbackToParquetOperator(LedgerExportOperator):
    """
    Export the ratings in the ledger to the Parquet dataset ``feedback``: one row per rating, on the day it was sent.

    Each rating is joined with the latency of its answer. A run replaces whole days, so a re-run creates no
    duplicates. The columns are in :mod:`airflow_provider_assistant.lake`.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.base.LedgerExportOperator`.
    """

    dataset = lake.FEEDBACK
    rows_between = staticmethod(feedback_between)


class AssistantRequestsToParquetOperator(LedgerExportOperator):
    """
    Export chat requests in the ledger to the dataset ``requests``: one row per request, on the day it was submitted.

    The rows are the requests that
    :class:`~airflow_provider_assistant.operators.submit_chat.AssistantSubmitChatOperator` and
    :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator` submitted with the ledger on. A
    request that finishes after midnight changes the partition of the day before. A run replaces whole days, so a
    re-run creates no duplicates.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.base.LedgerExportOperator`.
    """

    dataset = lake.REQUESTS
    rows_between = staticmethod(requests_between)


class AssistantLoadsToParquetOperator(LedgerExportOperator):
    """
    Export loads in the ledger to the Parquet dataset ``loads``: one row per try of a load, on the day it started.

    A load that finishes after midnight changes the partition of the day before. A run replaces whole days, so a re-run
    creates no duplicates.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    The parameters are those of :class:`~airflow_provider_assistant.transfers.base.LedgerExportOperator`.
    """

    dataset = lake.LOADS

    @staticmethod
    def rows_between(
        connection: Connection, start: datetime, end: datetime, site: Site | None = None
    ) -> list[dict[str, Any]]:
        """
        Return the tries of loads that started in a time interval, with their counts as columns.

        :param connection: Connection to the ledger.
        :param start: Inclusive, in UTC.
        :param end: Exclusive, in UTC.
        :param site: Only this site. Default: None, all sites.
        :return: One mapping per try.
        """
        rows = []
        for row in tries_between(connection, start, end, site):
            if row["task_kind"] == "load":
                counts = row["counts"] or {}
                rows.append({**row, **counts, "endpoint": lake.ENDPOINTS[row["kind"]]})
        return rows
