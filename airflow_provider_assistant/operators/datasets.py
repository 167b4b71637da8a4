"""Write a task's file into a Parquet dataset."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import Context, ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import table_at
from airflow_provider_assistant.operators.base import AssistantBaseOperator

if TYPE_CHECKING:
    import pyarrow as pa


def publish(
    task: AssistantBaseOperator,
    context: Context,
    table: pa.Table,
    root: str,
    dataset: str,
    day: datetime.date,
    *,
    part_name: str,
) -> lake.Published:
    """
    Replace one file of a partition, and record it in the task's ``lineage_outputs``.

    :param task: The task.
    :param context: Airflow's task context.
    :param table: The rows.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param dataset: Name of the dataset.
    :param day: UTC day of the partition.
    :param part_name: Name of the file without ``.parquet``.
    :return: ``rows``, ``path`` and ``bytes`` of the file.
    """
    ti = context["ti"]
    provenance = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
    file = lake.publish(table, root, dataset, day, part_name, provenance=provenance)
    written = table_at(str(ObjectStoragePath(root) / dataset), table, file.bytes)
    task.lineage_outputs = (*task.lineage_outputs, written)
    metrics.exported_rows(dataset, file.rows)
    return file
