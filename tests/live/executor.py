"""The executors of the live Airflows."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow.executors.base_executor import BaseExecutor
from airflow.executors.local_executor import LocalExecutor
from airflow.sdk import ObjectStoragePath

from tests.live.environment import isolated

# Slow imports of most tasks, none of them of this package. A forked worker inherits what the scheduler has imported.
PRELOADED = (
    "aiohttp",
    "airflow.providers.openlineage.plugins.listener",
    "airflow.sdk.execution_time.task_runner",
    "duckdb",
    "pyarrow.dataset",
    "pyarrow.parquet",
)
# The isolated tasks that have ended, one a line: task_id, home, and the files that the task left.
RECORDS = "tasks.jsonl"


class DeferralSafe(BaseExecutor):
    """
    An executor with a correct record of tasks that run again after a deferral.

    A trigger may fire before the scheduler has read that the first part of its task has ended. Up to Airflow 3.3 the
    scheduler then starts the second part, reads the end of the first, and marks the task as failed ("finished with
    state success, but the task instance's state attribute is queued"). Retries repair this for users; tests that count
    tries need an Airflow without it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._started: Counter[Any] = Counter()

    def _process_workloads(self, workload_list: Sequence[Any]) -> None:
        for workload in workload_list:
            # Before Airflow 3.3, only its task instance has a key.
            self._started[getattr(workload, "key", None) or workload.ti.key] += 1
        super()._process_workloads(workload_list)

    def change_state(self, key: Any, *args: Any, **kwargs: Any) -> None:
        """Record the end of one start of a task."""
        self._started[key] -= 1
        super().change_state(key, *args, **kwargs)

    def has_task(self, task_instance: Any) -> bool:
        """Return whether a task is queued, or has been started more often than it has ended."""
        return super().has_task(task_instance) or self._started[task_instance.key] > 0


class PreloadedExecutor(LocalExecutor):
    """Airflow's LocalExecutor, whose workers have the slow imports of most tasks."""

    def start(self) -> None:
        """Import once what every task would import, then fork the workers."""
        for name in PRELOADED:
            with suppress(ImportError):
                importlib.import_module(name)
        # Airflow imports the file systems of all providers when a path is used for the first time.
        ObjectStoragePath("file:///").fs  # noqa: B018
        super().start()


class CountingExecutor(DeferralSafe, PreloadedExecutor):
    """The same with a correct record of tasks that run again after a deferral."""


# Since Airflow 3.4, the LocalExecutor itself counts how often it has started a task.
LiveExecutor = PreloadedExecutor if hasattr(LocalExecutor, "_finish_dispatch") else CountingExecutor


class ProcessExecutor(BaseExecutor):
    """Run what a pod of the KubernetesExecutor runs, each time in a new process with a new, empty home."""

    def start(self) -> None:
        """Create the folder of the homes, which the environment names."""
        self._folder = Path(os.environ["ASSISTANT_TEST_ISOLATED"])
        self._folder.mkdir(parents=True, exist_ok=True)
        self._workers: list[tuple[Any, Path, subprocess.Popen[bytes]]] = []

    def _process_workloads(self, workload_list: Sequence[Any]) -> None:
        for workload in workload_list:
            self.queued_tasks.pop(workload.key)
            self.running.add(workload.key)
            place = Path(tempfile.mkdtemp(prefix="task-", dir=self._folder))
            home, temporary = place / "home", place / "tmp"
            home.mkdir()
            temporary.mkdir()
            module = "airflow.sdk.execution_time.execute_workload"
            command = [sys.executable, "-m", module, "--json-string", workload.model_dump_json()]
            env = isolated(os.environ, home, temporary)
            with (self._folder / "output.log").open("ab") as log:
                process = subprocess.Popen(command, env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self._workers.append((workload, place, process))

    def sync(self) -> None:
        """Record and delete what tasks have left that have ended, and tell the scheduler."""
        for worker in list(self._workers):
            workload, place, process = worker
            if (code := process.poll()) is None:
                continue
            self._workers.remove(worker)
            files = [file for file in place.rglob("*") if not file.is_dir()]
            # Airflow writes its default configuration to every new home.
            left = sorted(str(file.relative_to(place)) for file in files if file.name != "airflow.cfg")
            with (self._folder / RECORDS).open("a") as records:
                records.write(json.dumps([workload.ti.task_id, str(place), left]) + "\n")
            shutil.rmtree(place)
            if code:
                self.fail(workload.key)
            else:
                self.success(workload.key)

    def end(self) -> None:
        """Kill the tasks."""
        self.terminate()

    def terminate(self) -> None:
        """Kill the tasks."""
        for _, _, process in self._workers:
            process.kill()
            process.wait()


class IsolatedExecutor(DeferralSafe, ProcessExecutor):
    """
    Run every task in a new process with a new, empty AIRFLOW_HOME and without access to Airflow's database.

    Connections and variables come from Airflow's API server.
    """
