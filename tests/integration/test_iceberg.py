"""Loads into Iceberg tables that are killed at any moment, or run at the same time."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from airflow_provider_assistant.lake import iceberg
from tests.processes import preload, processes
from tests.unit.lake.nights import FIRST, rating, write_rows

preload(
    __name__,
    "airflow.assets.manager",
    "airflow.jobs.job",
    "airflow.serialization.serialized_objects",
    "pyarrow.acero",
    "pyiceberg.avro.decoder_fast",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "upath.implementations.local",
)
pytest.importorskip("pyiceberg")
DAYS = [FIRST + timedelta(days=number) for number in range(4)]


@dataclass
class Nights:
    """A lake whose days get new versions, and its table. The rows of a day say which version they are of."""

    folder: Path
    seen: dict[date, int] = field(default_factory=dict)
    written: dict[date, int] = field(default_factory=dict)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def catalog(self) -> Any:
        uri = f"sqlite:///{self.folder}/catalog.db"
        return iceberg.open_catalog("default", {"type": "sql", "uri": uri, "warehouse": f"file://{self.folder}/tables"})

    def load(self) -> iceberg.Loaded:
        return iceberg.load(self.catalog(), "assistant", str(self.lake), "feedback")

    def write(self, day: date) -> None:
        """Write the next version of a day, with as many rows as its number has bits."""
        version = self.written.get(day, 0) + 1
        write_rows(self.lake, "feedback", day, [rating(day, str(version))] * version.bit_count())
        self.written[day] = version

    def check(self) -> None:
        """Check that the table has one whole version of each day, and none that is older than one seen before."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            rows = self.catalog().load_table("assistant.feedback").scan().to_arrow()
        except NoSuchTableError:
            assert not self.seen
            return
        counts: dict[date, Counter[int]] = {}
        for row in rows.to_pylist():
            counts.setdefault(row["date"], Counter())[int(row["rating"])] += 1
        assert counts.keys() >= self.seen.keys()
        for day, versions in counts.items():
            [(version, count)] = versions.items()
            assert count == version.bit_count()
            assert self.seen.get(day, 0) <= version <= self.written[day]
            self.seen[day] = version


def killed_load(folder: Path, step: int) -> None:
    """Load, and kill this process at one of the steps: each new file, and the commits before and after them."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io.pyarrow import PyArrowFileIO

    steps = 0

    def killing(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            result = function(*arguments, **options)
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for owner, name in ((PyArrowFileIO, "new_output"), (SqlCatalog, "load_table"), (SqlCatalog, "commit_table")):
        setattr(owner, name, killing(getattr(owner, name)))
    Nights(folder).load()


def loads(folder: Path, count: int) -> None:
    for _ in range(count):
        Nights(folder).load()


@pytest.mark.promise("lake and warehouse", "A killed load into Iceberg leaves each day the old or the new one.")
@pytest.mark.parametrize("steps", [(2, 5, 8, 10), pytest.param(range(1, 15), marks=pytest.mark.nightly)])
def test_a_load_that_is_killed_leaves_the_old_days_or_the_new_ones(steps, tmp_path):
    nights = Nights(tmp_path)
    ends = []
    for number, step in enumerate(steps):
        for day in DAYS[: 1 + number % 4]:
            nights.write(day)
        process = processes.Process(target=killed_load, args=(tmp_path, step))
        process.start()
        process.join()
        ends.append(process.exitcode)
        nights.check()
        nights.load()
        nights.check()
        assert nights.seen == nights.written
    assert ends[:9] == [-signal.SIGKILL] * len(ends[:9])
    assert set(ends[9:]) <= {-signal.SIGKILL, 0}


def run_loads(nights: Nights, dice: Random, workers: int, writes: int, *, kills: int = 0) -> int:
    """Load in several processes while days get new versions and some of the processes are killed."""
    nights.write(FIRST)
    # pyiceberg does not create the tables of a new catalog in two processes at once.
    nights.catalog()
    running = [processes.Process(target=loads, args=(nights.folder, 3)) for _ in range(workers)]
    for process in running:
        process.start()
    killed = 0
    for number in range(writes):
        nights.write(dice.choice(DAYS))
        nights.check()
        if number < kills:
            time.sleep(dice.uniform(0, 0.5))
            victim = dice.choice(running)
            victim.kill()
            victim.join()
            killed += victim.exitcode == -signal.SIGKILL
            running.remove(victim)
            running.append(processes.Process(target=loads, args=(nights.folder, 3)))
            running[-1].start()
    for process in running:
        process.join()
        assert process.exitcode == 0
    nights.load()
    nights.check()
    assert nights.seen == nights.written
    assert not nights.load().days
    return killed


def test_loads_at_the_same_time_neither_double_nor_lose_rows(tmp_path):
    run_loads(Nights(tmp_path), Random(3), workers=3, writes=4)


@pytest.mark.nightly
def test_many_loads_are_killed_while_others_run(tmp_path):
    assert run_loads(Nights(tmp_path), Random(5), workers=3, writes=60, kills=50) > 30
