"""The queries of the export pages return the documented results."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.lake.warehouse import duckdb_transaction, load
from tests.docs.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

duckdb = pytest.importorskip("duckdb")
OWN_VIEW, WORDS, *_ = (block.code for block in blocks_of(ROOT / "docs/howto/warehouse.md") if block.language == "sql")
NUMBERS, SESSIONS, IN_TIME = (
    block.code for block in blocks_of(ROOT / "docs/howto/nightly-export.md") if block.language == "sql"
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


def test_own_views_of_the_warehouse(tmp_path: Path) -> None:
    capture = lake.Capture(
        datetime(2026, 11, 20, tzinfo=UTC), '{"documents": {"total": 7}}', site_id="acme-docs", service="h.example"
    )
    day = date(2026, 11, 20)
    lake.publish(lake.metrics_table(lake.STATISTICS, [capture]), str(tmp_path / "lake"), "statistics", day, "dag.task")
    ids = {"service": "h.example", "site_id": "acme-docs", "session_id": "s", "request_id": "r", "attempts": 1}
    ratings = [{"sent_at": capture.captured_at, "rating": word, **ids} for word in ("good", "good", "bad")]
    lake.publish(lake.rows_table(lake.FEEDBACK, ratings), str(tmp_path / "lake"), "feedback", day, "dag.task")
    with duckdb_transaction("warehouse.duckdb") as store:
        load(store, str(tmp_path / "lake"), ["statistics", "feedback"], [day], schema="assistant")
    with duckdb.connect("warehouse.duckdb") as warehouse:
        warehouse.execute(OWN_VIEW)
        assert warehouse.execute("FROM my_statistics").fetchall() == [(day, "acme-docs", 7.0, None)]
        found = warehouse.execute(WORDS).fetchall()
    assert [row[1:] for row in found] == [("acme-docs", "bad", 1), ("acme-docs", "good", 2)]
