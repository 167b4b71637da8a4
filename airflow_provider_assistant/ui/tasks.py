"""Task instances: what Airflow's database and the ledger have about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from fastapi import Depends, Path
from sqlalchemy import Connection, select, tuple_

from airflow_provider_assistant.ledger.queries import tries_of
from airflow_provider_assistant.operators.links import PAGES

TASK_PATH = "/{dag_id}/{run_id}/{task_id}/{map_index}"
# Columns that identify a task instance, of Airflow's and of the ledger's table.
_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")
# The clocks of Airflow and of the ledger may differ.
_CLOCK_DIFFERENCE = timedelta(seconds=5)


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


def task_key(
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: Annotated[int, Path(ge=-1, le=2**31 - 1)],
    region: UUID | None = None,
) -> TaskKey:
    """Return the task instance that a request names."""
    return TaskKey(dag_id, run_id, task_id, map_index, region)


TaskKeyDep = Annotated[TaskKey, Depends(task_key)]


@dataclass(frozen=True, slots=True)
class Instance:
    """
    A task instance in Airflow's database.

    :param operator: Class name of its operator; None if Airflow does not know the task instance.
    :param is_mapped: Whether the task is mapped, and the key names no mapped task instance.
    """

    operator: str | None = None
    state: str | None = None
    is_mapped: bool = False


def instance_of(key: TaskKey) -> Instance:
    """Return what Airflow knows about a task instance."""
    query = select(TaskInstance.operator, TaskInstance.state)
    query = query.filter_by(dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id)
    if key.region and hasattr(TaskInstance, "region_id"):
        query = query.filter_by(region_id=key.region)
    with create_session() as session:
        row = session.execute(query.filter_by(map_index=key.map_index).limit(1)).first()
        if row is not None:
            return Instance(row.operator, row.state)
        # Without an index, the key of a mapped task names none of its task instances.
        mapped = session.execute(query.limit(1)).first()
    if mapped is None or key.map_index >= 0:
        return Instance()
    return Instance(mapped.operator, is_mapped=True)


def running_tokens(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """
    Return those tries whose task instance is running.

    :param rows: Tries of the ledger without an end.
    """
    if not rows:
        return set()
    columns = [getattr(TaskInstance, name) for name in _COLUMNS]
    keys = {_key_of(row) for row in rows}
    query = select(*columns, TaskInstance.start_date).where(TaskInstance.state == "running", tuple_(*columns).in_(keys))
    with create_session() as session:
        starts = {_key_of(task): task["start_date"] for task in session.execute(query).mappings()}
    running = set()
    for row in rows:
        start = starts.get(_key_of(row))
        # A killed try of the same task instance started before the one that runs now.
        if start and row["started_at"] >= start - _CLOCK_DIFFERENCE:
            running.add(row["token"])
    return running


def _key_of(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _COLUMNS)


def tries_of_task(connection: Connection, key: TaskKey) -> list[dict[str, Any]]:
    """Return the tries of a task instance in the ledger, earliest first."""
    rows = tries_of(connection, {name: getattr(key, name) for name in _COLUMNS})
    if key.region is None:
        return rows
    # The ledger has "<index of the iteration>.<id of the region>", the key only the id.
    return [row for row in rows if str(key.region) in (row["region"] or "")]


def report_path(row: Mapping[str, Any]) -> str:
    """
    Return the path of a report below Airflow's base URL.

    :param row: Try of the ledger.
    """
    path = "/".join(quote(str(row[name]), safe="") for name in _COLUMNS)
    # The ledger has "<index of the iteration>.<id of the region>".
    _index, _, region = (row["region"] or "").partition(".")
    query = f"?region={region}" if region else ""
    return f"{PAGES}/reports/{path}{query}"
