"""A real Airflow in a separate directory: its components and PostgreSQL."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg2

from tests.live.environment import ROOT, environment
from tests.live.forked_airflow import ForkedProcess, ForkServer
from tests.live.postgres import PostgresServer
from tests.live.process import WAIT, NotReadyError, Process, free_port, running
from tests.live.rest import AirflowApi

EXECUTORS = {"local": "tests.live.executor.LiveExecutor", "isolated": "tests.live.executor.IsolatedExecutor"}


class LiveAirflow(AirflowApi):
    """
    A running Airflow, and its REST API as an administrator.

    Entering the context starts everything and waits until it is healthy; leaving it, in whatever way, ends every
    process, including those of running tasks. :class:`tests.live.cluster.CeleryAirflow` has several machines.

    :param home: Becomes AIRFLOW_HOME; its logs and settings are kept there.
    :param dags: The folder with the DAGs.
    :param env: More environment variables for all components, such as ``AIRFLOW_CONN_…``.
    :param roles: More users and their roles (``viewer``, ``user`` or ``op``), with the administrator's password.
    :param executor: ``local``: tasks are forked, like the components; ``isolated``: every task runs as in a pod, in a
        new process with an empty home and without Airflow's database.
    """

    # Each component, and its command line.
    COMPONENTS: Mapping[str, tuple[str, ...]] = {
        "api-server": ("api-server", "--workers", "1"),
        "scheduler": ("scheduler", "--skip-serve-logs"),
        "dag-processor": ("dag-processor",),
        "triggerer": ("triggerer", "--skip-serve-logs"),
    }

    def __init__(
        self,
        home: Path,
        dags: Path,
        env: Mapping[str, str] | None = None,
        roles: Mapping[str, str] | None = None,
        *,
        executor: str = "local",
    ) -> None:
        self.home, self.dags, self.executor = home.resolve(), dags.resolve(), executor
        # On a busy machine SQLite answers "database is locked" to a component now and then.
        self.database = PostgresServer()
        self.port = free_port()
        super().__init__(f"http://127.0.0.1:{self.port}", "admin", secrets.token_urlsafe(12))
        self.roles = {self.user: "admin", **(roles or {})}
        self.env = environment(self.home, self.settings()) | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),  # for the executor
            "PYTHONUNBUFFERED": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "ASSISTANT_TEST_ISOLATED": str(self.home / "tasks"),
            **(env or {}),
        }
        self.components: dict[str, Process] = {}
        self._stack = ExitStack()

    def settings(self) -> dict[str, object]:
        """Return Airflow's configuration, which ``env`` can change."""
        return {
            "CORE__LOAD_EXAMPLES": False,
            "CORE__DAGS_FOLDER": self.dags,
            "CORE__EXECUTOR": EXECUTORS.get(self.executor, self.executor),
            # The name of a custom executor does not say that its tasks run on this machine.
            "ASSISTANT__LEDGER_FILE_IS_SHARED": self.executor in EXECUTORS,
            "CORE__PARALLELISM": 4,
            "CORE__EXECUTION_API_SERVER_URL": f"{self.base_url}/execution/",
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__TEST_CONNECTION": "Enabled",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in self.roles.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": self._passwords,
            "API__HOST": "127.0.0.1",
            "API__PORT": self.port,
            "API__BASE_URL": self.base_url,
            "API__SECRET_KEY": secrets.token_urlsafe(32),
            "API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
            "DATABASE__SQL_ALCHEMY_CONN": self.database.url,
            "LOGGING__BASE_LOG_FOLDER": self.home / "logs",
            "USAGE_DATA_COLLECTION__ENABLED": False,
            # Everything below makes a small Airflow answer fast.
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.2,
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1,
            "SCHEDULER__JOB_HEARTBEAT_SEC": 1,
            "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": 2,
            # Seconds after which the end of a worker is noticed at the latest.
            "WORKERS__MIN_HEARTBEAT_INTERVAL": 1,
            # On a busy machine, the API server needs longer than the default of 5 s; a task would end with SIGKILL.
            "WORKERS__EXECUTION_API_TIMEOUT": 30,
            "DAG_PROCESSOR__PARSING_PROCESSES": 1,
            "DAG_PROCESSOR__REFRESH_INTERVAL": 5,
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 5,
            "TRIGGERER__JOB_HEARTBEAT_SEC": 1,
            # Seconds after which the triggers of a killed triggerer move to another one.
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": 6,
        }

    @property
    def _passwords(self) -> Path:
        return self.home / "passwords.json"

    # -- life --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.start_all(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_all(self, stack: ExitStack) -> None:
        """Create the database, start the components, wait until they are healthy; the stack ends them."""
        stack.callback(self.close)
        stack.enter_context(self.database)
        self.home.mkdir(parents=True, exist_ok=True)
        self._passwords.touch(mode=0o600)
        self._passwords.write_text(json.dumps(dict.fromkeys(self.roles, self.password)))
        command, log = [sys.executable, "-m", "tests.live.forked_airflow"], self.log_path("fork-server")
        self._forks = ForkServer("fork-server", command, env=self.env, cwd=self.home, log=log, pipes=True)
        stack.enter_context(running([self._forks]))
        self.prepare()
        self.components = {name: self.component(name, *command) for name, command in self.COMPONENTS.items()}
        # The fork server ends what it has forked, all at the same time.
        plain = [process for process in self.components.values() if not isinstance(process, ForkedProcess)]
        stack.enter_context(running(plain))
        for process in self.components.values():
            process.start()
        self.wait_ready()

    def component(self, name: str, *arguments: str) -> Process:
        """Return the process of a command of Airflow, to be started."""
        return ForkedProcess(name, arguments, self._forks, self.log_path(name))

    def prepare(self) -> None:
        """Create the tables."""
        self.component("migrate", "db", "migrate").run(timeout=WAIT)

    def check(self) -> None:
        """Raise, with the end of its log, if a component has ended by itself."""
        for component in self.components.values():
            component.check()

    def log_path(self, component: str) -> Path:
        """Return the file with a component's output."""
        return self.home / "components" / f"{component}.log"

    # -- states ------------------------------------------------------------------------------------

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        """Return the state of a DAG run, if possible without the API server."""
        with suppress(psycopg2.OperationalError):
            return self._select("SELECT state FROM dag_run WHERE (dag_id, run_id) = (%s, %s)", dag_id, run_id)
        return super().run_state(dag_id, run_id)

    def task_state(self, dag_id: str, run_id: str, task_id: str) -> str | None:
        """Return the state of a task that is not mapped, if possible without the API server."""
        query = "SELECT state FROM task_instance WHERE (dag_id, run_id, task_id) = (%s, %s, %s)"
        # In Airflow 3.4, the column has another name.
        with suppress(psycopg2.OperationalError, psycopg2.errors.UndefinedColumn):
            return self._select(query, dag_id, run_id, task_id)
        return super().task_state(dag_id, run_id, task_id)

    def _select(self, query: str, *values: Any) -> Any:
        """Return a value from Airflow's database. The API takes ten times as long, and tests ask often."""
        url = self.env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            row = cursor.fetchone()
        return row and row[0]

    # -- accidents ---------------------------------------------------------------------------------

    def kill_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Kill the process of a running task with SIGKILL."""
        task = self.task_instance(dag_id, run_id, task_id)
        if task["pid"] not in [process.pid for process in self.components["scheduler"].tree()]:
            raise NotReadyError(f"{task_id} has no process: {task['state']}")
        psutil.Process(task["pid"]).send_signal(signal.SIGKILL)
