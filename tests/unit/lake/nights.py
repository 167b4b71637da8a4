"""Several days of exported datasets, as input for warehouse tests."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from airflow_provider_assistant.lake.datasets import DATASETS, STATISTICS, dataset_of
from airflow_provider_assistant.lake.files import Written, write
from airflow_provider_assistant.lake.rows import reply_table, rows_table

FIRST = date(2026, 11, 14)  # a Saturday, so that the days span three weeks
SITES = ("docs", "shop")
MADE_BY = {"dag_id": "dag", "run_id": "run", "task_id": "task"}
# Names and values that a database may mishandle.
ODD = {
    "answered%": 0.5,
    'say "it\'s"': 1,
    "nul\0in\0name": 6,
    "huge": 10**400,
    "text": "a\0b",
    "quoted": 'a "b", \\.\n',
    "empty": "",
    "flag": True,
    "nothing": None,
}


def moment(day: date, hour: int = 1) -> datetime:
    return datetime.combine(day, time(hour), UTC)


def origin(day: date = FIRST, site: str | None = "docs", hour: int = 1) -> dict[str, Any]:
    return {"captured_at": moment(day, hour), "service": "h.example", "tenant_id": "acme-inc", "site_id": site}


def write_statistics(root: Path, day: date, reply: Any, site: str = "docs") -> Written:
    table = reply_table(STATISTICS, json.dumps(reply), origin(day, site))
    return write(table, str(root), "statistics", day, ("h.example", site), MADE_BY)


def write_rows(root: Path, dataset: str, day: date, rows: list[dict[str, Any]], whose: str = "ledger") -> Written:
    return write(rows_table(dataset_of(dataset), rows), str(root), dataset, day, (whose,), MADE_BY)


def rating(day: date, word: str, site: str = "docs", **values: Any) -> dict[str, Any]:
    ids = {"service": "h.example", "site_id": site, "session_id": "s", "request_id": "r"}
    return {"sent_at": moment(day, 12), "rating": word, "attempts": 1, "map_index": -1, **ids, **values}


def request(day: date, seconds: float | None, state: str = "complete", site: str = "docs") -> dict[str, Any]:
    submitted_at = moment(day, 12)
    completed_at = submitted_at + timedelta(seconds=seconds) if seconds is not None else None
    ids = {"service": "h.example", "site_id": site, "session_id": "s", "attempts": 1, "is_batch": False}
    return {"submitted_at": submitted_at, "completed_at": completed_at, "seconds": seconds, "state": state, **ids}


def load(day: date, hour: int, documents: int | None, source: str = "größe.csv", **counts: int) -> dict[str, Any]:
    """A try of a load that ended, or one that was killed."""
    end = {} if documents is None else {"ended_at": moment(day, hour), "documents": documents}
    ids = {"service": "h.example", "site_id": "docs", "task_kind": "load", "kind": "qa", "source": source}
    return {"started_at": moment(day, hour), "outcome": "failed" if end else "unfinished", **ids, **end, **counts}


def asked(day: date, question: str, answer: str | None) -> dict[str, Any]:
    status = "failed" if answer is None else "complete"
    scope = {"service": "h.example", "site_id": "docs", "kind": "batch", "name": "ask"}
    ids = {"key": question, "repetition": 1, "request_id": f"{day} {question}", "map_index": -1}
    return {"asked_at": moment(day, 7), **scope, **ids, "question": question, "answer": answer, "status": status}


def evaluation(day: date, mean: float | None) -> dict[str, Any]:
    names = dict.fromkeys(("name", "dag_id", "run_id", "task_id", "path"), "nightly")
    counts = {"questions": 9, "answered": 9, "coverage": 1.0, "scored": 0 if mean is None else 9}
    # The second one is of answers in a dataframe, which does not say whose they are.
    scope = dict.fromkeys(("service", "site_id")) if mean is None else {"service": "h.example", "site_id": "docs"}
    return {**names, **counts, **scope, "asked_at": moment(day, 4), "verdict": "none", "scorer": "f1", "mean": mean}


def finding(day: date, kind: str) -> dict[str, Any]:
    scope = {"service": "h.example", "site_id": "docs", "source": "kb", "endpoint": "documents/qa"}
    row = {"kind": kind, "key": 'a "b"', "reason": kind, "row": 2, "document_ids": '["d"]', "group_name": "größe"}
    return {"found_at": moment(day, 8), **scope, **row}


def write_nights(root: Path, days: int = 12) -> list[date]:
    """Write a number of days of all datasets, and return the days."""
    dice = random.Random(5)
    nights = [FIRST + timedelta(days=number) for number in range(days)]
    for number, day in enumerate(nights):
        reply = {"chats": {"total": number}, f"only_on_{number}": number, **ODD}
        for site in SITES:
            write_statistics(root, day, reply, site)
        raw = [{**origin(day), "raw": json.dumps(reply)}]
        write_rows(root, "statistics_raw", day, raw)
        limits = reply_table(DATASETS["limits"], json.dumps({"documents": number}), origin(day, None))
        write(limits, str(root), "limits", day, ("h.example", "acme-inc"), MADE_BY)
        words = dice.choices(("good", "Good", "bad", "größe"), k=dice.randrange(8))
        ratings = [rating(day, word, dice.choice(SITES)) for word in words]
        write_rows(root, "feedback", day, [*ratings, rating(day, "bad", request_id=f"{day} größe?")])
        states = dice.choices(("complete", "failed", "open"), (8, 1, 1), k=dice.randrange(200))
        requests = [
            request(day, round(dice.expovariate(0.2), 3) if state == "complete" else None, state, dice.choice(SITES))
            for state in states
        ]
        write_rows(root, "requests", day, requests)
        write_rows(root, "tries", day, [load(day, 3, dice.randrange(10**6), created=5), load(day, 4, None)])
        write_rows(root, "evaluations", day, [evaluation(day, dice.random()), evaluation(day, None)])
        write_rows(root, "answers", day, [asked(day, "größe?", f"{number} {ODD}"), asked(day, "x", None)])
        write_rows(root, "findings", day, [finding(day, "rejected"), finding(day, "stale")])
    return nights
