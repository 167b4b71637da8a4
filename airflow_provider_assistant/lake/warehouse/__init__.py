"""
Load the Parquet datasets into a warehouse: DuckDB or PostgreSQL.

The rows of a day are replaced as a whole, in one transaction. Views summarise the tables.
"""

from airflow_provider_assistant.lake.warehouse.load import Loaded, columns, load, loadable
from airflow_provider_assistant.lake.warehouse.partitions import exported
from airflow_provider_assistant.lake.warehouse.stores import LOCK_TIMEOUT, Store, in_duckdb, in_postgres
from airflow_provider_assistant.lake.warehouse.views import VIEWS

__all__ = [
    "LOCK_TIMEOUT",
    "VIEWS",
    "Loaded",
    "Store",
    "columns",
    "exported",
    "in_duckdb",
    "in_postgres",
    "load",
    "loadable",
]
