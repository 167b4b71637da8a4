"""Attempts of a task, in this process or in one that can be killed."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import airflow.configuration
import psutil
import pyarrow.parquet as pq
import pytest

from tests.live.process import wait_for
from tests.live.service import AssistantService
from tests.processes import preload, processes
from tests.task_runs.context import task_context

CONCURRENCY = 16
CONNECTION = "AIRFLOW_CONN_ASSISTANT_DEFAULT"

# Also import in advance what a task imports on demand.
preload(
    "aiohttp",
    "pandas",
    "airflow_provider_assistant.client.worker_pool",
    "airflow_provider_assistant.ledger.executors",
)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """
    One attempt of a task.

    :param home: AIRFLOW_HOME.
    :param connection: JSON of the connection.
    :param setup: Name of a function in ``setups`` that a separate process calls first.
    :param options: Arguments of the operator.
    """

    home: Path
    connection: str
    task_id: str = "task"
    run_id: str = "run"
    setup: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def operator(self) -> Any:
        """Return the operator of the task."""
        raise NotImplementedError

    def execute(self) -> dict[str, Any]:
        """Run the operator like a task; SIGTERM and the end are handled like in Airflow's task runner."""
        self.home.mkdir(parents=True, exist_ok=True)
        airflow.configuration.AIRFLOW_HOME = str(self.home)
        os.environ.update(self.env, **{CONNECTION: self.connection})
        operator = self.operator()
        operator.render_template_fields({})
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
        return operator.execute(task_context(self.task_id, run_id=self.run_id, max_tries=3))


@dataclass
class FinishedRequest:
    """Result of an attempt."""

    result: dict[str, Any] | None = None
    error: str | None = None
    trace: str = ""
    exitcode: int | None = None


class AttemptProcess:
    """An attempt in a separate process."""

    def __init__(self, attempt: Attempt) -> None:
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
            raise AssertionError("the attempt does not end")
        ended.exitcode = self.process.exitcode
        return ended


def _serve(attempt: Attempt, pipe: Any) -> None:
    ended = FinishedRequest()
    try:
        if attempt.setup:
            from tests.integration.faults import setups

            getattr(setups, attempt.setup)()
        ended.result = attempt.execute()
    except BaseException as error:  # noqa: BLE001 (the parent judges)
        ended.error, ended.trace = f"{type(error).__name__}: {error}", traceback.format_exc()
    pipe.send(ended)


class Attempts:
    """
    The attempts of one task against a service, and what the service has seen of them.

    :param service: The service.
    :param home: AIRFLOW_HOME of the attempts.
    """

    def __init__(self, service: AssistantService, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = service
        self.home = home
        self._monkeypatch = monkeypatch

    def connection(self, **extra: Any) -> str:
        """Return the JSON of the connection to the service, with these fields of ``extra``."""
        connection = self.service.connection
        return json.dumps({**connection, "extra": {**connection["extra"], **extra}})

    def start(self, attempt: Attempt) -> AttemptProcess:
        """Start an attempt in a separate process."""
        self.home.mkdir(parents=True, exist_ok=True)
        return AttemptProcess(attempt)

    def run_apart(self, attempt: Attempt) -> FinishedRequest:
        """Run an attempt in a separate process."""
        return self.start(attempt).wait()

    def run(self, attempt: Attempt) -> dict[str, Any]:
        """Run an attempt in this process."""
        self._monkeypatch.setattr(airflow.configuration, "AIRFLOW_HOME", airflow.configuration.AIRFLOW_HOME)
        return attempt.execute()

    def seen(self, path: str, status: int | None = None) -> int:
        """Return how many requests for a path the service has seen, of all or of those with this status."""
        params: dict[str, Any] = {"path": path, "limit": 1}
        if status:
            params["status"] = status
        return self.service.control("GET", "journal", params=params)["count"]

    def wait_seen(self, count: int, path: str, status: int | None = None) -> None:
        """Wait until the service has seen this many requests."""
        what = f"{count} requests for {path}"
        wait_for(what, lambda: self.seen(path, status) >= count, timeout=120, interval=0.01)


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
    """Return the keys of findings of these kinds."""
    return {int(found["key"]) for found in findings(path) if found["kind"] in kinds}
