"""The queries of the export pages return the documented results."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
import yaml

from airflow_provider_assistant.lake import duckdb as of_duckdb
from airflow_provider_assistant.lake import postgres
from airflow_provider_assistant.lake.datasets import DATASETS, LIMITS, STATISTICS
from airflow_provider_assistant.lake.files import write
from airflow_provider_assistant.lake.rows import reply_table
from airflow_provider_assistant.lake.warehouse import days_to_load
from tests.docs.pages import ROOT, blocks_of
from tests.unit.lake.conftest import engine, server  # noqa: F401 (fixtures)
from tests.unit.lake.nights import FIRST, MADE_BY, load, moment, rating, write_rows, write_statistics

WAREHOUSE = blocks_of(ROOT / "docs/export/warehouse.md")
*SIX_QUESTIONS, OWN_VIEW, COUNTERS = [block.code for block in WAREHOUSE if block.language == "sql"]
NUMBERS, IN_TIME = (
    block.code for block in blocks_of(ROOT / "docs/export/nightly-export.md") if block.language == "sql"
)
MONDAY, DAY, LATER = date(2026, 11, 16), date(2026, 11, 20), date(2026, 11, 24)
ANSWERS = {
    "answers_weekly": [(MONDAY, "docs", 4, 3, 0.75), (date(2026, 11, 23), "docs", 1, 1, 1.0)],
    "latency_daily": [(DAY, "docs", 2, 1.5, 1.95), (LATER, "docs", 1, 8.0, 8.0)],
    "feedback_daily": [(DAY, "docs", 0, 2, 0, 0.0), (LATER, "docs", 1, 0, 0, 1.0)],
    "documents_daily": [(DAY, "docs", 7, 5, 2)],
    "questions_rated_bad": [("Where?", 2, 1, "There.")],
    "limits": [(DAY, "acme-inc", "documents.limit", 100.0), (DAY, "acme-inc", "documents.used", 40.0)],
}


def write_lake(root: Path) -> None:
    """Two days of one site: four requests, a sync question, four ratings of three requests, a load, two limits."""
    origin = {"captured_at": moment(DAY), "service": "h.example", "tenant_id": "acme-inc"}
    limits = reply_table(LIMITS, '{"documents": {"limit": 100, "used": 40}}', origin)
    write(limits, str(root), "limits", DAY, ("h.example", "acme-inc"), MADE_BY)
    write_rows(root, "tries", DAY, [load(DAY, 3, 7, created=5, deleted=2)])
    for day, states in ((DAY, {"r1": 1.0, "r2": 2.0, "r3": None}), (LATER, {"r4": 8.0})):
        requests, answers = [], []
        for request_id, seconds in states.items():
            ids = {"service": "h.example", "site_id": "docs", "session_id": "s", "request_id": request_id}
            state = "failed" if seconds is None else "complete"
            more = {"submitted_at": moment(day), "state": state, "seconds": seconds, "is_batch": True, "attempts": 1}
            requests.append({**ids, **more})
            question = {"kind": "batch", "name": "t", "repetition": 1, "question": "Where?", "status": state}
            answers.append({**ids, **question, "answer": "Here." if day == DAY else "There."})
        if day == DAY:
            answers.append({**answers[0], "request_id": None, "question": "Sync?"})
        write_rows(root, "requests", day, requests)
        write_rows(root, "answers", day, answers)
    # The last rating of r1 counts.
    sent = [(DAY, "r1", "good"), (DAY, "r1", "bad"), (DAY, "r2", "bad"), (LATER, "r4", "good")]
    rows = [
        rating(day, word, request_id=request_id, sent_at=moment(day) + timedelta(seconds=number))
        for number, (day, request_id, word) in enumerate(sent)
    ]
    for day in (DAY, LATER):
        write_rows(root, "feedback", day, [row for row in rows if row["sent_at"].date() == day])


def test_the_queries_of_the_nightly_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A normal night, and a night of last week that was run again today."""
    monkeypatch.chdir(tmp_path)
    days = (date(2026, 11, 14), date(2026, 11, 21))
    for day in days:
        reply = f'{{"total": {day.day}, "plan": "business"}}'
        origin = {"captured_at": datetime(2026, 11, 21, 0, 5, tzinfo=UTC), "service": "h.example", "site_id": "docs"}
        write(reply_table(STATISTICS, reply, origin), "lake", "statistics", day, ("h.example", "docs"), MADE_BY)
    assert duckdb.sql(NUMBERS).fetchall() == [(day, "total", float(day.day)) for day in days]
    assert set(duckdb.sql(IN_TIME).to_arrow_table()["date"].to_pylist()) == {days[1]}


def test_the_queries_of_the_warehouse(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    write_lake(root)
    for number, (total, answered) in enumerate(((1000, 920), (1010, 924), (1020, 933), (1030, 942))):
        reply = {"documents": {"total": 7}, "chats": {"async": {"total": total, "answered": answered}}}
        write_statistics(root, DAY + timedelta(days=number), reply)
    database = str(tmp_path / "warehouse.duckdb")
    of_duckdb.load(database, "assistant", str(root), days_to_load(str(root), None))
    with duckdb.connect(database) as warehouse:
        for (view, rows), query in zip(ANSWERS.items(), SIX_QUESTIONS, strict=True):
            assert view in query
            assert warehouse.execute(query).fetchall() == rows, view
        warehouse.execute(OWN_VIEW)
        assert warehouse.execute(COUNTERS).fetchall() == [
            (MONDAY, "docs", 20.0, 13.0, 0.65),
            (date(2026, 11, 23), "docs", 0.0, 0.0, None),
        ]


@pytest.mark.system
def test_the_queries_of_the_warehouse_in_postgresql(tmp_path: Path, engine) -> None:  # noqa: F811
    write_lake(tmp_path)
    postgres.load(engine, "assistant", str(tmp_path), days_to_load(str(tmp_path), None))
    with engine.connect() as connection:
        for query, rows in zip(SIX_QUESTIONS, ANSWERS.values(), strict=True):
            assert [tuple(row) for row in connection.exec_driver_sql(query)] == rows


def test_the_sources_of_dbt_are_datasets() -> None:
    (sources,) = [yaml.safe_load(block.code)["sources"][0] for block in WAREHOUSE if block.language == "yaml"]
    for table in sources["tables"]:
        columns = DATASETS[table["name"]].columns
        assert "freshness" in table or table.get("loaded_at_field", sources["loaded_at_field"]) in columns


def test_the_day_of_an_iceberg_table_is_replaced(tmp_path: Path) -> None:
    (code,) = [block.code for block in WAREHOUSE if "dynamic_partition_overwrite" in block.code]
    loaded: list[object] = []

    class Table:
        def dynamic_partition_overwrite(self, rows: object) -> None:
            loaded.append(rows)

    names: dict[str, object] = {}
    exec(code, names)
    write_statistics(tmp_path, FIRST, {"a": 1})
    names["load_day"](Table(), str(tmp_path), FIRST)  # type: ignore[operator]
    (rows,) = loaded
    assert rows.to_pylist()[0]["date"] == FIRST  # type: ignore[attr-defined]
