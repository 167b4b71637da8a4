"""
A month of statistics and evaluations for the demo, based on real answers of the embedded service.

Run as ``python -m tests.live.history LAKE``. It writes the statistics that the nightly export would have written on
each day, from those that the demo's service generates. Then it starts another embedded service, in memory, with part of
the demo's documents. For every day before today it adds a seeded choice of the missing documents, asks the golden set,
and evaluates the answers as the task ``evaluate`` of ``assistant_evaluation`` does.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import sys
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from airflow_provider_assistant import lake
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.evaluate import summarise
from airflow_provider_assistant.evaluation.excerpts import rows_of
from airflow_provider_assistant.evaluation.rules import parse_condition, parse_rule
from airflow_provider_assistant.evaluation.run_directory import RunDirectory, find_baseline
from airflow_provider_assistant.evaluation.scorers import scorers_of
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.tenants import DEFAULT_KEY, DEFAULT_SITE, KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DAGS = Path(__file__).parents[2] / "dags"
EXPORT_DAG = "assistant_nightly_export"
DAYS = 29
SEED = 20261121
# Share of the documents that the service has on the first day.
FIRST = 0.7
FAILED = 0.005
# Seconds of processing, as in the demo, and seconds spent waiting in the queue of a batch.
PROCESSING, WAITING = 4.0, 0.6


def documents() -> list[dict[str, Any]]:
    """Return the documents that ``assistant_knowledge_base`` loads."""
    found = runpy.run_path(str(DAGS / "assistant_knowledge_base.py"))
    rows = found["assistant_knowledge_base"]().get_task("read_configuration_reference").python_callable()
    options = [
        {"kind": "qa", "title": row["title"], "question": row["question"], "content": row["answer"]}
        for row in rows.to_dict("records")
    ]
    guides = [
        {"kind": "file", "title": path.name, "content": path.read_text(encoding="utf-8")}
        for path in sorted(found["GUIDES"].iterdir())
    ]
    return options + guides


def answers(days: Sequence[date], questions: list[dict[str, Any]]) -> Iterator[tuple[date, pa.Table]]:
    """Ask the questions for each day; the service has more documents every day."""
    dice = random.Random(SEED)
    service = Service(Settings())
    unknown = documents()
    dice.shuffle(unknown)
    known = 0
    for number, day in enumerate(days):
        share = FIRST + (1 - FIRST) * number / len(days)
        while known < share * len(unknown):
            document = unknown[known]
            size = len(document["content"].encode())
            service.documents.add(KEYS[DEFAULT_KEY], DEFAULT_SITE, **document, size=size, now=0.0)
            known += 1
        submitted_at = datetime.combine(day, time(0, 3), UTC)
        yield day, pa.Table.from_pylist([_asked(service, dice, row, submitted_at) for row in questions])


def _asked(service: Service, dice: random.Random, row: dict[str, Any], submitted_at: datetime) -> dict[str, Any]:
    session_id = f"{submitted_at:%Y-%m-%d}-{row['key']}"
    reply = service.assistant.reply(DEFAULT_SITE, session_id, row["message"], "en")
    failed = dice.random() < FAILED
    seconds = PROCESSING + dice.expovariate(1 / WAITING)
    return {
        **row,
        "answer": None if failed else reply.text,
        "status": "failed" if failed else "complete",
        "error": "answer_failed" if failed else None,
        "seconds": seconds,
        "session_id": session_id,
        "submitted_at": submitted_at,
    }


def evaluate(root: str, day: date, table: pa.Table, task: Any) -> None:
    """Evaluate one day's answers and write the files of the task, except the HTML page."""
    run = {
        "dag_id": task.dag_id,
        "run_id": f"generated__{day}",
        "task_id": task.task_id,
        "map_index": None,
        "logical_date": None,
        "run_after": datetime.combine(day, time(), UTC).isoformat(),
    }
    place = RunDirectory.of(f"{root}/evaluation", task.name, datetime.combine(day, time(), UTC), run["run_id"])
    scorers = scorers_of(task.scorers)
    names = [scorer.name for scorer in scorers]
    cases = read_cases(table)
    scores = score_cases(cases, scorers)
    summary = summarise(
        cases,
        scores,
        scorers,
        name=task.name,
        run=run,
        tag="generated",
        pass_if=parse_condition(task.pass_if, names),
        rules=[parse_rule(rule, names) for rule in task.gate],
        on_fail=task.on_fail,
        baseline=find_baseline(place, task.baseline),
    )
    place.folder.mkdir(parents=True, exist_ok=True)
    lake.replace(scores, place.scores)
    rows = lake.rows_table(lake.EVALUATIONS, rows_of(summary, str(place.summary), None))
    lake.publish(rows, root, "evaluations", day, f"{task.dag_id}.{task.task_id}.{run['run_id']}")
    lake.replace_bytes(summary.as_json(), place.summary)


def export(root: str, today: date) -> None:
    """Write the statistics of every day before today as the task ``export_statistics`` does."""
    hook = AssistantHook()
    reply = json.loads(hook.get_statistics().raw_json or "{}")
    history: dict[str, dict[str, Any]] = reply.pop("daily")
    for name, statistics in history.items():
        day = date.fromisoformat(name)
        if day >= today:
            continue
        moment = datetime.combine(day, time(23, 59), UTC)
        raw = json.dumps({**reply, **statistics})
        capture = lake.Capture(captured_at=moment, raw=raw, **hook.site().columns())
        table = lake.metrics_table(lake.STATISTICS, [capture])
        part = f"{EXPORT_DAG}.export_statistics.generated__{day}"
        lake.publish(table, root, "statistics", day, part, provenance={"dag_id": EXPORT_DAG})


def main(root: str) -> None:
    """Write the statistics and evaluations of the month before today."""
    today = datetime.now(UTC).date()
    export(root, today)
    found = runpy.run_path(str(DAGS / "assistant_evaluation.py"))
    task = found["assistant_evaluation"]().get_task("evaluate")
    days = [today - timedelta(days=back) for back in range(DAYS, 0, -1)]
    for day, table in answers(days, pyarrow.csv.read_csv(found["GOLDEN_SET"]).to_pylist()):
        evaluate(root, day, table, task)


if __name__ == "__main__":
    os.nice(10)  # give priority to Airflow's processes, which the demo waits for
    main(sys.argv[1])
