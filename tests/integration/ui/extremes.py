"""Replies with the longest names, keys in Arabic, and more entries than the server counts."""

from __future__ import annotations

from typing import Any

from airflow_provider_assistant.ui import models as m
from airflow_provider_assistant.ui import task_models as tasks
from airflow_provider_assistant.ui import trend_models as trends
from tests.integration.ui import data

SITE = "support-centre-for-the-customers-of-all-brands-in-germany-austria-switzerland-01"
SOURCE = "kb_of_all_departments.load_the_frequently_asked_questions_of_the_portal" * 2
ARABIC = "كم من الوقت يستغرق استرداد المبلغ؟ / رقم 4711"
KEY = "sku=" + "4711-" * 399
ERROR = f"POST /m2m/sites/{SITE}/documents/qa: 502 Bad Gateway. " + "The upstream server closed the connection. " * 30
MANY = {"total": 10_000, "is_capped": True}


def _texts(at: int) -> dict[str, Any]:
    texts = [KEY, ARABIC, f"{ARABIC} " * 40, "sku=1"]
    return {"label": texts[at % len(texts)], "error": ERROR, "site_id": SITE, "source": SOURCE, "task": _task()}


def _task() -> m.Task:
    return data.task(SOURCE.partition(".")[0], "load_the_frequently_asked_questions_of_the_portal")


def replies(*, may_settle: bool) -> dict[str, Any]:
    """
    Return the replies.

    :param may_settle: Whether the user may settle the entries.
    """
    load = data.load(1, source=SOURCE, site_id=SITE, outcome="failed", error=ERROR, task=_task())
    evaluation = data.evaluation(
        0,
        name=f"golden set of {SITE}",
        worse=["token_f1", "a_scorer_of_our_own_with_a_long_name"],
        newly_failing=[KEY[:60], ARABIC],
    )
    sites = [
        m.Site(site_id=site, service="assistant.example.com", tenant_id="acme-inc", sources=[SOURCE, "b"])
        for site in (SITE, ARABIC)
    ]
    outdated = [
        m.Outdated(
            id=f"old-{at}",
            document_ids=[f"doc-{at}-{number}" for number in range(60)],
            may_settle=may_settle,
            **{name: text for name, text in _texts(at).items() if name != "error"},
        )
        for at in range(3)
    ]
    findings = [
        tasks.Finding(kind=kind, row=10_000_000, key=text, reason=ERROR, document_ids=["d" * 200], group=ARABIC)
        for kind, text in (("possibly_duplicated", KEY), ("stale", ARABIC))
    ]
    kinds = [tasks.FindingsKind(kind=one.kind, count=1_000_000) for one in findings]
    statistics = data.filled()["statistics"]
    series = [one.model_copy(update={"site_id": SITE}) for one in statistics.series]
    series += [trends.Series(name=SITE, site_id=ARABIC, points=series[0].points)]
    here = f"tasks/kb/{data.RUN}"
    return {
        **data.filled(),
        "context": data.context(sites=sites, may_settle=may_settle),
        "summary": data.summary(
            sources=[m.SourceState(load=load, due=False)],
            ambiguous=10_000,
            superseded=10,
            gates=[data.gate(evaluation)],
        ),
        "loads": m.Loads(**data.paged([load] * 3, **MANY)),
        "ambiguous": m.Entries(
            **data.paged([data.entry(at, may_settle=may_settle, **_texts(at)) for at in range(5)], **MANY)
        ),
        "superseded": m.OutdatedPage(**data.paged(outdated, **MANY)),
        "stale": m.OutdatedPage(**data.paged(outdated, **MANY)),
        "evaluations": trends.Evaluations(problem=None, names=[evaluation.name], rows=[evaluation]),
        "statistics": statistics.model_copy(update={"series": series, "metrics": [SITE, *statistics.metrics]}),
        f"{here}/load_faq/-1": data.task_reply(tries=[load, load], may_settle=may_settle),
        f"{here}/load_faq/-1/findings": data.findings(**{**data.paged(findings, **MANY), "kinds": kinds}),
        f"{here}/judge/-1": data.task_reply("evaluation", evaluation=evaluation),
        f"{here}/ask/-1": data.task_reply(
            "chat_batch", batch=data.batch().model_copy(update={"output_path": f"s3://{SITE}/{KEY}"})
        ),
        f"{here}/export/-1": data.task_reply(
            "export", written=[tasks.Written(name=SITE, path=f"s3://lake/{SITE}/{KEY}", rows=10_000_000, url=None)]
        ),
    }
