"""
Load the Parquet datasets into a warehouse: DuckDB or PostgreSQL.

The rows of a day are replaced as a whole, in one transaction. Views summarise the tables.
"""

from collections.abc import Mapping

from airflow_provider_assistant.lake.warehouse.load import Loaded, load
from airflow_provider_assistant.lake.warehouse.postgres import postgres_engine, postgres_transaction
from airflow_provider_assistant.lake.warehouse.stores import (
    LOCK_TIMEOUT,
    WarehouseTransaction,
    duckdb_transaction,
)
from airflow_provider_assistant.lake.warehouse.tables import dataset_table
from airflow_provider_assistant.lake.warehouse.views import VIEWS


def columns(dataset: str) -> Mapping[str, str]:
    """Return the columns of a dataset's table: SQL type by column name."""
    return dataset_table(dataset).columns


__all__ = [
    "LOCK_TIMEOUT",
    "VIEWS",
    "Loaded",
    "WarehouseTransaction",
    "columns",
    "duckdb_transaction",
    "load",
    "postgres_engine",
    "postgres_transaction",
]
