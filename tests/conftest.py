"""A separate Airflow installation for the tests, and the embedded service to test against."""

from __future__ import annotations

import atexit
import gc
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from tests import schedule, shortcuts
from tests.execution_api import in_process_api_server
from tests.live.clients import local_client
from tests.task_runs import Run, run_single

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_provider_assistant.sandbox import SandboxServer
    from airflow_provider_assistant.sandbox.journal import Entry

# Airflow makes a million long-lived objects. With Python's threshold of 700, looking for garbage among them takes
# six percent of the processor time of these tests.
gc.set_threshold(50_000, 20, 20)

# On a busy machine, an example may take any time. Every run has the same examples; make examples generates others.
hypothesis.settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Keep Hypothesis from drawing constants of all modules that are loaded: they depend on the tests before."""
    if not config.getoption("--hypothesis-profile"):
        providers._get_local_constants = lambda: providers._local_constants


BUNDLE = "tests"
# Airflow reads its environment at import time, so this is not in a fixture.
HOME = Path(tempfile.mkdtemp(prefix="assistant-tests-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
for name in [name for name in os.environ if name.startswith(("AIRFLOW", "_AIRFLOW"))]:
    del os.environ[name]
(HOME / "dags").mkdir()
os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__UNIT_TEST_MODE="True",
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(HOME / "dags"),
    # dag.test() deletes what it knows of bundles that are not configured.
    AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps(
        [{"name": BUNDLE, "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}]
    ),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME / 'airflow.db'}",
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=str(HOME / "logs"),
)

CANARY = "canary-7f3a9c51d2e84b06"


class RunningService:
    """The embedded service on a TCP port, with helpers for tests."""

    def __init__(self, server: SandboxServer) -> None:
        self.server = server
        self.url = server.url
        self._control = local_client(f"{server.root}/_sandbox/")

    def reset(self) -> None:
        self._control.post("reset").raise_for_status()

    def behave(self, **changes: Any) -> None:
        """Change the settings that can change at run time, the status words or the rules."""
        self._control.post("faults", json=changes).raise_for_status()

    def answer(self, action: str, **match: Any) -> None:
        """Add a fault, by default for the next request; ``match`` are fields of the service's ``Rule``."""
        self.server.service.faults.add(action, **match)

    def journal(self, method: str | None = None, path: str | None = None) -> list[Entry]:
        return self.server.service.journal.entries(method=method, path=path)

    def seen(self) -> list[tuple[str, str]]:
        return [(entry.method, entry.path) for entry in self.journal()]

    def posts(self, path: str | None = None) -> int:
        return len(self.journal("POST", path))

    def documents(self, site: str | None = None) -> list[dict[str, Any]]:
        return self._control.get("documents", params={"site": site} if site else {}).json()["documents"]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.server.service.database.rows(f"SELECT * FROM {table}")]

    def close(self) -> None:
        self._control.close()


@pytest.hookimpl(trylast=True)  # after the order is shuffled, if it is
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the groups of tests, so that several workers use the cores all the time."""
    groups = [schedule.group(item.nodeid) for item in items]
    places = schedule.places(groups)
    items.sort(key=lambda item: places[schedule.group(item.nodeid)])


def pytest_sessionfinish() -> None:
    """Let pytest and Python search nothing for garbage at the end: it takes seconds each time."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run each group of tests on one worker."""
    return schedule.scheduler(config, log)


@pytest.fixture(scope="session")
def _server() -> Iterator[RunningService]:
    from airflow_provider_assistant.sandbox import SandboxServer

    with SandboxServer() as server:
        running = RunningService(server)
        yield running
        running.close()


@pytest.fixture
def service(_server: RunningService) -> RunningService:
    """The embedded service in its initial state."""
    _server.reset()
    return _server


@pytest.fixture(scope="session", autouse=True)
def _cheap_ledgers() -> None:
    shortcuts.remember_tables()


@pytest.fixture
def same_day() -> None:
    """Wait for the next day if this one, in UTC, ends within a minute."""
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    if midnight - now < timedelta(minutes=1):
        time.sleep((midnight - now).total_seconds())


@pytest.fixture
def only_new_garbage() -> Iterator[None]:
    """Let the garbage collector ignore all objects that exist before the test: Airflow's take it a second each time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def ledger_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate folder for this test's default ledger."""
    import airflow.configuration

    home = tmp_path / "airflow-home"
    home.mkdir()
    monkeypatch.setattr(airflow.configuration, "AIRFLOW_HOME", str(home))
    return home


