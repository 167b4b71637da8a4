"""A lake of some nights and sites, for the tests of dbt/."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from airflow_provider_assistant import lake

FIRST = date(2026, 11, 14)  # a Saturday, so that the nights span three weeks
NIGHTS = [FIRST + timedelta(days=number) for number in range(12)]
SCOPES = [
    {"service": "live", "tenant_id": "acme", "site_id": "docs"},
    {"service": "live", "tenant_id": "acme", "site_id": "shop"},
    {"service": "live", "tenant_id": None, "site_id": "docs"},
    {"service": "staging", "tenant_id": "acme", "site_id": "docs"},
]
TASK = {"dag_id": "nightly", "run_id": "r", "task_id": "t", "map_index": -1}
# Names that a database may mishandle.
ODD = {
    "answered%": 0.5,
    'say "it\'s"': 1,
    "Total": 2,
    "total": 3,
    "date": 4,
    "null": 8,
    "true": 9,
    "größe." + "x" * 70: 5,
    "{{ a }}": 6,
}
STATES = ("complete", "complete", "complete", "failed", "lost", "open")


def write(root: Path, *, seed: int = 5, nights: Iterable[date] = NIGHTS, more: dict[str, Any] | None = None) -> None:
    """
    Write all datasets of some nights.

    :param seed: Another seed writes other values into the same rows.
    :param more: More metrics of the statistics.
    """
    dice = random.Random(seed)
    for day in nights:
        noon = datetime.combine(day, time(12), UTC)
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in lake.DATASETS}
        for number, scope in enumerate(SCOPES):
            _add(rows, {**scope, **TASK}, f"{day}-{number}", noon, dice)
        tables = _captured(noon, dice, more or {})
        for name, dataset in lake.DATASETS.items():
            table = tables.get(name) or lake.rows_table(dataset, rows[name])
            lake.publish(table, str(root), name, day, "nightly.t")


def _add(rows: dict[str, list[Any]], scope: dict[str, Any], name: str, at: datetime, dice: random.Random) -> None:
    """Add the rows of one site and day."""
    for number in range(8):
        ids = {**scope, "request_id": f"req_{name}-{number}", "session_id": name, "attempts": 1}
        seconds = round(dice.expovariate(0.2), 3)
        state = dice.choice(STATES)
        ended = {"completed_at": at + timedelta(seconds=seconds), "seconds": seconds}
        request = {**ids, "submitted_at": at, "state": state, "is_batch": False}
        rows["requests"].append(request | (ended if state == "complete" else {}))
        status = "complete" if state == "complete" else "failed"
        answer = {"kind": "batch", "name": "nightly.t", "key": str(number), "repetition": 1, "status": status}
        answer |= {"question": f"Question {number % 4}?", "answer": f"Answer {dice.randrange(9)}"}
        rows["answers"].append({**ids, **answer, "asked_at": at})
        judged = {"name": "nightly", "path": f"{name}/summary.json", "passed": dice.random() < 0.5}
        rows["evaluation_answers"].append({**ids, **answer, **judged})
        for second in range(number % 3):
            rating = {"rating": dice.choice(("good", "Good", "bad", "größe")), "answer_seconds": seconds}
            rows["feedback"].append({**ids, **rating, "sent_at": at + timedelta(seconds=second)})
    created, failed = dice.randrange(9), dice.randrange(9)
    counts = dict.fromkeys(("unchanged", "skipped", "rejected", "ambiguous"), 1)
    counts |= {"created": created, "failed": failed, "rows": created + failed + 4}
    load = {**scope, "started_at": at, "outcome": "succeeded", "endpoint": "documents/qa", "source": "größe.csv"}
    rows["loads"] += [load | counts, {**load, "outcome": "unfinished", "started_at": at + timedelta(hours=1)}]
    finding = {"found_at": at, "source": "größe.csv", "endpoint": "documents/qa", "kind": "failed", "key": name}
    rows["findings"].append({**scope, **finding, "reason": "The service failed", "document_ids": "[]"})
    evaluation = {**scope, "run_id": name, "name": "nightly", "path": f"{name}/summary.json", "asked_at": at}
    counts = {"questions": 9, "answered": 9, "coverage": 1.0, "scored": 9, "mean": dice.random()}
    rows["evaluations"].append({**evaluation, **counts, "verdict": "passed", "scorer": "token_f1"})


def _captured(at: datetime, dice: random.Random, more: dict[str, Any]) -> dict[str, Any]:
    """Return the tables that come from replies."""
    statistics, limits, reads = [], [], []
    for scope in SCOPES:
        listed = {(at.date() - timedelta(days=back)).isoformat(): {"chats": dice.randrange(99)} for back in range(3)}
        for hour in (0, 1):
            reply = json.dumps({**ODD, **more, "documents": {"total": dice.randrange(99)}, "daily": listed})
            statistics.append(lake.Capture(at + timedelta(hours=hour), reply, **scope))
        reply = json.dumps({"documents": {"limit": 100, "used": dice.randrange(100)}})
        if scope["site_id"] == "docs":
            limits.append(lake.Capture(at, reply, service=scope["service"], tenant_id=scope["tenant_id"]))
        reads.append(lake.Capture(at, json.dumps({"chats": dice.randrange(99)}), read="usage", **scope))
    return {
        "statistics": lake.metrics_table(lake.STATISTICS, statistics),
        "statistics_raw": lake.replies_table(statistics),
        "limits": lake.metrics_table(lake.LIMITS, limits),
        "reads": lake.metrics_table(lake.READS, reads),
        "reads_raw": lake.replies_table(reads, lake.READS_RAW),
    }
