"""What people look for on the site: for each need, the pages that answer it, and how people ask."""

from __future__ import annotations

# By the name of the page, whatever its folder. One of the pages is among the first three.
QUESTIONS: list[tuple[set[str], list[str]]] = [
    (
        {"knowledge-sources", "knowledge-files"},
        [
            "load a folder of Markdown",
            "markdown folder",
            "load markdown files",
            "how do I load a directory of .md files",
        ],
    ),
    (
        {"incremental-loads", "when-something-fails"},
        ["duplicate keys", "duplicate key", "the same key twice", "key_columns not unique"],
    ),
    (
        {"rate-limiting", "errors", "when-something-fails"},
        ["429", "HTTP 429", "status 429", "rate limit", "too many requests", "429 Too Many Requests"],
    ),
    (
        {"errors", "runbook", "when-something-fails"},
        ["401", "HTTP 401", "unauthorized", "401 Unauthorized", "wrong API key"],
    ),
    (
        {"errors", "rate-limiting", "runbook", "when-something-fails"},
        ["503", "HTTP 503", "503 Service Unavailable", "service unavailable", "outage"],
    ),
    ({"connection", "security"}, ["proxy", "behind a proxy", "HTTPS_PROXY", "corporate proxy"]),
    ({"ui", "security"}, ["permissions", "who may see the pages", "roles", "viewer role"]),
    (
        {"rotate-the-api-key"},
        ["rotate the API key", "rotate key", "change api key", "new API key", "how do I rotate the key?"],
    ),
    (
        {"what-is-kept"},
        [
            "what is stored where",
            "which data is stored where",
            "personal data",
            "where are answers stored",
            "retention",
        ],
    ),
    (
        {"incremental-loads", "equal-site"},
        [
            "only changed rows",
            "load changed rows only",
            "incremental load",
            "skip unchanged rows",
            "load new rows only",
        ],
    ),
    (
        {"when-something-fails"},
        ["task was killed", "killed task", "worker was killed", "task killed SIGKILL"],
    ),
    ({"when-something-fails", "kubernetes"}, ["out of memory"]),
    (
        {"ledger-on-postgresql"},
        ["ledger on PostgreSQL", "postgres ledger", "ledger postgresql", "PostgreSQL", "move the ledger to postgres"],
    ),
    ({"ledger-on-postgresql"}, ["PgBouncer", "connection pooler", "pgbouncer transaction mode"]),
    ({"celery"}, ["Celery with two workers", "CeleryExecutor", "celery workers", "two workers"]),
    (
        {"equal-site"},
        ["delete outdated documents", "remove stale documents", "outdated documents", "deleted rows"],
    ),
    (
        {"evaluate", "golden-set"},
        ["how many questions for a gate", "number of questions", "golden set size", "how large a golden set"],
    ),
    (
        {"ambiguity"},
        ["ambiguous", "ambiguous rows", "ambiguous request"],
    ),
    ({"correct-the-ledger", "ambiguity"}, ["resolve ambiguous entries", "settle ambiguous entries"]),
    ({"ambiguity", "chat", "documents"}, ["on_ambiguous"]),
    (
        {"load-files-of-rows", "when-something-fails"},
        ["semicolon CSV", "csv separator", "csv delimiter", "CSV with semicolons", "csv encoding"],
    ),
    (
        {"when-something-fails", "incremental-loads"},
        ["renamed DAG", "rename a DAG", "renamed task"],
    ),
    (
        {"assistant_weekly_report", "warehouse", "dbt", "ui"},
        ["answer rate of last week", "answer rate", "weekly report", "statistics per week"],
    ),
]
