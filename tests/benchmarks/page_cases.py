"""Benchmarks of the pages in Airflow's UI: the time of each reply with a large ledger."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import sqlalchemy as sa

from airflow_provider_assistant import lake
from airflow_provider_assistant.ledger import Ledger
from tests.benchmarks.measure import Figure, Size, percentile
from tests.benchmarks.service import Service
from tests.live.postgres import PostgresServer, programs

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

# Milliseconds.
GOAL = 300.0
ENTRIES, LOADS, QUESTIONS, EVALUATIONS, DAYS = 1_000_000, 5_000, 100_000, 365, 30
SITES = 20
NOW = "timezone('utc', now())"
# One in 2,000 documents is ambiguous, one in 100 supersedes another one, one in 100 is stale.
DOCUMENTS = f"""
INSERT INTO assistant_documents (scope, key, outcome, attempts, error, dag_id, run_id, task_id, map_index, claimed_at,
    recorded_at, site_id, label, source, content_hash, document_id, superseded, http_status, ambiguous, claim, service,
    site_url, endpoint, sent_hash, stale_at)
SELECT 'https://a.example.com/m2m/sites/site-' || n % {SITES} || '/documents/qa', md5(n::text),
    CASE WHEN n % 2000 = 7 THEN 'ambiguous' ELSE 'created' END, 1, NULL, 'dag-' || n % 50, 'run-' || n % 1000, 'load',
    -1, {NOW} - n * interval '30 seconds', {NOW} - n * interval '30 seconds', 'site-' || n % {SITES}, 'sku=' || n,
    'dag-' || n % 50 || '.load', md5('content' || n), 'doc-' || n,
    CASE WHEN n % 100 = 3 THEN '["old-' || n || '"]' END, 201, 0, md5((n % 1000)::text), 'a.example.com',
    'https://a.example.com/m2m/sites/site-' || n % {SITES}, 'documents/qa', NULL,
    CASE WHEN n % 100 = 5 THEN {NOW} END
FROM generate_series(1, :count) AS n
"""
QUESTIONS_SQL = f"""
INSERT INTO assistant_chat_requests (scope, key, outcome, attempts, dag_id, run_id, task_id, map_index, claimed_at,
    recorded_at, site_id, label, source, content_hash, request_id, ambiguous, claim, state, completed_at, service,
    site_url, mode, batch)
SELECT 'https://a.example.com/m2m/sites/site-0/chat?async=' || n % 365, md5(n::text), 'created', 1, 'eval',
    'run-' || n % 365, 'ask', -1, {NOW} - n * interval '5 minutes', {NOW} - n * interval '5 minutes', 'site-0',
    'q-' || n, 'eval.ask', md5('content' || n), 'req-' || n, 0, md5((n % 365)::text),
    CASE WHEN n % 50 <> 1 THEN 'complete' END, {NOW}, 'a.example.com',
    'https://a.example.com/m2m/sites/site-0', 'async', n % 365
FROM generate_series(1, :count) AS n
"""
LOADS_SQL = f"""
INSERT INTO assistant_loads (load_id, service, site_url, endpoint, site_id, source, dag_id, run_id, task_id, map_index,
    started_at, ended_at, outcome, rows, created, unchanged, skipped, rejected, ambiguous, failed, changed,
    possibly_duplicated, stale, requests, throttled, seconds)
SELECT md5(n::text), 'a.example.com', 'https://a.example.com/m2m/sites/site-' || n % {SITES}, 'documents/qa',
    'site-' || n % {SITES}, 'dag-' || n % 50 || '.load', 'dag-' || n % 50, 'run-' || n, 'load', -1,
    {NOW} - n * interval '1 hour',
    {NOW} - n * interval '1 hour' + interval '5 minutes', CASE WHEN n % 20 = 1 THEN 'failed' ELSE 'succeeded' END,
    200, 180, 10, 0, 8, 2, 0, 5, 0, 3, 200, n % 7, 300
