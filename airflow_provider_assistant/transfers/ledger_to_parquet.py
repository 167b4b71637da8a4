"""Exports of feedback, async chat requests and loads from the ledger to Parquet."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_assistant import lake
from airflow_provider_assistant.ledger import Ledger, feedback_between, loads_between, requests_between
from airflow_provider_assistant.transfers.base import LedgerExportOperator

if TYPE_CHECKING:
    import pyarrow as pa


class AssistantFeedbackToParquetOperator(LedgerExportOperator):
    """
    Export the ratings in the ledger to the Parquet dataset ``feedback``: one row per rating, on the day it was sent.

    Each rating is joined with the latency of its answer. A run replaces whole UTC days, so a re-run creates no
    duplicates. The columns are in :mod:`airflow_provider_assistant.lake`.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/howto/nightly-export`

    :param site_id: Export only the entries of this site. Default: the entries of all sites in the ledger.
    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: Last UTC day to write, ``YYYY-MM-DD``. Default: the day of the DAG run.
    :param days: Number of days to write, ending with ``date``. Default: 2, because entries were added to the day before
        after yesterday's run.
    :param file_name: Name of this task's file in a partition, without ``.parquet``. Default: ``<dag_id>.<task_id>``.
        After renaming a task, set the old name here: the task then replaces its earlier files. A mapped task appends
        its index.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``, which need not
        exist without ``site_id``.
    :param tenant_id: The tenant. Default: that of the connection.
    """

    dataset = "feedback"

    def table(self, ledger: Ledger, start: datetime, end: datetime, scope: str | None) -> pa.Table:
        """
        Return the ratings that were sent in a time range.

        :param ledger: The ledger.
        :param start: First moment of the range, in UTC.
        :param end: First moment after the range, in UTC.
        :param scope: API URL of the site, or None for all sites.
        :return: The rows, with the columns of the dataset.
        """
        return lake.feedback_table(feedback_between(ledger.engine, start, end, scope))


class AssistantRequestsToParquetOperator(LedgerExportOperator):
    """
    Export chat requests in the ledger to the dataset ``requests``: one row per request, on the day it was submitted.

    The rows are the requests that
    :class:`~airflow_provider_assistant.operators.submit_chat.AssistantSubmitChatOperator` and
    :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator` submitted with the ledger on. A
    request that finishes after midnight changes the partition of the day before. A run replaces whole UTC days, so a
    re-run creates no duplicates.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/howto/nightly-export`

    :param site_id: Export only the entries of this site. Default: the entries of all sites in the ledger.
    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: Last UTC day to write, ``YYYY-MM-DD``. Default: the day of the DAG run.
    :param days: Number of days to write, ending with ``date``. Default: 2, because entries were added to the day before
        after yesterday's run.
    :param file_name: Name of this task's file in a partition, without ``.parquet``. Default: ``<dag_id>.<task_id>``.
        After renaming a task, set the old name here: the task then replaces its earlier files. A mapped task appends
        its index.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``, which need not
        exist without ``site_id``.
    :param tenant_id: The tenant. Default: that of the connection.
    """

    dataset = "requests"

    def table(self, ledger: Ledger, start: datetime, end: datetime, scope: str | None) -> pa.Table:
        """
        Return the requests that were submitted in a time range.

        :param ledger: The ledger.
        :param start: First moment of the range, in UTC.
        :param end: First moment after the range, in UTC.
        :param scope: API URL of the site, or None for all sites.
        :return: The rows, with the columns of the dataset.
        """
        return lake.requests_table(requests_between(ledger.engine, start, end, scope))


class AssistantLoadsToParquetOperator(LedgerExportOperator):
    """
    Export loads in the ledger to the Parquet dataset ``loads``: one row per try of a load, on the day it started.

    The rows are the loads that ran with the ledger on. A load that finishes after midnight changes the partition of the
    day before. A run replaces whole UTC days, so a re-run creates no duplicates.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/howto/nightly-export`

    :param site_id: Export only the entries of this site. Default: the entries of all sites in the ledger.
    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param date: Last UTC day to write, ``YYYY-MM-DD``. Default: the day of the DAG run.
    :param days: Number of days to write, ending with ``date``. Default: 2, because entries were added to the day before
        after yesterday's run.
    :param file_name: Name of this task's file in a partition, without ``.parquet``. Default: ``<dag_id>.<task_id>``.
        After renaming a task, set the old name here: the task then replaces its earlier files. A mapped task appends
        its index.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``, which need not
        exist without ``site_id``.
    :param tenant_id: The tenant. Default: that of the connection.
    """

    dataset = "loads"

    def table(self, ledger: Ledger, start: datetime, end: datetime, scope: str | None) -> pa.Table:
        """
        Return the loads that started in a time range.

        :param ledger: The ledger.
        :param start: First moment of the range, in UTC.
        :param end: First moment after the range, in UTC.
        :param scope: API URL of the site, or None for all sites.
        :return: The rows, with the columns of the dataset.
        """
        return lake.loads_table(loads_between(ledger.engine, start, end, scope))
