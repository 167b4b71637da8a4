"""
Processes that are really killed, and a ledger whose server really stops.

The simulated nights in tests/simulate have every kind of kill. These few tests show that a real process, a real
SQLite or PostgreSQL and a real connection behave as simulated.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import airflow.configuration
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.lake.postgres import load as load_tables
from airflow_provider_assistant.lake.warehouse import days_to_load
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.store import Chat, Document
from tests.live.postgres import PostgresServer
from tests.live.process import wait_for
from tests.processes import preload, processes
from tests.task_runs.context import task_context
from tests.unit.lake.nights import FIRST, write_statistics

preload(
    __name__,
    "aiohttp",
    "psycopg2",
    "airflow_provider_assistant.asking.batch",
    "airflow_provider_assistant.client.worker_pool",
    "airflow_provider_assistant.loading.load",
    "airflow_provider_assistant.sending.sender",
)
pytestmark = pytest.mark.system
COUNT, CONCURRENCY, KILLED_AFTER = 200, 16, 80


def run_task(home: Path, environment: dict[str, str], kind: str, options: dict[str, Any], pipe: Any) -> None:
    """Run a task in this process, and send its result, or its error."""
    airflow.configuration.AIRFLOW_HOME = str(home)
    os.environ.update(environment)
    if "ATTEMPTS" in environment:
        from airflow_provider_assistant.ledger import database

        database.ATTEMPTS = int(environment["ATTEMPTS"])
    run_id = options.pop("run_id", "run")
    make: Any = {"load": AssistantLoadQAOperator, "ask": AssistantChatBatchOperator}[kind]
    task = make(task_id="task", **options)
    task.render_template_fields({})
    signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    try:
        result = task.execute(task_context("task", run_id=run_id, max_tries=3))
    except BaseException as error:  # noqa: BLE001 (the parent judges)
        pipe.send((None, f"{type(error).__name__}: {error}", traceback.format_exc()))
    else:
        pipe.send((result, None, ""))


class Task:
    """A task in a separate process."""

    def __init__(self, case: Case, kind: str, environment: dict[str, str], options: dict[str, Any]) -> None:
        self._mine, theirs = processes.Pipe()
        arguments = (case.home, {**case.environment, **environment}, kind, options, theirs)
        self._process = processes.Process(target=run_task, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal."""
        os.kill(self._process.pid, number)

    def wait(self) -> tuple[Any, str | None, str]:
        """Return the result, the error and its traceback; all are empty if the process was killed."""
        found: Any = (None, None, "")
        with contextlib.suppress(EOFError, ConnectionResetError):
            found = self._mine.recv()
        self._process.join(120)
        assert self._process.exitcode in {0, -signal.SIGKILL}
        return found


class Case:
    """The service, the ledger, and the tasks of one test."""

    def __init__(
        self, server: SandboxServer, home: Path, engine: sa.Engine | None, environment: dict[str, str]
    ) -> None:
        self.service = server.service
        self.home = home
        connection = server.conn_json(retries=3, timeout=60, max_concurrency=CONCURRENCY)
        self.environment = {"AIRFLOW_CONN_ASSISTANT_DEFAULT": connection, **environment}
        self._engine = engine or sa.create_engine(f"sqlite:///{home / 'assistant_ledger.db'}")

    def start(
        self, kind: str, numbers: range = range(COUNT), *, env: dict[str, str] | None = None, **options: Any
    ) -> Task:
        """Start a load, or a chat batch."""
        if kind == "load":
            source = [{"id": n, "title": f"T{n}", "question": f"Q{n}", "answer": "Because."} for n in numbers]
            options = {"findings_path": str(self.home / "findings.parquet"), "source_name": "source", **options}
        else:
            source = [{"id": n, "message": f"T{n}"} for n in numbers]
            options = {"output_path": str(self.home / "answers.parquet"), "poll_interval": 0.4, **options}
            options |= {"deferrable": False, "timeout": 60.0}
        return Task(self, kind, env or {}, {"source": source, "key_columns": ["id"], **options})

    def run(self, kind: str, numbers: range = range(COUNT), **options: Any) -> Any:
        """Run a task, and return its result."""
        result, _, trace = self.start(kind, numbers, **options).wait()
        assert result, trace
        return result

    def start_and_hold(self, kind: str, path: str, **options: Any) -> Task:
        """Start a task, and return while the service holds all of its requests but the first ones."""
        self.service.faults.add("hold", path=path, skip=KILLED_AFTER, times=None)
        task = self.start(kind, **options)
        wait_for("held requests", lambda: any(one.fault for one in self.service.journal.entries()), timeout=120)
        return task

    def release(self) -> None:
        """Let the service carry out what it holds."""
        self.service.faults.replace([])
        wait_for("the end of all requests", lambda: not self.service.in_flight, timeout=60)

    def stored(self) -> Counter[str]:
        """Return how often the service has each row or question."""
        documents = [one.title for one in self.service.store.all(Document)]
        return Counter(documents or [one.message for one in self.service.store.all(Chat)])

    def recorded(self, *states: str) -> set[str]:
        """Return the rows with an attempt of one of these states."""
        with self._engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT label, state FROM assistant_attempts").fetchall()
        return {f"T{label}" for label, state in rows if state in states}

    def listed(self, *kinds: str, name: str = "findings.parquet") -> set[str]:
        """Return the rows that findings list."""
        rows = pq.read_table(self.home / name).to_pylist() if (self.home / name).exists() else []
        return {f"T{row['key']}" for row in rows if row["kind"] in kinds}

    def twice(self) -> set[str]:
        """Return the rows that the service has twice."""
        return {title for title, times in self.stored().items() if times > 1}


