"""The queries of the export pages answer what they promise."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_assistant import lake
from tests.docs.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

duckdb = pytest.importorskip("duckdb")
NUMBERS, IN_TIME = (block.code for block in blocks_of(ROOT / "docs/howto/nightly-export.md") if block.language == "sql")


@pytest.fixture(autouse=True)
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A night as it should be, and one of last week that was run again today."""
    now = datetime(2026, 11, 21, 0, 5, tzinfo=UTC)
    for day in (date(2026, 11, 21), date(2026, 11, 14)):
        capture = lake.Capture(now, {"total": day.day, "plan": "business"}, site_id="acme-docs")
        lake.publish(lake.statistics_table([capture]), str(tmp_path / "lake"), "statistics", day, "dag.task")
    monkeypatch.chdir(tmp_path)


def test_numbers_by_day() -> None:
    assert duckdb.sql(NUMBERS).fetchall() == [
        (date(2026, 11, 14), "total", 14.0),
        (date(2026, 11, 21), "total", 21.0),
    ]


def test_rows_that_were_captured_late_are_left_out() -> None:
    found = duckdb.sql(IN_TIME).to_arrow_table()
    assert set(found["date"].to_pylist()) == {date(2026, 11, 21)}
    assert found.num_rows == 2
