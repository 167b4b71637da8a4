"""An executor whose tasks run as in pods: each in a new process with an empty home and without Airflow's database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.executors.base_executor import BaseExecutor

from tests.live.environment import isolated
from tests.live.executor import DeferralSafe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.executors.workloads.types import WorkloadKey

# Environment variable of the scheduler: folder for the homes of the tasks and the records of what they leave.
FOLDER = "ASSISTANT_TEST_ISOLATED"
RECORDS = "tasks.jsonl"
MODULE = "airflow.sdk.execution_time.execute_workload"
# Airflow writes its default configuration to every new home.
FILES_OF_AIRFLOW = {"airflow.cfg"}


class Task(NamedTuple):
    """
    A task that has ended.

    :param task_id: Id of the task.
    :param home: Its home, deleted in the meantime.
    :param left: The files that it left in its home and in its folder for temporary files.
    """

    task_id: str
    home: str
    left: list[str]


def ended_tasks(folder: Path) -> list[Task]:
    """Return the tasks that have ended, in the order of their ends."""
    return [Task(**json.loads(line)) for line in (folder / RECORDS).read_text().splitlines()]


class Worker:
    """
    The process of one task.

    :param workload: What Airflow asks the executor to run.
    :param folder: Folder of the homes and the records.
    """

    def __init__(self, workload: Any, folder: Path) -> None:
        self.key: WorkloadKey = workload.key
        self._task_id: str = workload.ti.task_id
        self._records = folder / RECORDS
        self._place = Path(tempfile.mkdtemp(prefix="task-", dir=folder))
        home, temporary = self._place / "home", self._place / "tmp"
        home.mkdir()
        temporary.mkdir()
        with (folder / "output.log").open("ab") as log:
            self._process = subprocess.Popen(
                # What a pod of the KubernetesExecutor runs.
                [sys.executable, "-m", MODULE, "--json-string", workload.model_dump_json()],
                env=isolated(os.environ, home, temporary),
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def exit_code(self) -> int | None:
        """Return the exit code of a task that has ended, after recording and deleting what it left; otherwise None."""
        code = self._process.poll()
        if code is not None:
            files = (str(file.relative_to(self._place)) for file in self._place.rglob("*") if not file.is_dir())
            left = sorted(file for file in files if Path(file).name not in FILES_OF_AIRFLOW)
            with self._records.open("a") as records:
                records.write(json.dumps(Task(self._task_id, str(self._place), left)._asdict()) + "\n")
            shutil.rmtree(self._place)
        return code

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()


class ProcessExecutor(BaseExecutor):
    """Run every task in a :class:`Worker`."""

    def start(self) -> None:
        """Create the folder of the homes."""
        self._folder = Path(os.environ[FOLDER])
        self._folder.mkdir(parents=True, exist_ok=True)
        self._workers: list[Worker] = []

    def _process_workloads(self, workload_list: Sequence[Any]) -> None:
        for workload in workload_list:
            self.queued_tasks.pop(workload.key)
            self.running.add(workload.key)
            self._workers.append(Worker(workload, self._folder))

    def sync(self) -> None:
        """Tell the scheduler which tasks have ended."""
        for worker in list(self._workers):
            if (code := worker.exit_code()) is not None:
                self._workers.remove(worker)
                if code:
                    self.fail(worker.key)
                else:
                    self.success(worker.key)

    def end(self) -> None:
        """Kill the tasks."""
        self.terminate()

    def terminate(self) -> None:
        """Kill the tasks."""
        for worker in self._workers:
            worker.kill()


class IsolatedExecutor(DeferralSafe, ProcessExecutor):
    """
    Run every task in a new process with a new, empty AIRFLOW_HOME and without access to Airflow's database.

    Connections and variables come from Airflow's API server. When a task has ended, the executor records the files that
    it left in its home and in its folder for temporary files.
    """
