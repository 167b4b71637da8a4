"""Check the pages on operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_assistant.ledger import Ledger, RunRef, ratings, sqlite_engine, submissions
from tests.docs.pages import ROOT, blocks_of
from tests.live.postgres import PostgresServer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RUN = RunRef("dag", "run", "task", -1)
PAGE = ROOT / "docs" / "operations" / "ledger-on-postgresql.md"


def test_a_ledger_moves_to_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"site_id": "acme-docs", "session_id": "s", "request_id": "r"}
    with Ledger(sqlite_engine(tmp_path / "assistant_ledger.db")) as old:
        old.claim(submissions, "scope", "key", RUN, **facts, state=None, completed_at=None)
        old.record_outcome(submissions, "scope", "key", "created")
        old.claim(ratings, "scope", "key", RUN, **facts, rating="good")
        before = [old.find(table, "scope", "key") for table in (submissions, ratings)]
    (block,) = [block for block in blocks_of(PAGE) if block.language == "python"]

    with PostgresServer() as server:
        monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
        monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "assistant_ledger")
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_LEDGER", server.airflow_url)
        exec(compile(block.code, block.name, "exec"), {})
        with Ledger.open() as new:
            assert new.engine.dialect.name == "postgresql"
            after = [new.find(table, "scope", "key") for table in (submissions, ratings)]

    assert None not in before
    assert after == before
