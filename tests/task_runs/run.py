"""The result of a DAG run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Run:
    """The result of a DAG run."""

    dag_id: str
    run_id: str
    state: str
    tasks: dict[tuple[str, int], tuple[str, int]]
    errors: list[BaseException] = field(default_factory=list)

    @property
    def error(self) -> BaseException:
        assert self.errors, f"no task of {self.dag_id} failed"
        return self.errors[-1]

    def task_state(self, task_id: str = "task", map_index: int = -1) -> str:
        return self.tasks[task_id, map_index][0]

    def tries(self, task_id: str = "task", map_index: int = -1) -> int:
        return self.tasks[task_id, map_index][1]

    def xcoms(self) -> dict[tuple[str, int, str], Any]:
        """Return what the tasks left in Airflow's database, by task, map index and key."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        mine = select(XComModel).where(XComModel.dag_id == self.dag_id, XComModel.run_id == self.run_id)
        with create_session() as session:
            return {
                (row.task_id, row.map_index, row.key): XComModel.deserialize_value(row) for row in session.scalars(mine)
            }

    def xcom(self, task_id: str = "task", map_index: int = -1, key: str = "return_value") -> Any:
        return self.xcoms()[task_id, map_index, key]
