"""What Airflow's database has about a task instance: its state, its result, and its rendered arguments."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any
from uuid import UUID

from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import Depends, Path
from sqlalchemy import select

from airflow_provider_assistant.operators.links import task_path

TASK_PATH = "/{dag_id}/{run_id}/{task_id}/{map_index}"
# Maximum number of XComs of a task that are read: one per key of a result.
MOST_KEYS = 100


@dataclass(frozen=True, slots=True)
class TaskKey:
    """
    Identify a task instance.

    :param map_index: Index of a mapped task, or -1; with ``region``, the index in the region.
    :param region: Region of the task (Airflow 3.4). Iterations of a loop differ only in their region.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    region: UUID | None = None

    @property
    def path(self) -> str:
        """Path of its page for the router of Airflow's UI."""
        region = str(self.region) if self.region else None
        return task_path(self.dag_id, self.run_id, self.task_id, self.map_index, region)


def task_key(
    dag_id: str, run_id: str, task_id: str, map_index: Annotated[int, Path(ge=-1)], region: UUID | None = None
) -> TaskKey:
    """Return the task instance that a request names."""
    return TaskKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index, region=region)


TaskKeyDep = Annotated[TaskKey, Depends(task_key)]


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """
    Facts about a task instance.

    :param operator: Class name of its operator; None if Airflow does not know the task instance.
    :param rendered: Its rendered template fields.
    :param is_mapped: Whether the task is mapped, and the key names no mapped task instance.
    """

    operator: str | None = None
    state: str | None = None
    ended_at: Any = None
    rendered: dict[str, Any] | None = None
    is_mapped: bool = False


def facts_of(key: TaskKey) -> TaskFacts:
    """Return the facts about a task instance."""
    with create_session() as session:
        query = select(TaskInstance)
        query = query.filter_by(dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id)
        if key.region and hasattr(TaskInstance, "region_id"):
            query = query.filter_by(region_id=key.region)
        instance = session.scalars(query.filter_by(map_index=key.map_index).limit(1)).first()
        if instance is None:
            # Without an index, the key of a mapped task names none of its task instances.
            mapped_instance = session.scalars(query.limit(1)).first()
            if mapped_instance and key.map_index < 0:
                return TaskFacts(operator=mapped_instance.operator, is_mapped=True)
            return TaskFacts()
        rendered = None
        # Airflow deletes the fields of old runs.
        with contextlib.suppress(Exception):
            rendered = RenderedTaskInstanceFields.get_templated_fields(instance, session=session)
        if not isinstance(rendered, dict):
            rendered = None
        return TaskFacts(
            operator=instance.operator,
            state=instance.state,
            ended_at=instance.end_date,
            rendered=rendered,
        )


def result_of(key: TaskKey) -> dict[str, Any]:
    """Return what a task instance pushed to XCom: its result, also with ``multiple_outputs``."""
    with create_session() as session:
        rows = session.scalars(_xcoms(key).limit(MOST_KEYS)).all()
        value_by_key = {row.key: XComModel.deserialize_value(row) for row in rows}
    result = value_by_key.pop("return_value", None)
    if not isinstance(result, dict):
        result = {}
    # With ``multiple_outputs``, each item of the result has a key as well.
    return {**result, **value_by_key}


def _xcoms(key: TaskKey) -> Any:
    """Return a query for the XComs of one task instance."""
    if "region_id" not in signature(XComModel.get_many).parameters:
        return select(XComModel).filter_by(
            dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id, map_index=key.map_index
        )
    # Airflow 3.4 stores XComs in two tables and reads them by region.
    region_filter: dict[str, Any] = {}
    if key.region is not None:
        region_filter["region_id"] = key.region
    return XComModel.get_many(
        run_id=key.run_id,
        dag_ids=key.dag_id,
        task_ids=key.task_id,
        map_indexes=key.map_index,
        **region_filter,
    )
