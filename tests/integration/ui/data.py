"""Replies of the API server for the pages, as a month of nightly loads would give them."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel

from airflow_provider_assistant.ui import models as m

# The time of all replies.
NOW = datetime(2026, 11, 22, 6, 30, tzinfo=UTC)
SITE, SERVICE = "help", "assistant.example.com"
# Shown as text, or the page runs it.
HOSTILE = '<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>{{7*7}}'
RUN = "scheduled__2026-11-22T01:00:00+00:00"
REPORT = "/assistant/reports/kb/run/judge/-1"


def task(task_id: str = "load_faq", dag_id: str = "kb") -> m.Task:
    path = f"/dags/{dag_id}/runs/{RUN.replace(':', '%3A').replace('+', '%2B')}/tasks/{task_id}"
    return m.Task(dag_id=dag_id, run_id=RUN, task_id=task_id, map_index=-1, path=path)


def a_try(days: float = 0, task_kind: str = "load", **changes: Any) -> m.Try:
    started = NOW - timedelta(days=days, hours=5, minutes=30)
    fields: dict[str, Any] = {
        "token": f"{task_kind}-{days}",
        "task_kind": task_kind,
        "started_at": started,
        "ended_at": started + timedelta(seconds=280),
        "outcome": "succeeded",
        "service": SERVICE,
        "site_id": SITE,
        "kind": "qa" if task_kind == "load" else None,
        "source": "kb.load_faq",
        "counts": {"rows": 11_940, "created": 340, "unchanged": 11_600, "requests": 351} if task_kind == "load" else {},
        "findings": None,
        "report": None,
        "seconds": 280.5,
        "error": None,
        "task": task(),
    }
    return m.Try(**{**fields, **changes})


BAD = a_try(
    outcome="failed",
    counts={
        "rows": 12_000,
        "created": 11_700,
        "unchanged": 200,
        "skipped": 0,
        "rejected": 88,
        "ambiguous": 12,
        "failed": 0,
        "stale": 4,
        "requests": 11_850,
    },
    error="12 rows are ambiguous: the service may or may not have created them. Settle them, or clear the task.",
    findings="s3://lake/findings/run.parquet",
)
BATCH = a_try(
    0.1,
    "chat_batch",
    source="nightly.ask",
    counts={
        "rows": 200,
        "complete": 195,
        "failed": 2,
        "timed_out": 1,
        "lost": 0,
        "not_submitted": 2,
        "seconds_p95": 6.7,
        "output_path": "s3://lake/answers/2026-11-22.parquet",
    },
    task=task("ask"),
)


def evaluation(days: int) -> m.Try:
    rate = 0.9 - 0.002 * (30 - days) - (0.06 if days == 0 else 0)
    counts = {
        "name": "golden_set",
        "verdict": "failed" if days == 0 else "passed",
        "questions": 400,
        "answered": 398,
        "coverage": 0.995,
        "pass_rate": rate,
        "means": {"token_f1": 0.7, "judge.helpful": 0.82, "must_include": None},
        "failed_rules": [
            {
                "rule": "token_f1 drop <= 0.02",
                "verdict": "worse",
                "reason": "token_f1 changed by -0.0700 over 398 questions",
                "questions": ["refund-abroad", "refund-time"],
            }
        ],
        "worse": ["token_f1"],
        "newly_failing": ["refund-abroad"],
    }
    outcome = "succeeded with findings" if days == 0 else "succeeded"
    return a_try(
        days, "evaluation", source="golden_set", counts=counts, outcome=outcome, report=REPORT, task=task("judge")
    )


def entry(number: int, **changes: Any) -> m.Entry:
    fields: dict[str, Any] = {
        "id": ("scope", f"key-{number}", 1),
        "kind": "qa",
        "service": SERVICE,
        "site_id": SITE,
        "source": "kb.load_faq",
        "label": f"sku={4711 + number}",
        "state": "ambiguous",
        "requests": 3,
        "error": "502 Bad Gateway after the request was sent",
        "document_id": None,
        "status": None,
        "claimed_at": NOW - timedelta(hours=5, minutes=number),
        "gone_at": None,
        "is_alive": False,
        "is_batch": False,
        "outcomes": ["created", "not-created"],
        "task": task(),
    }
    return m.Entry(**{**fields, **changes})


def paged(rows: list[Any], total: int | None = None, **changes: Any) -> dict[str, Any]:
    counted = len(rows) if total is None else total
    return {"problem": None, "total": counted, "is_capped": False, "limit": 25, "offset": 0, "rows": rows, **changes}


def entries(query: dict[str, str], _: Any = None) -> m.Entries:
    which = query.get("which", "unresolved")
    lists = {"unresolved": 12, "doubled": 0, "superseded": 31, "stale": 4, "draft": 6, "open": 1}
    rows = [*(entry(at) for at in range(6)), entry(6, is_alive=True, outcomes=[], state="claimed", error=None)]
    if which == "stale":
        gone = {"state": "created", "outcomes": ["removed"], "gone_at": NOW, "error": None}
        rows = [entry(at, document_id=f"doc-{at}", **gone) for at in range(4)]
    if which == "open":
        rows = [entry(9, kind="chat", document_id="req-9", is_batch=True, outcomes=[], task=task("ask"))]
    return m.Entries(**paged(rows, lists[which]), which=which, lists=lists)


def context(**changes: Any) -> m.Context:
    sites = [
        m.Site(site_id=SITE, service=SERVICE, sources=["kb.load_faq", "golden_set"]),
        m.Site(site_id="shop", service=SERVICE, sources=["shop.load_products"]),
        m.Site(site_id="", service="", sources=["export.feedback"]),
    ]
    fields = {"version": "0.1.0", "now": NOW, "problem": None, "sites": sites, "may_settle": True}
    return m.Context(**{**fields, **changes})


def documents() -> m.Documents:
    chance = random.Random(0)
    days, known = [], 60_000
    for back in range(60, -1, -1):
        known += chance.randint(-900, 900)
        days.append(m.DocumentsDay(day=NOW.date() - timedelta(days=back), documents=known))
    return m.Documents(problem=None, days=days)


def tries(query: dict[str, str], _: Any = None) -> m.Tries:
    evaluations = [evaluation(days) for days in range(30)]
    export = a_try(0.2, "export", site_id="", service="", source="export.feedback", counts={"rows": 120}, kind=None)
    rows = [BAD, BATCH, evaluations[0], export, *(a_try(days) for days in range(1, 9))]
    if query.get("kind") == "evaluation":
        return m.Tries(**paged(evaluations))
    return m.Tries(**paged(rows, 5000, offset=int(query.get("offset", 0))))


def task_reply(*rows: m.Try, **changes: Any) -> m.TaskReply:
    fields = {"problem": None, "operator": "An", "state": "failed", "is_mapped": False, "tries": list(rows)}
    return m.TaskReply(**{**fields, **changes})


def findings(**changes: Any) -> m.Findings:
    kinds = {"ambiguous": 12, "rejected": 88}
    rows = [
        m.Finding(kind="rejected", row=17 + at, key=f"sku={900 + at}", reason="question is empty", document_ids=[])
        for at in range(5)
    ]
    rows.append(m.Finding(kind="ambiguous", row=40, key="sku=4711", reason="502 Bad Gateway", document_ids=["doc-3"]))
    return m.Findings(**{**paged(rows, 100), "kinds": kinds, **changes})


NO_FINDINGS = findings(rows=[], kinds={}, total=0)


def preview(_: dict[str, str], body: dict[str, Any]) -> m.SettleReply:
    m.SettleRequest.model_validate(body)
    labels = [*(key for _, key, _ in body.get("ids", ())), *body.get("document_ids", ())]
    outcome = body["outcome"].replace("-", " ")
    return m.SettleReply(
        settled=len(labels),
        text=f"{len(labels)} entries would be settled as {outcome}. The next load does not send them again.",
        labels=labels[:10],
        sites=[f"site '{SITE}' at service '{SERVICE}'"],
        confirmation=f"{len(labels)}-abc",
    )


def filled() -> dict[str, Any]:
    """The replies of a month after which something needs attention."""
    here = f"tasks/kb/{RUN}"
    killed = BAD.model_copy(update={"outcome": "unfinished", "counts": {}, "ended_at": None, "seconds": None})
    export = a_try(0, "export", counts={"rows": 120, "path": "s3://lake/statistics/date=2026-11-22"}, site_id="")
    return {
        "context": context(),
        "entries": entries,
        "tries": tries,
        "documents": documents(),
        f"{here}/load_faq/-1": task_reply(killed, BAD),
        f"{here}/load_faq/-1/findings": findings(),
        f"{here}/ask/-1": task_reply(BATCH, state="success"),
        f"{here}/ask/-1/findings": NO_FINDINGS,
        f"{here}/judge/-1": task_reply(evaluation(0), state="success"),
        f"{here}/judge/-1/findings": NO_FINDINGS,
        f"{here}/export/-1": task_reply(export, state="success"),
        f"{here}/export/-1/findings": NO_FINDINGS,
        f"{here}/bash/-1": task_reply(state="success", operator="BashOperator"),
        "settle/preview": preview,
        "settle": preview,
    }


def _tab(task_id: str) -> str:
    return f"dags/kb/runs/{RUN.replace('+', '%2B')}/tasks/{task_id}/plugin/assistant_task"


PAGE = "plugin/assistant"
TABS = {name: _tab(name) for name in ("load_faq", "ask", "judge", "export", "bash")}

# -- the longest names ---------------------------------------------------------------------------------

LONG_SITE = "support-centre-for-the-customers-of-all-brands-in-germany-austria-switzerland-01"
SOURCE = "kb_of_all_departments.load_the_frequently_asked_questions_of_the_portal" * 2
ARABIC = "كم من الوقت يستغرق استرداد المبلغ؟ / رقم 4711"
KEYS = itertools.cycle(["sku=" + "4711-" * 399, ARABIC, f"{ARABIC} " * 40, "sku=1"])
ERROR = (
    f"POST /m2m/sites/{LONG_SITE}/documents/qa: 502 Bad Gateway. " + "The upstream server closed the connection. " * 30
)
LONG = {"source": SOURCE, "error": ERROR, "reason": ERROR, "dag_id": SOURCE, "task_id": SOURCE, "findings": SOURCE}


def extremes() -> dict[str, Any]:
    """The same replies with the longest names, keys in Arabic, and large numbers."""

    def longer(reply: Any) -> Any:
        if callable(reply):
            return lambda query, body: longer(reply(query, body))
        return _long(reply.model_dump(mode="json"), "") if isinstance(reply, BaseModel) else reply

    return {path: longer(reply) for path, reply in filled().items()}


def _long(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _long(one, key) for key, one in value.items()}
    if name == "document_ids":
        return [f"doc-{number}" for number in range(60)] + ["d" * 200]
    if isinstance(value, list):
        return [_long(one, name) for one in (value[:5] if name == "rows" else value)]
    if name in {"total", "row"} and value:
        return 10_000
    if not isinstance(value, str):
        return value
    if name == "site_id" and value:
        return LONG_SITE if value == SITE else ARABIC
    if name in {"label", "key"}:
        return next(KEYS)
    return LONG.get(name, value)
