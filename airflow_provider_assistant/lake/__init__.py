"""
Parquet datasets that a warehouse reads.

A dataset is a folder with one Hive-style partition per day. Each file of a partition is replaced as a whole: a reader
sees the old rows or the new ones, and a re-run creates no duplicates.
"""

from airflow_provider_assistant.lake.datasets import (
    ANSWERS,
    DATASETS,
    ENDPOINTS,
    EVALUATION_ANSWERS,
    EVALUATIONS,
    FEEDBACK,
    FINDINGS,
    LIMITS,
    LOADS,
    READS,
    READS_RAW,
    REQUESTS,
    STATISTICS,
    STATISTICS_RAW,
    Dataset,
)
from airflow_provider_assistant.lake.flattening import Metric, flatten
from airflow_provider_assistant.lake.partitions import Partition, exported, partitions_of, read_partition
from airflow_provider_assistant.lake.publish import (
    Published,
    check_writable,
    counted_twice,
    publish,
    replace,
    replace_bytes,
    rows_there,
    storing,
)
from airflow_provider_assistant.lake.tables import Capture, metrics_table, replies_table, rows_table

__all__ = [
    "ANSWERS",
    "DATASETS",
    "ENDPOINTS",
    "EVALUATIONS",
    "EVALUATION_ANSWERS",
    "FEEDBACK",
    "FINDINGS",
    "LIMITS",
    "LOADS",
    "READS",
    "READS_RAW",
    "REQUESTS",
    "STATISTICS",
    "STATISTICS_RAW",
    "Capture",
    "Dataset",
    "Metric",
    "Partition",
    "Published",
    "check_writable",
    "counted_twice",
    "exported",
    "flatten",
    "metrics_table",
    "partitions_of",
    "publish",
    "read_partition",
    "replace",
    "replace_bytes",
    "replies_table",
    "rows_table",
    "rows_there",
    "storing",
]
