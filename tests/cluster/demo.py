"""
The demo of a Celery cluster: a load loses a worker, a chat batch loses its triggerer, and nothing is missing.

Run as ``python -m tests.cluster.demo``. It prints who did what, and ends with exit code 0 only if the counts at the
service are right.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tests.cluster import scenario
from tests.cluster.scenario import CONCURRENCY, NEVER, RATE_LIMIT, SOON, Cluster, Run
from tests.live.cluster import WORKERS
from tests.live.process import NotReadyError, processes_in
from tests.live.screen import Screen

ROOT = Path(__file__).parents[2]
SHARDS, ROWS, QUESTIONS = 8, 1000, 1000
MARK = "a-cluster"


class Demo:
    """One demo on one cluster."""

    def __init__(self, cluster: Cluster, screen: Screen) -> None:
        self.cluster = cluster
        self.screen = screen
        self.killed_shards: list[int] = []

    def run(self) -> list[str]:
        """Run the load and the batch, show who did what, and return what is wrong."""
        cluster, screen = self.cluster, self.screen
        cluster.service.faults(processing_seconds=NEVER)
        batch = cluster.batch("batch", QUESTIONS)
        screen.say(f"a chat batch of {QUESTIONS} questions: started", "bold")
        screen.say(f"{cluster.wait_deferred(batch)} has asked, {cluster.wait_triggerer(batch)} waits for the answers")
        load = cluster.load("load", shards=SHARDS, rows=ROWS)
        screen.say(f"a load of {SHARDS} shards with {ROWS} rows each: started", "bold")

        cluster.wait_documents(ROWS)
        self._kill_worker(load)
        self._kill_triggerer(batch)
        cluster.service.faults(processing_seconds=SOON)
        states = {run.dag_id: cluster.finish(run) for run in (load, batch)}
        for dag_id, state in states.items():
            screen.say(f"{dag_id}: {state}", "green" if state == "success" else "red")
        return [f"{dag_id}: {state}" for dag_id, state in states.items() if state != "success"] or self._show(
            load, batch
        )

    def _kill_worker(self, load: Run) -> None:
        victim = max(WORKERS, key=lambda name: len(self.cluster.running_on(load, name)))
        self.cluster.airflow.stop(victim, kill=True)
        self.killed_shards = self.cluster.running_on(load, victim)
        count = self.cluster.service.count_documents()
        shards = ", ".join(map(str, self.killed_shards))
        self.screen.say(f"SIGKILL of {victim} after {count} documents, in the middle of the shards {shards}", "yellow")

    def _kill_triggerer(self, batch: Run) -> None:
        victim = self.cluster.wait_triggerer(batch)
        self.cluster.airflow.stop(victim, kill=True)
        self.screen.say(f"SIGKILL of {victim}, which holds the batch", "yellow")
        other = self.cluster.wait_triggerer(batch, other_than=victim)
        self.screen.say(f"{other} holds the batch now")

    def _show(self, load: Run, batch: Run) -> list[str]:
        """Show who did what, and return the counts that are wrong."""
        cluster = self.cluster
        self.screen.show("Who did what")
        counted = ("created", "unchanged", "possibly_duplicated")
        self.screen.table(["task", "try", "machine", "state", "seconds", *counted], self._tries(load, batch, counted))
        titles, listed = cluster.titles(), cluster.listed(load)
        asked, answers = cluster.messages(batch), cluster.answers(batch)
        twice = {title for title, count in titles.items() if count > 1}
        complete = {answer["request_id"] for answer in answers if answer["status"] == "complete"}
        in_flight = len(self.killed_shards) * CONCURRENCY
        rows = [
            (
                "documents at the service, without duplicates",
                len(titles),
                f"{SHARDS * ROWS}",
                len(titles) == SHARDS * ROWS,
            ),
            (
                "documents that exist twice",
                titles.total() - len(titles),
                f"at most {in_flight}",
                titles.total() - len(titles) <= in_flight,
            ),
            ("of them not listed as possibly duplicated", len(twice - listed), "0", twice <= listed),
            ("listed as possibly duplicated", len(listed), f"at most {in_flight}", len(listed) <= in_flight),
            ("chat requests at the service", asked.total(), f"{QUESTIONS}", asked.total() == QUESTIONS),
            ("answers in the output", len(complete), f"{QUESTIONS}", len(complete) == QUESTIONS),
            ("ledgers on the machines' disks", len(cluster.local_ledgers()), "0", not cluster.local_ledgers()),
        ]
        self.screen.show("Counts")
        self.screen.table(["", "found", "expected"], [row[:3] for row in rows])
        self.screen.show("", f"Memory of all components: {cluster.airflow.memory() / 1e9:.2f} GB")
        return [f"{what}: {found}, expected {expected}" for what, found, expected, right in rows if not right]

    def _tries(self, load: Run, batch: Run, counted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        airflow = self.cluster.airflow
        for index, counts in enumerate(self.cluster.counts(load, SHARDS)):
            tries = airflow.tries(load.dag_id, load.run_id, "load", index)
            for found in tries:
                numbers = [counts[name] for name in counted] if found is tries[-1] else [""] * len(counted)
                yield (f"load shard {index}", *_facts(found), *numbers)
        for found in airflow.tries(batch.dag_id, batch.run_id, "ask"):
            yield ("ask", *_facts(found), *[""] * len(counted))


def _facts(found: dict[str, Any]) -> tuple[Any, ...]:
    duration = found["duration"]
    return found["try_number"], found["hostname"], found["state"], "" if duration is None else f"{duration:.1f}"


def demonstrate(home: Path, screen: Screen) -> int:
    """Start everything, run the demo and end every process; return 0 on success."""
    screen.say("PostgreSQL, Redis, S3, the service, two schedulers, two triggerers and two workers are starting")
    try:
        with screen.busy("starting"), scenario.running(home) as cluster:
            screen.hide(cluster.service.api_key)
            screen.say(f"Airflow: {cluster.airflow.base_url}; the service allows {RATE_LIMIT} requests a second")
            problems = Demo(cluster, screen).run()
            screen.say("ending every process")
    except (NotReadyError, FileNotFoundError) as error:
        problems = [str(error)]
    for problem in problems:
        screen.say(problem, "red")
    return int(bool(problems))


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 if the counts hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=ROOT / ".cluster", help="emptied, then written to")
    home = parser.parse_args(arguments).home.resolve()
    if home.exists() and any(home.iterdir()) and not (home / MARK).exists():
        parser.error(f"{home} is not empty and not from this demo")
    screen = Screen()
    if busy := processes_in(home):
        screen.say(f"{home} is in use by the processes {', '.join(str(process.pid) for process in busy)}", "red")
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / MARK).touch()
    try:
        return demonstrate(home, screen)
    except KeyboardInterrupt:
        return 130
    finally:
        screen.say("every process has ended")


if __name__ == "__main__":
    sys.exit(main())
