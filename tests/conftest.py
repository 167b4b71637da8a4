"""A separate Airflow installation for the tests, and the embedded service to test against."""

from __future__ import annotations

import atexit
import dataclasses
import gc
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import sqlalchemy as sa
from hypothesis.internal.conjecture import providers
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from airflow_provider_assistant.sandbox.messages import Key
from airflow_provider_assistant.sandbox.store import Chat, Document, Session
from tests.judge import Judge
from tests.live.environment import environment
from tests.task_runs import BUNDLE

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox import SandboxServer
    from airflow_provider_assistant.sandbox.faults import Entry

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


pytest_plugins = ["tests.task_runs.fixtures"]

HOME = Path(tempfile.mkdtemp(prefix="assistant-tests-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
(HOME / "dags").mkdir()
# Airflow reads its environment at import time, so this is not in a fixture.
ENVIRONMENT = environment(
    HOME,
    {
        "CORE__UNIT_TEST_MODE": True,
        "CORE__LOAD_EXAMPLES": False,
        "CORE__DAGS_FOLDER": HOME / "dags",
        # dag.test() deletes what it knows of bundles that are not configured.
        "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
            [{"name": BUNDLE, "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}]
        ),
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
        "LOGGING__BASE_LOG_FOLDER": HOME / "logs",
    },
)
os.environ.clear()
os.environ.update(ENVIRONMENT)

CANARY = "canary-7f3a9c51d2e84b06"


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let triggers send their event at once: no scheduler has to see that the task was deferred."""
    monkeypatch.setattr("airflow_provider_assistant.triggers.events.SETTLING_SECONDS", 0.0)


class RunningService:
    """The embedded service on a TCP port, with helpers for tests."""

    def __init__(self, server: SandboxServer) -> None:
        self.server = server
        self.url = server.url

    def reset(self) -> None:
        self.server.service.reset()

    def behave(self, **changes: Any) -> None:
        """Change the settings that can change at run time, the status words or the rules."""
        self.server.service.update(**changes)

    def answer(self, action: str, **match: Any) -> None:
        """Add a fault, by default for the next request; ``match`` is what the service's ``add`` takes."""
        self.server.service.faults.add(action, **match)

    def journal(self, method: str | None = None, path: str | None = None) -> list[Entry]:
        return self.server.service.journal.entries(method=method, path=path)

    def seen(self) -> list[tuple[str, str]]:
        return [(entry.method, entry.path) for entry in self.journal()]

    def posts(self, path: str | None = None) -> int:
        return len(self.journal("POST", path))

    def documents(self, site: str | None = None) -> list[dict[str, Any]]:
        return self.rows(Document, *([site] if site else []))

    def rows(self, kind: type[Any], *sites: str) -> list[dict[str, Any]]:
        """Return the stored records of a type, such as ``store.Chat``, oldest first."""
        return [dataclasses.asdict(one) for one in self.server.service.store.all(kind, *sites)]

    def chats(self) -> list[dict[str, Any]]:
        """Return the chat requests, each with its status now."""
        self.server.service.pending()  # ends those whose time is over
        rows = self.rows(Chat)
        for row in rows:
            ended = "failed" if row["answer"] is None else "completed"
            row["status"] = "pending" if row["ended_at"] is None else ended
        return rows

    def sessions(self) -> list[dict[str, Any]]:
        return self.rows(Session)

    def ratings(self) -> dict[str, str]:
        """Return the rating of each rated chat request, in the order of the requests."""
        return {chat["id"]: chat["rating"] for chat in self.rows(Chat) if chat["rating"]}


def pytest_sessionfinish() -> None:
    """Let pytest and Python search nothing for garbage at the end: it takes seconds each time."""
    gc.freeze()


@pytest.fixture(scope="session")
def _server() -> Iterator[RunningService]:
    from airflow_provider_assistant.sandbox import SandboxServer

    with SandboxServer() as server:
        yield RunningService(server)


@pytest.fixture
def service(_server: RunningService) -> RunningService:
    """The embedded service in its initial state."""
    _server.reset()
    return _server


@pytest.fixture(scope="session", autouse=True)
def _cheap_engines() -> None:
    """SQLAlchemy compiles each statement again for each new engine. Let all engines of SQLite share the results."""
    results = LRUCache(2000)
    SQLiteDialect_pysqlite.__eq__ = lambda one, other: type(one) is type(other)
    SQLiteDialect_pysqlite.__hash__ = lambda one: hash(type(one))

    @sa.event.listens_for(sa.Engine, "engine_connect")
    def _(connection: sa.Connection) -> None:
        if isinstance(connection.dialect, SQLiteDialect_pysqlite):
            connection.engine._compiled_cache = results


@pytest.fixture(scope="session", autouse=True)
def _cheap_ledgers() -> None:
    """SQLAlchemy compiles the statements that create a ledger, which takes two thirds of the time of a new one."""
    from airflow_provider_assistant.ledger.schema import metadata

    create_all, known = metadata.create_all, dict[str, list[str]]()

    def compiled(bind: sa.Connection) -> list[str]:
        statements: list[str] = []
        note = sa.create_mock_engine(
            bind.engine.url, lambda ddl, *_: statements.append(str(ddl.compile(dialect=bind.dialect)))
        )
        create_all(note, checkfirst=False)
        return statements

    def remembered(bind: Any, checkfirst: bool = True) -> None:
        # A process that was killed may have created some of the tables.
        is_new = isinstance(bind, sa.Connection) and not sa.inspect(bind).get_table_names()
        if not is_new:
            create_all(bind, checkfirst=checkfirst)
            return
        name = bind.dialect.name
        known[name] = known.get(name) or compiled(bind)
        for statement in known[name]:
            bind.exec_driver_sql(statement)

    metadata.create_all = remembered


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
def judge() -> Iterator[Judge]:
    """A model's host that judges answers."""
    pytest.importorskip("airflow.providers.common.ai")
    with Judge() as judge:
        yield judge


@pytest.fixture
def connect(service: RunningService, ledger_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Point ``assistant_default`` at the service; by default without in-process retries."""

    def open_hook(*, conn_id: str = "assistant_default", **fields: Any) -> None:
        connection = service.server.conn_json(**{"retries": 0, "service_name": None, **fields})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", connection)

    return open_hook


@pytest.fixture
def connection(connect: Callable[..., None]) -> Callable[..., None]:
    connect()
    return connect


@pytest.fixture
def canary(connect: Callable[..., None], service: RunningService, monkeypatch: pytest.MonkeyPatch) -> str:
    """Connect with a valid key that must not appear in any output."""
    monkeypatch.setitem(service.server.service.keys, CANARY, Key(CANARY, "canary"))
    connect(key=CANARY)
    return CANARY
