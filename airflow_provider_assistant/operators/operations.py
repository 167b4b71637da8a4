"""Operators that write what this package itself did to Parquet: async chat requests, and loads."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_assistant import lake
from airflow_provider_assistant.ledger import Ledger, loads_between, requests_between
from airflow_provider_assistant.operators.base import LedgerExportOperator

if TYPE_CHECKING:
    import pyarrow as pa


class AssistantRequestsToParquetOperator(LedgerExportOperator):
    """
    Write async chat requests to the Parquet dataset ``requests``: one row per request, on the day it was submitted.

    The requests are those that :class:`~airflow_provider_assistant.operators.chat.AssistantSubmitChatOperator` and
    :class:`~airflow_provider_assistant.operators.ask.AssistantAskOperator` submitted with the ledger on. A request
    that ends after midnight changes the day before.

    The parameters are those of :class:`~airflow_provider_assistant.operators.base.LedgerExportOperator`.
    """

    dataset = "requests"

    def table(self, ledger: Ledger, start: datetime, end: datetime, scope: str | None) -> pa.Table:
        """Return the requests of a span of time."""
        return lake.requests_table(requests_between(ledger.engine, start, end, scope))


class AssistantLoadsToParquetOperator(LedgerExportOperator):
    """
    Write loads to the Parquet dataset ``loads``: one row per try of a load, on the day it started.

    The loads are those that ran with the ledger on. A load that ends after midnight changes the day before.

    The parameters are those of :class:`~airflow_provider_assistant.operators.base.LedgerExportOperator`.
    """

    dataset = "loads"

    def table(self, ledger: Ledger, start: datetime, end: datetime, scope: str | None) -> pa.Table:
        """Return the loads of a span of time."""
        return lake.loads_table(loads_between(ledger.engine, start, end, scope))
