"""A real Airflow in a separate directory: four components, PostgreSQL, LocalExecutor."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil
import psycopg2

from tests.live.environment import ROOT, environment
from tests.live.fork_server import ForkedProcess, ForkServer
from tests.live.postgres import PostgresServer
from tests.live.process import WAIT, NotReadyError, Process, free_port, running
from tests.live.rest import AirflowApi

if TYPE_CHECKING:
    from collections.abc import Mapping


class LiveAirflow(AirflowApi):
    """
    A running Airflow, and its REST API as an administrator.

    Entering the context starts everything and waits until it is healthy; leaving it, in whatever way, ends every
    process, those of running tasks too. Subclasses are other deployments: see ``isolated.py`` and ``cluster.py``.

    The components are forked from one process that has imported Airflow, which saves 3 s of processor time for each.
    Their execution API has only its newest version.

    :param home: becomes AIRFLOW_HOME; its logs and settings are kept there
    :param dags: the folder with the DAGs
    :param env: more environment variables for all components, e.g. ``AIRFLOW_CONN_…``
    :param roles: more users and their roles: ``viewer``, ``user`` or ``op``; their password is that of the
        administrator
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
    ) -> None:
        self.home = home.resolve()
        self.dags = dags.resolve()
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
            **(env or {}),
        }
        self.components: dict[str, Process] = {}
        self._stack = ExitStack()

    def settings(self) -> dict[str, object]:
        """Return Airflow's configuration, which the environment of a test can change."""
        return {
            "CORE__LOAD_EXAMPLES": False,
            "CORE__DAGS_FOLDER": self.dags,
            "CORE__EXECUTOR": "tests.live.executor.LiveExecutor",
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

    def environment_of(self, component: str) -> dict[str, str]:
        """Return the environment of one component. If it is not that of all, the component is started, not forked."""
        return self.env

    @property
    def _passwords(self) -> Path:
        return self.home / "passwords.json"

    # -- life --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start everything, and wait until it is healthy."""
        with ExitStack() as stack:
            self.start_all(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End every process."""
        self._stack.close()

    def start_all(self, stack: ExitStack) -> None:
        """Create the database, start the components, wait until they are healthy; the stack ends them."""
        stack.callback(self.close)
        stack.enter_context(self.database)
        preloaded = [sys.executable, "-m", "tests.live.forked_airflow"]
        log = self.log_path("fork-server")
        self._forks = stack.enter_context(ForkServer(preloaded, env=self.env, cwd=self.home, log=log))
        self.prepare()
        self.components = {name: self.process(name, *command) for name, command in self.COMPONENTS.items()}
        stack.enter_context(running(list(self.components.values())))
        self.wait_ready()

    def process(self, name: str, *arguments: str) -> Process:
        """Return the process of a command of Airflow, to be started."""
        log = self.log_path(name)
        env = self.environment_of(name)
        if env is self.env:
            return ForkedProcess(name, arguments, self._forks, log)
        command = [sys.executable, "-m", "airflow", *arguments]
        return Process(name, command, env=env, cwd=self.home, log=log)

    def prepare(self) -> None:
        """Create the users and the tables."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._passwords.touch(mode=0o600)
        self._passwords.write_text(json.dumps(dict.fromkeys(self.roles, self.password)))
        self.process("migrate", "db", "migrate").run(timeout=WAIT)

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

    def task_state(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str | None:
        """Return the state of one task instance, if possible without the API server."""
        query = "SELECT state FROM task_instance WHERE (dag_id, run_id, task_id, map_index) = (%s, %s, %s, %s)"
        # In Airflow 3.4, the column has another name.
        with suppress(psycopg2.OperationalError, psycopg2.errors.UndefinedColumn):
            return self._select(query, dag_id, run_id, task_id, map_index)
        return super().task_state(dag_id, run_id, task_id, map_index)

    def _select(self, query: str, *values: Any) -> Any:
        """Return a value from Airflow's database. The API takes ten times as long, and tests ask often."""
        url = self.env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            row = cursor.fetchone()
        return row and row[0]

    # -- accidents ---------------------------------------------------------------------------------

    def stop(self, component: str, *, kill: bool = False) -> None:
        """Stop one component, with SIGTERM or SIGKILL."""
        self.components[component].stop(kill=kill)

    def start(self, component: str) -> None:
        """Start a component that was stopped."""
        self.components[component].start()

    def restart(self, component: str, *, kill: bool = False) -> None:
        """Stop one component, with SIGTERM or SIGKILL, and start it again."""
        self.stop(component, kill=kill)
        self.start(component)

    def kill_task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> None:
        """Kill the process of a running task with SIGKILL."""
        task = self.task_instance(dag_id, run_id, task_id, map_index)
        pids = [process.pid for process in self.components["scheduler"].tree()]
        if task["pid"] not in pids:
            raise NotReadyError(f"{task_id} has no process: {task['state']}")
        psutil.Process(task["pid"]).send_signal(signal.SIGKILL)
