"""
A real Airflow on several simulated machines: CeleryExecutor, Redis, two schedulers, two triggerers, two workers.

No two components have the same home or hostname, as if each ran on another machine. They share what the machines of a
cluster share: PostgreSQL (three databases), Redis, the api-server, the folder of the task logs, and object storage.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT, NotReadyError, Process, free_port, running, wait_for

WORKERS = ("worker-1", "worker-2")
TRIGGERERS = ("triggerer-1", "triggerer-2")
SCHEDULERS = ("scheduler-1", "scheduler-2")
# Tasks that a worker runs at once.
SLOTS = 2
METADATA, RESULTS, LEDGER = "airflow", "results", "ledger"
LEDGER_CONNECTION = "assistant_ledger"
# How often a component that ends by itself is started again.
RESTARTS = 5
# Environment variable with the name of a component's machine.
MACHINE = "ASSISTANT_TEST_MACHINE"


def _worker(name: str) -> tuple[str, ...]:
    # If two workers on one host have the same name, Celery counts them as one. The queue with the worker's name is
    # for tasks that a test needs on this machine.
    named = ("--celery-hostname", f"{name}@%h", "--queues", f"default,{name}")
    return ("celery", "worker", "--skip-serve-logs", "--concurrency", str(SLOTS), *named)


def redis(home: Path) -> tuple[Process, str]:
    """Return a Redis that keeps its data over a restart, as a broker must, and its URL."""
    program, port = shutil.which("redis-server"), free_port()
    if program is None:
        raise FileNotFoundError("no Redis: run `make redis` as root, or install Debian's redis-server")
    home.mkdir(parents=True, exist_ok=True)
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(home)]
    command += ["--appendonly", "yes", "--save", ""]
    return Process("redis", command, env=os.environ, cwd=home, log=home / "log"), f"redis://127.0.0.1:{port}/0"


class CeleryAirflow(LiveAirflow):
    """
    A running cluster, and its REST API as an administrator.

    :param home: Folder for all files; each machine has a home below it.
    :param dags: The folder with the DAGs, the same on all machines.
    :param env: More environment variables for all components.
    """

    # Each request of a test keeps the api-server from its workers.
    POLL = 1.5
    COMPONENTS: Mapping[str, tuple[str, ...]] = {
        "api-server": ("api-server", "--workers", "1"),
        "dag-processor": ("dag-processor",),
        **dict.fromkeys(SCHEDULERS, ("scheduler", "--skip-serve-logs")),
        **dict.fromkeys(TRIGGERERS, ("triggerer", "--skip-serve-logs")),
        **{name: _worker(name) for name in WORKERS},
    }

    def __init__(self, home: Path, dags: Path, env: Mapping[str, str] | None = None) -> None:
        self._redis, self._broker = redis(home.resolve() / "redis")
        # How often each component has ended by itself and was started again.
        self.restarts: Counter[str] = Counter()
        super().__init__(home, dags, env, executor="CeleryExecutor")
        ledger = self.database.url_of(LEDGER).replace("postgresql+psycopg2", "postgres")
        self.env[f"AIRFLOW_CONN_{LEDGER_CONNECTION.upper()}"] = ledger

    def settings(self) -> dict[str, object]:
        """Return the configuration of an Airflow with Celery."""
        return {
            **super().settings(),
            "ASSISTANT__LEDGER_CONN_ID": LEDGER_CONNECTION,
            "CELERY__BROKER_URL": self._broker,
            "CELERY__RESULT_BACKEND": f"db+{self.database.url_of(RESULTS)}",
            "CELERY__SYNC_PARALLELISM": 1,
            "CORE__HOSTNAME_CALLABLE": "tests.live.environment.machine",
            "CORE__PARALLELISM": 16,
            "DATABASE__SQL_ALCHEMY_CONN": self.database.url_of(METADATA),
            # Seconds without a heartbeat after which a task counts as dead. The default is 300.
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 20,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 2,
            # The same for a message that a broker has lost. The default is 600.
            "SCHEDULER__TASK_QUEUED_TIMEOUT": 180,
            "SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": 10,
            # Ten components on few cores: each of them polls less often than in a small Airflow, and waits longer.
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 3600,
            "DAG_PROCESSOR__REFRESH_INTERVAL": 3600,
            "SCHEDULER__JOB_HEARTBEAT_SEC": 5,
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 1,
            "TRIGGERER__JOB_HEARTBEAT_SEC": 2,
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": 20,
            "WORKERS__MIN_HEARTBEAT_INTERVAL": 5,
        }

    def component(self, name: str, *arguments: str) -> Process:
        """Return the process of a command of Airflow on a separate machine."""
        home = self.home / "machines" / name
        env = {**self.env, "AIRFLOW_HOME": str(home), MACHINE: name}
        command = [sys.executable, "-m", "airflow", *arguments]
        return Process(name, command, env=env, cwd=self.home, log=self.log_path(name))

    # -- life --------------------------------------------------------------------------------------

    def start_all(self, stack: ExitStack) -> None:
        """Start Redis, then the components."""
        stack.enter_context(running([self._redis]))
        super().start_all(stack)

    def prepare(self) -> None:
        """Create the databases and the tables."""
        for name in (METADATA, RESULTS, LEDGER):
            self.database.create(name)
        super().prepare()

    def wait_ready(self, timeout: float = WAIT) -> None:
        """Wait until every component has a heartbeat, and both workers take tasks."""
        super().wait_ready(timeout)

        def alive() -> bool:
            jobs = self.request("GET", "/api/v2/jobs", params={"is_alive": True, "limit": 100})["jobs"]
            return {*SCHEDULERS, *TRIGGERERS} <= {job["hostname"] for job in jobs}

        self.wait("two schedulers and two triggerers", alive, timeout=timeout)
        for worker in WORKERS:
            self.wait(f"{worker} takes tasks", lambda worker=worker: self._starts(worker) > 0, timeout=timeout)

    def _starts(self, worker: str) -> int:
        """Return how often a worker has connected to the broker after a start."""
        log = self.log_path(worker)
        return log.read_text(errors="replace").count(" ready.") if log.exists() else 0

    def check(self) -> None:
        """
        Start each component again that has ended by itself, as a service manager does.

        Airflow's components end when they lose their database for longer than they retry.
        """
        for name, component in self.components.items():
            try:
                component.check()
            except NotReadyError:
                if self.restarts[name] == RESTARTS:
                    raise
                self.restarts[name] += 1
                component.start()

    # -- accidents ---------------------------------------------------------------------------------

    def restart_database(self) -> None:
        """Stop PostgreSQL, which ends all connections, and start it again."""
        self.database.stop()
        self.database.start()

    def restart_broker(self) -> None:
        """Stop Redis, and start it again with the messages that it had."""
        self._redis.stop()
        self._redis.start()

        def answers() -> bool:
            address = ("127.0.0.1", int(self._broker.rpartition(":")[2].partition("/")[0]))
            with suppress(OSError), socket.create_connection(address, timeout=5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
            return False

        wait_for("Redis", answers, timeout=WAIT)

    def restore(self) -> None:
        """Start every component that a test has killed; return once its workers take tasks."""
        for name, component in self.components.items():
            if component.tree():
                continue
            before = self._starts(name)
            component.start()
            if name in WORKERS:
                self.wait(f"{name} takes tasks", lambda name=name, n=before: self._starts(name) > n, timeout=WAIT)
        self.wait_ready()

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; repeat a GET while the api-server or its database is away."""
        if method != "GET":
            return super().send(method, path, **options)

        def reply() -> httpx.Response | None:
            self.check()
            with suppress(httpx.TransportError):
                reply = super(CeleryAirflow, self).send(method, path, **options)
                return reply if reply.status_code < 500 else None
            return None

        return wait_for(f"GET {path}", reply, timeout=WAIT, interval=self.POLL)
