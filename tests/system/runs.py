"""One run of each DAG of a test file."""

from __future__ import annotations

from typing import Any

from tests.live.airflow import LiveAirflow


class Runs:
    """Runs that are started at the same time, by the id of their DAG."""

    def __init__(self, airflow: LiveAirflow) -> None:
        self.airflow = airflow
        self.ids: dict[str, str] = {}

    def start(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.ids[dag_id] = self.airflow.trigger(dag_id)

    def wait(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            self.airflow.wait_run(dag_id, self.ids[dag_id])

    def task(self, dag_id: str, task_id: str) -> tuple[str, int]:
        """Return the state and the number of the try of a task."""
        task = self.airflow.task_instance(dag_id, self.ids[dag_id], task_id)
        return task["state"], task["try_number"]

    def wait_task(self, dag_id: str, task_id: str, state: str, try_number: int = 1) -> None:
        wanted = (state, try_number)
        self.airflow.wait(f"{dag_id}.{task_id}: {wanted}", lambda: self.task(dag_id, task_id) == wanted)

    def clear(self, dag_id: str, *task_ids: str) -> None:
        self.airflow.clear(dag_id, self.ids[dag_id], *task_ids)

    def kill(self, dag_id: str, task_id: str) -> None:
        self.airflow.kill_task(dag_id, self.ids[dag_id], task_id)

    def log(self, dag_id: str, task_id: str) -> str:
        return self.airflow.task_log(dag_id, self.ids[dag_id], task_id)

    def xcom(self, dag_id: str, task_id: str) -> Any:
        return self.airflow.xcom(dag_id, self.ids[dag_id], task_id)