ALL = {f"T{number}" for number in range(COUNT)}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    """A service, and a ledger in a file or on a server."""
    engine, environment = None, {"AIRFLOW__ASSISTANT__LEASE_SECONDS": "5"}
    if request.param == "PostgreSQL":
        server = request.getfixturevalue("postgres")
        engine = sa.create_engine(server.url, pool_pre_ping=True)
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        environment |= {"AIRFLOW__ASSISTANT__LEDGER_CONN_ID": "ledger", "AIRFLOW_CONN_LEDGER": server.airflow_url}
    # Slow enough for requests to overlap.
    with SandboxServer(allow_duplicates=True, latency=0.02, processing_seconds=0.1) as service:
        yield Case(service, tmp_path, engine, environment)
    if engine:
        engine.dispose()


on_postgres = pytest.mark.parametrize("case", ["PostgreSQL"], indirect=True)
on_sqlite = pytest.mark.parametrize("case", ["SQLite"], indirect=True)


@pytest.mark.promise("loads", "A load whose process is killed and retried creates every row, and lists its duplicates.")
def test_a_killed_load_is_completed(case: Case) -> None:
    task = case.start_and_hold("load", "/documents/")
    task.kill()
    task.wait()
    case.release()
    claimed, stored = case.recorded("claimed"), set(case.stored())
    assert 0 < len(claimed) <= CONCURRENCY
    assert case.recorded("created") <= stored <= case.recorded("created") | claimed
    result = case.run("load")
    assert set(case.stored()) == ALL
    assert case.twice() <= case.listed("possibly_duplicated") == claimed
    assert result["created"] + result["unchanged"] == COUNT
    again = case.run("load", range(5, COUNT), run_id="again")
    assert (again["created"], again["unchanged"], again["stale"]) == (0, COUNT - 5, 5)


@on_sqlite
def test_a_terminated_load_ends_within_the_grace_of_airflow(case: Case) -> None:
    task = case.start_and_hold("load", "/documents/")
    task.kill(signal.SIGTERM)
    began = time.monotonic()
    _, error, trace = task.wait()
    assert "a retry goes on" in (error or ""), trace
    assert time.monotonic() - began < 60
    case.release()
    case.run("load")
    assert set(case.stored()) == ALL
    assert case.twice() <= case.listed("possibly_duplicated")


@pytest.mark.promise("loads", "Two processes that load overlapping sources at the same time create no row twice.")
def test_two_processes_create_no_row_twice(case: Case) -> None:
    tasks = [
        case.start("load", numbers, run_id=run, findings_path=str(case.home / f"{run}.parquet"), allow_mass_change=True)
        for run, numbers in (("one", range(150)), ("other", range(50, COUNT)))
    ]
    results = [task.wait() for task in tasks]
    assert all(result for result, _, _ in results), [trace for _, _, trace in results]
    assert case.stored() == Counter(ALL)
    assert sum(result["created"] for result, _, _ in results) == COUNT


def test_another_run_takes_over_when_the_lease_of_a_killed_one_expires(case: Case) -> None:
    task = case.start_and_hold("load", "/documents/", run_id="killed")
    task.kill()
    task.wait()
    case.release()
    claimed = case.recorded("claimed")
    # Until then, a load fails because rows are left to the killed one.
    wait_for("the lease", lambda: case.start("load", run_id="other").wait()[0], timeout=120, interval=0.5)
    assert set(case.stored()) == ALL
    assert case.twice() <= claimed


