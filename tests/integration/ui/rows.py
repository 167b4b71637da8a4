"""Rows of the prepared replies."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_assistant.ui import models as m
from airflow_provider_assistant.ui import trend_models as trends

# The time of all replies.
NOW = datetime(2026, 11, 22, 6, 30, tzinfo=UTC)
SITE = "help"
# Shown as text, or the page runs it.
HOSTILE = '<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>{{7*7}}'
DAYS = 30
RUN = "scheduled__2026-11-22T01:00:00+00:00"


def task(dag_id: str = "kb", task_id: str = "load_faq", run_id: str = RUN) -> m.Task:
    path = f"/dags/{dag_id}/runs/{run_id.replace(':', '%3A').replace('+', '%2B')}/tasks/{task_id}"
    return m.Task(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=-1, path=path)


def counts(**changes: int | None) -> m.Counts:
    rows = dict.fromkeys(("created", "unchanged", "skipped", "rejected", "ambiguous", "failed"), 0)
    notes = dict.fromkeys(m.Counts.model_fields, 0)
    del notes["rows"]
    values = {**rows, **notes, **changes}
    return m.Counts(**{"rows": sum(values[name] or 0 for name in rows), **values})


def load(number: int = 0, **changes: Any) -> m.Load:
    started = NOW - timedelta(days=number, hours=5, minutes=30)
    fields: dict[str, Any] = {
        "token": f"load-{number}",
        "started_at": started,
        "ended_at": started + timedelta(seconds=280),
        "outcome": "succeeded",
        "site_id": SITE,
        "kind": "qa",
        "source": "kb.load_faq",
        "counts": counts(created=340 - number, unchanged=11_600 + number, requests=351 - number, throttled=3),
        "seconds": 280.5,
        "error": None,
        "task": task(run_id=f"scheduled__{started:%Y-%m-%d}"),
    }
    return m.Load(**{**fields, **changes})


BAD = load(
    outcome="failed",
    counts=counts(
        created=11_700,
        unchanged=200,
        rejected=88,
        ambiguous=12,
        drafts=6,
        changed=31,
        possibly_duplicated=2,
        stale=4,
        requests=11_850,
        throttled=118,
    ),
    error="12 rows are ambiguous: the service may or may not have created them. Settle them, or clear the task.",
    task=task(),
)
GUIDES = load(
    1,
    token="guides",
    source="kb.upload_guides",
    kind="file",
    counts=counts(unchanged=14, created=2),
    seconds=3.1,
    task=task(task_id="upload_guides"),
)


FAILED_RULE = trends.FailedRule(
    rule="token_f1 drop <= 0.02",
    verdict="worse",
    reason="token_f1 changed by -0.0700 over 398 questions",
    questions=["refund-abroad", "refund-time", "invoice-copy"],
)


def evaluation(number: int, **changes: Any) -> trends.Evaluation:
    """Return the evaluation of a day, as a number of days before now."""
    at = NOW - timedelta(days=number, hours=3)
    dice = random.Random(number)
    rate = 0.91 + dice.uniform(-0.02, 0.02) - (0.1 if number == 0 else 0)
    fields: dict[str, Any] = {
        "name": "golden_set",
        "at": at,
        "verdict": "failed" if number == 0 else "passed",
        "questions": 400,
        "answered": 398,
        "coverage": 0.995,
        "pass_rate": rate,
        "means": {"token_f1": rate - 0.12, "exact_match": rate - 0.4, "rouge_l": rate - 0.2},
        "worse": ["token_f1"] if number == 0 else [],
        "failed_rules": [FAILED_RULE] if number == 0 else [],
        "newly_failing": ["refund-abroad", "refund-time"] if number == 0 else [],
        "report": "/assistant/reports/evaluation/scheduled__1/judge/-1",
        "task": task("evaluation", "judge"),
    }
    return trends.Evaluation(**{**fields, **changes})


def paged(rows: list[Any], total: int | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "total": len(rows) if total is None else total,
        "is_capped": False,
        "limit": 25,
        "offset": 0,
        "problem": None,
        "rows": rows,
        **changes,
    }


def entry(number: int, **changes: Any) -> m.Entry:
    fields: dict[str, Any] = {
        "id": f"entry-{number}",
        "kind": "qa",
        "site_id": SITE,
        "source": "kb.load_faq",
        "label": f"sku={4711 + number}",
        "state": "ambiguous",
        "requests": 2,
        "error": "POST /m2m/sites/help/documents/qa: 502 Bad Gateway",
        "document_id": None,
        "status": None,
        "claimed_at": NOW - timedelta(hours=5),
        "age_seconds": 18_000.0,
        "gone_at": None,
        "is_alive": False,
        "is_batch": False,
        "may_settle": True,
        "outcomes": ["created", "not-created"],
        "task": task(),
    }
    return m.Entry(**{**fields, **changes})


def outdated(name: str, number: int, **changes: Any) -> m.Entry:
    """Return an entry with a document to remove."""
    fields = {"state": "created", "error": None, "document_id": f"doc-{number}", "outcomes": ["removed"], **changes}
    return entry(0, id=f"{name}-{number}", label=f"sku={number}", **fields)
