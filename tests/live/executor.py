"""The executor of the live Airflows."""

from __future__ import annotations

import importlib
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.executors.base_executor import BaseExecutor
from airflow.executors.local_executor import LocalExecutor
from airflow.sdk import ObjectStoragePath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.executors.workloads.types import WorkloadKey
    from airflow.models.taskinstance import TaskInstance

# Slow imports of most tasks, none of them of this package. A forked worker inherits what the scheduler has imported.
PRELOADED = (
    "aiohttp",
    "airflow.providers.openlineage.plugins.listener",
    "airflow.sdk.execution_time.task_runner",
    "duckdb",
    "pyarrow.dataset",
    "pyarrow.parquet",
)


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
        self._started: Counter[WorkloadKey] = Counter()

    def _process_workloads(self, workload_list: Sequence[Any]) -> None:
        for workload in workload_list:
            # Before Airflow 3.3, only its task instance has a key.
            self._started[getattr(workload, "key", None) or workload.ti.key] += 1
        super()._process_workloads(workload_list)

    def change_state(self, key: WorkloadKey, *args: Any, **kwargs: Any) -> None:
        """Record the end of one start of a task."""
        self._started[key] -= 1
        super().change_state(key, *args, **kwargs)

    def has_task(self, task_instance: TaskInstance) -> bool:
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
