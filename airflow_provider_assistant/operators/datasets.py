"""Write a task's file into a Parquet dataset."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import table_at
from airflow_provider_assistant.operators.base import AssistantBaseOperator
from airflow_provider_assistant.operators.runs import day_of_run, instance_suffix
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.texts import counted

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
    :param day: Day of the partition.
    :param part_name: Name of the file without ``.parquet``.
    :return: ``rows``, ``path`` and ``bytes`` of the file.
    """
    ti = context["ti"]
    provenance = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
    file = lake.publish(table, root, dataset, day, part_name, provenance=provenance)
    written = table_at(str(object_storage_path(root) / dataset), table)
    task.lineage_outputs = (*task.lineage_outputs, written)
    metrics.exported_rows(dataset, file.rows)
    return file


def publish_run(
    task: AssistantBaseOperator,
    context: Context,
    rows: Iterable[Mapping[str, Any]],
    root: str,
    dataset: lake.Dataset,
    timezone: str | None = None,
) -> lake.Published:
    """
    Replace the file of this run in the partition of its day.

    :param task: The task.
    :param context: Airflow's task context.
    :param rows: The rows, without the columns of the task.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param dataset: The dataset.
    :param timezone: Name of the zone of the day. Default: None, the zone of the DAG's schedule.
    :return: ``rows``, ``path`` and ``bytes`` of the file.
    """
    run = RunRef.of(context)
    table = lake.rows_table(dataset, [{**row, **run.columns()} for row in rows])
    # No id of a task contains "~", so two runs never have the same file.
    part_name = f"{task_name(run.dag_id, run.task_id)}{instance_suffix(run)}~{run.run_id}"
    day = day_of_run(None, context, timezone)
    file = publish(task, context, table, root, dataset.name, day, part_name=part_name)
    task.log.info("Wrote %s of dataset %s to %s.", counted(file.rows, "row"), dataset.name, file.path)
    return file
