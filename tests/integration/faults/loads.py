"""One attempt of a load task, in this process or in one that can be killed."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow.configuration
import psutil
import pyarrow.parquet as pq
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.processes import preload, processes

CONCURRENCY = 16
CONNECTION = "AIRFLOW_CONN_ASSISTANT_DEFAULT"

# Also import in advance what a task imports on demand.
preload(
    __name__,
    "aiohttp",
    "pandas",
    "airflow_provider_assistant.api.limits",
    "airflow_provider_assistant.client.worker_pool",
    "airflow_provider_assistant.ledger.executors",
    "airflow_provider_assistant.loading.engine",
    "airflow_provider_assistant.loading.load_client",
    "airflow_provider_assistant.loading.preflight",
)


def rows_of(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "title": f"Article {number}",
            "question": f"question {number}",
            "answer": "Because. " * 20,
            "category": "faq",
        }
        for number in numbers
    ]


@dataclass(frozen=True, kw_only=True)
class Try:
    """One attempt of a task that loads numbered rows."""

    home: Path
    connection: str
    numbers: range
    task_id: str = "load"
    run_id: str = "run"
    try_number: int = 1
    setup: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def findings_path(self) -> Path:
        return self.home / f"{self.task_id}.{self.run_id}.findings.parquet"

    def execute(self) -> dict[str, Any]:
        """Run the operator like a task; SIGTERM and the end are handled like in Airflow's task runner."""
        self.home.mkdir(parents=True, exist_ok=True)
        airflow.configuration.AIRFLOW_HOME = str(self.home)
        os.environ.update(self.env, **{CONNECTION: self.connection})
        options = {"max_concurrency": CONCURRENCY, "findings_path": str(self.findings_path), **self.options}
        options = {"source": rows_of(self.numbers), "key_columns": ["id"], **options}
        operator = AssistantLoadQAOperator(task_id=self.task_id, **options)
        operator.render_template_fields({})
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
        instance = SimpleNamespace(
            dag_id="dag", run_id=self.run_id, task_id=self.task_id, map_index=-1, try_number=self.try_number
        )
        return operator.execute({"ti": instance, "outlet_events": OutletEventAccessors()})


@dataclass
class FinishedRequest:
    """Result of an attempt."""

    result: dict[str, Any] | None = None
    error: str | None = None
    trace: str = ""
    exitcode: int | None = None


class Loader:
    """An attempt in a separate process."""

    def __init__(self, attempt: Try) -> None:
        self._mine, theirs = processes.Pipe()
        self.process = processes.Process(target=_serve, args=(attempt, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.process.pid
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def status(self) -> str:
        """Return the state of the process, one of the constants of psutil."""
        return psutil.Process(self.process.pid).status()

    def terminate(self) -> tuple[FinishedRequest, float]:
        """Send SIGTERM like Airflow, and return the result and the seconds until the end.

        Airflow kills a task five seconds after SIGTERM. The tests of the grace period check this limit with a virtual
        clock; `make faults` prints the real seconds.
        """
        self.kill(signal.SIGTERM)
        asked = time.monotonic()
        ended = self.wait()
        return ended, time.monotonic() - asked

    def ends_within(self, seconds: float) -> bool:
        self.process.join(seconds)
        return self.process.exitcode is not None

    def wait(self, timeout: float = 120) -> FinishedRequest:
        ended = FinishedRequest()
        with suppress(EOFError, ConnectionResetError):
            if self._mine.poll(timeout):
                ended = self._mine.recv()
        if not self.ends_within(timeout):
            self.kill()
            raise AssertionError("the loader does not end")
        ended.exitcode = self.process.exitcode
        return ended


def _serve(attempt: Try, pipe: Any) -> None:
    ended = FinishedRequest()
    try:
        if attempt.setup:
            from tests.integration.faults import setups

            getattr(setups, attempt.setup)()
        ended.result = attempt.execute()
    except BaseException as error:  # noqa: BLE001 (the parent judges)
        ended.error, ended.trace = f"{type(error).__name__}: {error}", traceback.format_exc()
    pipe.send(ended)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, because Python drops exceptions that a signal handler raises in its callbacks.

    Hypothesis has such a callback in this process; a task of Airflow has none.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def findings(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist() if path.exists() else []


def listed(path: Path, *kinds: str) -> set[int]:
    return {int(found["key"]) for found in findings(path) if found["kind"] in kinds}
