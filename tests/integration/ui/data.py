"""Replies of the API server for the pages, as a month of nightly loads would give them."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

from airflow_provider_assistant.ui import models as m
from airflow_provider_assistant.ui import task_models as tasks
from airflow_provider_assistant.ui import trend_models as trends
from tests.integration.ui.rows import (
    BAD,
    DAYS,
    GUIDES,
    HOSTILE,
    LEDGER,
    NOW,
    RUN,
    SITE,
    counts,
    entry,
    evaluation,
    load,
    paged,
    task,
)

__all__ = ["BAD", "HOSTILE", "LEDGER", "RUN", "SITE", "counts", "entry", "evaluation", "load", "paged", "task"]


def context(**changes: Any) -> m.Context:
    sites = [
        m.Site(
            site_id=SITE,
            service="assistant.example.com",
            tenant_id="acme-inc",
            sources=["kb.load_faq", "kb.upload_guides"],
        ),
        m.Site(
            site_id="shop",
            service="assistant.example.com",
            tenant_id="acme-inc",
            sources=["shop.load_products"],
        ),
    ]
    fields = {
        "version": "0.1.0",
        "now": NOW,
        "ledgers": [m.LedgerRef(id=LEDGER, name=LEDGER)],
        "ledger": LEDGER,
        "sites": sites,
        "problem": None,
        "lake": "s3://lake/assistant",
        "may_settle": True,
    }
    return m.Context(**{**fields, **changes})


def gate(of: trends.Evaluation, before: float | None = 0.91) -> m.Gate:
    return m.Gate(
        name=of.name,
        verdict=of.verdict,
        at=of.at,
        pass_rate=of.pass_rate,
        before=before,
        worse=of.worse,
        report=of.report,
        task=of.task,
    )


def summary(**changes: Any) -> m.Summary:
    fields: dict[str, Any] = {
        "now": NOW,
        "problem": None,
        "sources": [m.SourceState(load=BAD, due=False), m.SourceState(load=GUIDES, due=False)],
        "loads_day": 3,
        "failed_day": 1,
        "created_day": 11_712,
        "requests_day": 11_900,
        "throttled_day": 118,
        "ambiguous": 12,
        "ambiguous_since": NOW - timedelta(hours=5),
        "superseded": 31,
        "stale": 4,
        "open_requests": 1,
        "gates": [gate(evaluation(0))],
        "lake_problem": None,
    }
    return m.Summary(**{**fields, **changes})


def quiet() -> m.Summary:
    """The summary of a night in which everything worked."""
    states = [m.SourceState(load=one, due=False) for one in (load(), GUIDES)]
    return summary(
        sources=states,
        failed_day=0,
        ambiguous=0,
        ambiguous_since=None,
        superseded=0,
        stale=0,
        open_requests=0,
        gates=[gate(evaluation(1))],
    )


def _documents() -> m.Documents:
    days = [NOW.date() - timedelta(days=back) for back in range(60, -1, -1)]
    known, rows = 60_000, []
    for number, day in enumerate(days):
        created, changed = random.Random(number).randint(200, 900), random.Random(number + 1).randint(0, 60)
        known += created - changed
        rows.append(m.DocumentsDay(day=day, created=created, changed=changed, documents=known))
    return m.Documents(problem=None, days=rows)


def _points(low: float, high: float, seed: int) -> list[trends.Point]:
    dice = random.Random(seed)
    days: list[date] = [NOW.date() - timedelta(days=back) for back in range(DAYS, 0, -1)]
    return [trends.Point(day=day, value=round(dice.uniform(low, high), 2)) for day in days]


def _statistics() -> trends.Statistics:
    series = [
        trends.Series(name=name, site_id=site, points=_points(low, high, seed))
        for seed, (name, site, low, high) in enumerate(
            [
                ("chats.total", SITE, 350, 450),
                ("chats.total", "shop", 100, 180),
                ("chats.async.latency_ms.p95", SITE, 4_000, 11_000),
                ("documents.bytes", SITE, 90_000_000, 90_400_000),
                ("chats.async.answer_rate", SITE, 0.82, 0.95),
            ]
        )
    ]
    feedback = [
        trends.FeedbackDay(day=point.day, ratings={"positive": int(point.value), "negative": int(point.value / 5)})
        for point in _points(20, 40, 9)
    ]
    return trends.Statistics(
        problem=None,
        metrics=sorted({one.name for one in series}),
        series=series,
        feedback=feedback,
        gaps=[NOW.date() - timedelta(days=number) for number in (5, 4)],
    )


def _limits() -> trends.Limits:
    rows = [
        ("limits.documents", 90_210, 100_000),
        ("limits.requests_per_minute", 210, 600),
        ("limits.storage_bytes", 2_150_000_000, 10_000_000_000),
    ]
    return trends.Limits(
        problem=None,
        rows=[
            trends.Limit(
                tenant_id="acme-inc",
                name=name,
                used=used,
                limit=limit,
                share=used / limit,
                resets_at="2026-12-01T00:00:00Z" if name == "limits.requests_per_minute" else None,
                captured_at=NOW - timedelta(hours=4),
            )
            for name, used, limit in rows
        ],
    )


def evaluations() -> trends.Evaluations:
    return trends.Evaluations(
        problem=None, names=["golden_set"], rows=[evaluation(back) for back in range(DAYS, -1, -1)]
    )


def task_reply(kind: tasks.TaskKind = "load", **changes: Any) -> tasks.TaskReply:
    first = BAD.model_copy(
        update={
            "outcome": "unfinished",
            "counts": m.Counts(**dict.fromkeys(m.Counts.model_fields)),
            "ended_at": None,
            "seconds": None,
            "error": None,
        }
    )
    fields: dict[str, Any] = {
        "kind": kind,
        "operator": "AssistantLoadQAOperator",
        "state": "failed",
        "is_mapped_summary": False,
        "task": task(),
        "ledger": LEDGER,
        "tries": [first, BAD] if kind == "load" else [],
        "problem": None,
        "batch": None,
        "evaluation": None,
        "written": [],
        "has_findings": kind in {"load", "chat_batch"},
        "may_settle": True,
    }
    return tasks.TaskReply(**{**fields, **changes})


def batch() -> tasks.ChatBatch:
    heights = [3, 28, 61, 44, 27, 15, 8, 5, 3, 1]
    bins = [tasks.Bin(low=float(at), high=at + 1.0, count=count) for at, count in enumerate(heights)]
    return tasks.ChatBatch(
        rows=200,
        complete=195,
        failed=2,
        timed_out=1,
        lost=0,
        not_submitted=2,
        rejected=2,
        submitted=198,
        reused=0,
        possibly_duplicated=0,
        p50=2.9,
        p95=6.7,
        p99=8.4,
        measured=195,
        low_confidence=12,
        histogram=bins,
        output_path="s3://lake/answers/2026-11-22.parquet",
        problem=None,
    )


def findings(**changes: Any) -> tasks.Findings:
    rows = [
        tasks.Finding(kind="rejected", row=17 + at, key=f"sku={900 + at}", reason="question is empty", document_ids=[])
        for at in range(5)
    ]
    rows += [
        tasks.Finding(
            kind="ambiguous",
            row=40,
            key="sku=4711",
            reason="502 Bad Gateway after the request was sent",
            document_ids=[],
        ),
        tasks.Finding(
            kind="stale",
            row=None,
            key="sku=3",
            reason="no longer in the source; the API cannot delete its document",
            document_ids=["doc-3"],
        ),
    ]
    kinds = [
        tasks.FindingsKind(kind=kind, count=count)
        for kind, count in (("rejected", 88), ("ambiguous", 12), ("stale", 4))
    ]
    return tasks.Findings(**{**paged(rows, 104), "path": "s3://lake/findings/run.parquet", "kinds": kinds, **changes})


def preview(_: dict[str, str], body: dict[str, Any]) -> tasks.SettleReply:
    if "matching" in body:
        return tasks.SettleReply(
            is_preview=True,
            settled=9812,
            refused=3,
            text=f"9,812 entries would be settled as {body['outcome']}. 3 more stay as they are.",
            items=[tasks.SettleItem(name=f"sku={number}", accepted=True, text="") for number in range(10)],
            sites=[f"site '{SITE}' at service 'assistant.example.com'"],
            confirmation="9812-abc",
        )
    numbers = [int(name.rpartition("-")[2]) for name in body.get("ids", ())]
    names = [f"sku={4711 + number}" for number in numbers]
    names += body.get("document_ids", ())
    after = "The next load does not send this row, unless its content has changed."
    return tasks.SettleReply(
        is_preview=True,
        settled=len(names),
        refused=0,
        text=f"{len(names)} entries would be settled as {body['outcome'].replace('_', ' ')}.",
        items=[tasks.SettleItem(name=name, accepted=True, text=after) for name in names],
        sites=[f"site '{SITE}' of tenant 'acme-inc' at service 'assistant.example.com'"],
    )


def _outdated(name: str, number: int, **changes: Any) -> m.Outdated:
    fields = {"site_id": SITE, "source": "kb.load_faq", "may_settle": True, "task": task(), **changes}
    return m.Outdated(id=name, label=f"sku={number}", document_ids=[f"doc-{number}"], **fields)


def filled() -> dict[str, Any]:
    """The replies of a month after which something needs attention."""
    superseded = [_outdated(f"old-{at}", at) for at in range(4)]
    stale = [_outdated(f"gone-{at}", at, stale_at=NOW - timedelta(hours=5)) for at in range(4)]
    request = m.ChatRequest(
        request_id="req-9",
        site_id=SITE,
        submitted_at=NOW - timedelta(seconds=340),
        age_seconds=340.0,
        is_batch=True,
        task=task("nightly", "ask"),
    )
    here = f"tasks/kb/{RUN}"
    judged = task_reply("evaluation", operator="AssistantEvaluateOperator", state="failed", evaluation=evaluation(0))
    return {
        "context": context(),
        "summary": summary(),
        "loads": m.Loads(**paged([BAD, GUIDES, *(load(number) for number in range(1, 12))], 5000)),
        "documents": _documents(),
        "ambiguous": m.Entries(
            **paged(
                [*(entry(at) for at in range(6)), entry(6, may_be_under_way=True, outcome="claimed", error=None)], 12
            )
        ),
        "superseded": m.OutdatedPage(**paged(superseded, 31)),
        "stale": m.OutdatedPage(**paged(stale)),
        "requests": m.ChatRequests(**paged([request])),
        "evaluations": evaluations(),
        "statistics": _statistics(),
        "limits": _limits(),
        f"{here}/load_faq/-1": task_reply(),
        f"{here}/load_faq/-1/findings": findings(),
        f"{here}/ask/-1": task_reply(
            "chat_batch", operator="AssistantChatBatchOperator", state="success", batch=batch()
        ),
        f"{here}/ask/-1/findings": findings(kinds=[], rows=[], total=0),
        f"{here}/judge/-1": judged,
        # The task of the last evaluation in the lake.
        f"tasks/evaluation/{RUN}/judge/-1": judged,
        f"{here}/export/-1": task_reply(
            "export",
            state="success",
            written=[
                tasks.Written(
                    name="statistics",
                    path="s3://lake/statistics/ds=2026-11-22",
                    rows=120,
                    url="https://console.aws.amazon.com/s3/buckets/lake",
                )
            ],
        ),
        f"{here}/bash/-1": task_reply("other", operator="BashOperator"),
        "settle/preview": preview,
        "settle": lambda query, body: preview(query, body).model_copy(update={"is_preview": False}),
    }


def _tab(task_id: str) -> str:
    return f"dags/kb/runs/{RUN.replace('+', '%2B')}/tasks/{task_id}/plugin/assistant_task"


PAGES = {
    **{f"page-{view}": f"plugin/assistant?view={view}" for view in ("loads", "settle", "quality", "usage")},
    **{f"tab-{name}": _tab(name) for name in ("load_faq", "ask", "judge", "export", "bash")},
}
