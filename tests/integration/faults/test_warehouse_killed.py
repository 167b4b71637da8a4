"""Loads into a warehouse that are killed at any moment or run at once, while others read it."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from datetime import timedelta

import duckdb
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.lake import warehouse
from tests.live.postgres import PostgresServer
from tests.processes import preload, processes
from tests.unit.lake.nights import FIRST, capture, write_statistics

preload(__name__, "duckdb", "psycopg2", "airflow_provider_assistant.lake.warehouse")

DAYS = [FIRST + timedelta(days=number) for number in range(10)]
COUNTS = "SELECT date, min(value), count(*), count(DISTINCT metric) FROM assistant.statistics GROUP BY date"
RUNS = [pytest.param(5, id="some"), pytest.param(50, id="many", marks=pytest.mark.slow)]


def load(place: str, root: str) -> None:
    if place.startswith("postgresql"):
        transaction = warehouse.postgres_transaction(sa.create_engine(place))
    else:
        transaction = warehouse.duckdb_transaction(place, lock_timeout=120)
    with transaction as store:
        warehouse.load(store, root, ["statistics"])


class DuckDB:
    """A file; nobody can read it while a load has it open."""

    def __init__(self, folder):
        self.place = str(folder / "file.duckdb")

    def counts(self):
        with contextlib.suppress(duckdb.Error), duckdb.connect(self.place, read_only=True) as connection:
            return connection.execute(COUNTS).fetchall()
        return None

    def close(self):
        pass


class Postgres:
    """A server, with strict isolation by default."""

    def __init__(self, folder):
        self._server = PostgresServer().__enter__()
        self.place = f"{self._server.url}?options=-c%20default_transaction_isolation%3Dserializable"
        self._engine = sa.create_engine(self.place)

    def counts(self):
        with contextlib.suppress(sa.exc.ProgrammingError), self._engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(COUNTS)]
        return None

    def close(self):
        self._engine.dispose()
        self._server.close()


@pytest.mark.parametrize("kind", [DuckDB, Postgres])
@pytest.mark.parametrize("runs", RUNS)
def test_killed_and_concurrent_loads_leave_the_old_days_or_the_new_ones(kind, runs, tmp_path, measured):
    dice = random.Random(runs)
    root = tmp_path / "lake"
    database = kind(tmp_path)
    # A version of a day has 50 to 90 metrics, all with the number of the version.
    versions = {day: {} for day in DAYS}
    seen, wrong, done = Counter(), [], threading.Event()

    def look():
        while not done.wait(0.2):
            for day, version, count, metrics in database.counts() or ():
                seen["reads"] += 1
                if versions[day].get(version) != count or count != metrics:
                    wrong.append((day, version, count, metrics))

    reader = threading.Thread(target=look)
    reader.start()
    killed = 0
    try:
        for number in range(runs):
            for day in dice.sample(DAYS, 4):
                metrics = dice.randrange(50, 90)
                versions[day][number] = metrics
                write_statistics(root, day, capture(day, {f"m{name}": number for name in range(metrics)}))
            loads = [processes.Process(target=load, args=(database.place, str(root))) for _ in range(1 + number % 2)]
            for process in loads:
                process.start()
            loads[0].join(dice.random())
            if loads[0].exitcode is None and number % 4 != 3:
                loads[0].kill()
                killed += 1
            for process in loads:
                process.join(120)
            assert {process.exitcode for process in loads} <= {0, -9}
        last = processes.Process(target=load, args=(database.place, str(root)))
        last.start()
        last.join(120)
        assert last.exitcode == 0
    finally:
        done.set()
        reader.join()
        counts = database.counts()
        database.close()
    newest = {day: max(written.items()) for day, written in versions.items() if written}
    assert {day: (version, count) for day, version, count, _ in counts} == newest
    assert wrong == []
    measured(runs=runs, killed=killed, **seen)