@pytest.fixture
def connect(service: RunningService, ledger_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Point ``assistant_default`` at the service; by default without in-process retries."""

    def open_hook(*, conn_id: str = "assistant_default", **fields: Any) -> None:
        connection = service.server.conn_json(**{"retries": 0, **fields})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", connection)

    return open_hook


@pytest.fixture
def connection(connect: Callable[..., None]) -> Callable[..., None]:
    connect()
    return connect


@pytest.fixture
def canary(connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> str:
    """Connect with a valid key that must not appear in any output."""
    from airflow_provider_assistant.sandbox.tenants import ACME, BUSINESS, KEYS, Key

    monkeypatch.setitem(KEYS, CANARY, Key(CANARY, "canary", ACME, BUSINESS))
    connect(key=CANARY)
    return CANARY


@pytest.fixture(scope="session")
def _cheap_tasks() -> None:
    shortcuts.remember_validators()


@pytest.fixture(scope="session")
def _airflow_database(_cheap_tasks: None) -> None:
    from airflow import settings
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.sdk.execution_time import supervisor
    from airflow.utils.db import initdb

    settings.initialize()
    initdb()
    DagBundlesManager().sync_bundles_to_db()
    # Without this, dag.test() creates Airflow's API for every task, which takes longer than most of these tests.
    supervisor.in_process_api_server = in_process_api_server
    shortcuts.remember_dependants()


@contextmanager
def _errors_of_tasks() -> Iterator[list[BaseException]]:
    """Collect the errors of tasks; before Airflow 3.3, dag.test() does not pass them to failure callbacks."""
    from airflow.sdk.execution_time import supervisor

    errors: list[BaseException] = []

    def run_and_note(**arguments: Any) -> Any:
        result = run(**arguments)
        if result.error:
            errors.append(result.error)
        return result

    with pytest.MonkeyPatch.context() as patch:
        run = supervisor.run_task_in_process
        patch.setattr(supervisor, "run_task_in_process", run_and_note)
        yield errors


@pytest.fixture
def run_dag(_airflow_database: None) -> Callable[..., Run]:
    """Run a DAG with Airflow's own ``dag.test()``."""

    def run(dag: DAG, **options: Any) -> Run:
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.serialization.serialized_objects import LazyDeserializedDAG
        from airflow.utils.session import create_session

        from tests.versions import DagSerialization, SerializedDAG

        with create_session() as session:
            SerializedDAG.bulk_write_to_db(BUNDLE, None, [dag], session=session)
            serialized = LazyDeserializedDAG(data=DagSerialization.to_dict(dag))
            SerializedDagModel.write_dag(serialized, BUNDLE, session=session)
        with _errors_of_tasks() as errors:
            ran = dag.test(**options)
        instances = {(ti.task_id, ti.map_index): (str(ti.state), ti.try_number) for ti in ran.get_task_instances()}
        return Run(dag.dag_id, ran.run_id, str(ran.state), instances, errors)

    return run


@pytest.fixture
def run_operator(
    _cheap_tasks: None, run_stored: Callable[..., Run], request: pytest.FixtureRequest
) -> Callable[..., Run]:
    """
    Run one operator with Airflow's API in memory, or the tasks that a function builds with ``dag.test()``.

    Each runs in a DAG of its own. Airflow's retries do not wait.
    """
    counter = itertools.count(1)

    def run(operator: Any, **arguments: Any) -> Run:
        if isinstance(operator, type):
            return _run_dag_of(run_single, operator, _dag_id(request, next(counter)), **arguments)
        return run_stored(operator, **arguments)

    return run


@pytest.fixture
def run_stored(request: pytest.FixtureRequest) -> Callable[..., Run]:
    """The same with ``dag.test()``, for tests that look into Airflow's database."""
    counter = itertools.count(1)

    def run(operator: Any, **arguments: Any) -> Run:
        run_dag = request.getfixturevalue("run_dag")
        return _run_dag_of(run_dag, operator, _dag_id(request, f"stored.{next(counter)}"), **arguments)

    return run


def _dag_id(request: pytest.FixtureRequest, count: int | str) -> str:
    name = request.node.name.translate(str.maketrans("[]", "__"))[:200]
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in f"{name}.{count}")


def _run_dag_of(
    run: Callable[..., Run],
    operator: Any,
    dag_id: str,
    *,
    dag_options: dict[str, Any] | None = None,
    run_options: dict[str, Any] | None = None,
    **arguments: Any,
) -> Run:
    from airflow.sdk import DAG

    with DAG(dag_id, schedule=None, default_args={"retry_delay": timedelta(0)}, **(dag_options or {})) as dag:
        if isinstance(operator, type):
            # Airflow stores every key of a result separately, which takes 20 ms of processor time per key.
            operator(task_id="task", **{"multiple_outputs": False, **arguments})
        else:
            operator()
    return run(dag, **(run_options or {}))


@pytest.fixture
def ran(run_operator: Callable[..., Run]) -> Callable[..., tuple[Run, Any]]:
    """Run an operator that succeeds; return the run and the final state of the task."""

    def run(kind: type, **arguments: Any) -> tuple[Run, Any]:
        ended: list[Any] = []
        done = run_operator(kind, on_success_callback=lambda context: ended.append(context["task"]), **arguments)
        assert done.state == "success", done.errors
        return done, ended[0]

    return run