@on_postgres
@pytest.mark.promise("ledger", "A load goes on when the server of its ledger restarts or crashes.")
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGQUIT])
def test_the_server_of_the_ledger_restarts(number: signal.Signals, case: Case, postgres: PostgresServer) -> None:
    task = case.start("load")
    wait_for("documents", lambda: len(case.stored()) >= 50, timeout=120, interval=0.01)
    postgres.stop(number)
    postgres.start()
    result, _, trace = task.wait()
    assert result, trace
    assert result["created"] == COUNT
    assert case.stored() == Counter(ALL)


@on_postgres
def test_the_server_of_the_ledger_is_down_for_long(case: Case, postgres: PostgresServer) -> None:
    task = case.start_and_hold("load", "/documents/", env={"ATTEMPTS": "2"})
    postgres.stop(signal.SIGQUIT)
    try:
        case.release()
        _, error, trace = task.wait()
    finally:
        postgres.start()
    assert (error or "").startswith("AssistantLedgerError: load of "), trace
    unrecorded = set(case.stored()) - case.recorded("created")
    assert unrecorded <= case.listed("ambiguous")
    assert len(unrecorded) <= CONCURRENCY
    case.run("load")
    assert set(case.stored()) == ALL


@on_sqlite
@pytest.mark.promise("chat", "A chat batch whose process is killed and retried asks nothing twice without listing it.")
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_killed_chat_batch_is_completed(mode: str, case: Case) -> None:
    task = case.start_and_hold("ask", r"/chat(/async)?$", mode=mode)
    task.kill()
    task.wait()
    case.release()
    result = case.run("ask", mode=mode)
    assert result["complete"] == result["submitted"] + result["reused"] == COUNT
    assert set(case.stored()) == ALL
    assert case.twice() <= case.listed("possibly_duplicated", name=".answers.findings.parquet")
    # In the mode sync, an answer that was not saved yet is lost with the process.
    assert len(case.twice()) <= (CONCURRENCY if mode == "async" else COUNT)
    assert not list(case.home.glob(".*.chat-batch"))


# -- the warehouse -------------------------------------------------------------------------------

DAYS = [FIRST + timedelta(days=number) for number in range(10)]
COUNTS = "SELECT date, min(value), count(*), count(DISTINCT metric) FROM assistant.statistics GROUP BY date"


def load_warehouse(place: str, root: str) -> None:
    """Load a lake into a warehouse."""
    load_tables(sa.create_engine(place), "assistant", root, days_to_load(root, ["statistics"]))


def run_loads(place: str, root: str, count: int, seconds: float, *, is_killed: bool) -> None:
    """Load in one or two processes at the same time, the first of which may be killed after some seconds."""
    loads = [processes.Process(target=load_warehouse, args=(place, root)) for _ in range(count)]
    for process in loads:
        process.start()
    loads[0].join(seconds)
    if loads[0].exitcode is None and is_killed:
        loads[0].kill()
    for process in loads:
        process.join(120)
    assert {process.exitcode for process in loads} <= {0, -signal.SIGKILL}


def counts_in(place: str) -> list[Any]:
    """Return what a reader sees of each day; nothing before the first load."""
    with contextlib.suppress(sa.exc.ProgrammingError):
        with sa.create_engine(place, poolclass=sa.NullPool).connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(COUNTS)]
    return []


@pytest.mark.promise(
    "lake and warehouse", "A load into a warehouse that is killed leaves each day the old or the new one."
)
@pytest.mark.parametrize("runs", [5, pytest.param(50, marks=pytest.mark.nightly)])
def test_killed_loads_into_a_warehouse(runs: int, tmp_path: Path, postgres: PostgresServer) -> None:
    dice, root = random.Random(runs), tmp_path / "lake"
    postgres.run_sql("DROP SCHEMA IF EXISTS assistant CASCADE")
    place = f"{postgres.url}?options=-c%20default_transaction_isolation%3Dserializable"
    # A version of a day has 50 to 90 metrics, all with the number of the version.
    versions: dict[Any, dict[int, int]] = {day: {} for day in DAYS}
    wrong, done = [], threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            for day, version, count, metrics in counts_in(place):
                if versions[day].get(version) != count or count != metrics:
                    wrong.append((day, version, count, metrics))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in range(runs):
            for day in dice.sample(DAYS, 4):
                versions[day][number] = dice.randrange(50, 90)
                metrics = {f"m{name}": number for name in range(versions[day][number])}
                write_statistics(root, day, metrics)
            run_loads(place, str(root), 1 + number % 2, dice.random(), is_killed=number % 4 != 3)
        load_warehouse(place, str(root))
    finally:
        done.set()
        reader.join()
    newest = {day: max(written.items()) for day, written in versions.items() if written}
    assert {day: (version, count) for day, version, count, _ in counts_in(place)} == newest
    assert not wrong