FROM generate_series(1, :count) AS n
"""
ROUTES = {
    "context": "/api/context",
    "summary": "/api/summary",
    "loads": "/api/loads",
    "loads, last page of a source": "/api/loads?source=dag-1.load&outcome=succeeded&offset=50",
    "documents": "/api/documents?days=366",
    "ambiguous": "/api/ambiguous",
    "ambiguous, last page": "/api/ambiguous?offset=475&limit=100",
    "ambiguous of a site": "/api/ambiguous?site=site-7",
    "superseded": "/api/superseded",
    "superseded, last page": "/api/superseded?offset=9900&limit=100",
    "stale": "/api/stale",
    "stale of a source, last page": "/api/stale?source=dag-5.load&offset=9900&limit=100",
    "requests": "/api/requests",
    "evaluations": "/api/evaluations?limit=100",
    "statistics": "/api/statistics",
    "limits": "/api/limits",
    "task": "/api/tasks/dag-1/run-1/load/-1",
}


def pages(_: Service, size: Size) -> list[Figure]:
    """Time each reply of the API server: 1,000,000 entries, 5,000 loads and 365 evaluations, PostgreSQL."""
    if not programs():
        return []
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        fill(server.url, size)
        fill_lake(folder, size)
        settings = {
            "AIRFLOW_CONN_PAGES_LEDGER": server.airflow_url,
            "AIRFLOW__ASSISTANT__LEDGER_CONN_ID": "pages_ledger",
            "AIRFLOW__ASSISTANT__LAKE_PATH": folder,
        }
        stack.enter_context(patch.dict(os.environ, settings))
        client = stack.enter_context(_client())
        return [figure for name, route in ROUTES.items() for figure in _timed(client, name, route, size)]


def fill(url: str, size: Size) -> None:
    """Fill a ledger with generated entries."""
    engine = sa.create_engine(url)
    Ledger(engine).close()
    with engine.begin() as connection:
        statements = ((DOCUMENTS, ENTRIES), (QUESTIONS_SQL, QUESTIONS), (LOADS_SQL, LOADS))
        for statement, count in statements:
            connection.execute(sa.text(statement), {"count": size.rows(count)})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
    engine.dispose()


def fill_lake(folder: str, size: Size) -> None:
    """Fill a lake with evaluations of a year, and statistics and limits of a month."""
    today = datetime.now(UTC).date()
    for number in range(size.rows(EVALUATIONS)):
        day = today - timedelta(days=number)
        run = {"dag_id": "eval", "run_id": f"run-{number}", "task_id": "judge"}
        rows = [_evaluation(number, day, run, scorer) for scorer in ("token_f1", "exact_match", "latency")]
        lake.publish(
            lake.rows_table(lake.EVALUATIONS, rows), folder, "evaluations", day, f"eval.judge.{number}", provenance=run
        )
    for number in range(DAYS):
        day = today - timedelta(days=number)
        moment = datetime(day.year, day.month, day.day, 2, tzinfo=UTC)
        raw = {"chats": {f"metric_{one}": one + number for one in range(50)}}
        found = [
            lake.Capture(moment, json.dumps(raw), "acme", f"site-{one}", service="h.example") for one in range(SITES)
        ]
        run = {"dag_id": "export"}
        lake.publish(
            lake.metrics_table(lake.STATISTICS, found), folder, "statistics", day, "export.statistics", provenance=run
        )
        limits = {"documents": {"limit": 100_000, "used": 90_000 + number}}
        table = lake.metrics_table(lake.LIMITS, [lake.Capture(moment, json.dumps(limits), "acme", service="h.example")])
        lake.publish(table, folder, "limits", day, "export.limits", provenance=run)


def _evaluation(number: int, day: date, run: dict[str, str], scorer: str) -> dict[str, Any]:
    asked_at = datetime(day.year, day.month, day.day, 1, tzinfo=UTC)
    empty = dict.fromkeys(lake.EVALUATIONS.schema().names)
    about = {"name": f"golden-{number % 3}", "verdict": "passed", "questions": 200, "answered": 199}
    figures = {
        "coverage": 0.995,
        "pass_rate": 0.9,
        "scorer": scorer,
        "scored": 199,
        "mean": 0.8,
        "path": "summary.json",
    }
    return {**empty, **run, **about, **figures, "map_index": -1, "asked_at": asked_at}


def _client() -> TestClient:
    """Return a client with access to everything."""
    from airflow import settings
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.utils.db import initdb
    from fastapi.testclient import TestClient

    from airflow_provider_assistant.ui.app import app

    settings.initialize()
    initdb()
    from airflow.api_fastapi.app import create_auth_manager

    create_auth_manager()
    app.dependency_overrides[get_user] = lambda: SimpleAuthManagerUser(username="admin", role="ADMIN")
    return TestClient(app)


def _timed(client: TestClient, name: str, route: str, size: Size) -> list[Figure]:
    times = []
    for _ in range(2 + 3 * size.rounds):
        started = time.perf_counter()
        reply = client.get(route)
        times.append(1000 * (time.perf_counter() - started))
        assert reply.status_code == 200, reply.text
        assert reply.json().get("problem") is None, reply.json()
    first, rest = times[0], times[1:]
    return [
        Figure(f"{name}: reply", median(rest), GOAL, at_most=True, unit="ms", samples={"p95": percentile(rest, 95)}),
        Figure(f"{name}: first reply", first, unit="ms"),
    ]


CASES = {"pages": pages}
