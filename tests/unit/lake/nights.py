"""Several days of exported datasets, as input for warehouse tests."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_assistant import lake

if TYPE_CHECKING:
    from pathlib import Path

FIRST = date(2026, 11, 14)  # a Saturday, so that the days span three weeks
SITES = ("docs", "shop")
# Names and values that a database may mishandle.
ODD = {
    "answered%": 0.5,
    'say "it\'s"': 1,
    "Total": 2,
    "total": 3,
    "date": 4,
    "größe." + "x" * 70: 5,
    "nul\0in\0name": 6,
    "huge": 10**400,
    "nan": float("nan"),
    "text": "a\0b",
    "flag": True,
    "nothing": None,
}


def capture(day: date, raw: Any, site: str = "docs", hour: int = 1) -> lake.Capture:
    return lake.Capture(
        datetime.combine(day, time(hour), UTC), json.dumps(raw), tenant_id="acme-inc", site_id=site, service="h.example"
    )


def write_statistics(root: Path, day: date, *captures: lake.Capture, part: str = "dag.task") -> None:
    lake.publish(lake.metrics_table(lake.STATISTICS, captures), str(root), "statistics", day, part)


def write_rows(root: Path, dataset: str, day: date, rows: list[dict[str, Any]]) -> None:
    schema = lake.DATASETS[dataset].schema()
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)
    lake.publish(table, str(root), dataset, day, "dag.task")


def rating(day: date, word: str, site: str = "docs") -> dict[str, Any]:
    sent_at = datetime.combine(day, time(12), UTC)
    ids = {"service": "h.example", "site_id": site, "session_id": "s", "request_id": "r"}
    return {"sent_at": sent_at, "rating": word, "attempts": 1, "map_index": -1, **ids}


def request(day: date, seconds: float | None, state: str = "complete", site: str = "docs") -> dict[str, Any]:
    submitted_at = datetime.combine(day, time(12), UTC)
    completed_at = submitted_at + timedelta(seconds=seconds) if seconds is not None else None
    ids = {
        "service": "h.example",
        "site_id": site,
        "session_id": "s",
        "request_id": "r",
        "attempts": 1,
        "is_batch": False,
    }
    return {"submitted_at": submitted_at, "completed_at": completed_at, "seconds": seconds, "state": state, **ids}


def loading(day: date, rows: int | None) -> dict[str, Any]:
    """A load that ended, or one that was killed."""
    started_at = datetime.combine(day, time(3), UTC)
    end = {"outcome": "unfinished"} if rows is None else {"ended_at": started_at, "outcome": "failed", "rows": rows}
    return {
        "started_at": started_at,
        "service": "h.example",
        "site_id": "docs",
        "endpoint": "documents/qa",
        "source": "größe.csv",
        **end,
    }


def evaluation(day: date, mean: float | None) -> dict[str, Any]:
    """An evaluation, with or without scores."""
    names = dict.fromkeys(("name", "dag_id", "run_id", "task_id", "path"), "nightly")
    counts = {"questions": 9, "answered": 9, "coverage": 1.0, "scored": 0 if mean is None else 9}
    asked_at = datetime.combine(day, time(4), UTC)
    return {**names, **counts, "asked_at": asked_at, "verdict": "none", "scorer": "token_f1", "mean": mean}


def record(day: date, **values: Any) -> dict[str, Any]:
    """A record of a reply that is neither of statistics nor of limits."""
    captured_at = datetime.combine(day, time(5), UTC)
    return {"captured_at": captured_at, "service": "h.example", "tenant_id": "acme-inc", "read": "usage", **values}


def asked(day: date, question: str, answer: str | None) -> dict[str, Any]:
    """A question of a chat batch that an evaluation judged; the columns of both datasets."""
    status = "failed" if answer is None else "complete"
    moment = {"asked_at": datetime.combine(day, time(7), UTC)}
    scope = {"service": "h.example", "site_id": "docs", "kind": "batch", "name": "ask", "path": "summary.json"}
    ids = {"key": question, "repetition": 1, "request_id": f"{day} {question}", "map_index": -1}
    return {**moment, **scope, **ids, "question": question, "answer": answer, "status": status, "passed": True}


def finding(day: date, kind: str) -> dict[str, Any]:
    """A finding of a load."""
    scope = {"service": "h.example", "site_id": "docs", "source": "kb", "endpoint": "documents/qa"}
    row = {"kind": kind, "key": 'a "b"', "reason": kind, "row": 2, "document_ids": '["d"]', "group_name": "größe"}
    return {"found_at": datetime.combine(day, time(8), UTC), **scope, **row}


def write_nights(root: Path, days: int = 12) -> list[date]:
    """Write a number of days of all datasets, and return the days."""
    dice = random.Random(5)
    nights = [FIRST + timedelta(days=number) for number in range(days)]
    for number, day in enumerate(nights):
        listed = {(day - timedelta(days=back)).isoformat(): {"chats": number - back} for back in range(3)}
        replies = {
            "chats": {"total": number},
            "documents": {"total": number},
            f"only_on_{number}": number,
            **ODD,
            "daily": listed,
        }
        captures = [capture(day, replies, site, hour) for site in SITES for hour in (1, 2)]
        write_statistics(root, day, *captures)
        lake.publish(lake.replies_table(captures), str(root), "statistics_raw", day, "dag.task")
        lake.publish(
            lake.metrics_table(lake.LIMITS, [capture(day, {"limits": {"documents": {"limit": 99, "used": number}}})]),
            str(root),
            "limits",
            day,
            "dag.task",
        )
        words = dice.choices(("good", "Good", "bad", "größe"), k=dice.randrange(8))
        ratings = [rating(day, word, dice.choice(SITES)) for word in words]
        ratings.append({**rating(day, "bad"), "request_id": f"{day} größe?"})
        write_rows(root, "feedback", day, ratings)
        requests = [
            request(day, round(dice.expovariate(0.2), 3) if state == "complete" else None, state, dice.choice(SITES))
            for state in dice.choices(("complete", "failed", "open"), (8, 1, 1), k=dice.randrange(200))
        ]
        write_rows(root, "requests", day, requests)
        write_rows(root, "loads", day, [loading(day, dice.randrange(10**9)), loading(day, None)])
        write_rows(
            root, "reads", day, [record(day, metric="chats", type="number", text=str(number), value=float(number))]
        )
        write_rows(root, "reads_raw", day, [record(day, raw="{}")])
        write_rows(root, "evaluations", day, [evaluation(day, dice.random()), evaluation(day, None)])
        answers = [asked(day, "größe?", f"{number} {ODD}"), asked(day, "x", None)]
        write_rows(root, "answers", day, answers)
        write_rows(root, "evaluation_answers", day, answers)
        write_rows(root, "findings", day, [finding(day, "rejected"), finding(day, "stale")])
    return nights
