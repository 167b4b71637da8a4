"""
Load the Parquet datasets into Iceberg tables, and delete rows from them.

Each dataset has a table of the same name, partitioned by day. One commit replaces the rows of days and
records which partitions they came from: rows and record never differ, whatever is killed when.
"""

from airflow_provider_assistant.lake.iceberg.catalog import open_catalog
from airflow_provider_assistant.lake.iceberg.deletion import Eraser, delete_rows
from airflow_provider_assistant.lake.iceberg.tables import Loaded, load

__all__ = ["Eraser", "Loaded", "delete_rows", "load", "open_catalog"]
