"""Write a task's file into a Parquet dataset."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.lake.datasets import Dataset
from airflow_provider_assistant.lake.files import Written, write
from airflow_provider_assistant.lake.rows import rows_table
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.observability import metrics
from airflow_provider_assistant.observability.lineage import table_at
from airflow_provider_assistant.operators.base import AssistantBaseOperator
from airflow_provider_assistant.operators.runs import day_of_run
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
    whose: Sequence[str | None],
) -> Written:
    """
    Replace a file of a day, and record it in the task's ``lineage_outputs``.

    :param context: Airflow's task context.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param whose: Whose rows they are.
    """
    ti = context["ti"]
    made_by = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
    file = write(table, root, dataset, day, whose, made_by)
    written = table_at(str(object_storage_path(root) / dataset), table)
    task.lineage_outputs = (*task.lineage_outputs, written)
    metrics.exported_rows(dataset, file.rows)
    return file


def publish_run(
    task: AssistantBaseOperator,
    context: Context,
    rows: Iterable[Mapping[str, Any]],
    root: str,
    dataset: Dataset,
    timezone: str | None = None,
) -> Written:
    """
    Replace the file of this task instance in the partition of its day.

    :param context: Airflow's task context.
    :param rows: The rows, without the columns of the task.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param timezone: Name of the zone of the day. Default: None, the zone of the DAG's schedule.
    """
    run = RunRef.of(context)
    table = rows_table(dataset, [{**row, **run.columns()} for row in rows])
    day = day_of_run(None, context, timezone)
    file = publish(task, context, table, root, dataset.name, day, [str(part) for part in run.columns().values()])
    task.log.info("Wrote %s of dataset %s to %s.", counted(file.rows, "row"), dataset.name, file.path)
    return file
