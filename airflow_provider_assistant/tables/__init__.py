"""Read the rows of any source, such as dataframes, lists and files, as one stream of batches and notes."""

from __future__ import annotations

from airflow_provider_assistant.tables.batches import Batch, Columns
from airflow_provider_assistant.tables.sources import read_rows

__all__ = ["Batch", "Columns", "read_rows"]
