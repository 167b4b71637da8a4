"""Where the tasks of a live Airflow run: as in pods, or on an edge worker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.live.airflow import LiveAirflow
from tests.live.isolated import FILES_OF_AIRFLOW, FOLDER, NO_DATABASE, SECRET, ended_tasks
from tests.live.process import WAIT, Process, running, wait_for


class Pods:
    """A new process with an empty home for each task.

    :param folder: folder of the homes
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"AIRFLOW__CORE__EXECUTOR": "tests.live.isolated.IsolatedExecutor", FOLDER: str(folder)}

    @contextmanager
    def workers(self, airflow: LiveAirflow) -> Iterator[None]:
        """Do nothing: the executor starts a process for each task."""
        yield

    def left(self, count: int) -> list[str]:
        """Wait for the ends of some processes, and return the files that they left."""
        wait_for("the ends of all processes", lambda: len(ended_tasks(self.folder)) >= count, timeout=WAIT)
        ended = ended_tasks(self.folder)
        assert len({task.home for task in ended}) == len(ended)
        return [file for task in ended for file in task.left]


class EdgeWorker:
    """A worker of the edge executor, with a separate home and without Airflow's database.

    :param folder: folder of its home and its temporary files
    """

    def __init__(self, folder: Path) -> None:
        self.home, self.temporary, self._log = folder / "home", folder / "tmp", folder / "worker.log"
        self.env = {
            "AIRFLOW__CORE__EXECUTOR": "airflow.providers.edge3.executors.EdgeExecutor",
            "AIRFLOW__EDGE__API_ENABLED": "True",
            "AIRFLOW__EDGE__JOB_POLL_INTERVAL": "1",
        }

    @staticmethod
    def is_installed() -> bool:
        """Return whether the provider of the edge executor is installed."""
        return find_spec("airflow.providers.edge3") is not None

    @contextmanager
    def workers(self, airflow: LiveAirflow) -> Iterator[None]:
        """Run the worker."""
        self.home.mkdir(parents=True)
        self.temporary.mkdir()
        secret = "AIRFLOW__API_AUTH__JWT_SECRET"
        env = {
            **{name: value for name, value in airflow.env.items() if not name.startswith(SECRET)},
            secret: airflow.env[secret],  # it signs its requests
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": NO_DATABASE,
            "AIRFLOW__EDGE__API_URL": f"{airflow.base_url}/edge_worker/v1/rpcapi",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "AIRFLOW_HOME": str(self.home),
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
        }
        command = [sys.executable, "-m", "airflow", "edge", "worker", "--concurrency", "2", "--edge-hostname", "edge"]
        with running([Process("edge worker", command, env=env, cwd=self.home, log=self._log)]):
            yield

    def left(self, count: int) -> list[str]:
        """Return the files that the tasks left, without the logs and the state of the worker."""
        files = [file for folder in (self.home, self.temporary) for file in folder.rglob("*") if file.is_file()]
        return [
            str(file)
            for file in files
            if file.name not in FILES_OF_AIRFLOW
            and file.suffix not in {".pid", ".status"}
            and not file.name.startswith("airflow-edge-task-")
            and self.home / "logs" not in file.parents
        ]
