"""Replies of the API server for the pages, as a month of nightly loads would give them."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from airflow_provider_assistant.ui import models as m
from airflow_provider_assistant.ui import task_models as tasks
from airflow_provider_assistant.ui import trend_models as trends
from tests.integration.ui.rows import (
    BAD,
    DAYS,
    GUIDES,
    HOSTILE,
    NOW,
    RUN,
    SITE,
    counts,
    entry,
    evaluation,
    load,
    outdated,
    paged,
    task,
)

__all__ = ["BAD", "HOSTILE", "RUN", "SITE", "counts", "entry", "evaluation", "load", "paged", "task"]


def context(**changes: Any) -> m.Context:
    sites = [
        m.Site(
            site_id=SITE,
            service="assistant.example.com",
            sources=["kb.load_faq", "kb.upload_guides"],
        ),
        m.Site(
            site_id="shop",
            service="assistant.example.com",
            sources=["shop.load_products"],
        ),
    ]
    fields = {
        "version": "0.1.0",
        "now": NOW,
        "sites": sites,
        "problem": None,
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
        "created_day": 11_712,
        "lists": {"unresolved": 12, "doubled": 0, "superseded": 31, "stale": 4, "draft": 6, "open": 1},
        "unresolved_since": NOW - timedelta(hours=5),
        "gates": [gate(evaluation(0))],
        "lake_problem": None,
    }
    return m.Summary(**{**fields, **changes})


def quiet() -> m.Summary:
    """The summary of a night in which everything worked."""
    states = [m.SourceState(load=one, due=False) for one in (load(), GUIDES)]
    return summary(
        sources=states,
        lists={},
        unresolved_since=None,
        gates=[gate(evaluation(1))],
    )


def _documents() -> m.Documents:
    days = [NOW.date() - timedelta(days=back) for back in range(60, -1, -1)]
    known, rows = 60_000, []
    for number, day in enumerate(days):
        known += random.Random(number).randint(-100, 900)
        rows.append(m.DocumentsDay(day=day, documents=known))
    return m.Documents(problem=None, days=rows)


def evaluations() -> trends.Evaluations:
    return trends.Evaluations(
        problem=None, names=["golden_set"], rows=[evaluation(back) for back in range(DAYS, -1, -1)]
    )


def task_reply(kind: tasks.TaskKind = "load", **changes: Any) -> tasks.TaskReply:
    first = BAD.model_copy(
        update={
            "outcome": "unfinished",
            "counts": m.Counts(),
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
    count, labels = 9812, [f"sku={number}" for number in range(10)]
    kept = " Others stay as they are. 3: You may not change its DAG."
    if "matching" not in body:
        labels = [f"sku={4711 + int(name.rpartition('-')[2])}" for name in body.get("ids", ())]
        labels += body.get("document_ids", ())
        count, kept = len(labels), ""
    outcome = body["outcome"].replace("-", " ")
    return tasks.SettleReply(
        is_preview=True,
        settled=count,
        text=f"{count:,} entries would be settled as {outcome}. The next load does not send them again.{kept}",
        labels=labels,
        sites=[f"site '{SITE}' at service 'assistant.example.com'"],
        confirmation=f"{count}-abc",
    )


def filled() -> dict[str, Any]:
    """The replies of a month after which something needs attention."""
    unresolved = [
        *(entry(at) for at in range(6)),
        entry(6, is_alive=True, may_settle=False, state="claimed", error=None),
    ]
    superseded = [outdated("old", at) for at in range(4)]
    stale = [outdated("gone", at, gone_at=NOW - timedelta(hours=5)) for at in range(4)]
    drafts = [outdated("draft", at, status="draft") for at in range(3)]
    asked = {"kind": "chat", "document_id": "req-9", "age_seconds": 340.0, "is_batch": True, "outcomes": []}
    request = entry(9, **asked, may_settle=False, task=task("nightly", "ask"))
    here = f"tasks/kb/{RUN}"
    judged = task_reply("evaluation", operator="AssistantEvaluateOperator", state="failed", evaluation=evaluation(0))
    return {
        "context": context(),
        "summary": summary(),
        "loads": m.Loads(**paged([BAD, GUIDES, *(load(number) for number in range(1, 12))], 5000)),
        "documents": _documents(),
        "entries/unresolved": m.Entries(**paged(unresolved, 12)),
        "entries/doubled": m.Entries(**paged([])),
        "entries/superseded": m.Entries(**paged(superseded, 31)),
        "entries/stale": m.Entries(**paged(stale)),
        "entries/draft": m.Entries(**paged(drafts, 6)),
        "entries/open": m.Entries(**paged([request])),
        "evaluations": evaluations(),
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
    **{f"page-{view}": f"plugin/assistant?view={view}" for view in ("loads", "settle", "quality")},
    **{f"tab-{name}": _tab(name) for name in ("load_faq", "ask", "judge", "export", "bash")},
}
