"""The queries of the export pages return the documented results."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.lake.warehouse import duckdb_transaction, load
from tests.docs.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

duckdb = pytest.importorskip("duckdb")
*SIX_QUESTIONS, OWN_VIEW, WORDS, COUNTERS = [
    block.code for block in blocks_of(ROOT / "docs/export/warehouse.md") if block.language == "sql"
][:9]
NUMBERS, SESSIONS, IN_TIME = (
    block.code for block in blocks_of(ROOT / "docs/export/nightly-export.md") if block.language == "sql"
)


@pytest.fixture(autouse=True)
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A normal night, and a night of last week that was run again today."""
    now = datetime(2026, 11, 21, 0, 5, tzinfo=UTC)
    for day in (date(2026, 11, 21), date(2026, 11, 14)):
        capture = lake.Capture(
            now, json.dumps({"total": day.day, "plan": "business"}), site_id="acme-docs", service="h.example"
        )
        lake.publish(
            lake.metrics_table(lake.STATISTICS, [capture]), str(tmp_path / "lake"), "statistics", day, "dag.task"
        )
    monkeypatch.chdir(tmp_path)


def test_numbers_by_day() -> None:
    assert duckdb.sql(NUMBERS).fetchall() == [
        (date(2026, 11, 14), "total", 14.0),
        (date(2026, 11, 21), "total", 21.0),
    ]


def test_sessions_by_status() -> None:
    now = datetime(2026, 11, 21, 0, 5, tzinfo=UTC)
    sessions = [("s1", '{"id": "s1", "status": "open"}'), ("s2", '{"id": "s2", "status": "closed"}')]
    captures = [lake.Capture(now, raw, read="sessions", item=item, service="h.example") for item, raw in sessions]
    captures.append(lake.Capture(now, '{"status": "ok"}', read="site", service="h.example"))
    lake.publish(lake.metrics_table(lake.READS, captures), "lake", "reads", now.date(), "dag.task")
    assert duckdb.sql(SESSIONS).fetchall() == [("s1", "open"), ("s2", "closed")]


def test_rows_that_were_captured_late_are_left_out() -> None:
    found = duckdb.sql(IN_TIME).to_arrow_table()
    assert set(found["date"].to_pylist()) == {date(2026, 11, 21)}
    assert found.num_rows == 2


SCOPE = {"service": "h.example", "tenant_id": "acme-inc", "site_id": "acme-docs"}
MONDAY = date(2026, 11, 16)
ANSWERS = {
    "answers_weekly": [(MONDAY, "acme-docs", 4, 3, 0.75), (date(2026, 11, 23), "acme-docs", 1, 1, 1.0)],
    "latency_weekly": [(MONDAY, "acme-docs", 2, 1.5, 1.95), (date(2026, 11, 23), "acme-docs", 1, 8.0, 8.0)],
    "feedback_daily": [
        (date(2026, 11, 20), "acme-docs", 0, 2, 0, 0.0),
        (date(2026, 11, 24), "acme-docs", 1, 0, 0, 1.0),
    ],
    "documents_daily": [(date(2026, 11, 20), "acme-docs", 7.0, 5, 2)],
    "questions_rated_bad": [("Where?", 2, 1, "There.")],
    "limits_daily": [(date(2026, 11, 20), "documents", 40.0, 100.0, 0.4)],
}


def write_lake(root: str) -> None:
    """Two days of one site: four requests, a sync question, four ratings of three requests, two limits."""
    day, later = date(2026, 11, 20), date(2026, 11, 24)
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    reply = lake.Capture(noon, '{"documents": {"total": 7}}', **SCOPE)
    lake.publish(lake.metrics_table(lake.STATISTICS, [reply]), root, "statistics", day, "dag.task")
    limits = lake.Capture(
        noon, '{"limits": {"documents": {"limit": 100, "used": 40}}}', service="h.example", tenant_id="acme-inc"
    )
    lake.publish(lake.metrics_table(lake.LIMITS, [limits]), root, "limits", day, "dag.task")
    load_of = {**SCOPE, "started_at": noon, "outcome": "succeeded", "endpoint": "documents/qa", "source": "faq.csv"}
    loads = [{**load_of, "created": 5, "deleted": 2}]
    lake.publish(lake.rows_table(lake.LOADS, loads), root, "loads", day, "dag.task")
    for of_day, states in ((day, {"r1": 1.0, "r2": 2.0, "r3": None}), (later, {"r4": 8.0})):
        requests, ratings, answers = [], [], []
        for request_id, seconds in states.items():
            ids = {**SCOPE, "session_id": "s", "request_id": request_id, "attempts": 1}
            state = "failed" if seconds is None else "complete"
            requests.append({**ids, "submitted_at": noon, "state": state, "seconds": seconds, "is_batch": True})
            question = {**ids, "kind": "batch", "name": "t", "repetition": 1, "question": "Where?", "status": state}
            answers.append({**question, "answer": "Here." if of_day == day else "There."})
        if of_day == day:
            answers.append({**answers[0], "request_id": None, "question": "Sync?"})
            # The last rating of r1 counts.
            ratings = [("r1", "good", 0), ("r1", "bad", 1), ("r2", "bad", 2)]
        else:
            ratings = [("r4", "good", 400_000)]
        sent = [
            {**SCOPE, "session_id": "s", "request_id": rated, "rating": word, "attempts": 1}
            | {"sent_at": noon + timedelta(seconds=seconds)}
            for rated, word, seconds in ratings
        ]
        for dataset, rows in ((lake.REQUESTS, requests), (lake.FEEDBACK, sent), (lake.DATASETS["answers"], answers)):
            lake.publish(lake.rows_table(dataset, rows), root, dataset.name, of_day, "dag.task")


def test_the_queries_of_the_warehouse(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "lake")
    write_lake(str(tmp_path / "lake"))
    with duckdb_transaction("warehouse.duckdb") as store:
        load(store, str(tmp_path / "lake"), ["statistics", "limits", "loads", "requests", "feedback", "answers"])
    with duckdb.connect("warehouse.duckdb") as warehouse:
        for (view, rows), query in zip(ANSWERS.items(), SIX_QUESTIONS, strict=True):
            assert view in query
            assert warehouse.execute(query).fetchall() == rows
        warehouse.execute(OWN_VIEW)
        assert warehouse.execute("FROM my_statistics").fetchall() == [(date(2026, 11, 20), "acme-docs", 7.0, None)]
        assert [row[1:] for row in warehouse.execute(WORDS).fetchall()] == [
            ("acme-docs", "bad", 2),
            ("acme-docs", "good", 1),
        ]


def test_a_rate_of_a_week_is_not_that_of_all_time() -> None:
    for day, total, answered in ((21, 1000, 920), (22, 1010, 924), (23, 1020, 933), (24, 1030, 942)):
        chats = {"total": total, "answered": answered, "answer_rate": answered / total}
        moment = datetime(2026, 11, day, 12, tzinfo=UTC)
        reply = lake.Capture(moment, json.dumps({"chats": {"async": chats}}), **SCOPE)
        lake.publish(lake.metrics_table(lake.STATISTICS, [reply]), "counters", "statistics", moment.date(), "dag.task")
    with duckdb_transaction("counters.duckdb") as store:
        load(store, "counters", ["statistics"])
    with duckdb.connect("counters.duckdb") as warehouse:
        assert warehouse.execute(COUNTERS).fetchall() == [
            (MONDAY, "acme-docs", 10.0, 4.0, 0.4),
            (date(2026, 11, 23), "acme-docs", 20.0, 18.0, 0.9),
        ]
