"""
Parquet datasets that a warehouse reads.

A dataset is a folder with one Hive-style partition per day. Each file of a partition is replaced as a whole: a reader
sees the old rows or the new ones, and a re-run creates no duplicates.
"""

from airflow_provider_assistant.lake.flattening import Metric, flatten
from airflow_provider_assistant.lake.publish import (
    Published,
    counted_twice,
    publish,
    replace,
    replace_bytes,
    rows_there,
    storing,
)
from airflow_provider_assistant.lake.schemas import (
    Capture,
    evaluations_schema,
    evaluations_table,
    feedback_schema,
    feedback_table,
    limits_schema,
    limits_table,
    loads_schema,
    loads_table,
    requests_schema,
    requests_table,
    statistics_raw_schema,
    statistics_raw_table,
    statistics_schema,
    statistics_table,
)

__all__ = [
    "Capture",
    "Metric",
    "Published",
    "counted_twice",
    "evaluations_schema",
    "evaluations_table",
    "feedback_schema",
    "feedback_table",
    "flatten",
    "limits_schema",
    "limits_table",
    "loads_schema",
    "loads_table",
    "publish",
    "replace",
    "replace_bytes",
    "requests_schema",
    "requests_table",
    "rows_there",
    "statistics_raw_schema",
    "statistics_raw_table",
    "statistics_schema",
    "statistics_table",
    "storing",
]
