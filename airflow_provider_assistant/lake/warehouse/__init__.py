"""
Load the Parquet datasets into a warehouse: DuckDB or PostgreSQL.

The rows of a day are replaced as a whole, in one transaction. Views summarise the tables.
"""

from airflow_provider_assistant.lake.warehouse.load import Loaded, columns, load
from airflow_provider_assistant.lake.warehouse.partitions import exported
from airflow_provider_assistant.lake.warehouse.stores import (
    LOCK_TIMEOUT,
    WarehouseTransaction,
    duckdb_transaction,
    postgres_transaction,
)
from airflow_provider_assistant.lake.warehouse.views import VIEWS

__all__ = [
    "LOCK_TIMEOUT",
    "VIEWS",
    "Loaded",
    "WarehouseTransaction",
    "columns",
    "duckdb_transaction",
    "exported",
    "load",
    "postgres_transaction",
]
