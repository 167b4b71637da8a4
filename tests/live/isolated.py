"""Airflows whose tasks have neither a home nor a database: as in pods, or on an edge worker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from tests.live.airflow import LiveAirflow
from tests.live.environment import isolated
from tests.live.isolated_executor import FILES_OF_AIRFLOW, FOLDER, ended_tasks
from tests.live.process import WAIT, running, wait_for


class PodAirflow(LiveAirflow):
    """An Airflow that runs each task in a new process with an empty home."""

    def __init__(self, home: Path, dags: Path, env: Mapping[str, str]) -> None:
        self._tasks = home / "tasks"
        super().__init__(home, dags, {**env, FOLDER: str(self._tasks)})

    def settings(self) -> dict[str, object]:
        """Return the configuration of an Airflow with an executor that starts a process for each task."""
        executor = "tests.live.isolated_executor.IsolatedExecutor"
        return {**super().settings(), "CORE__EXECUTOR": executor}

    def left(self, count: int) -> list[str]:
        """Wait for the ends of this many tasks, and return the files that they left."""
        wait_for("the ends of all processes", lambda: len(ended_tasks(self._tasks)) >= count, timeout=WAIT)
        ended = ended_tasks(self._tasks)
        assert len({task.home for task in ended}) == len(ended)
        return [file for task in ended for file in task.left]


class EdgeAirflow(LiveAirflow):
    """An Airflow with a worker of the edge executor, which has a separate home."""

    WORKER = "edge worker"

    @staticmethod
    def is_installed() -> bool:
        """Return whether the provider of the edge executor is installed."""
        return find_spec("airflow.providers.edge3") is not None

    def settings(self) -> dict[str, object]:
        """Return the configuration of an Airflow with the edge executor."""
        return {
            **super().settings(),
            "CORE__EXECUTOR": "airflow.providers.edge3.executors.EdgeExecutor",
            "EDGE__API_ENABLED": True,
            "EDGE__API_URL": f"{self.base_url}/edge_worker/v1/rpcapi",
            "EDGE__JOB_POLL_INTERVAL": 1,
        }

    def start_all(self, stack: ExitStack) -> None:
        """Start Airflow, then the worker."""
        super().start_all(stack)
        for folder in (self._worker_home, self._worker_tmp):
            folder.mkdir(parents=True)
        worker = self.process(self.WORKER, "edge", "worker", "--concurrency", "2", "--edge-hostname", "edge")
        stack.enter_context(running([worker]))
        self.components[self.WORKER] = worker

    def environment_of(self, component: str) -> dict[str, str]:
        """Return the environment of one component; the worker has that of a task."""
        if component != self.WORKER:
            return super().environment_of(component)
        secret = "AIRFLOW__API_AUTH__JWT_SECRET"
        return {
            **isolated(self.env, self._worker_home, self._worker_tmp),
            secret: self.env[secret],  # it signs its requests
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self._worker_home / "logs"),
        }

    @property
    def _worker_home(self) -> Path:
        return self.home / "worker" / "home"

    @property
    def _worker_tmp(self) -> Path:
        return self.home / "worker" / "tmp"

    def left(self, count: int) -> list[str]:
        """Return the files that the tasks left, without the logs and the state of the worker."""
        found = [*self._worker_home.rglob("*"), *self._worker_tmp.rglob("*")]
        return [str(file) for file in found if file.is_file() and not self._is_of_worker(file)]

    def _is_of_worker(self, file: Path) -> bool:
        if file.suffix in {".pid", ".status"} or file.name.startswith("airflow-edge-task-"):
            return True
        return file.name in FILES_OF_AIRFLOW or self._worker_home / "logs" in file.parents
